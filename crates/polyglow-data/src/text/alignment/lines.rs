//! Word alignments of a corpus, one line per pair.

use super::{GoldLinks, Link, parse_gold_links, parse_links};
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
        next_links(&mut self.0, parse_links)
    }
}

/// Iterates over the links that people have made, as [`LinkLines`] does: sure ones as `1-2`,
/// possible ones as `1p2`.
pub struct GoldLines(pub Lines);

impl Iterator for GoldLines {
    type Item = Result<GoldLinks, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        next_links(&mut self.0, parse_gold_links)
    }
}

/// Reads the links of the next line.
fn next_links<T>(
    lines: &mut Lines,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<Result<T, DataError>> {
    let line = match lines.next()? {
        Ok(line) => line,
        Err(error) => return Some(Err(error)),
    };
    let parsed = parse(&line).ok_or_else(|| DataError::Alignment {
        path: lines.path().to_owned(),
        line: lines.line(),
        text: line,
    });
    Some(parsed)
}
