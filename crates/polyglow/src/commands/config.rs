//! The arguments of every command that starts from a config.

use std::path::{Path, PathBuf};

use clap::Args;
use polyglow_train::config::Config;

/// Which config to use, and what to change in it.
#[derive(Args)]
pub(super) struct ConfigArgs {
    /// The config, a TOML file
    pub(super) config: PathBuf,
    /// Override a key of the config, as in `train.lr=3e-4`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Device to run on, as `polyglow devices` lists it [default: the config's]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

impl ConfigArgs {
    /// The config with all overrides.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub(super) fn load(&self) -> anyhow::Result<Config> {
        let mut config = Config::load(&self.config, &self.overrides)?;
        if let Some(device) = &self.device {
            config.device.clone_from(device);
        }
        Ok(config)
    }
}

/// Where the run of a config is by default: `runs/<name of the config>`.
pub(super) fn default_run(config: &Path) -> PathBuf {
    Path::new("runs").join(config.file_stem().unwrap_or_default())
}
