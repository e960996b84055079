//! Copies of the validation and test sets, kept with the run, so that it can be scored on a machine
//! that does not have the files that its config names.
//!
//! `held-out/` has a file for each side of a set, a line for each example, and `SHA256SUMS`, which
//! `sha256sum --check` reads, too. Files that a run kept only when it was resumed are listed in
//! `since.json`, with the step after which it was resumed. Images and generated corpora are not
//! kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use polyglow_data::config::{Content, DataConfig, Split};
use polyglow_data::corpus::{Corpus, Part};
use polyglow_data::error::DataError;
use polyglow_data::file;
use polyglow_data::pair::Pair;
use polyglow_predict::error::{Context, Result, TrainError, failed, with_hint};

use super::{RunDirectory, sha256};
use crate::config::Config;

const SUMS: &str = "SHA256SUMS";
/// Lists the files that were not kept when training began, with the step after which each was.
const SINCE: &str = "since.json";
/// The sides of a set, as the endings of its files.
const SRC: &str = "src";
const TGT: &str = "tgt";

/// The text of one set, as it is kept.
struct Kept {
    /// The names and the contents of its files: the source side, if there is one, and the target
    /// side.
    files: Vec<(String, String)>,
}

impl RunDirectory {
    /// Opens a set of the run: the files that `config` names, or where they are missing the text
    /// that the run has kept.
    ///
    /// `config` is the run's own, perhaps with overrides. A set that an override names is never
    /// replaced. A message says if the kept text is used, and if the files have changed since it was
    /// kept.
    ///
    /// # Errors
    /// The files are missing and the run has no copy of them, or a damaged one; a file cannot be
    /// read.
    pub fn open_set(&self, config: &Config, split: Split<'_>) -> Result<Corpus> {
        let content = config.content();
        let opened = Corpus::open(&config.data, content, split);
        if split == Split::Train || !has_same_sets(&self.config()?.data, &config.data) {
            return Ok(opened?);
        }
        match opened {
            Ok(corpus) => {
                self.warn_of_change(&corpus, content, split)?;
                Ok(corpus)
            }
            Err(error @ DataError::MissingFile { .. }) => self.open_kept(error, content, split),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the text of every validation and test set that the run does not have yet, each file
    /// as a whole or not at all.
    ///
    /// A set that was kept before and has other content now is not kept again; a warning names it.
    ///
    /// # Errors
    /// A set cannot be read; the disk refuses.
    pub(super) fn keep_held_out(&self, config: &Config) -> Result<()> {
        let data = &config.data;
        let content = config.content();
        // Data that is given in memory is not named by the config, so nothing could be scored with
        // a copy of it.
        if content.has_images() || data.corpus.is_some() || !data.has_source() {
            return Ok(());
        }
        let mut sums = self.sums()?;
        for split in splits(data) {
            if self.has_kept(&file_names(content, split), &sums) {
                continue;
            }
            let corpus = match Corpus::open(data, content, split) {
                Err(DataError::MissingFile { .. }) => continue,
                opened => opened?,
            };
            let kept = Kept::read(&corpus, content, split)?;
            if kept.differs_from(&sums) {
                let when = self.when_kept(content, split)?;
                tracing::warn!(
                    "{} is not the text of {when}: the run keeps no copy of it",
                    named(split)
                );
                continue;
            }
            self.note_step(&kept, &sums)?;
            self.write_kept(&kept, &mut sums)?;
        }
        Ok(())
    }

    /// Returns whether all of these files are kept.
    fn has_kept(&self, files: &[String], sums: &BTreeMap<String, String>) -> bool {
        files
            .iter()
            .all(|file| sums.contains_key(file) && self.held_out_path(file).is_file())
    }

    /// Records the files of a set that are kept only now, after the first step. Those that `sums` has
    /// were kept before.
    fn note_step(&self, kept: &Kept, sums: &BTreeMap<String, String>) -> Result<()> {
        let step = self
            .checkpoints(1)
            .newest_state()?
            .map_or(0, |state| state.step);
        let mut since = self.since()?;
        let before = since.clone();
        for (file, _) in &kept.files {
            if sums.contains_key(file) {
                continue;
            }
            if step > 0 {
                since.insert(file.clone(), step);
            } else {
                // A run that begins again may have a file of an earlier beginning.
                since.remove(file);
            }
        }
        if since == before {
            return Ok(());
        }
        self.make_held_out()?;
        self.write_held_out(SINCE, &(serde_json::to_string_pretty(&since)? + "\n"))
    }

    /// Reads the step after which each file was kept; those that were kept when training began are
    /// not listed.
    fn since(&self) -> Result<BTreeMap<String, u64>> {
        let path = self.held_out_path(SINCE);
        if !path.is_file() {
            return Ok(BTreeMap::new());
        }
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("in `{}`", path.display()))
    }

    /// Says when the run kept a set: `when training began`.
    fn when_kept(&self, content: Content, split: Split<'_>) -> Result<String> {
        let since = self.since()?;
        let step = file_names(content, split)
            .iter()
            .filter_map(|file| since.get(file))
            .max()
            .copied();
        Ok(match step {
            None => "when training began".to_owned(),
            Some(step) => format!("when training resumed after step {step}"),
        })
    }

    fn make_held_out(&self) -> Result<()> {
        let directory = self.held_out_path("");
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make `{}`", directory.display()))
    }

    fn held_out_path(&self, file: &str) -> PathBuf {
        self.root().join("held-out").join(file)
    }

    /// Reads the hash of every file that was kept, by its name.
    fn sums(&self) -> Result<BTreeMap<String, String>> {
        let path = self.held_out_path(SUMS);
        if !path.is_file() {
            return Ok(BTreeMap::new());
        }
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        let lines = text.lines().filter_map(|line| line.split_once("  "));
        Ok(lines
            .map(|(hash, file)| (file.to_owned(), hash.to_owned()))
            .collect())
    }

    /// Writes the files of a set, and then the hashes of all that are kept.
    fn write_kept(&self, kept: &Kept, sums: &mut BTreeMap<String, String>) -> Result<()> {
        self.make_held_out()?;
        for (file, text) in &kept.files {
            self.write_held_out(file, text)?;
            sums.insert(file.clone(), sha256(text.as_bytes()));
        }
        let lines: Vec<String> = sums
            .iter()
            .map(|(file, hash)| format!("{hash}  {file}"))
            .collect();
        self.write_held_out(SUMS, &(lines.join("\n") + "\n"))
    }

    fn write_held_out(&self, file: &str, text: &str) -> Result<()> {
        let path = self.held_out_path(file);
        file::replace(&path, text.as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Opens the kept text of a set whose files are missing, as `error` says.
    fn open_kept(&self, error: DataError, content: Content, split: Split<'_>) -> Result<Corpus> {
        let missing = TrainError::from(error);
        if content.has_images() {
            let advice = "images are not kept with the run; copy them, too, or name them with `--set data.test=PATH`";
            return Err(with_hint(missing, advice));
        }
        let sums = self.sums()?;
        let when = self.when_kept(content, split)?;
        let files = file_names(content, split);
        let mut texts = Vec::with_capacity(files.len());
        for file in &files {
            let Some(text) = self.read_kept(file, sums.get(file), &when)? else {
                break;
            };
            texts.push(text);
        }
        // Both sides or none: one alone could not be scored.
        if texts.len() < files.len() {
            let advice = "the run has no copy of it in `held-out`; start this command where the paths of its config lead \
                          to the text, or name it with `--set data.test=PATH`";
            return Err(with_hint(missing, advice));
        }
        let directory = self.held_out_path("").display().to_string();
        let set = named(split);
        tracing::info!(
            "{missing}: {set} is the text that the run keeps in `{directory}`, that of {when}"
        );
        let corpus = Corpus::from_pairs(directory, pairs(&texts));
        Ok(if content.has_source() {
            corpus
        } else {
            corpus.target_side()
        })
    }

    /// Reads a file that the run keeps since `when`; returns `None` if it keeps none of that name.
    fn read_kept(&self, file: &str, sum: Option<&String>, when: &str) -> Result<Option<String>> {
        let path = self.held_out_path(file);
        let Some(sum) = sum.filter(|_| path.is_file()) else {
            return Ok(None);
        };
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        if sha256(text.as_bytes()) != *sum {
            let error = failed!(
                "`{}` is not the text of {when}: its SHA-256 is another",
                path.display()
            );
            return Err(with_hint(
                error,
                "restore it, or start this command where the paths of the run's config lead to the text",
            ));
        }
        Ok(Some(text))
    }

    /// Warns if the files of a set differ from the text that the run keeps.
    fn warn_of_change(&self, corpus: &Corpus, content: Content, split: Split<'_>) -> Result<()> {
        if content.has_images() {
            return Ok(());
        }
        let sums = self.sums()?;
        let files = file_names(content, split);
        let has_copy = files.iter().any(|file| sums.contains_key(file));
        // Only where there is a copy: the whole set is read to be compared.
        if !has_copy || !Kept::read(corpus, content, split)?.differs_from(&sums) {
            return Ok(());
        }
        let names: Vec<String> = corpus.parts().iter().map(Part::name).collect();
        let when = self.when_kept(content, split)?;
        tracing::warn!(
            "{} is `{}`, which is not the text of {when}; that is in `{}`",
            named(split),
            names.join("`, `"),
            self.held_out_path("").display()
        );
        Ok(())
    }
}

impl Kept {
    /// Reads the text of a set.
    fn read(corpus: &Corpus, content: Content, split: Split<'_>) -> Result<Self> {
        let mut src = String::new();
        let mut tgt = String::new();
        for pair in corpus.pairs() {
            let pair = pair?;
            src.extend([&pair.src, "\n"]);
            tgt.extend([&pair.tgt, "\n"]);
        }
        let texts = if content.has_source() {
            vec![src, tgt]
        } else {
            vec![tgt]
        };
        Ok(Self {
            files: file_names(content, split).into_iter().zip(texts).collect(),
        })
    }

    /// Returns whether the run has kept a different text under the same names.
    fn differs_from(&self, sums: &BTreeMap<String, String>) -> bool {
        self.files.iter().any(|(file, text)| {
            let sum = sums.get(file);
            sum.is_some_and(|sum| *sum != sha256(text.as_bytes()))
        })
    }
}

/// Returns whether a file of that name may be in `held-out/`.
pub(super) fn is_held_out_file(name: &str) -> bool {
    let is_of_a_set = name.starts_with("valid.") || name.starts_with("test.");
    let is_side = Path::new(name)
        .extension()
        .is_some_and(|side| side == SRC || side == TGT);
    name == SUMS || name == SINCE || is_of_a_set && is_side
}

/// Returns the validation set, if there is one, and the test sets.
fn splits(data: &DataConfig) -> Vec<Split<'_>> {
    let mut splits = Vec::new();
    if data.has_valid() {
        splits.push(Split::Valid);
    }
    splits.extend(data.test_names().into_iter().map(Split::Test));
    splits
}

/// Returns whether two configs name the same validation and test sets.
fn has_same_sets(left: &DataConfig, right: &DataConfig) -> bool {
    left.valid == right.valid
        && left.test == right.test
        && left.src == right.src
        && left.tgt == right.tgt
        && left.reverse == right.reverse
}

/// Returns the names of the files of a set: of its source side, if it has one, and of its target
/// side.
fn file_names(content: Content, split: Split<'_>) -> Vec<String> {
    let name = match split {
        Split::Train => "train".to_owned(),
        Split::Valid => "valid".to_owned(),
        Split::Test("test") => "test".to_owned(),
        Split::Test(name) => format!("test.{}", escaped(name)),
    };
    let sides: &[&str] = if content.has_source() {
        &[SRC, TGT]
    } else {
        &[TGT]
    };
    sides.iter().map(|side| format!("{name}.{side}")).collect()
}

/// Bytes of the longest name of a test set that is not shortened in the name of a file: file systems
/// allow 255 in all.
const LONGEST_NAME: usize = 120;

/// Escapes the name of a test set, which may have any character, for the name of a file: `%2F` stands
/// for a slash. A long name is replaced by its beginning and a part of its SHA-256, so that different
/// names stay different.
fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => escaped.push(char::from(byte)),
            _ => escaped.extend(["%", &format!("{byte:02X}")]),
        }
    }
    if escaped.len() > LONGEST_NAME {
        escaped.truncate(LONGEST_NAME);
        escaped.extend(["-", &sha256(name.as_bytes())[..16]]);
    }
    escaped
}

