//! `polyglow translate`: lines in, as many lines out.

mod interactive;
mod output;
mod results;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use polyglow_data::lines::Lines;
use polyglow_train::predict::runner::Runner;
use polyglow_train::predict::translate::Request;
use polyglow_train::predict::unknown_words::UnknownWords;
use polyglow_train::run::{TrainedModel, runner};

use super::counts;
use super::model::ModelArgs;
use super::uses::{check_attends, check_translates};
use crate::activity::Activity;
use crate::failure::{usage, with_hint};
use output::Output;
use results::Results;

/// The hint for files that go with the input.
const BESIDE: &str = "there must be one line for each line of the input, blank if nothing is asked for";

/// Lines that are read, batched by length and translated together.
const PORTION: usize = 2048;

/// What `polyglow translate` is asked to do.
#[derive(Args)]
pub(crate) struct TranslateArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Text to translate, one sentence per line [default: stdin]
    file: Option<PathBuf>,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Translations of each line, at most as many as the beam is wide
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = counts())]
    n_best: usize,
    /// `text`: the translations alone; `tsv`: line, rank, score, log-probability, text; `jsonl`: one JSON object per
    /// line
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// What each translation begins with, one line for each line of the input
    #[arg(long, value_name = "FILE")]
    prefix: Option<PathBuf>,
    /// Phrases that each translation contains, separated by tabs, one line for each line of the input
    #[arg(long, value_name = "FILE")]
    constraints: Option<PathBuf>,
    /// Replace each word that the target vocabulary lacks by the source word with the most attention
    #[arg(long)]
    replace_unknown: bool,
    /// Ask for lines at the terminal, with line editing and a history
    #[arg(short, long, conflicts_with_all = ["file", "output", "prefix", "constraints"])]
    interactive: bool,
}

/// How translations are written. What each format holds is in the help of `--format`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Tsv,
    Jsonl,
}

/// Checks that the models can do what is asked.
fn check(args: &TranslateArgs, models: &[TrainedModel]) -> anyhow::Result<()> {
    check_translates(models)?;
    if args.replace_unknown {
        check_attends(&models[0])?;
    }
    Ok(())
}

/// Translates every line of the input and writes as many results, in their order.
///
/// # Errors
/// There is no such run, checkpoint or device; the input cannot be read or is not UTF-8; a prefix or a constraint
/// cannot be met; the output cannot be written.
pub(crate) fn run(args: &TranslateArgs) -> anyhow::Result<()> {
    let plan = args.model.open()?;
    let (n_best, beam_size) = (args.n_best, plan.config.search.beam_size);
    if n_best > beam_size {
        let error = usage(anyhow!("`--n-best {n_best}` asks for more than the {beam_size} that the search keeps"));
        return Err(with_hint(error, format!("`--beam-size {n_best}` keeps as many, as a beam or as samples")));
    }
    if args.interactive {
        let models = args.model.load(&plan)?;
        check(args, &models)?;
        let runner = runner(models, &plan)?;
        let mut results = Results::new(Box::new(io::stdout()), args);
        return interactive::run(&runner, &mut results, plan.config.data.languages()?.0);
    }
    let mut input = Input::open(args)?;
    let models = args.model.load(&plan)?;
    check(args, &models)?;
    let runner = runner(models, &plan)?;
    if args.output.is_some() {
        input.probe()?;
    }
    let output = Output::create(args.output.as_deref())?;
    let shown = matches!(output, Output::Stdout) && io::stdout().is_terminal();
    let results = Results::new(output.writer()?, args);
    match translate(&runner, input, results, shown) {
        Ok(()) => output.finish(),
        Err(error) => Err(output.keep(error)),
    }
}

/// Translates to the end of the input. If translations are printed to a terminal, no other progress is shown.
fn translate(runner: &Runner, mut input: Input, mut results: Results, shown: bool) -> anyhow::Result<()> {
    let mut activity = (!input.typed && io::stderr().is_terminal() && !shown).then(Activity::new);
    let (mut first_line, mut unknown) = (1, UnknownWords::default());
    while let Some(requests) = input.portion()? {
        results.write(runner, &requests, first_line)?;
        for request in &requests {
            unknown.look_at(&runner.members[0].src, &request.text);
        }
        if input.typed {
            unknown.warn();
        }
        first_line += requests.len();
        if let Some(activity) = &mut activity {
            activity.show(format!("{} lines translated", first_line - 1));
        }
    }
    drop(activity);
    unknown.warn();
    input.finish()
}

/// The lines to translate, with what is asked of each.
struct Input {
    lines: Lines,
    first: Option<String>,
    prefix: Option<Lines>,
    constraints: Option<Lines>,
    /// Whether a person types the lines, who expects an answer to each; a file is faster in large portions.
    typed: bool,
}

impl Input {
    fn open(args: &TranslateArgs) -> anyhow::Result<Self> {
        let lines = match &args.file {
            Some(path) => Lines::open(path)?,
            None => Lines::from_reader(io::stdin(), Path::new("standard input"))?,
        };
        let open = |path: &Option<PathBuf>| path.as_deref().map(Lines::open).transpose();
        let (prefix, constraints) = (open(&args.prefix)?, open(&args.constraints)?);
        let typed = args.file.is_none() && io::stdin().is_terminal();
        Ok(Self { lines, first: None, prefix, constraints, typed })
    }

    /// Reads the first line, so that an unreadable input is an error before the output is created.
    fn probe(&mut self) -> anyhow::Result<()> {
        if !self.typed {
            self.first = self.lines.next().transpose()?;
        }
        Ok(())
    }

    /// The next lines; `None` at the end.
    fn portion(&mut self) -> anyhow::Result<Option<Vec<Request>>> {
        let mut requests = Vec::new();
        while requests.len() < if self.typed { 1 } else { PORTION } {
            let Some(text) = self.first.take().map(Ok).or_else(|| self.lines.next()).transpose()? else { break };
            let number = self.lines.line();
            let prefix = beside(&mut self.prefix, number)?.unwrap_or_default();
            let constraints = beside(&mut self.constraints, number)?.unwrap_or_default();
            let constraints = constraints.split('\t').map(str::trim).filter(|phrase| !phrase.is_empty());
            requests.push(Request { text, prefix, constraints: constraints.map(str::to_owned).collect() });
        }
        Ok((!requests.is_empty()).then_some(requests))
    }

    /// Checks that the other files have no more lines than the input.
    fn finish(mut self) -> anyhow::Result<()> {
        let read = self.lines.line();
        for lines in [&mut self.prefix, &mut self.constraints].into_iter().flatten() {
            let more = lines.next().transpose()?.is_some();
            if more {
                let error = anyhow!("`{}` has more than the {read} lines of the input", lines.path().display());
                return Err(with_hint(error, BESIDE));
            }
        }
        Ok(())
    }
}

/// The line of a file that goes with line `number` of the input.
fn beside(lines: &mut Option<Lines>, number: u64) -> anyhow::Result<Option<String>> {
    let Some(lines) = lines else { return Ok(None) };
    let line = lines.next().transpose()?;
    if line.is_none() {
        let error = anyhow!("`{}` has no line {number}, but the input does", lines.path().display());
        return Err(with_hint(error, BESIDE));
    }
    Ok(line)
}
