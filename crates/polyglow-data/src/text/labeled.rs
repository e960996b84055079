//! Labeled text: files with `label<TAB>text` on each line, or an embedded corpus, as texts with numbered labels.

use std::fmt;
use std::path::Path;

use crate::config::{no_such_set, wrong};
use crate::error::DataError;
use crate::lines::Lines;
use crate::toy::labels::LabeledToy;

/// A text and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabeledText {
    /// Its label, never empty.
    pub label: String,
    /// The text, which may be empty.
    pub text: String,
}

/// The labels of a task, sorted; a label's place is its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSet {
    names: Vec<String>,
}

/// A text with the id of its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabeledExample {
    /// A place in [`LabeledCorpus::labels`].
    pub label: u32,
    /// The text.
    pub text: String,
}

/// The labeled texts of one split, in the order of their lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabeledCorpus {
    /// What a text can be.
    pub labels: LabelSet,
    /// The texts.
    pub examples: Vec<LabeledExample>,
}

/// The texts of a labeled file, in bounded memory.
///
/// A line has exactly one tab, between a label and a text. What [`Lines`] reads is read: gzip, byte-order mark, Windows
/// line ends.
pub struct LabeledLines(Lines);

impl LabelSet {
    /// Sorts `names` and drops those that are there already.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        Self { names }
    }

    /// All labels, in the order of their ids.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The id of a label; none if it is not one of these.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.names.binary_search_by(|known| known.as_str().cmp(name)).ok().map(|place| place as u32)
    }
}

impl LabeledCorpus {
    /// Reads a file. Its labels are those of the training text where they are given, and otherwise all that occur.
    ///
    /// # Errors
    /// [`DataError::Label`] names the first line that is not a label and a text, or whose label is not in `labels`;
    /// [`DataError::Empty`], [`DataError::Io`] and [`DataError::InvalidUtf8`] as their names say.
    pub fn read(path: &Path, labels: Option<&LabelSet>) -> Result<Self, DataError> {
        let texts: Vec<LabeledText> = LabeledLines::open(path)?.collect::<Result<_, _>>()?;
        if texts.is_empty() {
            return Err(DataError::Empty { path: path.to_owned() });
        }
        Self::new(texts, labels, path)
    }

    /// Generates a split of an embedded corpus.
    ///
    /// # Errors
    /// [`DataError::Config`] if the corpus has no such split.
    pub fn embedded(toy: LabeledToy, split: &str) -> Result<Self, DataError> {
        let found = toy.generate().into_iter().find(|(name, _)| *name == split);
        let (_, texts) = found.ok_or_else(|| wrong("data.corpus", no_such_set(split, toy.splits())))?;
        Self::new(texts, Some(&toy.labels()), Path::new(toy.name()))
    }

    fn new(texts: Vec<LabeledText>, labels: Option<&LabelSet>, path: &Path) -> Result<Self, DataError> {
        let labels = match labels {
            Some(labels) => labels.clone(),
            None => LabelSet::new(texts.iter().map(|text| text.label.clone())),
        };
        let number = |(line, LabeledText { label, text })| match labels.id(&label) {
            Some(label) => Ok(LabeledExample { label, text }),
            None => Err(unknown(path, line, &label, &labels)),
        };
        let examples = (1..).zip(texts).map(number).collect::<Result<_, _>>()?;
        Ok(Self { labels, examples })
    }
}

impl LabeledLines {
    /// Opens a file, plain or gzip.
    ///
    /// # Errors
    /// [`DataError::Io`] if the file cannot be opened. The stream itself yields errors for what is wrong inside.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        Lines::open(path).map(Self)
    }

    /// Reads lines, for example of standard input.
    pub fn new(lines: Lines) -> Self {
        Self(lines)
    }
}

impl Iterator for LabeledLines {
    type Item = Result<LabeledText, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.0.next()? {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        let problem = match *line.split('\t').collect::<Vec<_>>() {
            [label, text] if !label.trim().is_empty() => {
                return Some(Ok(LabeledText { label: label.to_owned(), text: text.to_owned() }));
            }
            [_, _] => "nothing stands before the tab, where the label should be".to_owned(),
            ref columns => format!("{} tab-separated columns instead of a label and a text", columns.len()),
        };
        Some(Err(DataError::Label { path: self.0.path().to_owned(), line: self.0.line(), problem }))
    }
}

/// One line of a labeled file, without its end.
impl fmt::Display for LabeledText {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{}\t{}", self.label, self.text)
    }
}

fn unknown(path: &Path, line: u64, label: &str, labels: &LabelSet) -> DataError {
    const SHOWN: usize = 20;
    let mut known = labels.names[..labels.names.len().min(SHOWN)].join("`, `");
    if labels.names.len() > SHOWN {
        known.push_str("`, ...");
    } else {
        known.push('`');
    }
    let problem = format!("`{label}` is none of the labels `{known}");
    DataError::Label { path: path.to_owned(), line, problem }
}
