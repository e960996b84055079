//! Pretrained word vectors in the text formats of word2vec and GloVe.

use std::collections::HashSet;
use std::path::Path;

use crate::error::DataError;
use crate::lines::Lines;

const SEPARATORS: [char; 2] = [' ', '\t'];
/// The number of characters of a wrong field that an error message shows.
const SHOWN_CHARS: usize = 40;

/// Limits on the size of a file, so that a wrong number in it cannot exhaust the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorLimits {
    /// Maximum number of words. Of a longer file only the first ones are read, which are usually
    /// the most frequent.
    pub max_words: usize,
    /// Maximum dimension of a vector.
    pub max_dim: usize,
}

/// Words and their vectors.
#[derive(Debug, Clone, PartialEq)]
pub struct WordVectors {
    /// The words, in the order of the file.
    pub words: Vec<String>,
    /// Dimension of a vector.
    pub dim: usize,
    /// The vectors, `[words, dim]` row by row.
    pub values: Vec<f32>,
    /// Number of lines that were skipped because their word already has a vector.
    pub repeated: usize,
}

impl Default for VectorLimits {
    /// A million words of dimension 4096.
    fn default() -> Self {
        Self {
            max_words: 1_000_000,
            max_dim: 4096,
        }
    }
}

impl WordVectors {
    /// Reads a file, plain, gzip or zstd: one word and its numbers per line, separated by single
    /// spaces or tabs.
    ///
    /// A first line of exactly two integers is word2vec's header, the number of words and the
    /// dimension; GloVe's files have no header. The vector is the last numbers of a line, so a word
    /// may contain spaces, as some do in GloVe's largest file. In a file with a header a word may
    /// not end in a number, which is more likely one number too many.
    ///
    /// # Errors
    /// [`DataError::Vectors`] if a line has the wrong number of fields, or a field that is not a
    /// finite number, or if the file does not have as many words as its header says;
    /// [`DataError::Empty`] if there is no vector; and the errors of [`Lines`].
    pub fn read(path: &Path, limits: VectorLimits) -> Result<Self, DataError> {
        Self::parse(Lines::open(path)?, limits)
    }

