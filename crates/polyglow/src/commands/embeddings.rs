//! `polyglow embeddings`: word vectors, of a run or of a file, to explore.

mod args;
mod plot;
mod sentences;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use polyglow_data::config::Split;
use polyglow_data::file;
use polyglow_data::lines::Lines;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_data::word_vectors::{VectorLimits, WordVectors};
use polyglow_model::{Inspect, Side};
use polyglow_predict::error::hint_of_system;
use polyglow_predict::states::Reader;
use polyglow_predict::tasks::Reads;
use polyglow_train::run::{RunDirectory, TrainedModel};
use polyglow_train::{Plan, device};
use polyglow_view::Format;
use polyglow_view::embeddings::{Attending, Bank, Embeddings, Neighbor};
use serde::Serialize;

use super::model::ModelArgs;
use super::uses::check_task;
use crate::failure::{usage, with_hint};
use args::{Action, ContextArgs, PlotArgs};
use plot::plot;
use sentences::sentences;

pub(crate) use args::EmbeddingsArgs;

/// At most this many sentences of a run's own text are compared with a word in its context.
const BANK: usize = 1000;

/// The source of the vectors.
enum Opened {
    File(Embeddings),
    Run(Box<Run>),
}

struct Run {
    directory: RunDirectory,
    plan: Plan,
    trained: TrainedModel,
    embeddings: Embeddings,
}

/// Explores vectors.
///
/// # Errors
/// There is no such run, checkpoint or file; a word is unknown, there is none to draw, or an
/// action needs a model, and there is a file (exit code 2); a file cannot be read or written.
pub(crate) fn run(args: &EmbeddingsArgs) -> anyhow::Result<()> {
    // Refused here, before a model is loaded.
    if let Action::Plot(PlotArgs { out, .. })
    | Action::Context(ContextArgs { out: Some(out), .. }) = &args.action
    {
        Format::from_path(out)?;
    }
    let opened = open(args)?;
    let embeddings = opened.embeddings();
    match &args.action {
        Action::Nearest { word, shown, .. } => {
            print_words(&embeddings.nearest(word, shown.count)?, args.json)
        }
        Action::Analogy { a, b, c, shown, .. } => {
            print_words(&embeddings.analogy([a, b, c], shown.count)?, args.json)
        }
        Action::Plot(plot_args) => plot(&opened, &args.source, plot_args),
        Action::Sentences(of) => sentences(&opened, of, args.json),
        Action::Context(of) => match &opened {
            Opened::Run(run) => context(run, of, args.json),
            Opened::File(embeddings) => company(embeddings, of, args.json),
        },
        Action::Export { file, .. } => export(embeddings, file),
    }
}

impl Opened {
    fn embeddings(&self) -> &Embeddings {
        match self {
            Self::File(embeddings) => embeddings,
            Self::Run(run) => &run.embeddings,
        }
    }
}

impl Run {
    fn reader(&self) -> Reader<'_> {
        let Self { trained, plan, .. } = self;
        let tokenizer = tokenizer(trained, trained.model.reading_side());
        Reader {
            model: &trained.model,
            tokenizer,
            device: &plan.device,
        }
    }
}

fn tokenizer(trained: &TrainedModel, side: Side) -> &Arc<Tokenizer> {
    match side {
        Side::Src => &trained.tokenizers.src,
        Side::Tgt => &trained.tokenizers.tgt,
    }
}

fn open(args: &EmbeddingsArgs) -> anyhow::Result<Opened> {
    if args.source.is_file() {
        return open_file(args);
    }
    if args.source.exists() {
        return open_run(args);
    }
    let error = anyhow!(
        "there is no run and no file of vectors `{}`",
        args.source.display()
    );
    Err(with_hint(
        usage(error),
        hint_of_system(&io::Error::from(io::ErrorKind::NotFound)),
    ))
}

/// Reads a file of vectors, and warns of the words that it does not take.
fn open_file(args: &EmbeddingsArgs) -> anyhow::Result<Opened> {
    let given = [
        ("--checkpoint", args.checkpoint.is_some()),
        ("--side", args.action.side().is_some()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, given)| *given) {
        let source = args.source.display();
        let error = anyhow!("`{option}` is for runs, but `{source}` is a file of vectors");
        return Err(with_hint(usage(error), format!("leave `{option}` out")));
    }
    let limits = VectorLimits::default();
    let vectors = WordVectors::read(&args.source, limits)?;
    if vectors.words.len() == limits.max_words {
        tracing::warn!(
            "`{}`: only the first {} words are read",
            args.source.display(),
            limits.max_words
        );
    }
    if vectors.repeated > 0 {
        tracing::warn!(
            "`{}`: {} repeated words are ignored",
            args.source.display(),
            vectors.repeated
        );
    }
    Ok(Opened::File(Embeddings::from_file(vectors)))
}

