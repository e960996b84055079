//! One command per file: its arguments, and a `run` that wires the libraries together and prints
//! the result.

pub(crate) mod align;
pub(crate) mod attention;
pub(crate) mod average;
pub(crate) mod backtranslate;
pub(crate) mod bench;
pub(crate) mod caption;
pub(crate) mod check;
pub(crate) mod classify;
pub(crate) mod clean;
mod config;
pub(crate) mod corpus;
pub(crate) mod devices;
pub(crate) mod embeddings;
pub(crate) mod evaluate;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod help;
pub(crate) mod import;
pub(crate) mod info;
pub(crate) mod metrics;
pub(crate) mod model;
pub(crate) mod new;
pub(crate) mod new_crate;
mod pairs;
pub(crate) mod quantize;
pub(crate) mod report;
pub(crate) mod score;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod train;
pub(crate) mod translate;
mod uses;

use std::path::Path;

use anyhow::anyhow;
use clap::builder::RangedU64ValueParser;

use crate::failure::with_hint;

/// Whole numbers from 1.
fn counts() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

/// Reads a share of the whole, for an option of the command line.
fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("a share is more than 0 and at most 1".to_owned()),
    }
}

/// Makes sure, before the work, that a file can have this path.
///
/// # Errors
/// It is a directory, or its directory is not there.
fn check_output(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        let error = anyhow!("cannot write `{}`: it is a directory", path.display());
        return Err(with_hint(error, "give the name of a file in it"));
    }
    let dir = path
        .parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if dir.is_dir() {
        return Ok(());
    }
    let is_file = dir.exists();
    let dir = dir.display();
    if is_file {
        return Err(anyhow!(
            "cannot write `{}`: `{dir}` is no directory",
            path.display()
        ));
    }
    let error = anyhow!(
        "cannot write `{}`: there is no directory `{dir}`",
        path.display()
    );
    Err(with_hint(error, format!("`mkdir -p {dir}` makes it")))
}
