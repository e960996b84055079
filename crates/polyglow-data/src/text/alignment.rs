//! Word alignments in the Pharaoh format, such as `0-0 1-2 2-1`: positions in source and target, in
//! words counted from 0.

#[cfg(feature = "training")]
mod lines;

#[cfg(feature = "training")]
pub use lines::{GoldLines, LinkLines};

/// The positions of a source word and a target word that translate each other.
pub type Link = (usize, usize);

/// Formats links as one line in the Pharaoh format, without its end.
pub fn format_links(links: &[Link]) -> String {
    let links: Vec<String> = links
        .iter()
        .map(|(src, tgt)| format!("{src}-{tgt}"))
        .collect();
    links.join(" ")
}

/// Parses one line in the Pharaoh format; `None` if any field is not a link.
pub fn parse_links(line: &str) -> Option<Vec<Link>> {
    line.split_whitespace().map(parse_link).collect()
}

/// The links of a pair that people have made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoldLinks {
    /// Links that an alignment should have.
    pub sure: Vec<Link>,
    /// Links that it may have.
    pub possible: Vec<Link>,
}

/// Parses one line of gold links: sure ones as `1-2`, possible ones as `1p2`; `None` if any field
/// is no link.
pub fn parse_gold_links(line: &str) -> Option<GoldLinks> {
    let mut gold = GoldLinks::default();
    for link in line.split_whitespace() {
        match link.split_once('p') {
            Some((src, tgt)) => gold.possible.push((src.parse().ok()?, tgt.parse().ok()?)),
            None => gold.sure.push(parse_link(link)?),
        }
    }
    Some(gold)
}

/// Parses one link, such as `1-2`.
fn parse_link(link: &str) -> Option<Link> {
    let (src, tgt) = link.split_once('-')?;
    Some((src.parse().ok()?, tgt.parse().ok()?))
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

    #[test]
    fn gold_links_are_sure_or_possible() {
        let gold = GoldLinks {
            sure: vec![(0, 0)],
            possible: vec![(1, 12)],
        };
        assert_eq!(parse_gold_links("0-0 1p12"), Some(gold));
        assert_eq!(parse_gold_links(" "), Some(GoldLinks::default()));
        for wrong in ["1p", "p", "1-2p3", "0?0", "0-0 x"] {
            assert_eq!(parse_gold_links(wrong), None, "{wrong}");
        }
    }
}
