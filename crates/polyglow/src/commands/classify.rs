//! `polyglow classify`: labels of texts or images.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use polyglow_data::config::ImageConfig;
use polyglow_data::corpus::read_image;
use polyglow_data::lines::Lines;
use polyglow_predict::TaskFacts;
use polyglow_predict::long_lines::LongLines;
use polyglow_predict::runner::Runner;
use polyglow_predict::tasks::images;
use polyglow_predict::tasks::labels::Guess;
use polyglow_predict::unknown_words::UnknownWords;
use polyglow_train::run::runner;

use super::model::ModelArgs;
use super::uses::check_task;
use crate::failure::{usage, with_hint};

/// Texts or images that are read, then classified together.
const PORTION: usize = 1024;

/// The arguments of `polyglow classify`.
#[derive(Args)]
pub(crate) struct ClassifyArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Texts, one per line [default: stdin]; or images, PNG or JPEG
    files: Vec<PathBuf>,
}

/// Prints a line for each line of text, or for each image: a label, its probability, and of an
/// image its file, separated by tabs. A blank line stays blank.
///
/// # Errors
/// There is no such run, checkpoint or device; the model gives no labels, or no image is named
/// (exit code 2); something cannot be read.
pub(crate) fn run(args: &ClassifyArgs) -> anyhow::Result<()> {
    let plan = args.model.open()?;
    let models = args.model.load(&plan)?;
    models
        .iter()
        .try_for_each(|model| check_task(model, TaskFacts::gives_labels))?;
    let runner = runner(models, &plan)?;
    let mut out = io::stdout().lock();
    if runner.task.facts().reads_images() {
        return of_images(&runner, plan.config.data.images(), &args.files, &mut out);
    }
    if args.files.is_empty() {
        return of_lines(
            &runner,
            Lines::from_reader(io::stdin(), Path::new("standard input"))?,
            &mut out,
        );
    }
    args.files
        .iter()
        .try_for_each(|file| of_lines(&runner, Lines::open(file)?, &mut out))
}

fn of_lines(runner: &Runner, mut lines: Lines, out: &mut impl Write) -> anyhow::Result<()> {
    let mut unknown = UnknownWords::default();
    let mut long = LongLines::default();
    loop {
        let before = lines.line();
        let texts: Vec<String> = lines.by_ref().take(PORTION).collect::<Result<_, _>>()?;
        if texts.is_empty() {
            if lines.line() == 0 {
                tracing::warn!("`{}` is empty: 0 lines classified", lines.path().display());
            }
            unknown.warn();
            if let Some(message) = long.message("text", runner.longest, "read") {
                tracing::warn!("`{}`: {message}", lines.path().display());
            }
            return Ok(());
        }
        let real: Vec<&str> = texts
            .iter()
            .map(String::as_str)
            .filter(|text| !text.trim().is_empty())
            .collect();
        for text in &real {
            unknown.look_at(&runner.members[0].src, text);
        }
        let mut guesses = runner.task.classify(runner, &real)?.into_iter();
        for (line, text) in (before + 1..).zip(&texts) {
            // A blank line was not classified, and has a blank line in the output.
            let guess = if text.trim().is_empty() {
                None
            } else {
                guesses.next()
            };
            let Some(guess) = guess else {
                writeln!(out)?;
                continue;
            };
            let Guess {
                label,
                probability,
                truncated,
            } = guess;
            long.note(line, truncated);
            writeln!(out, "{label}\t{probability:.4}")?;
        }
    }
}

fn of_images(
    runner: &Runner,
    config: ImageConfig,
    files: &[PathBuf],
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if files.is_empty() {
        let error = usage(anyhow!("no image is given"));
        return Err(with_hint(
            error,
            "name PNG or JPEG files: `polyglow classify RUN IMAGE.png ...`",
        ));
    }
    for files in files.chunks(PORTION) {
        let pixels: Vec<Vec<u8>> = files
            .iter()
            .map(|file| read_image(file, config))
            .collect::<Result<_, _>>()?;
        let pixels: Vec<&[u8]> = pixels.iter().map(Vec::as_slice).collect();
        for (
            file,
            Guess {
                label, probability, ..
            },
        ) in files.iter().zip(images::classify(runner, &pixels)?)
        {
            writeln!(out, "{label}\t{probability:.4}\t{}", file.display())?;
        }
    }
    Ok(())
}
