//! `polyglow export`: a run for other programs.

use std::env;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use clap::builder::PossibleValuesParser;
use polyglow_formats::{Export, Exported, Precision, format_named, formats};
use polyglow_model::registry::Named;
use polyglow_train::run::RunDirectory;

use super::model::check_free;
use crate::activity::Activity;

/// Keys that may differ from the training: they say something about the model, and change nothing
/// in it.
const FREE_KEYS: [&str; 4] = ["license=", "device=", "data.", "search."];

/// The arguments of `polyglow export`.
#[derive(Args)]
pub(crate) struct ExportArgs {
    /// Directory of the run
    run: PathBuf,
    /// The format
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    to: String,
    /// The directory to write, which is not there yet
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The checkpoint: `best`, `last`, `step-N`, `average`, `ema`, `int8`, or a path
    #[arg(long, value_name = "NAME", default_value = "best")]
    checkpoint: String,
    /// What numbers are written as, not for `huggingface`: `float32`, `float16` or `int8` [default:
    /// `int8` for `web`, else as the checkpoint has them]
    #[arg(long, value_name = "NUMBERS", value_parser = PossibleValuesParser::new(Precision::ALL.map(Precision::name)))]
    precision: Option<String>,
    /// Lines of the test set that a written translation model must translate as the run does, or
    /// nothing is kept; 0 tries none
    #[arg(long, value_name = "N", default_value_t = 100)]
    verify: usize,
    /// For `web`: directory of the package polyglow-web [default: beside the program]
    #[arg(long, value_name = "DIR")]
    package: Option<PathBuf>,
    /// Override `license`, `device`, or a key of `[data]` or `[search]`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

/// Writes a checkpoint in another program's format, with a model card.
///
/// # Errors
/// As [`Export::write`]; an override is wrong, or is of a key that the model depends on (exit code
/// 2).
pub(crate) fn run(args: &ExportArgs) -> anyhow::Result<()> {
    check_free(&args.overrides, &FREE_KEYS)?;
    let run = RunDirectory::existing(&args.run)?;
    let config = run.config_with(&args.overrides)?;
    let format = format_named(&args.to);
    let precision = args.precision.as_ref().and_then(|name| {
        Precision::ALL
            .into_iter()
            .find(|precision| precision.name() == name)
    });
    let export = Export {
        format: format.ok_or_else(|| anyhow!("there is no format `{}`", args.to))?,
        checkpoint: args.checkpoint.clone(),
        precision,
        verify: args.verify,
        out: args.out.clone(),
        package: args.package.clone().or_else(package),
    };
    let mut activity = Activity::new();
    activity.show(format!("writing `{}`", args.out.display()));
    let Exported {
        precision,
        bytes,
        verified,
    } = export.write(&run, config)?;
    drop(activity);
    let out = args.out.display();
    let megabytes = bytes as f64 / 1e6;
    tracing::info!(
        "wrote `{out}` for {}, {}: {megabytes:.1} MB",
        args.to,
        precision.name()
    );
    if verified > 0 {
        tracing::info!("read again, it translates {verified} lines as the run does");
    }
    if args.to != "argos" {
        tracing::info!("`{out}/README.md` says how to use it");
    }
    Ok(())
}

/// Returns the parser of a format's name, for `export --to` and `new --for`.
pub(super) fn format_names() -> PossibleValuesParser {
    let names: Vec<&str> = formats().into_iter().map(Named::name).collect();
    PossibleValuesParser::new(names)
}

/// The package polyglow-web, where a release has it: beside the program, or in `share` beside its
/// directory.
fn package() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let dir = program.parent()?;
    [dir.join("polyglow-web"), dir.join("../share/polyglow/web")]
        .into_iter()
        .find(|dir| dir.is_dir())
}
