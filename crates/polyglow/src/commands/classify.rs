//! `polyglow classify`: labels of texts or images.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use polyglow_data::corpus::read_image;
use polyglow_data::lines::Lines;
use polyglow_data::tokenizer::text_of_bytes;
use polyglow_model::Task;
use polyglow_train::config::Config;
use polyglow_train::predict::classification::{Guess, classify};
use polyglow_train::predict::translate::Translator;
use polyglow_train::predict::unknown_words::UnknownWords;
use polyglow_train::run::{check_task, translator};

use super::model::ModelArgs;
use crate::failure::{usage, with_hint};

/// Texts or images that are read, then classified together.
const PORTION: usize = 1024;

/// What `polyglow classify` is asked to do.
#[derive(Args)]
pub(crate) struct ClassifyArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Texts, one per line [default: stdin]; or images, PNG or JPEG
    files: Vec<PathBuf>,
}

/// Prints a line for each line of text, or for each image: a label, its probability, and of an image its file,
/// separated by tabs. A blank line stays blank.
///
/// # Errors
/// There is no such run, checkpoint or device; the model gives no labels, or no image is named (exit code 2); something
/// cannot be read.
pub(crate) fn run(args: &ClassifyArgs) -> anyhow::Result<()> {
    let (config, device) = args.model.open()?;
    let models = args.model.load(&device)?;
    models.iter().try_for_each(|model| check_task(model, Task::is_classification))?;
    let translator = translator(&models, &config, &device)?;
    let mut out = io::stdout().lock();
    if translator.task() == Task::Images {
        return of_images(&translator, &config, &args.files, &mut out);
    }
    if args.files.is_empty() {
        return of_lines(&translator, Lines::from_reader(io::stdin(), Path::new("standard input"))?, &mut out);
    }
    args.files.iter().try_for_each(|file| of_lines(&translator, Lines::open(file)?, &mut out))
}

fn of_lines(translator: &Translator<'_>, mut lines: Lines, out: &mut impl Write) -> anyhow::Result<()> {
    let mut unknown = UnknownWords::default();
    loop {
        let texts: Vec<String> = lines.by_ref().take(PORTION).collect::<Result<_, _>>()?;
        if texts.is_empty() {
            unknown.warn();
            return Ok(());
        }
        let is_blank = |text: &&str| text.trim().is_empty();
        let real: Vec<&str> = texts.iter().map(String::as_str).filter(|text| !is_blank(text)).collect();
        for text in &real {
            unknown.look_at(translator.members[0].src, text);
        }
        let mut guesses = classify(translator, &real)?.into_iter();
        for text in &texts {
            match if is_blank(&text.as_str()) { None } else { guesses.next() } {
                Some(Guess { label, probability }) => writeln!(out, "{label}\t{probability:.4}")?,
                None => writeln!(out)?,
            }
        }
    }
}

fn of_images(
    translator: &Translator<'_>,
    config: &Config,
    files: &[PathBuf],
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if files.is_empty() {
        let error = usage(anyhow!("no image is given"));
        return Err(with_hint(error, "name PNG or JPEG files: `polyglow classify RUN IMAGE.png ...`"));
    }
    for files in files.chunks(PORTION) {
        let images = files.iter().map(|file| Ok(text_of_bytes(&read_image(file, &config.data)?)));
        let images: Vec<String> = images.collect::<anyhow::Result<_>>()?;
        let texts: Vec<&str> = images.iter().map(String::as_str).collect();
        for (file, Guess { label, probability }) in files.iter().zip(classify(translator, &texts)?) {
            writeln!(out, "{label}\t{probability:.4}\t{}", file.display())?;
        }
    }
    Ok(())
}
