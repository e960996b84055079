//! `polyglow corpus`: the files of an embedded corpus.

use std::path::PathBuf;

use anyhow::anyhow;
use polyglow_data::toy::Toy;

use crate::failure::{usage, with_hint};
use crate::suggestion::nearest;

/// What `polyglow corpus` is asked to do.
#[derive(Clone, Debug)]
pub struct CorpusArgs {
    /// Name of the corpus.
    pub name: String,
    /// Directory to write to.
    pub out: PathBuf,
}

/// Writes `<split>.<language>` and `<split>.align` for every split.
///
/// # Errors
/// There is no corpus of that name (exit code 2), or a file cannot be written.
pub fn run(args: &CorpusArgs) -> anyhow::Result<()> {
    let toy = Toy::from_name(&args.name).ok_or_else(|| unknown(&args.name))?;
    toy.write(&args.out)?;
    tracing::info!("wrote {} to `{}`: {}", toy.name(), args.out.display(), toy.splits().join(", "));
    Ok(())
}

fn unknown(name: &str) -> anyhow::Error {
    let known = Toy::ALL.map(Toy::name);
    let error =
        usage(anyhow!("unknown corpus `{name}`; there are {}", known.map(|name| format!("`{name}`")).join(", ")));
    match nearest(name, known) {
        Some(known) => with_hint(error, format!("did you mean `{known}`?")),
        None => error,
    }
}