    /// Reads from `lines`, for example those of standard input.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(mut lines: Lines, limits: VectorLimits) -> Result<Self, DataError> {
        let mut vectors = Self {
            words: Vec::new(),
            dim: 0,
            values: Vec::new(),
            repeated: 0,
        };
        let mut known = HashSet::new();
        let mut header = None;
        while let Some(line) = lines.next().transpose()? {
            // The original word2vec writes a space at the end of each line.
            let line = line.trim_end_matches(SEPARATORS);
            if lines.line() == 1 {
                header = Header::parse(line);
                vectors.dim = header.map_or_else(|| num_numbers(line), |header| header.dim);
                check_dim(vectors.dim, limits).map_err(|problem| line_error(&lines, problem))?;
                if header.is_some() {
                    continue;
                }
            }
            let word = vectors
                .push_numbers(line)
                .and_then(|word| vectors.check_word(word, line, header))
                .map_err(|problem| line_error(&lines, problem))?;
            if known.insert(word.to_owned()) {
                vectors.words.push(word.to_owned());
            } else {
                // The first vector of a word counts; that of this line goes again.
                vectors.values.truncate(vectors.words.len() * vectors.dim);
                vectors.repeated += 1;
            }
            if vectors.words.len() == limits.max_words {
                return Ok(vectors);
            }
        }
        vectors.check_complete(&lines, header)?;
        Ok(vectors)
    }

    /// Makes sure that a file which was read to its end has as many words as its header says, and
    /// at least one.
    fn check_complete(&self, lines: &Lines, header: Option<Header>) -> Result<(), DataError> {
        let num_words = self.words.len() + self.repeated;
        if let Some(header) = header
            && header.num_words != num_words
        {
            let problem = format!(
                "the file has {num_words} words, but its header says {}",
                header.num_words
            );
            return Err(line_error(lines, problem));
        }
        if self.words.is_empty() {
            return Err(DataError::Empty {
                path: lines.path().to_owned(),
            });
        }
        Ok(())
    }

    /// Returns the vector of the word with the index `index`.
    ///
    /// # Panics
    /// If `index` is out of bounds.
    pub fn vector(&self, index: usize) -> &[f32] {
        &self.values[index * self.dim..(index + 1) * self.dim]
    }

    /// Appends the numbers at the end of `line`, and returns the word before them, or what is wrong
    /// with the line.
    fn push_numbers<'a>(&mut self, line: &'a str) -> Result<&'a str, String> {
        let start = self.values.len();
        // From the end of the line, because a word may have spaces, too.
        let mut fields = line.rsplitn(self.dim + 1, SEPARATORS);
        for field in fields.by_ref().take(self.dim) {
            match field.parse() {
                Ok(value) if f32::is_finite(value) => self.values.push(value),
                _ => return Err(self.problem(line, field)),
            }
        }
        self.values[start..].reverse();
        match fields.next() {
            Some("") => Err("the word before the numbers is missing".to_owned()),
            Some(word) => Ok(word),
            None => Err(self.problem(line, "")),
        }
    }

    /// Returns the word of a line, or why its last part is a number too many rather than a part of
    /// the word.
    fn check_word<'a>(
        &self,
        word: &'a str,
        line: &str,
        header: Option<Header>,
    ) -> Result<&'a str, String> {
        let ends_in_number = word
            .rsplit_once(SEPARATORS)
            .is_some_and(|(_, last)| last.parse::<f32>().is_ok());
        if !ends_in_number {
            return Ok(word);
        }
        let count = num_numbers(line);
        match header {
            // A header gives the dimension, so one number too many is an error and not a part of
            // the word.
            Some(Header { dim, .. }) => Err(format!(
                "a word and {count} numbers, but the header says {dim}"
            )),
            // Vectors of one number are unlikely: line 1 was rather a header that is incomplete.
            None if self.dim == 1 => Err(format!(
                "a word and {count} numbers, but line 1 has a word and one number, and is not a header of two numbers"
            )),
            None => Ok(word),
        }
    }

    /// Says what is wrong with a line: it is too short, or else `field` is not a finite number.
    fn problem(&self, line: &str, field: &str) -> String {
        let dim = self.dim;
        let count = num_numbers(line);
        if count < dim {
            return format!("a word and {count} of {dim} numbers");
        }
        let end = field
            .char_indices()
            .nth(SHOWN_CHARS)
            .map_or(field.len(), |(end, _)| end);
        format!("`{}` is not a finite number", &field[..end])
    }
}

/// The first line of a file in word2vec's text format.
#[derive(Clone, Copy)]
struct Header {
    num_words: usize,
    dim: usize,
}

impl Header {
    /// Returns the header that `line` is; `None` if it does not consist of two integers.
    fn parse(line: &str) -> Option<Self> {
        let (num_words, dim) = line.split_once(SEPARATORS)?;
        Some(Self {
            num_words: num_words.parse().ok()?,
            dim: dim.parse().ok()?,
        })
    }
}

/// Counts the numbers of a line whose word has no spaces.
fn num_numbers(line: &str) -> usize {
    line.split(SEPARATORS).count() - 1
}

/// Refuses a dimension that is 0 or above the limit.
fn check_dim(dim: usize, limits: VectorLimits) -> Result<(), String> {
    let max_dim = limits.max_dim;
    if dim == 0 || dim > max_dim {
        return Err(format!(
            "a vector must have 1 to {max_dim} numbers, not {dim}"
        ));
    }
    Ok(())
}

