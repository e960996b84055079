//! A sentence and its translation in units: words, with the punctuation around them apart.

use std::ops::Range;

use super::{Link, Translation};

/// A part of a translation, with the parts of the sentence that it is translated from.
pub(super) struct Unit {
    pub(super) target: Range<usize>,
    pub(super) sources: Vec<Range<usize>>,
    /// Whether it is a word, and not punctuation.
    pub(super) is_word: bool,
}

/// The units of a translation of `source`, in order. Without links, words are linked by relative
/// position.
pub(super) fn units(source: &str, translation: &Translation) -> Vec<Unit> {
    let text = &*translation.text;
    let is_valid = |link: &&Link| {
        source.get(link.source.clone()).is_some() && text.get(link.target.clone()).is_some()
    };
    let mut links: Vec<Link> = translation.links.iter().filter(is_valid).cloned().collect();
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

/// The words of a text, divided by white space, in bytes.
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
    let link = |(index, word): (usize, &Range<usize>)| {
        let place = (2 * index + 1) * source.len() / (2 * target.len());
        Link {
            source: source[place].clone(),
            target: word.clone(),
        }
    };
    target.iter().enumerate().map(link).collect()
}

/// A word, cut where a link begins or ends inside it.
fn cells(word: Range<usize>, links: &[Link]) -> Vec<Range<usize>> {
    let mut cuts: Vec<usize> = vec![word.start, word.end];
    for link in overlapping(links, &word) {
        cuts.extend(
            [link.target.start, link.target.end]
                .iter()
                .filter(|cut| word.contains(cut)),
        );
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|ends| ends[0]..ends[1]).collect()
}

/// The links of which the target shares bytes with a range; they are sorted, and overlap only where
/// they are equal.
fn overlapping<'l>(links: &'l [Link], range: &Range<usize>) -> impl Iterator<Item = &'l Link> {
    let (start, end) = (range.start, range.end);
    let first = links.partition_point(|link| link.target.end <= start);
    links[first..]
        .iter()
        .take_while(move |link| link.target.start < end)
        .filter(move |link| link.target.end > start)
}

/// Adds a cell as up to three units: what is before its first letter or digit, what is after the
/// last, and what is between.
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
    for (place, target) in [before, word, after].into_iter().enumerate() {
        if target.is_empty() {
            continue;
        }
        let own = sources
            .iter()
            .map(|parts| parts[place].clone())
            .filter(|source| !source.is_empty());
        units.push(Unit {
            target,
            sources: own.collect(),
            is_word: place == 1,
        });
    }
}

/// What is before the first letter or digit of a part of a text, what is between that and the last,
/// and what is after it; of a part without any, all is between.
fn apart(text: &str, part: Range<usize>) -> [Range<usize>; 3] {
    let Range { start, end } = part;
    let inner = text[start..end].trim_start_matches(|character: char| !character.is_alphanumeric());
    if inner.is_empty() {
        return [start..start, start..end, end..end];
    }
    let word_start = end - inner.len();
    let word_end = word_start
        + inner
            .trim_end_matches(|character: char| !character.is_alphanumeric())
            .len();
    [start..word_start, word_start..word_end, word_end..end]
}
