//! `polyglow info`: what a run directory holds.

use std::path::PathBuf;

/// What `polyglow info` is asked to do.
#[derive(Clone, Debug)]
pub struct InfoArgs {
    /// Directory of the run.
    pub run: PathBuf,
    /// Whether to print as JSON.
    pub json: bool,
}

/// Not written yet.
///
/// # Errors
/// Always.
pub fn run(_args: &InfoArgs) -> anyhow::Result<()> {
    anyhow::bail!("`polyglow info` is not written yet")
}
