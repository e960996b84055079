//! `polyglow attention`: the attention weights of a model on one sentence.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use polyglow_data::alignment::format_links;
use polyglow_data::config::ImageConfig;
use polyglow_data::corpus::read_image;
use polyglow_data::pair::Pair;
use polyglow_model::attention::AttentionKind;
use polyglow_model::search::SearchRequest;
use polyglow_predict::TaskFacts;
use polyglow_predict::attention::{PairAttention, caption_weights, image_weights};
use polyglow_predict::runner::Runner;
use polyglow_predict::tasks::images;
use polyglow_predict::unknown_words::UnknownWords;
use polyglow_train::run::runner;
use polyglow_train::tasks::translation::alignment::align;
use polyglow_view::Format;
use polyglow_view::attention::{CaptionAttention, ImageAttention, Selection, write_pair};

use super::counts;
use super::model::ModelArgs;
use super::uses::{check_task, check_translates};
use crate::failure::{usage, with_hint};

/// The arguments of `polyglow attention`.
#[derive(Args)]
pub(crate) struct AttentionArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// The source sentence; for a model of images the file of one
    #[arg(value_name = "SENTENCE")]
    src: String,
    /// Its translation [default: the model's]
    #[arg(long, value_name = "SENTENCE")]
    tgt: Option<String>,
    /// The file to write: `.html` holds all maps, `.png` and `.svg` one
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Which attention a picture shows [default: cross, or of an encoder its own]
    #[arg(long, value_parser = kinds())]
    kind: Option<AttentionKind>,
    /// Which layer a picture shows, counted from 1 [default: the last]
    #[arg(long, value_name = "N", value_parser = counts())]
    layer: Option<usize>,
    /// Which head a picture shows, counted from 1 [default: the mean of all]
    #[arg(long, value_name = "N", value_parser = counts())]
    head: Option<usize>,
    /// Print the source word with the most attention for each target word, as `source-target`
    /// counted from 0
    #[arg(long)]
    pharaoh: bool,
}

impl AttentionArgs {
    /// Whether results go to standard output.
    pub(crate) fn prints_results(&self) -> bool {
        self.pharaoh
    }
}

fn kinds() -> impl TypedValueParser<Value = AttentionKind> {
    let names = [
        PossibleValue::new("cross").help("Target positions look at the source"),
        PossibleValue::new("encoder").help("Source positions look at the source"),
        PossibleValue::new("decoder").help("Target positions look at the target"),
    ];
    PossibleValuesParser::new(names).map(|name| match &*name {
        "cross" => AttentionKind::Cross,
        "encoder" => AttentionKind::Encoder,
        _ => AttentionKind::Decoder,
    })
}

/// Writes the attention weights on one pair as a page (`.html`, all of them) or as a picture
/// (`.png`, `.svg`, one map), and prints the hard alignment of its words with `--pharaoh`.
///
/// # Errors
/// There is no such run, checkpoint or device; there is nothing to do, or no such layer or head
/// (exit code 2); the file cannot be written.
pub(crate) fn run(args: &AttentionArgs) -> anyhow::Result<()> {
    check_arguments(args)?;
    let out = match &args.out {
        Some(path) => Some((path.as_path(), Format::from_path(path)?)),
        None => None,
    };
    let plan = args.model.open()?;
    let search = args.model.search(&plan, 1)?;
    let models = args.model.load(&plan)?;
    check_task(&models[0], |facts| !facts.generates())?;
    let selection = selection(args, plan.task.facts())?;
    selection.check(models[0].model.shape())?;
    if args.pharaoh {
        check_translates(&models)?;
    }
    let runner = runner(models, &plan)?;
    match out {
        Some(out) if plan.task.facts().reads_images() => {
            let images = plan.config.data.images();
            draw_image(&runner, images, &search, args, selection, out)
        }
        _ => show_sentence(&runner, &search, args, selection, out),
    }
}

/// Checks what can be checked before a model is loaded.
///
/// # Errors
/// There is nothing to write, or no sentence (exit code 2).
fn check_arguments(args: &AttentionArgs) -> anyhow::Result<()> {
    if args.out.is_none() && !args.pharaoh {
        let error = usage(anyhow!(
            "there is nothing to write: give `--out FILE` or `--pharaoh`"
        ));
        return Err(with_hint(
            error,
            "`--out attention.html` writes a page, `--pharaoh` prints links between words",
        ));
    }
    if args.src.trim().is_empty() {
        return Err(with_hint(
            usage(anyhow!("the sentence is empty")),
            "give a sentence in quotes, behind the run",
        ));
    }
    Ok(())
}

