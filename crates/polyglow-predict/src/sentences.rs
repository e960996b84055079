//! Texts in sentences, with all that is between them: what a server, a page and
//! `translate --split-sentences` do before they call a model.

mod abbreviations;
mod boundaries;
mod symbols;

use polyglow_data::script::has_space_between;
use serde::Serialize;

/// A part of a text: a sentence, or what stands between sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part<'a> {
    /// White space, line breaks, symbols before and after sentences, and what has no words.
    Kept(&'a str),
    /// A sentence without the white space and symbols around it, which is to be translated.
    Sentence(&'a str),
}

/// Cuts a text into lines, and lines into sentences. One after the other, the parts are the text,
/// byte for byte.
///
/// `language` is the code of the text's language, such as `de` or `pt-BR`, which decides what is an
/// abbreviation; an unknown one is treated as English.
///
/// ```
/// use polyglow_predict::sentences::Part::{Kept, Sentence};
/// use polyglow_predict::sentences::parts;
///
/// let text = "- Am 3. Oktober war z. B. Prof. Kurz da. 😆 Er blieb.";
/// let expected =
///     [Kept("- "), Sentence("Am 3. Oktober war z. B. Prof. Kurz da."), Kept(" 😆 "), Sentence("Er blieb.")];
/// assert_eq!(parts(text, "de"), expected);
/// ```
pub fn parts<'a>(text: &'a str, language: &str) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    let mut kept_from = 0;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        for sentence in boundaries::sentences(line, language) {
            let translated = symbols::translated(sentence);
            let from = start + translated.start;
            let to = start + translated.end;
            start += sentence.len();
            if from == to {
                continue;
            }
            push_kept(&mut parts, &text[kept_from..from]);
            parts.push(Part::Sentence(&text[from..to]));
            kept_from = to;
        }
        // A line is kept apart from the next, so that a client can show it as one.
        push_kept(&mut parts, &text[kept_from..start]);
        kept_from = start;
    }
    parts
}

fn push_kept<'a>(parts: &mut Vec<Part<'a>>, text: &'a str) {
    if !text.is_empty() {
        parts.push(Part::Kept(text));
    }
}

/// Returns the separator of the translations of two sentences that nothing stands between in the
/// source, as in Chinese: a space, unless they are in a script without spaces, or one of them is
/// empty.
///
/// ```
/// use polyglow_predict::sentences::gap;
///
/// assert_eq!((gap("Hello.", "Bye."), gap("你好。", "再见。"), gap("", "Bye.")), (" ", "", ""));
/// ```
pub fn gap(before: &str, next: &str) -> &'static str {
    let are_both = !before.is_empty() && !next.is_empty();
    if are_both && has_space_between(before, next) {
        " "
    } else {
        ""
    }
}

/// Counts the sentences of a text.
pub fn count(text: &str, language: &str) -> usize {
    let parts = parts(text, language);
    parts
        .iter()
        .filter(|part| matches!(part, Part::Sentence(_)))
        .count()
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
            (
                "  One. Two?\r\n",
                &[
                    Kept("  "),
                    Sentence("One."),
                    Kept(" "),
                    Sentence("Two?"),
                    Kept("\r\n"),
                ],
            ),
            (
                "Mr. Smith met J. Doe. They left.",
                &[
                    Sentence("Mr. Smith met J. Doe."),
                    Kept(" "),
                    Sentence("They left."),
                ],
            ),
            ("It was Mr.", &[Sentence("It was Mr.")]),
            (
                "\u{feff}我来了。你呢？ 👍",
                &[
                    Kept("\u{feff}"),
                    Sentence("我来了。"),
                    Sentence("你呢？"),
                    Kept(" 👍"),
                ],
            ),
        ] {
            let parts = parts(text, "en");
            assert_eq!(parts, expected);
            assert_eq!(
                parts
                    .iter()
                    .map(|(Kept(part) | Sentence(part))| *part)
                    .collect::<String>(),
                text
            );
        }
    }

    #[test]
    fn symbols_before_between_and_after_sentences_are_kept() {
        for (text, sentences) in [
            ("😆 Hello. 😆 Bye!", &["Hello.", "Bye!"][..]),
            ("😆Hello😆", &["Hello"]),
            (
                "- Hello.\n• Bye.\n→ Go on.\n-Stop.",
                &["Hello.", "Bye.", "Go on.", "Stop."],
            ),
            ("* one — two", &["one — two"]),
            (
                "He left. - She stayed! – We sleep.",
                &["He left.", "She stayed!", "We sleep."],
            ),
            ("i.e. - so. he said - Yes", &["i.e. - so. he said - Yes"]),
            ("Good 👍🏽!", &["Good"]),
            ("-5 degrees, +3 °C, $5", &["-5 degrees, +3 °C, $5"]),
            (
                "(He left.) \"Go!\" ¿Qué? § 5 C++",
                &["(He left.)", "\"Go!\"", "¿Qué?", "§ 5 C++"],
            ),
            ("--- 👍 …", &[]),
            ("a | b ✔ c", &["a | b ✔ c"]),
            ("It is 20°. ✔ Done™", &["It is 20°.", "Done™"]),
        ] {
            let parts = parts(text, "en");
            let found: Vec<&str> = parts.iter().filter_map(sentence).collect();
            assert_eq!(found, sentences, "{text}");
            assert_eq!(
                parts
                    .iter()
                    .map(|(Kept(part) | Sentence(part))| *part)
                    .collect::<String>(),
                text
            );
        }
    }

    fn sentence<'a>(part: &Part<'a>) -> Option<&'a str> {
        match part {
            Sentence(text) => Some(text),
            Kept(_) => None,
        }
    }
}