fn named(split: Split<'_>) -> String {
    match split {
        Split::Train => "the training set".to_owned(),
        Split::Valid => "the validation set".to_owned(),
        Split::Test(name) => format!("the set `{name}`"),
    }
}

/// Returns the examples of a set, from the text of its target side or of both sides.
fn pairs(texts: &[String]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    match texts {
        [src, tgt] => {
            for (src, tgt) in lines(src).zip(lines(tgt)) {
                pairs.push(Pair { src, tgt });
            }
        }
        texts => {
            for tgt in texts.iter().flat_map(|text| lines(text)) {
                let src = String::new();
                pairs.push(Pair { src, tgt });
            }
        }
    }
    pairs
}

fn lines(text: &str) -> impl Iterator<Item = String> {
    text.split_terminator('\n').map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use burn::tensor::TensorData;

    use super::*;
    use crate::run::{Content as Checkpoint, TrainState};

    #[test]
    fn names_of_sets_are_names_of_files_and_stay_different() {
        let names = ["test", "valid", "../a", "%2E", "."]
            .map(|name| file_names(Content::TEXT, Split::Test(name)).remove(0));
        assert_eq!(
            names,
            [
                "test.tgt",
                "test.valid.tgt",
                "test.%2E%2E%2Fa.tgt",
                "test.%252E.tgt",
                "test.%2E.tgt"
            ]
        );
        assert_eq!(
            file_names(Content::PAIRS, Split::Valid),
            ["valid.src", "valid.tgt"]
        );
    }

    #[test]
    fn what_is_kept_is_read_again_to_the_character() {
        let pair = |src: &str, tgt: &str| Pair {
            src: src.to_owned(),
            tgt: tgt.to_owned(),
        };
        let all = [
            pair("a\tb ", "c\r"),
            pair("", "\u{feff}d\u{2028}"),
            pair("e", ""),
        ];
        let corpus = Corpus::from_pairs("made up", all.clone());
        let kept = Kept::read(&corpus, Content::PAIRS, Split::Valid).unwrap();
        let texts: Vec<String> = kept.files.into_iter().map(|(_, text)| text).collect();
        assert_eq!(pairs(&texts), all);
    }

    #[test]
    fn a_set_is_kept_once_and_takes_the_place_of_missing_files() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (name, text) in [
            ("train.en", "a\n"),
            ("train.de", "A\n"),
            ("test.en", "b\n"),
            ("test.de", "B\n"),
        ] {
            fs::write(at(name), text).unwrap();
        }
        let toml = format!(
            "train.max_steps = 1\ndata = {{ train = '{0}/train', test = '{0}/test', src = 'en', tgt = 'de' }}",
            dir.path().display()
        );
        let config = Config::from_text(&toml, &[]).unwrap();
        let run = RunDirectory::new(at("run"));
        run.create(&config).unwrap();
        let open = || run.open_set(&config, Split::Test("test"));
        let read = || {
            open()
                .unwrap()
                .pairs()
                .collect::<Result<Vec<_>, _>>()
                .unwrap()
        };
        let kept = vec![Pair {
            src: "b".to_owned(),
            tgt: "B".to_owned(),
        }];
        assert_eq!(read(), kept);

        // The files of the config win while they are there, and what was kept stays.
        fs::write(at("test.en"), "other\n").unwrap();
        run.create(&config).unwrap();
        assert_eq!(read()[0].src, "other");
        fs::remove_file(at("test.en")).unwrap();
        assert_eq!(read(), kept);
        // An override that leads nowhere is an error.
        let overridden = Config::from_text(&toml, &["data.test=nowhere".to_owned()]).unwrap();
        assert!(run.open_set(&overridden, Split::Test("test")).is_err());

        fs::write(at("run/held-out/test.src"), "edited\n").unwrap();
        assert!(open().unwrap_err().to_string().contains("test.src"));
        // A copy that is gone is not made again of other text, but is of the same.
        fs::remove_file(at("run/held-out/test.src")).unwrap();
        fs::write(at("test.en"), "other\n").unwrap();
        run.create(&config).unwrap();
        assert!(!at("run/held-out/test.src").exists());
        fs::write(at("test.en"), "b\n").unwrap();
        run.create(&config).unwrap();
        assert_eq!(
            fs::read_to_string(at("run/held-out/test.src")).unwrap(),
            "b\n"
        );
        assert!(
            !at("run/held-out/since.json").exists(),
            "it is the text of the beginning"
        );

        // What an older version did not keep is kept when the run is resumed, and said to be of
        // then.
        fs::remove_dir_all(at("run/held-out")).unwrap();
        let model = vec![("w".to_owned(), TensorData::new(vec![1.0_f32], [1]))];
        let content = Checkpoint {
            model,
            optimizer: Vec::new(),
            ema: Vec::new(),
        };
        let state = TrainState {
            step: 70,
            ..TrainState::default()
        };
        run.checkpoints(1).save(&content, &state).unwrap();
        run.create(&config).unwrap();
        assert_eq!(
            fs::read_to_string(at("run/held-out/since.json")).unwrap(),
            "{\n  \"test.src\": 70,\n  \"test.tgt\": 70\n}\n"
        );
        assert_eq!(read(), kept);
        fs::write(at("run/held-out/test.src"), "edited\n").unwrap();
        fs::remove_file(at("test.en")).unwrap();
        let error = open().unwrap_err().to_string();
        assert!(
            error.contains("is not the text of when training resumed after step 70"),
            "{error}"
        );
    }
}
