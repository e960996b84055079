//! `polyglow translate`: lines in, as many lines out.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use polyglow_data::lines::Lines;

use crate::activity::Activity;
use crate::device;
use crate::run_directory::RunDirectory;
use crate::translate::Translator;

/// Lines that are read, batched by length and translated together.
const PORTION: usize = 2048;

/// What `polyglow translate` is asked to do.
#[derive(Clone, Debug)]
pub struct TranslateArgs {
    /// Directory of the run.
    pub run: PathBuf,
    /// `best`, `last`, `step-N`, `average`, `ema`, or the path of a checkpoint.
    pub checkpoint: String,
    /// Hypotheses to keep at each position, in place of the config's.
    pub beam_size: Option<usize>,
    /// Device to run on, in place of the config's.
    pub device: Option<String>,
    /// Text to translate, in place of stdin.
    pub file: Option<PathBuf>,
    /// File to write to, in place of stdout.
    pub output: Option<PathBuf>,
}

/// Translates every line of the input and writes as many lines, in their order.
///
/// # Errors
/// There is no such run, checkpoint or device; the input cannot be read or is not UTF-8; the output cannot be written.
pub fn run(args: &TranslateArgs) -> anyhow::Result<()> {
    let run = RunDirectory::existing(&args.run)?;
    let mut config = run.config()?;
    let device = device::open(args.device.as_ref().unwrap_or(&config.device))?;
    if let Some(beam_size) = args.beam_size {
        config.search.beam_size = beam_size;
    }
    let lines = match &args.file {
        Some(path) => Lines::open(path)?,
        None => Lines::from_reader(io::stdin(), Path::new("standard input"))?,
    };
    let trained = run.load(&args.checkpoint, &device)?;
    let translator = trained.translator(&config.search, &device);
    if let (Some(file), Some(output)) = (&args.file, &args.output)
        && let (Ok(file), Ok(same)) = (file.canonicalize(), output.canonicalize())
    {
        // Opening the output would cut off the input before it is read.
        anyhow::ensure!(file != same, "`{}` is both the input and the output", output.display());
    }
    let mut out: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(File::create(path).with_context(|| format!("cannot write `{}`", path.display()))?),
        None => Box::new(io::stdout().lock()),
    };
    // Somebody who types wants an answer to each line; a file is faster in large portions.
    let typed = args.file.is_none() && io::stdin().is_terminal();
    let portion = if typed { 1 } else { PORTION };
    // Where the translations go to the terminal themselves, they are the progress.
    let silent = typed || !io::stderr().is_terminal() || (args.output.is_none() && io::stdout().is_terminal());
    let mut activity = (!silent).then(Activity::new);
    let mut waiting: Vec<String> = Vec::with_capacity(portion);
    let mut show = |count: usize| {
        if let Some(activity) = &mut activity {
            activity.show(format!("{count} lines translated"));
        }
    };
    let mut translated = 0;
    show(translated);
    for line in lines {
        waiting.push(line?);
        if waiting.len() == portion {
            write(&translator, &mut waiting, translated + 1, &mut out)?;
            translated += portion;
            show(translated);
        }
    }
    write(&translator, &mut waiting, translated + 1, &mut out)
}

fn write(
    translator: &Translator<'_>,
    lines: &mut Vec<String>,
    first_line: usize,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    for translation in translator.translate(lines, first_line)? {
        writeln!(out, "{translation}")?;
    }
    lines.clear();
    Ok(out.flush()?)
}
