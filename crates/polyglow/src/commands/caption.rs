//! `polyglow caption`: sentences about images.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use polyglow_model::search::SearchRequest;
use polyglow_predict::TaskFacts;
use polyglow_predict::translate::{Request, Scores, Translated};
use polyglow_train::run::runner;
use serde::Serialize;

use super::counts;
use super::model::ModelArgs;
use super::uses::check_task;

/// Images that are read, then described together.
const PORTION: usize = 256;

/// The arguments of `polyglow caption`.
#[derive(Args)]
pub(crate) struct CaptionArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Images, PNG or JPEG; or pictures of the embedded corpus, as `captioned-shapes:test:17`
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// Captions per image, at most the beam size
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = counts())]
    n_best: usize,
    /// What every caption begins with
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    prefix: String,
    /// A phrase that every caption contains; may be given several times
    #[arg(long, value_name = "TEXT")]
    constraint: Vec<String>,
    /// `text`: caption and image, separated by a tab; `jsonl`: one JSON object per image
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// The format of captions.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Jsonl,
}

/// A line of JSON.
#[derive(Serialize)]
struct Record<'a> {
    image: &'a str,
    captions: Vec<CaptionRecord<'a>>,
}

#[derive(Serialize)]
struct CaptionRecord<'a> {
    text: &'a str,
    #[serde(flatten)]
    scores: Option<Scores>,
}

/// Prints what a model says about each image, in their order.
///
/// # Errors
/// There is no such run, checkpoint or device; the model does not describe images (exit code 2); an
/// image cannot be read.
pub(crate) fn run(args: &CaptionArgs) -> anyhow::Result<()> {
    let plan = args.model.open()?;
    let search = SearchRequest {
        scores: args.format == Format::Jsonl,
        ..args.model.search(&plan, args.n_best)?
    };
    let models = args.model.load(&plan)?;
    models
        .iter()
        .try_for_each(|model| check_task(model, TaskFacts::describes_images))?;
    let runner = runner(models, &plan)?;
    let mut out = io::stdout().lock();
    let names: Vec<String> = args
        .images
        .iter()
        .map(|image| image.display().to_string())
        .collect();
    let mut requests: Vec<Request> = Vec::with_capacity(names.len());
    for (number, name) in (1..).zip(&names) {
        requests.push(Request {
            text: name.clone(),
            prefix: args.prefix.clone(),
            constraints: args.constraint.clone(),
            number: Some(number),
            ..Request::default()
        });
    }
    for (requests, names) in requests.chunks(PORTION).zip(names.chunks(PORTION)) {
        let captions = runner
            .translate(requests, &search)
            .with_context(|| format!("describing `{}`", names.join("`, `")))?;
        for (name, captions) in names.iter().zip(&captions) {
            write(&mut out, args.format, name, captions)?;
        }
    }
    Ok(())
}

fn write(
    out: &mut impl Write,
    format: Format,
    image: &str,
    captions: &[Translated],
) -> anyhow::Result<()> {
    if format == Format::Text {
        return Ok(captions
            .iter()
            .try_for_each(|caption| writeln!(out, "{}\t{image}", caption.text))?);
    }
    let captions = captions.iter().map(|caption| CaptionRecord {
        text: &caption.text,
        scores: caption.scores,
    });
    let record = Record {
        image,
        captions: captions.collect(),
    };
    Ok(writeln!(out, "{}", serde_json::to_string(&record)?)?)
}
