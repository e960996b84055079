//! The data that the `[data]` table names: embedded corpora, languages, and the files of each
//! split.

use std::path::{Path, PathBuf};

use super::{DataConfig, Direction, Split, TestFiles, TrainFiles, WeightedPath, wrong};
use crate::corpus::is_tsv;
use crate::error::DataError;
use crate::pair_tags::PairTags;
use crate::toy::{Embedded, Toy};

impl DataConfig {
    /// The embedded parallel corpus, if the configuration names one that exists.
    pub fn toy(&self) -> Option<Toy> {
        self.corpus.as_deref().and_then(Toy::from_name)
    }

    /// The embedded corpus of any kind, if the configuration names one that exists.
    pub(crate) fn embedded_corpus(&self) -> Option<Embedded> {
        self.corpus.as_deref().and_then(Embedded::from_name)
    }

    /// Returns the language that a model reads, and that which it writes.
    ///
    /// # Errors
    /// [`DataError::Config`] if the data are files and a language is missing.
    pub fn languages(&self) -> Result<(&str, &str), DataError> {
        Ok(self.in_order(self.written_languages()?).into())
    }

    /// Returns the languages `src` and `tgt`, by which files are named.
    ///
    /// # Errors
    /// As [`Self::languages`].
    pub(crate) fn written_languages(&self) -> Result<[&str; 2], DataError> {
        let (src, tgt) = self.toy().map(Toy::languages).unzip();
        let Some(src) = self.src.as_deref().or(src) else {
            return Err(missing_language("data.src"));
        };
        let Some(tgt) = self.tgt.as_deref().or(tgt) else {
            return Err(missing_language("data.tgt"));
        };
        Ok([src, tgt])
    }

    /// Names of the test sets, in the order in which they are evaluated.
    pub fn test_names(&self) -> Vec<&str> {
        if let Some(embedded) = self.embedded_corpus() {
            let splits = embedded.splits().iter().copied();
            return splits.filter(|name| name.starts_with("test")).collect();
        }
        match &self.test {
            None => Vec::new(),
            Some(TestFiles::One(_)) => vec!["test"],
            Some(TestFiles::Named(sets)) => sets.keys().map(String::as_str).collect(),
        }
    }

    /// The configuration key of the files of `split`.
    pub(crate) fn key(&self, split: Split) -> String {
        match (split, &self.test) {
            (Split::Train, _) => "data.train".to_owned(),
            (Split::Valid, _) => "data.valid".to_owned(),
            (Split::Test(name), Some(TestFiles::Named(_))) => format!("data.test.{name}"),
            (Split::Test(_), _) => "data.test".to_owned(),
        }
    }

    /// The pairs of languages that the model is trained for, each once: that of validation text
    /// first, then those of the corpora of `data.train`. None if the languages are not named.
    pub fn directions(&self) -> Vec<Direction> {
        let Ok(languages) = self.written_languages() else {
            return Vec::new();
        };
        let direction = |languages: [&str; 2], tags| {
            let [src, tgt] = self.in_order(languages).map(str::to_owned);
            Direction { src, tgt, tags }
        };
        let mut directions = vec![direction(languages, self.tags())];
        let Some(TrainFiles::Weighted(list)) = &self.train else {
            return directions;
        };
        for entry in list {
            // A tag of the kind of text is none of the languages.
            let without_kind = WeightedPath {
                tag: None,
                ..entry.clone()
            };
            let direction = direction(entry.languages(languages), self.tags_of(&without_kind));
            if !directions.contains(&direction) {
                directions.push(direction);
            }
        }
        directions
    }

    /// Whether its text is of several pairs of languages, whatever their tags.
    pub fn has_several_languages(&self) -> bool {
        let directions = self.directions();
        let mut languages = directions
            .iter()
            .map(|Direction { src, tgt, .. }| (src, tgt));
        languages
            .next()
            .is_some_and(|first| languages.any(|other| other != first))
    }

    /// The tags of a corpus of `data.train`: its own ones, and [`Self::tags`] where it has none.
    pub(crate) fn tags_of(&self, entry: &WeightedPath) -> PairTags {
        let [src_tag, tgt_tag] = self.in_order([
            entry.src_tag.as_ref().or(self.src_tag.as_ref()),
            entry.tgt_tag.as_ref().or(self.tgt_tag.as_ref()),
        ]);
        PairTags {
            src: src_tag.into_iter().chain(&entry.tag).cloned().collect(),
            tgt: tgt_tag.cloned(),
        }
    }

    /// Whether the sides of a set are told by languages, in the names of files or in a file, and not
    /// by columns.
    pub fn is_by_language(&self, split: Split) -> bool {
        let files = self.files(split).unwrap_or_default();
        !files.is_empty() && !files.iter().any(|entry| is_tsv(&entry.path))
    }

    /// The files of `split`.
    pub(crate) fn files(&self, split: Split) -> Result<Vec<WeightedPath>, DataError> {
        match split {
            Split::Train => match &self.train {
                Some(TrainFiles::One(path)) => Ok(single(path, self.alignments.clone())),
                Some(TrainFiles::Weighted(list)) => Ok(list.clone()),
                None => Err(wrong("data.train", "is missing".to_owned())),
            },
            Split::Valid => match &self.valid {
                Some(path) => Ok(single(path, None)),
                None => Err(wrong("data.valid", "is missing".to_owned())),
            },
            Split::Test(name) => match &self.test {
                Some(TestFiles::One(path)) if name == "test" => Ok(single(path, None)),
                Some(TestFiles::Named(sets)) if sets.contains_key(name) => {
                    Ok(single(&sets[name], None))
                }
                _ => Err(wrong("data.test", no_such_set(name, &self.test_names()))),
            },
        }
    }
}

impl WeightedPath {
    /// Its languages, which are those of the run where it names none.
    pub(crate) fn languages<'l>(&'l self, [src, tgt]: [&'l str; 2]) -> [&'l str; 2] {
        [
            self.src.as_deref().unwrap_or(src),
            self.tgt.as_deref().unwrap_or(tgt),
        ]
    }
}

/// The list of a single corpus, which is read once per epoch.
fn single(path: &Path, alignments: Option<PathBuf>) -> Vec<WeightedPath> {
    vec![WeightedPath {
        alignments,
        ..WeightedPath::new(path)
    }]
}

/// Makes the error that a language is missing, which is also the ending of files.
fn missing_language(key: &'static str) -> DataError {
    wrong(
        key,
        "is missing: the file extension of that side's files".to_owned(),
    )
}

/// Says that a corpus has no set `name`, but those of `known`.
pub(crate) fn no_such_set(name: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return format!("has no set `{name}`, nor any other");
    }
    format!("has no set `{name}`; there is {}", known.join(", "))
}