/// Makes the error that the line that was read last is wrong.
fn line_error(lines: &Lines, problem: String) -> DataError {
    DataError::Vectors {
        path: lines.path().to_owned(),
        line: lines.line(),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn parse_limited(text: &str, limits: VectorLimits) -> Result<WordVectors, DataError> {
        let lines = Lines::from_reader(
            Cursor::new(text.as_bytes().to_vec()),
            Path::new("vectors.txt"),
        )?;
        WordVectors::parse(lines, limits)
    }

    fn parse(text: &str) -> Result<WordVectors, DataError> {
        parse_limited(text, VectorLimits::default())
    }

    #[test]
    fn both_formats_hold_the_same_vectors() {
        let glove = parse("the 1 -0.5 2e-3\ncat 4 5 6\n").unwrap();
        assert_eq!(glove.words, ["the", "cat"]);
        assert_eq!(
            (glove.dim, glove.vector(0), glove.vector(1)),
            (3, &[1.0, -0.5, 0.002][..], &[4.0, 5.0, 6.0][..])
        );
        // The original word2vec writes a space at the end of each line.
        assert_eq!(
            parse("2\t3\nthe 1 -0.5 2e-3 \ncat 4 5 6 \n").unwrap(),
            glove
        );
        assert_eq!(
            parse("\u{feff}2 3\r\nthe\t1\t-0.5\t2e-3\r\ncat 4 5 6").unwrap(),
            glove
        );
    }

    #[test]
    fn words_may_hold_spaces_and_look_like_numbers() {
        let vectors = parse("the 1 2\n. . . 3 4\n0.5 5 6\nat name@domain.com 7 8\n").unwrap();
        assert_eq!(vectors.words, ["the", ". . .", "0.5", "at name@domain.com"]);
        assert_eq!(vectors.values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    }

    #[test]
    fn the_first_of_repeated_words_counts() {
        let vectors = parse("3 1\na 1\na 2\nb 3\n").unwrap();
        assert_eq!(
            (vectors.words.len(), &vectors.values[..], vectors.repeated),
            (2, &[1.0, 3.0][..], 1)
        );
    }

    #[test]
    fn no_more_words_are_read_than_asked_for() {
        let limits = VectorLimits {
            max_words: 1,
            max_dim: 2,
        };
        assert_eq!(
            parse_limited("9 2\na 1 2\nb wrong\n", limits)
                .unwrap()
                .words,
            ["a"]
        );
        let error = parse_limited("a 1 2 3\n", limits).unwrap_err().to_string();
        assert_eq!(
            error,
            "`vectors.txt` line 1: a vector must have 1 to 2 numbers, not 3"
        );
        assert!(parse_limited("1 99999999999\n", limits).is_err());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, problem) in [
            ("a 1 2\nb 1\n", "line 2: a word and 1 of 2 numbers"),
            ("a 1 2\n\n", "line 2: a word and 0 of 2 numbers"),
            ("a 1 2\nb 1 x\n", "line 2: `x` is not a finite number"),
            ("a 1 2\nb nan 2\n", "line 2: `nan` is not a finite number"),
            ("a 1 2\nb 1e99 2\n", "line 2: `1e99` is not a finite number"),
            (
                "a 1 2\n 1 2\n",
                "line 2: the word before the numbers is missing",
            ),
            (
                "2 2\na 1 2\n",
                "line 2: the file has 1 words, but its header says 2",
            ),
            (
                "1 2\na 1 2 3\n",
                "line 2: a word and 3 numbers, but the header says 2",
            ),
            (
                "x 2\na 1 2\n",
                "line 2: a word and 2 numbers, but line 1 has a word and one number, and is not a header of two numbers",
            ),
            (
                "0 0\n",
                "line 1: a vector must have 1 to 4096 numbers, not 0",
            ),
            (
                "word\n",
                "line 1: a vector must have 1 to 4096 numbers, not 0",
            ),
        ] {
            assert_eq!(
                parse(text).unwrap_err().to_string(),
                format!("`vectors.txt` {problem}"),
                "{text}"
            );
        }
        assert!(matches!(parse("").unwrap_err(), DataError::Empty { .. }));
        assert!(matches!(
            parse("0 2\n").unwrap_err(),
            DataError::Empty { .. }
        ));
    }
}
