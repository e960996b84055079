//! Word alignments in the Pharaoh format, such as `0-0 1-2 2-1`: positions in source and target, in
//! words counted from 0.

#[cfg(feature = "training")]
mod lines;

#[cfg(feature = "training")]
pub use lines::LinkLines;

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
}
