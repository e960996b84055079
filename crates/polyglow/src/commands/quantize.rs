//! `polyglow quantize`: a checkpoint with 8-bit matrices.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use polyglow_model::registry::{Choice, Row};
use polyglow_model::{ArchRow, CaptionDecoder, ModelConfig};
use polyglow_predict::weights;
use polyglow_predict::wording::shell_word;
use polyglow_train::run::{Checkpoint, Content, RunDirectory};

use crate::failure::{usage, with_hint};
use crate::program;

/// Reserved names.
const TAKEN: [&str; 4] = ["best", "last", "average", "ema"];

/// The arguments of `polyglow quantize`.
#[derive(Args)]
pub(crate) struct QuantizeArgs {
    /// Directory of the run
    run: PathBuf,
    /// The checkpoint to start from: `best`, `last`, `step-N`, `average`, `ema`, or a path
    #[arg(long, value_name = "NAME", default_value = "best")]
    checkpoint: String,
    /// The checkpoint to write; one of that name is replaced
    #[arg(long, value_name = "NAME", default_value = "int8")]
    name: String,
}

/// Writes the weights of a checkpoint with every matrix rounded to 8 bits, and a scale for each
/// output.
///
/// # Errors
/// There is no such run or checkpoint; the checkpoint is damaged; it is not a Transformer's or has
/// 8 bits already, or the name is reserved (exit code 2); the new checkpoint cannot be written.
pub(crate) fn run(args: &QuantizeArgs) -> anyhow::Result<()> {
    let QuantizeArgs {
        run,
        checkpoint,
        name,
    } = args;
    check_name(name)?;
    let directory = RunDirectory::existing(run)?;
    check_arch(run, &directory.config()?.model)?;
    let checkpoints = directory.checkpoints(1);
    checkpoints.tidy(|unfinished| unfinished == name)?;
    let target = directory.root().join("checkpoints").join(name);
    if target.exists() && !Checkpoint::is_at(&target) {
        let error = anyhow!("`{}` exists and is not a checkpoint", target.display());
        return Err(with_hint(usage(error), "name another with `--name`"));
    }
    let (source, weights) = directory.weights(checkpoint)?;
    if weights.is_int8() {
        let error = anyhow!(
            "the matrices of `{}` have 8 bits already",
            source.path.display()
        );
        return Err(with_hint(
            usage(error),
            "name the checkpoint that it was made from with `--checkpoint`",
        ));
    }
    let model = weights::quantize(&weights)?;
    let before: usize = weights.rest().map(|(_, data)| data.as_bytes().len()).sum();
    let after: usize = model.iter().map(|(_, data)| data.as_bytes().len()).sum();
    let path = checkpoints.write(
        name,
        &Content {
            model,
            optimizer: Vec::new(),
            ema: Vec::new(),
        },
        &source.state,
    )?;
    tracing::info!(
        "wrote `{}` with 8-bit matrices to `{}`: {:.1} MB instead of {:.1} MB",
        source.path.display(),
        path.display(),
        after as f64 / 1e6,
        before as f64 / 1e6
    );
    tracing::info!(
        "score it: {} evaluate {} --checkpoint {}",
        program::name(),
        shell_word(run),
        shell_word(name)
    );
    Ok(())
}

/// Refuses a model without 8-bit matrices.
///
/// # Errors
/// Its architecture has none (exit code 2).
fn check_arch(run: &Path, model: &ModelConfig) -> anyhow::Result<()> {
    if model.has_int8() {
        return Ok(());
    }
    let decoder = if model.decoder == Some(CaptionDecoder::Rnn) {
        " and `model.decoder = \"rnn\"`"
    } else {
        ""
    };
    let error = anyhow!(
        "`{}` has `model.arch = \"{}\"`{decoder}",
        run.display(),
        model.arch.name()
    );
    let suitable = suitable_architectures().join(" and ");
    let hint = format!("only {suitable} have 8-bit matrices");
    Err(with_hint(usage(error), hint))
}

/// The names, in quotes, of the architectures whose models may have 8-bit matrices.
fn suitable_architectures() -> Vec<String> {
    let rows = ArchRow::table().rows().into_iter();
    let configs = rows.map(|row| ModelConfig {
        arch: Choice(row),
        ..ModelConfig::default()
    });
    let suitable = configs.filter(ModelConfig::has_int8);
    suitable
        .map(|config| format!("`\"{}\"`", config.arch.name()))
        .collect()
}

/// Makes sure that a name can be a directory among the run's checkpoints and is not reserved.
fn check_name(name: &str) -> anyhow::Result<()> {
    let plain = name
        .chars()
        .all(|sign| sign.is_ascii_alphanumeric() || sign == '-' || sign == '_')
        && !name.is_empty();
    if plain && !TAKEN.contains(&name) && !name.starts_with("step-") {
        return Ok(());
    }
    let error = anyhow!("`--name {name}` cannot name an 8-bit checkpoint");
    let taken = TAKEN.join("`, `");
    Err(with_hint(
        usage(error),
        format!("use letters, digits, `-` and `_`; `{taken}` and `step-N` are reserved"),
    ))
}
