//! `polyglow import`: a run from another program's model.

use std::path::PathBuf;

use clap::Args;
use polyglow_predict::wording::shell_word;

use crate::program;

/// The arguments of `polyglow import`.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// Directory of the model: of Hugging Face (`config.json`, `model.safetensors` or
    /// `pytorch_model.bin`), or of CTranslate2 (`model.bin`)
    model: PathBuf,
    /// Directory of the run to make, which is not there yet
    #[arg(long, value_name = "DIR")]
    run: PathBuf,
}

/// Makes a run of a model, which then translates, is scored, averaged, quantized, exported and
/// trained on as any other.
///
/// # Errors
/// As [`polyglow_formats::import`]; there is something in the run's directory already (exit code
/// 2); the disk refuses.
pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<()> {
    let model = polyglow_formats::import(&args.model)?;
    let run = model.create_run(&args.run)?;
    let root = shell_word(run.root());
    let config = shell_word(run.config_path());
    tracing::info!(
        "made the run `{}` of `{}`",
        run.root().display(),
        args.model.display()
    );
    let program = program::name();
    tracing::info!("try it: {program} translate {root}");
    tracing::info!(
        "train it on: {program} train {config} --run {root} --fork NEW_RUN --set data.train=TEXT --set data.valid=TEXT \
         --set data.src=.. --set data.tgt=.. --set train.lr=1e-4 --set train.warmup_steps=100"
    );
    Ok(())
}
