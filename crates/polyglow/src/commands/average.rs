//! `polyglow average`: the mean of the newest checkpoints.

use std::path::PathBuf;

/// What `polyglow average` is asked to do.
#[derive(Clone, Debug)]
pub struct AverageArgs {
    /// Directory of the run.
    pub run: PathBuf,
    /// Number of checkpoints, the newest first; all that were kept when absent.
    pub last: Option<usize>,
}

/// Not written yet.
///
/// # Errors
/// Always.
pub fn run(_args: &AverageArgs) -> anyhow::Result<()> {
    anyhow::bail!("`polyglow average` is not written yet")
}
