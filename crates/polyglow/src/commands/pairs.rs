//! The arguments of every command that reads parallel text, before anything is trained.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use polyglow_data::compression::plain_name;
use polyglow_data::config::{Content, Split};
use polyglow_data::corpus::Corpus;
use polyglow_train::config::Config;

use crate::failure::usage;

/// Which parallel text to read: the training text of a config, or two files.
#[derive(Args)]
pub(super) struct PairsArgs {
    /// The config whose training text is read, a TOML file
    #[arg(required_unless_present = "src")]
    config: Option<PathBuf>,
    /// Override a key of the config, as in `data.max_examples=1000`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "config")]
    overrides: Vec<String>,
    /// The source side, one sentence per line, in place of a config
    #[arg(long, value_name = "FILE", requires = "tgt", conflicts_with = "config")]
    src: Option<PathBuf>,
    /// The target side
    #[arg(long, value_name = "FILE", requires = "src")]
    tgt: Option<PathBuf>,
}

/// Parallel text, and what is known of it.
pub(super) struct Pairs {
    /// The config that names it, if there is one.
    pub(super) config: Option<Config>,
    /// The pairs.
    pub(super) corpus: Corpus,
    /// The languages of both sides, as files are named by them.
    pub(super) languages: [String; 2],
}

impl PairsArgs {
    /// Opens the text for a command.
    ///
    /// # Errors
    /// The config is wrong, or its model reads no pairs (exit code 2); a file is missing.
    pub(super) fn open(&self, command: &str) -> anyhow::Result<Pairs> {
        self.open_with(command, |_| ())
    }

    /// As [`Self::open`], with the text as it is, whatever `data.clean` says.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn open_uncleaned(&self, command: &str) -> anyhow::Result<Pairs> {
        self.open_with(command, |config| config.data.clean = false)
    }

    fn open_with(&self, command: &str, change: impl FnOnce(&mut Config)) -> anyhow::Result<Pairs> {
        if let (Some(src), Some(tgt)) = (&self.src, &self.tgt) {
            return Ok(Pairs {
                config: None,
                corpus: Corpus::from_files(src, tgt)?,
                languages: languages(src, tgt),
            });
        }
        let Some(path) = &self.config else {
            return Err(usage(anyhow!("give a config, or `--src` and `--tgt`")));
        };
        let mut config = Config::load(path, &self.overrides)?;
        change(&mut config);
        if !config.content().is_parallel() {
            let error = anyhow!(
                "`{command}` reads pairs of sentences, and this config's model reads others"
            );
            return Err(usage(error));
        }
        let corpus = Corpus::open(&config.data, Content::PAIRS, Split::Train)?;
        let (src, tgt) = config.data.languages()?;
        Ok(Pairs {
            languages: [src.to_owned(), tgt.to_owned()],
            config: Some(config),
            corpus,
        })
    }
}

/// Returns the endings of two files, which are usually their languages; `src` and `tgt` if they are
/// not two.
fn languages(src: &Path, tgt: &Path) -> [String; 2] {
    let endings = [src, tgt].map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        plain_name(&name)
            .rsplit_once('.')
            .map(|(_, ending)| ending.to_owned())
    });
    match endings {
        [Some(src), Some(tgt)] if src != tgt => [src, tgt],
        _ => ["src", "tgt"].map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_their_languages() {
        for (src, tgt, expected) in [
            ("a/train.en", "a/train.de.gz", ["en", "de"]),
            ("a/train.en.zst", "a/train.de", ["en", "de"]),
            ("english.txt", "german.txt", ["src", "tgt"]),
            ("english", "a.de", ["src", "tgt"]),
        ] {
            assert_eq!(languages(Path::new(src), Path::new(tgt)), expected);
        }
    }
}
