//! Texts in sentences, with all that is between them: what a server and a page do before they ask a model.

use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation;

/// What a text is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part<'a> {
    /// Spaces, line breaks, and what has no words.
    Kept(&'a str),
    /// A sentence without the spaces around it, which is to be translated.
    Sentence(&'a str),
}

/// Cuts a text into lines, and lines into sentences. One after the other, the parts are the text.
pub fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for sentence in text.split_inclusive('\n').flat_map(sentences) {
        let trimmed = sentence.trim();
        // What has no letter and no digit, such as an emoji or a line of dashes, is the same in all languages.
        if !trimmed.chars().any(char::is_alphanumeric) {
            parts.push(Part::Kept(sentence));
            continue;
        }
        let start = sentence.len() - sentence.trim_start().len();
        let (before, after) = (&sentence[..start], &sentence[start + trimmed.len()..]);
        parts.extend([Part::Kept(before), Part::Sentence(trimmed), Part::Kept(after)]);
    }
    parts.retain(|part| *part != Part::Kept(""));
    parts
}

/// The sentences of a line, by Unicode's rules (UAX 29), but for full stops after what looks like a short title or an initial,
/// as in `Mr. Smith` or `J. Smith`.
fn sentences(line: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let mut start = 0;
    for (place, part) in line.split_sentence_bound_indices() {
        let end = place + part.len();
        if !ends_with_abbreviation(part) || end == line.len() {
            found.push(&line[start..end]);
            start = end;
        }
    }
    found
}

/// Whether the last word has a full stop that may not end a sentence: an initial, or one that is short and begins with a
/// capital letter.
fn ends_with_abbreviation(part: &str) -> bool {
    let Some(word) = part.trim_end().strip_suffix('.').and_then(|rest| rest.split_whitespace().next_back()) else {
        return false;
    };
    let mut letters = word.chars();
    let begins = letters.next().is_some_and(char::is_uppercase);
    let consonants = !word.to_lowercase().contains(['a', 'e', 'i', 'o', 'u', 'y']);
    begins
        && letters.clone().all(char::is_alphabetic)
        && (word.chars().count() == 1 || word.chars().count() <= 3 && consonants)
}

#[cfg(test)]
mod tests {
    use super::Part::{Kept, Sentence};
    use super::*;

    #[test]
    fn a_text_is_cut_where_sentences_end_and_nothing_is_lost() {
        for (text, expected) in [
            ("", &[][..]),
            (" \n\n", &[Kept(" \n"), Kept("\n")]),
            ("  One. Two?\r\n", &[Kept("  "), Sentence("One."), Kept(" "), Sentence("Two?"), Kept("\r\n")]),
            (
                "Mr. Smith met J. Doe. They left.",
                &[Sentence("Mr. Smith met J. Doe."), Kept(" "), Sentence("They left.")],
            ),
            ("It was Mr.", &[Sentence("It was Mr.")]),
            ("\u{feff}我来了。你呢？ 👍", &[Sentence("\u{feff}我来了。"), Sentence("你呢？"), Kept(" "), Kept("👍")]),
        ] {
            let parts = parts(text);
            assert_eq!(parts, expected);
            assert_eq!(parts.iter().map(|(Kept(part) | Sentence(part))| *part).collect::<String>(), text);
        }
    }
}
