//! Word alignments of a corpus, one line per pair.

use super::{Link, parse_links};
use crate::error::DataError;
use crate::lines::Lines;

/// Iterates over the links of a file, one line per sentence pair.
///
/// Yields [`DataError::Alignment`] for a line that is not a list of links, and the errors of
/// [`Lines`].
pub struct LinkLines(pub Lines);

impl Iterator for LinkLines {
    type Item = Result<Vec<Link>, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.0.next()? {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        let links = parse_links(&line).ok_or_else(|| DataError::Alignment {
            path: self.0.path().to_owned(),
            line: self.0.line(),
            text: line,
        });
        Some(links)
    }
}
