//! Labeled text, one `label<TAB>text` per line, and the labels of a task with their ids.

use std::fmt;
use std::path::Path;

use crate::error::DataError;
use crate::lines::Lines;

/// A text and its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabeledText {
    /// The label, never empty.
    pub label: String,
    /// The text, which may be empty.
    pub text: String,
}

/// The labels of a task, sorted. The id of a label is its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSet {
    names: Vec<String>,
}

/// The texts of a labeled file, in bounded memory.
///
/// A line has exactly one tab, between a label and a text. Compression, byte-order marks and Windows
/// line ends are handled by [`Lines`].
pub struct LabeledLines(Lines);

impl LabelSet {
    /// Sorts `names` and drops duplicates.
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

    /// Returns the id of a label; `None` if it is not in the set.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.names
            .binary_search_by(|known| known.as_str().cmp(name))
            .ok()
            .map(|index| index as u32)
    }
}

impl LabeledLines {
    /// Opens a file, plain, gzip or zstd.
    ///
    /// # Errors
    /// [`DataError::Io`] if the file cannot be opened. The iterator yields errors for wrong
    /// content.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        Lines::open(path).map(Self)
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
                return Some(Ok(LabeledText {
                    label: label.to_owned(),
                    text: text.to_owned(),
                }));
            }
            [_, _] => "there is no label before the tab".to_owned(),
            ref columns => format!(
                "{} tab-separated columns instead of a label and a text",
                columns.len()
            ),
        };
        Some(Err(DataError::Label {
            path: self.0.path().to_owned(),
            line: self.0.line(),
            problem,
        }))
    }
}

/// Writes one line of a labeled file, without the line end.
impl fmt::Display for LabeledText {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{}\t{}", self.label, self.text)
    }
}