/// Loads a run, with the vectors of the side that is requested.
fn open_run(args: &EmbeddingsArgs) -> anyhow::Result<Opened> {
    // Starting a GPU would take longer than looking up a few words.
    let on_host = device::compiled_in()
        .contains(&"flex")
        .then(|| "flex".to_owned());
    let checkpoint = args.checkpoint.as_deref().unwrap_or("best");
    let model_args = ModelArgs::of_run(&args.source, checkpoint, on_host);
    let plan = model_args.open()?;
    let trained = model_args.load(&plan)?.swap_remove(0);
    check_task(&trained, |facts| facts.reads != Reads::Image)?;
    if matches!(args.action, Action::Sentences(_) | Action::Context(_)) {
        check_task(&trained, |facts| !facts.describes_images())?;
    }
    let side = args.action.side().unwrap_or(trained.model.reading_side());
    if Inspect::embedding(&trained.model, side).is_none() {
        let error = anyhow!(
            "the model of `model.arch = \"{}\"` shows no embedding",
            plan.config.model.arch.name()
        );
        return Err(with_hint(
            usage(error),
            "implement `Inspect::embedding` for it",
        ));
    }
    let embeddings = Embeddings::from_model(
        &trained.model,
        tokenizer(&trained, side),
        side,
        &plan.device,
    );
    let directory = RunDirectory::existing(&args.source)?;
    Ok(Opened::Run(Box::new(Run {
        directory,
        plan,
        trained,
        embeddings,
    })))
}

fn print_words(neighbors: &[Neighbor], json: bool) -> anyhow::Result<()> {
    if json {
        return print_json(&neighbors);
    }
    let mut out = io::stdout().lock();
    for Neighbor { word, cosine } in neighbors {
        writeln!(out, "{cosine:.4}\t{word}")?;
    }
    Ok(())
}

fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(writeln!(
        io::stdout(),
        "{}",
        serde_json::to_string_pretty(value)?
    )?)
}

/// The neighbors of a word after each layer of a model.
fn context(run: &Run, args: &ContextArgs, json: bool) -> anyhow::Result<()> {
    let ContextArgs {
        text,
        word,
        shown,
        scale,
        rounds,
        out,
    } = args;
    let given = [
        ("--scale", scale.is_some()),
        ("--rounds", rounds.is_some()),
        ("--out", out.is_some()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, given)| *given) {
        let error = usage(anyhow!(
            "`{option}` is for files of vectors: the attention of a run is its own"
        ));
        return Err(with_hint(
            error,
            "`polyglow attention` draws what a model looks at",
        ));
    }
    let side = run.trained.model.reading_side();
    let bank = Bank::new(run.reader(), bank_sentences(run, side)?)?;
    let layers = bank.neighbors(run.reader(), text, word, shown.count)?;
    if json {
        return print_json(&layers);
    }
    let mut out = io::stdout().lock();
    for layer in layers {
        match layer.layer {
            0 => write!(out, "embedding")?,
            number => write!(out, "layer {number}")?,
        }
        for neighbor in layer.neighbors {
            write!(out, "\t{} {:.3}", neighbor.word, neighbor.cosine)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The neighbors of a word after each round of attention over the vectors of its sentence.
fn company(embeddings: &Embeddings, args: &ContextArgs, json: bool) -> anyhow::Result<()> {
    let attending = Attending {
        scale: args.scale,
        rounds: args.rounds.unwrap_or(1),
        count: args.shown.count,
    };
    let company = embeddings.in_company(&args.text, &args.word, attending)?;
    if !company.unknown.is_empty() {
        tracing::warn!(
            "without a vector, and left out: `{}`",
            company.unknown.join("`, `")
        );
    }
    if let Some(path) = &args.out {
        company.write(&args.text, Format::from_path(path)?, path)?;
        tracing::info!("wrote `{}`", path.display());
    }
    if json {
        return print_json(&company);
    }
    let mut out = io::stdout().lock();
    for round in &company.rounds {
        match round.round {
            0 => write!(out, "before")?,
            number => write!(
                out,
                "round {number} takes\t{}\nround {number}",
                company.taken(round)
            )?,
        }
        for Neighbor { word, cosine } in &round.neighbors {
            write!(out, "\t{word} {cosine:.3}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The first sentences of the run's validation set, or of its training text if there is no
/// validation set.
fn bank_sentences(run: &Run, side: Side) -> anyhow::Result<Vec<String>> {
    let config = &run.plan.config;
    let split = if config.data.has_valid() {
        Split::Valid
    } else {
        Split::Train
    };
    let mut sentences = Vec::new();
    for pair in run.directory.open_set(config, split)?.pairs().take(BANK) {
        let pair = pair?;
        sentences.push(match side {
            Side::Src => pair.src,
            Side::Tgt => pair.tgt,
        });
    }
    Ok(sentences)
}

fn export(embeddings: &Embeddings, path: &Path) -> anyhow::Result<()> {
    let written = file::write_with(path, |mut out| embeddings.write(&mut out));
    let left_out = written.with_context(|| format!("cannot write `{}`", path.display()))?;
    if left_out > 0 {
        tracing::warn!(
            "{left_out} words contain whitespace, which the format cannot represent: they are left out"
        );
    }
    tracing::info!("wrote `{}`", path.display());
    Ok(())
}

fn read_lines(path: &Path) -> anyhow::Result<Vec<String>> {
    Ok(Lines::open(path)?.collect::<Result<_, _>>()?)
}
