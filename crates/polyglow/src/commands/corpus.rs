//! `polyglow corpus`: the files of an embedded corpus.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use polyglow_data::toy::Embedded;
use polyglow_predict::suggestion::nearest;

use crate::failure::{usage, with_hint};

/// The arguments of `polyglow corpus`.
#[derive(Args)]
pub(crate) struct CorpusArgs {
    /// `mini-en-de`, `digits`; with labels `mini-en-de-types`, `-tenses`, `-types-tenses`; with
    /// tags `mini-tags`; pictures `shapes`, `colored-shapes`, `counted-shapes`,
    /// `counted-colored-shapes`; with captions `captioned-shapes`
    name: String,
    /// Directory to write to; created if it does not exist
    out: PathBuf,
}

/// Writes every split: `<split>.<language>` and `<split>.align`, `<split>.tsv` with labels,
/// `<split>.conll` with tags, a
/// folder of folders with pictures, or `<split>.tsv` with captions and a folder with their
/// pictures.
///
/// # Errors
/// There is no corpus of that name (exit code 2), or a file cannot be written.
pub(crate) fn run(args: &CorpusArgs) -> anyhow::Result<()> {
    let corpus = Embedded::from_name(&args.name).ok_or_else(|| unknown(&args.name))?;
    corpus.write(&args.out)?;
    tracing::info!(
        "wrote {} to `{}`: {}",
        corpus.name(),
        args.out.display(),
        corpus.splits().join(", ")
    );
    Ok(())
}

fn unknown(name: &str) -> anyhow::Error {
    let known: Vec<&str> = Embedded::all().map(Embedded::name).collect();
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    let error = usage(anyhow!(
        "unknown corpus `{name}`; there are {}",
        names.join(", ")
    ));
    match nearest(name, known) {
        Some(known) => with_hint(error, format!("did you mean `{known}`?")),
        None => with_hint(error, "give one of these names"),
    }
}