/// Chooses the map of a picture: by the arguments, or cross-attention where the model has it.
///
/// # Errors
/// The model has no drawing of that kind (exit code 2).
fn selection(args: &AttentionArgs, facts: &TaskFacts) -> anyhow::Result<Selection> {
    let own = if facts.has_references() {
        AttentionKind::Cross
    } else {
        AttentionKind::Encoder
    };
    let selection = Selection {
        kind: args.kind.unwrap_or(own),
        layer: args.layer,
        head: args.head,
    };
    if facts.describes_images() && selection.kind != AttentionKind::Cross {
        return Err(with_hint(
            usage(anyhow!("of a captioner only `cross` is drawn")),
            "leave `--kind` out",
        ));
    }
    Ok(selection)
}

/// Draws the attention weights on a sentence and its translation or label, and prints the links
/// between their words if that is requested.
fn show_sentence(
    runner: &Runner,
    search: &SearchRequest,
    args: &AttentionArgs,
    selection: Selection,
    out: Option<(&Path, Format)>,
) -> anyhow::Result<()> {
    if Path::new(&args.src).is_file() {
        tracing::warn!(
            "`{0}` is read as a sentence, although there is a file of that name",
            args.src
        );
    }
    let mut unknown = UnknownWords::default();
    unknown.look_at(&runner.members[0].src, &args.src);
    unknown.look_at(&runner.tgt, args.tgt.as_deref().unwrap_or_default());
    unknown.warn();
    let tgt = target(runner, search, args)?;
    tracing::info!("{} -> {tgt}", args.src);
    if let Some((path, format)) = out {
        let attention = PairAttention::new(runner, &args.src, &tgt)?;
        write_pair(&attention, [&args.src, &tgt], selection, format, path)?;
        tracing::info!("wrote `{}`", path.display());
    }
    if args.pharaoh {
        let src = args.src.clone();
        let links = align(runner, &[Pair { src, tgt }])?;
        let last = links.first().and_then(|layers| layers.last());
        let line = last.map_or_else(String::new, |links| format_links(links));
        writeln!(io::stdout(), "{line}")?;
    }
    Ok(())
}

/// Returns the target that was given, or else the model's: a translation or a label; empty of a
/// model that gives neither.
fn target(runner: &Runner, search: &SearchRequest, args: &AttentionArgs) -> anyhow::Result<String> {
    if let Some(tgt) = &args.tgt {
        return Ok(tgt.clone());
    }
    let facts = runner.task.facts();
    if facts.translates() {
        return Ok(runner.best_for(&[&args.src], search)?.swap_remove(0));
    }
    if facts.gives_labels() {
        let mut answers = runner.task.classify(runner, &[&args.src])?;
        return Ok(answers.swap_remove(0).label);
    }
    Ok(String::new())
}

/// Draws the attention weights on an image: all layers and heads on a page, or one of them as a
/// picture.
fn draw_image(
    runner: &Runner,
    images: ImageConfig,
    search: &SearchRequest,
    args: &AttentionArgs,
    selection: Selection,
    (path, format): (&Path, Format),
) -> anyhow::Result<()> {
    let pixels = read_image(Path::new(&args.src), images)?;
    if runner.task.facts().describes_images() {
        let mut unknown = UnknownWords::default();
        unknown.look_at(&runner.tgt, args.tgt.as_deref().unwrap_or_default());
        unknown.warn();
        let caption = match &args.tgt {
            Some(tgt) => tgt.clone(),
            None => runner.best_for(&[&args.src], search)?.swap_remove(0),
        };
        tracing::info!("{} -> {caption}", args.src);
        let weights = caption_weights(runner, &pixels, &caption)?;
        CaptionAttention::new(pixels, weights).write(
            [&args.src, &caption],
            selection,
            format,
            path,
        )?;
        tracing::info!("wrote `{}`", path.display());
        return Ok(());
    }
    let label = images::classify(runner, &[&pixels])?.swap_remove(0).label;
    tracing::info!("{} -> {label}", args.src);
    let weights = image_weights(runner, &pixels)?;
    ImageAttention::new(pixels, weights).write([&args.src, &label], selection, format, path)?;
    tracing::info!("wrote `{}`", path.display());
    Ok(())
}
