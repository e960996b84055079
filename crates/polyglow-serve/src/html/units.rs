//! The units of a translation: words, and apart from them the punctuation around them.

use std::ops::Range;

use super::{Link, Translation};

/// A part of a translation and the parts of the sentence that it is translated from.
pub(super) struct Unit {
    pub(super) target: Range<usize>,
    pub(super) sources: Vec<Range<usize>>,
    /// Whether it is a word, and not punctuation.
    pub(super) is_word: bool,
}

/// Returns the units of a translation of `source`, in order. Without links, words are linked by
/// relative position.
pub(super) fn units(source: &str, translation: &Translation) -> Vec<Unit> {
    let text = &*translation.text;
    let mut links = Vec::with_capacity(translation.links.len());
    for link in &translation.links {
        // Links are public input: one beyond the text or inside a character would be a panic.
        let is_in_source = source.get(link.source.clone()).is_some();
        if is_in_source && text.get(link.target.clone()).is_some() {
            links.push(link.clone());
        }
    }
    if links.is_empty() {
        links = by_position(&words(source), &words(text));
    }
    links.sort_by_key(|link| (link.target.start, link.target.end));
    let mut units = Vec::new();
    for word in words(text) {
        for cell in cells(word, &links) {
            let linked: Vec<&Link> = overlapping(&links, &cell).collect();
            push_units(&mut units, source, text, cell, &linked);
        }
    }
    units
}

/// Returns the words of a text, which white space divides, in bytes.
pub(super) fn words(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, character) in text.char_indices() {
        match (start, character.is_whitespace()) {
            (None, false) => start = Some(at),
            (Some(from), true) => {
                words.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    words.extend(start.map(|from| from..text.len()));
    words
}

/// Links each target word with the source word at the same relative position.
fn by_position(source: &[Range<usize>], target: &[Range<usize>]) -> Vec<Link> {
    if source.is_empty() {
        return Vec::new();
    }
    let mut links = Vec::with_capacity(target.len());
    for (index, word) in target.iter().enumerate() {
        // The source word at the relative position of the middle of the target word.
        let middle = (2 * index + 1) * source.len() / (2 * target.len());
        links.push(Link {
            source: source[middle].clone(),
            target: word.clone(),
        });
    }
    links
}

/// Splits a word where a link begins or ends inside it.
fn cells(word: Range<usize>, links: &[Link]) -> Vec<Range<usize>> {
    let mut cuts: Vec<usize> = vec![word.start, word.end];
    for link in overlapping(links, &word) {
        for cut in [link.target.start, link.target.end] {
            if word.contains(&cut) {
                cuts.push(cut);
            }
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|ends| ends[0]..ends[1]).collect()
}

/// Returns the links whose target shares bytes with a range. They are sorted, and their targets are
/// equal or do not overlap, so that these links follow each other.
fn overlapping<'l>(links: &'l [Link], range: &Range<usize>) -> impl Iterator<Item = &'l Link> {
    let Range { start, end } = *range;
    let first = links.partition_point(|link| link.target.end <= start);
    links[first..]
        .iter()
        .take_while(move |link| link.target.start < end)
        .filter(move |link| link.target.end > start)
}

/// Adds a cell as up to three units: the part before its first letter or digit, the part up to the
/// last, and the part after it. Each is linked with the same parts of the sources, so that a
/// quotation mark follows a quotation mark.
fn push_units(
    units: &mut Vec<Unit>,
    source: &str,
    text: &str,
    cell: Range<usize>,
    links: &[&Link],
) {
    let [before, word, after] = apart(text, cell);
    let sources: Vec<[Range<usize>; 3]> = links
        .iter()
        .map(|link| apart(source, link.source.clone()))
        .collect();
    for (index, target) in [before, word, after].into_iter().enumerate() {
        if target.is_empty() {
            continue;
        }
        let same_parts = sources.iter().map(|parts| parts[index].clone());
        units.push(Unit {
            target,
            sources: same_parts.filter(|source| !source.is_empty()).collect(),
            is_word: index == 1,
        });
    }
}

/// Splits a part of a text before its first letter or digit and after its last. Without any, all of
/// it is in the middle.
fn apart(text: &str, part: Range<usize>) -> [Range<usize>; 3] {
    let Range { start, end } = part;
    let inner = text[start..end].trim_start_matches(is_punctuation);
    if inner.is_empty() {
        return [start..start, start..end, end..end];
    }
    let word_start = end - inner.len();
    let word_end = word_start + inner.trim_end_matches(is_punctuation).len();
    [start..word_start, word_start..word_end, word_end..end]
}

fn is_punctuation(character: char) -> bool {
    !character.is_alphanumeric()
}
