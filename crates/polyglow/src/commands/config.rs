//! The arguments of every command that starts from a config.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use polyglow_train::config::Config;

/// Which config to use, and what to change in it.
#[derive(Args, Clone)]
pub(super) struct ConfigArgs {
    /// The config, a TOML file
    pub(super) config: PathBuf,
    /// Override a key of the config, as in `train.lr=3e-4`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Device to run on, as `polyglow devices` lists it [default: the config's]
    #[arg(long, value_name = "NAME")]
    pub(super) device: Option<String>,
}

impl ConfigArgs {
    /// The config with all overrides.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub(super) fn load(&self) -> anyhow::Result<Config> {
        self.load_with(&[])
    }

    /// The config of the model that translates in the other direction.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub(super) fn load_reversed(&self) -> anyhow::Result<Config> {
        let is_reversed = self.load()?.data.reverse;
        self.load_with(&[format!("data.reverse={}", !is_reversed)])
    }

    /// The config with all overrides, and these.
    fn load_with(&self, more: &[String]) -> anyhow::Result<Config> {
        let overrides = [&self.overrides, more].concat();
        let mut config = Config::load(&self.config, &overrides)?;
        if let Some(device) = &self.device {
            config.device.clone_from(device);
        }
        Ok(config)
    }
}

impl fmt::Display for ConfigArgs {
    /// Writes the config and what is changed in it, as they stand in a command.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.config.display().to_string();
        write!(formatter, "{}", quoted(&config))?;
        for change in &self.overrides {
            write!(formatter, " --set {}", quoted(change))?;
        }
        Ok(())
    }
}

/// Returns a text as shells read it as one argument.
fn quoted(text: &str) -> String {
    let is_plain = |next: char| next.is_alphanumeric() || "_-./=,:+".contains(next);
    if text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Returns the default directory of the run of a config: `runs/<name of the config>`.
pub(super) fn default_run(config: &Path) -> PathBuf {
    Path::new("runs").join(config.file_stem().unwrap_or_default())
}

/// Returns the default directory of the run whose model translates in the other direction:
/// `runs/<name of the config>-reverse`.
pub(super) fn default_reverse_run(config: &Path) -> PathBuf {
    let mut run = default_run(config).into_os_string();
    run.push("-reverse");
    run.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_where_a_shell_would_change_them() {
        assert_eq!(quoted("train.max_steps=7"), "train.max_steps=7");
        assert_eq!(quoted("my text.toml"), "'my text.toml'");
        assert_eq!(quoted("a=['b']"), "'a=['\\''b'\\'']'");
    }
}
