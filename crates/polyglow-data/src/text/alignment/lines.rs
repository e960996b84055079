//! Word alignments of a corpus, one line per pair.

use super::{Link, parse_links};
use crate::error::DataError;
use crate::lines::Lines;

/// The links of every line of a file.
///
/// It yields an error for a line that cannot be read, and [`DataError::Alignment`] for one that is no list of links.
pub struct LinkLines(pub Lines);

impl Iterator for LinkLines {
    type Item = Result<Vec<Link>, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.0.next()?;
        let parse = |line: String| {
            parse_links(&line).ok_or_else(|| DataError::Alignment {
                path: self.0.path().to_owned(),
                line: self.0.line(),
                text: line,
            })
        };
        Some(line.and_then(parse))
    }
}
