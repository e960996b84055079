//! Word alignments in the Pharaoh format: `0-0 1-2 2-1`, positions in source and target, counted in words from zero.

use crate::error::DataError;
use crate::lines::Lines;

/// A source word and a target word that translate each other.
pub type Link = (usize, usize);

/// Writes links as a line.
pub fn format_links(links: &[Link]) -> String {
    let links: Vec<String> = links.iter().map(|(src, tgt)| format!("{src}-{tgt}")).collect();
    links.join(" ")
}

/// Reads a line of links; none where something in it is no link.
pub fn parse_links(line: &str) -> Option<Vec<Link>> {
    let parse = |link: &str| {
        let (src, tgt) = link.split_once('-')?;
        Some((src.parse().ok()?, tgt.parse().ok()?))
    };
    line.split_whitespace().map(parse).collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_as_they_are_written() {
        let links = [(0, 0), (1, 12), (2, 1)];
        assert_eq!(format_links(&links), "0-0 1-12 2-1");
        assert_eq!(parse_links("0-0 1-12  2-1\n"), Some(links.to_vec()));
        assert_eq!(parse_links(""), Some(Vec::new()));
        for wrong in ["0", "0-", "-1-2", "a-b", "0:1", "1-2 3"] {
            assert_eq!(parse_links(wrong), None, "{wrong}");
        }
    }
}
