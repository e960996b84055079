//! Tagged text: a word with its tag on each line, in columns, and a blank line after each sentence.

use std::path::Path;

use crate::compression::plain_name;
use crate::error::DataError;
use crate::lines::Lines;
use crate::pair::Pair;

/// The number of columns of a file in CoNLL-U.
const CONLLU_COLUMNS: usize = 10;

/// Iterates over the sentences of a tagged file, in bounded memory: the source of a pair has the
/// words and the target their tags, with single spaces between.
///
/// Two layouts are read:
/// - Columns, as in the shared tasks of CoNLL: the word is the first column and the tag is the last.
///   Columns are separated by tabs, or in lines without any by spaces. All lines of a file have the
///   same number of columns. The lines `-DOCSTART-` of CoNLL-2003 are no words.
/// - CoNLL-U, in files that end in `.conllu`, plain or compressed, as the treebanks of Universal
///   Dependencies: the word is the second column and its part of speech the fourth. Comments,
///   contractions (`1-2`) and empty nodes (`1.1`) are left out.
///
/// A space inside a word becomes `_`, since spaces are between words.
pub struct TaggedSentences {
    lines: Lines,
    is_conllu: bool,
    /// The number of columns of the first word; `None` before it is read.
    num_columns: Option<usize>,
}

impl TaggedSentences {
    /// Opens a file, plain, gzip or zstd.
    ///
    /// # Errors
    /// [`DataError::Io`] if the file cannot be opened. The iterator yields errors for wrong
    /// content.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let name = path.to_string_lossy();
        Ok(Self {
            lines: Lines::open(path)?,
            is_conllu: Path::new(plain_name(&name))
                .extension()
                .is_some_and(|ending| ending == "conllu"),
            num_columns: None,
        })
    }

    /// Reads up to the end of the next sentence; `None` if there is none.
    fn read_sentence(&mut self) -> Result<Option<Pair>, DataError> {
        let mut words: Vec<String> = Vec::new();
        let mut tags: Vec<String> = Vec::new();
        while let Some(line) = self.lines.next().transpose()? {
            if line.trim().is_empty() {
                if words.is_empty() {
                    continue;
                }
                break;
            }
            if let Some((word, tag)) = self.word(&line)? {
                words.push(word);
                tags.push(tag);
            }
        }
        if !words.is_empty() {
            return Ok(Some(Pair {
                src: words.join(" "),
                tgt: tags.join(" "),
            }));
        }
        if self.num_columns.is_none() {
            return Err(DataError::Empty {
                path: self.lines.path().to_owned(),
            });
        }
        Ok(None)
    }

    /// Returns the word on a line and its tag; `None` if the line has no word.
    fn word(&mut self, line: &str) -> Result<Option<(String, String)>, DataError> {
        if self.is_conllu && line.starts_with('#') {
            return Ok(None);
        }
        let columns: Vec<&str> = if self.is_conllu || line.contains('\t') {
            line.split('\t').collect()
        } else {
            line.split_whitespace().collect()
        };
        if !self.is_conllu && columns[0] == "-DOCSTART-" {
            return Ok(None);
        }
        let num_columns = self.check_columns(columns.len())?;
        if self.is_conllu && columns[0].contains(['-', '.']) {
            return Ok(None);
        }
        let [word_column, tag_column] = if self.is_conllu {
            [1, 3]
        } else {
            [0, num_columns - 1]
        };
        let word = joined(columns[word_column]);
        let tag = joined(columns[tag_column]);
        if word.is_empty() || tag.is_empty() {
            return Err(self.wrong("a word and a tag are expected, and one of them is blank"));
        }
        Ok(Some((word, tag)))
    }

    /// Makes sure that a line of `count` columns has as many as the first, and at least two.
    fn check_columns(&mut self, count: usize) -> Result<usize, DataError> {
        let expected = match self.num_columns {
            Some(num_columns) => num_columns,
            None if self.is_conllu => CONLLU_COLUMNS,
            None => count.max(2),
        };
        if count != expected {
            let before = if self.num_columns.is_some() {
                ", as before"
            } else {
                ""
            };
            return Err(self.wrong(&format!("{count} columns instead of {expected}{before}")));
        }
        self.num_columns = Some(expected);
        Ok(expected)
    }

    /// Makes the error that the last line cannot be read.
    fn wrong(&self, problem: &str) -> DataError {
        DataError::Tagged {
            path: self.lines.path().to_owned(),
            line: self.lines.line(),
            problem: problem.to_owned(),
        }
    }
}

impl Iterator for TaggedSentences {
    type Item = Result<Pair, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read_sentence().transpose()
    }
}

/// Returns a word without spaces around it, and with `_` for those inside.
fn joined(word: &str) -> String {
    word.split_whitespace().collect::<Vec<_>>().join("_")
}
