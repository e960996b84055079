//! `polyglow embeddings ... plot`: words on a plane.

use std::path::Path;

use anyhow::anyhow;
use polyglow_data::config::{SourceKind, Split, TargetKind};
use polyglow_data::corpus::Corpus;
use polyglow_model::Side;
use polyglow_view::Format;
use polyglow_view::embeddings::{Embeddings, Groups, Plot, WholeWord, project};

use super::args::PlotArgs;
use super::{Opened, Run, read_lines};
use crate::activity::Activity;
use crate::failure::{usage, with_hint};

/// Words are counted in at most this many pairs, the first ones, which takes seconds.
const COUNTED: usize = 100_000;

/// The words of a plot, and what is said about them.
#[derive(Default)]
struct Drawn {
    words: Vec<String>,
    /// `[words, dim]`.
    vectors: Vec<f32>,
    /// The number of the group of each word, if they have groups.
    of_words: Vec<usize>,
    groups: Vec<String>,
    about: String,
}

/// Draws words on a plane, and logs which.
///
/// # Errors
/// A word is unknown, or there is none to draw (exit code 2); a file cannot be read or written.
pub(super) fn plot(opened: &Opened, source: &Path, args: &PlotArgs) -> anyhow::Result<()> {
    let embeddings = opened.embeddings();
    let drawn = match (&args.words, opened) {
        (Some(path), _) => listed(path, embeddings)?,
        (None, Opened::Run(run)) => frequent(run, args)?,
        (None, Opened::File(_)) => first(embeddings, args.count, "in the order of the file")?,
    };
    let Drawn {
        words,
        vectors,
        of_words,
        groups,
        about,
    } = &drawn;
    let projection = project(vectors, embeddings.dim());
    let title = source.display().to_string();
    let groups = Groups {
        names: groups,
        of_words,
    };
    Plot {
        title: &title,
        about,
        words,
        groups,
        projection: &projection,
    }
    .write(Format::from_path(&args.out)?, &args.out)?;
    tracing::info!("wrote `{}`: {about}", args.out.display());
    Ok(())
}

/// The words of a file.
fn listed(path: &Path, embeddings: &Embeddings) -> anyhow::Result<Drawn> {
    let mut drawn = Drawn::default();
    for word in read_lines(path)?
        .iter()
        .map(|line| line.trim())
        .filter(|word| !word.is_empty())
    {
        drawn.words.push(word.to_owned());
        drawn.vectors.extend(embeddings.direction(word)?);
    }
    if drawn.words.is_empty() {
        let error = usage(anyhow!("`{}` has no words to draw", path.display()));
        return Err(with_hint(
            error,
            "write one word per line, or leave `--words` out",
        ));
    }
    drawn.about = format!("{} words of `{}`", drawn.words.len(), path.display());
    Ok(drawn)
}

/// The most frequent words of the training text that are one token each; without such text the
/// first of the vocabulary.
fn frequent(run: &Run, args: &PlotArgs) -> anyhow::Result<Drawn> {
    let config = &run.plan.config;
    let corpus = match Corpus::open(&config.data, run.plan.content, Split::Train) {
        Ok(corpus) => corpus,
        Err(error) => {
            tracing::info!(
                "{error}: words come in the order of the vocabulary, not of their frequency"
            );
            return first(
                &run.embeddings,
                args.count,
                "in the order of the vocabulary, without the training text",
            );
        }
    };
    let sides = sides(run, args);
    let mut activity = Activity::new();
    activity.show("counting words of the training text".to_owned());
    let words = run
        .embeddings
        .frequent_words(corpus.pairs().take(COUNTED), &sides, args.count)?;
    drop(activity);
    if words.is_empty() {
        let order = "in the order of the vocabulary: no word of the training text is one token";
        return first(&run.embeddings, args.count, order);
    }
    let mut drawn = drawn(&run.embeddings, &words);
    let text = if corpus.pairs().nth(COUNTED).is_some() {
        "first 100 000 pairs of the training text"
    } else {
        "training text"
    };
    drawn.about = format!(
        "the {} most frequent words of the {text} that are one token each",
        words.len()
    );
    if sides.len() > 1 {
        drawn.of_words = words
            .iter()
            .map(|word| usize::from(word.side == Side::Tgt))
            .collect();
        drawn.groups = groups(run, &drawn.of_words);
    }
    Ok(drawn)
}

/// The sides of the training text whose words have a vector in the table that is drawn, and one
/// that was learned.
fn sides(run: &Run, args: &PlotArgs) -> Vec<Side> {
    let requested = args.table.side;
    let content = run.plan.content;
    let own = match (content.source, content.target) {
        // The targets of texts with labels or tags are these.
        (SourceKind::Text, TargetKind::Label | TargetKind::Tags) => Side::Src,
        (SourceKind::Nothing | SourceKind::Image, TargetKind::Text) => Side::Tgt,
        _ => requested.unwrap_or(run.trained.model.reading_side()),
    };
    let translates = run.plan.task.facts().translates();
    if requested.is_none() && translates && run.trained.tokenizers.is_shared() && has_one_table(run)
    {
        vec![Side::Src, Side::Tgt]
    } else {
        vec![own]
    }
}

/// Whether both sides have the same vectors.
fn has_one_table(run: &Run) -> bool {
    let [src, tgt] = [Side::Src, Side::Tgt].map(|side| {
        let vectors = run.trained.model.vectors(side, &run.plan.device);
        vectors.into_data()
    });
    src == tgt
}

/// The names of the sides with their languages and their numbers of words.
fn groups(run: &Run, of_words: &[usize]) -> Vec<String> {
    let languages = run
        .plan
        .config
        .data
        .languages()
        .map_or(["", ""], |(src, tgt)| [src, tgt]);
    let mut names = Vec::new();
    for (group, (side, language)) in ["source", "target"].into_iter().zip(languages).enumerate() {
        let count = of_words.iter().filter(|of_word| **of_word == group).count();
        let language = if language.is_empty() {
            String::new()
        } else {
            format!(" ({language})")
        };
        names.push(format!(
            "more frequent in the {side}{language}: {count} words"
        ));
    }
    names
}

/// The first words of a vocabulary or of a file; its first entries where none is a word.
fn first(embeddings: &Embeddings, count: usize, order: &str) -> anyhow::Result<Drawn> {
    let words = embeddings.first_words(count)?;
    let mut drawn = drawn(embeddings, &words);
    drawn.about = format!("the first {} words {order}", words.len());
    if words.is_empty() {
        for (token, vector) in embeddings.first(count) {
            drawn.words.push(token.to_owned());
            drawn.vectors.extend(vector);
        }
        drawn.about = format!(
            "the first {} tokens {order}; none of them is a word",
            drawn.words.len()
        );
    }
    Ok(drawn)
}

fn drawn(embeddings: &Embeddings, words: &[WholeWord]) -> Drawn {
    let vectors = words
        .iter()
        .flat_map(|word| embeddings.direction_of(word).to_vec())
        .collect();
    Drawn {
        words: words.iter().map(|word| word.text.clone()).collect(),
        vectors,
        ..Drawn::default()
    }
}
