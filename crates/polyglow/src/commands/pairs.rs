//! The arguments of every command that reads parallel text, before anything is trained.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use polyglow_data::compression::plain_name;
use polyglow_data::config::{CleanConfig, Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::{Corpus, has_both_sides};
use polyglow_data::file;
use polyglow_train::config::Config;

use crate::failure::{usage, with_hint};

/// Which parallel text to read: the training text of a config, two files, or one with both sides.
#[derive(Args)]
pub(super) struct PairsArgs {
    /// The config whose training text is read, a TOML file
    #[arg(required_unless_present_any = ["src", "pairs"])]
    config: Option<PathBuf>,
    /// Override a key of the config, as in `data.train=other/train`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "config")]
    overrides: Vec<String>,
    /// The source side, one sentence per line, in place of a config
    #[arg(long, value_name = "FILE", requires = "tgt", conflicts_with = "config")]
    src: Option<PathBuf>,
    /// The target side
    #[arg(long, value_name = "FILE", requires = "src")]
    tgt: Option<PathBuf>,
    /// One file with both sides, in place of a config: TSV, a translation memory (TMX), or a zip
    /// archive as OPUS has them
    #[arg(long, value_name = "FILE", requires = "from", requires = "to")]
    #[arg(conflicts_with_all = ["config", "src"])]
    pairs: Option<PathBuf>,
    /// Language of the source side of `--pairs`, as the file names it: `en`
    #[arg(long, value_name = "LANGUAGE", requires = "pairs", value_parser = language)]
    from: Option<String>,
    /// Language of its target side
    #[arg(long, value_name = "LANGUAGE", requires = "pairs", value_parser = language)]
    to: Option<String>,
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
    /// The file of the config, if one is given.
    pub(super) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Opens the text for a command.
    ///
    /// # Errors
    /// The config is wrong, or its model reads no pairs (exit code 2); a file is missing.
    pub(super) fn open(&self, command: &str) -> anyhow::Result<Pairs> {
        self.open_with(command, |_| ())
    }

    /// As [`Self::open`], with the text as it is, for cleaning, and with how `data.clean` would have it
    /// cleaned.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn open_uncleaned(&self, command: &str) -> anyhow::Result<(Pairs, CleanConfig)> {
        let mut settings = CleanConfig::default();
        let pairs = self.open_with(command, |config| {
            settings = config.data.clean.take().unwrap_or_default();
        })?;
        let pairs = Pairs {
            corpus: pairs.corpus.for_cleaning(),
            ..pairs
        };
        Ok((pairs, settings))
    }

    fn open_with(&self, command: &str, change: impl FnOnce(&mut Config)) -> anyhow::Result<Pairs> {
        if self.config.is_none() && !self.overrides.is_empty() {
            return Err(usage(anyhow!(
                "`--set` overrides keys of a config, and there is none"
            )));
        }
        if let (Some(path), Some(from), Some(to)) = (&self.pairs, &self.from, &self.to) {
            return open_one(path, [from, to]);
        }
        if let (Some(src), Some(tgt)) = (&self.src, &self.tgt) {
            check_has_one_side(src)?;
            check_has_one_side(tgt)?;
            if file::is_same(src, tgt) {
                return Err(usage(anyhow!("`--src` and `--tgt` are the same file")));
            }
            return Ok(Pairs {
                config: None,
                corpus: Corpus::from_files(src, tgt)?,
                languages: languages(src, tgt),
            });
        }
        let Some(path) = &self.config else {
            return Err(usage(anyhow!(
                "give a config, `--src` and `--tgt`, or `--pairs`"
            )));
        };
        if has_both_sides(path) {
            return Err(is_no_config(path));
        }
        let mut config = Config::load(path, &self.overrides).map_err(|error| {
            let has_table = |text: String| text.lines().any(|line| line.starts_with('['));
            let has_ending = path.extension().is_some_and(|ending| ending == "toml");
            if has_ending || std::fs::read_to_string(path).is_ok_and(has_table) {
                return error.into();
            }
            let hint = "a config is a TOML file; text is given with `--src FILE --tgt FILE`";
            with_hint(error, hint)
        })?;
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

/// Reads the name of a language, which names files as well.
///
/// # Errors
/// It has other characters than letters, digits, `-` and `_`.
fn language(name: &str) -> Result<String, String> {
    let is_allowed = |character: char| character.is_alphanumeric() || "-_".contains(character);
    if !name.is_empty() && name.chars().all(is_allowed) {
        return Ok(name.to_owned());
    }
    Err("a language has letters, digits, `-` and `_`, as `en` or `pt_BR`".to_owned())
}

/// Opens a file with both sides.
///
/// # Errors
/// Its name has not the ending of such a file, or the file has not these languages (exit code 2); it is
/// missing.
fn open_one(path: &Path, [from, to]: [&String; 2]) -> anyhow::Result<Pairs> {
    if from == to {
        return Err(usage(anyhow!("`--from` and `--to` are both `{from}`")));
    }
    if !has_both_sides(path) {
        let error = anyhow!(
            "`--pairs {}`: the ending of a file with both sides is `.tsv`, `.tmx` or `.zip`",
            path.display()
        );
        return Err(with_hint(
            usage(error),
            "give two files with `--src` and `--tgt`",
        ));
    }
    let data = DataConfig {
        train: Some(TrainFiles::One(path.to_owned())),
        src: Some(from.clone()),
        tgt: Some(to.clone()),
        ..DataConfig::default()
    };
    Ok(Pairs {
        config: None,
        corpus: Corpus::open(&data, Content::PAIRS, Split::Train)?,
        languages: [from.clone(), to.clone()],
    })
}

/// Makes sure that a file is not one with both sides, whose lines would be taken for sentences.
///
/// # Errors
/// It is (exit code 2).
fn check_has_one_side(path: &Path) -> anyhow::Result<()> {
    if !has_both_sides(path) {
        return Ok(());
    }
    let error = anyhow!("`{}` has both sides of a text", path.display());
    let hint = "give it with `--pairs FILE --from en --to de`, in place of `--src` and `--tgt`";
    Err(with_hint(usage(error), hint))
}

/// The error that a file with both sides of a text stands in place of a config.
fn is_no_config(path: &Path) -> anyhow::Error {
    let error = anyhow!("`{}` is a text, and no config", path.display());
    let hint = "give it with `--pairs FILE --from en --to de`";
    with_hint(usage(error), hint)
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
