//! `polyglow check`: everything that can go wrong before training does.

use std::path::PathBuf;

use crate::config::Config;
use crate::device;

/// What `polyglow check` is asked to do.
#[derive(Clone, Debug)]
pub struct CheckArgs {
    /// The config file.
    pub config: PathBuf,
    /// Keys to override, as `section.key=value`.
    pub overrides: Vec<String>,
    /// Device to run on, in place of the config's.
    pub device: Option<String>,
    /// Whether to print the report as JSON.
    pub json: bool,
}

/// Reads the config and opens the device.
///
/// # Errors
/// The config is wrong or the device is not there.
pub fn run(args: &CheckArgs) -> anyhow::Result<()> {
    let config = Config::load(&args.config, &args.overrides)?;
    device::open(args.device.as_deref().unwrap_or(&config.device))?;
    anyhow::bail!("`polyglow check` is not written yet")
}
