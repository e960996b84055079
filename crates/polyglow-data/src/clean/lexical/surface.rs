//! Features of a pair from its marks and numbers, without any word.

use std::collections::BTreeMap;

use crate::clean::words::numbers;

/// Marks that end a sentence, and what may stand behind them.
const MARKS: &str = ".!?。！？…।؟۔";
const CLOSING: &str = "\"»”“’'」』)";
/// Marks of scripts that put no blank behind them.
const WIDE_MARKS: &str = "。！？";
/// Sentences that one side may have too many of before it makes no difference.
const MOST_SURPLUS: usize = 3;

/// The signs and numbers of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Surface {
    end: Option<End>,
    num_sentences: usize,
    num_commas: usize,
    numbers: BTreeMap<String, usize>,
}

/// The mark at the end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Question,
    Other,
}

impl Surface {
    pub(super) fn new(text: &str) -> Self {
        Self {
            end: end(text),
            num_sentences: num_sentences(text),
            num_commas: text.chars().filter(|sign| ",、".contains(*sign)).count(),
            numbers: numbers(text),
        }
    }

    /// Returns how a text differs from its translation: a mark or a question mark at the end of one
    /// alone; sentences that the translation, and that the text itself has more; commas; numbers.
    pub(super) fn differences(&self, tgt: &Self) -> [f64; 6] {
        let is_question = |surface: &Self| surface.end == Some(End::Question);
        let surplus = |more: &Self, fewer: &Self| {
            let surplus = more
                .num_sentences
                .saturating_sub(fewer.num_sentences.max(1));
            surplus.min(MOST_SURPLUS) as f64
        };
        [
            f64::from(u8::from(self.end.is_some() != tgt.end.is_some())),
            f64::from(u8::from(is_question(self) != is_question(tgt))),
            surplus(tgt, self),
            surplus(self, tgt),
            self.num_commas.abs_diff(tgt.num_commas) as f64,
            f64::from(u8::from(self.numbers != tgt.numbers)),
        ]
    }
}

fn end(text: &str) -> Option<End> {
    let is_closing = |sign: char| sign.is_whitespace() || CLOSING.contains(sign);
    let text = text.trim_end_matches(is_closing);
    let rest = text.trim_end_matches(|sign| MARKS.contains(sign));
    match text[rest.len()..].chars().next()? {
        '?' | '？' | '؟' => Some(End::Question),
        _ => Some(End::Other),
    }
}

/// Counts the ends of sentences in a text.
fn num_sentences(text: &str) -> usize {
    let mut num_sentences = 0;
    let mut characters = text.chars().peekable();
    // The two characters before.
    let mut before = [' '; 2];
    while let Some(mut mark) = characters.next() {
        let is_initial = before[0] == '.' && before[1].is_alphabetic();
        before = [before[1], mark];
        if !MARKS.contains(mark) {
            continue;
        }
        // `10 a.m. to 6 p.m.`: the last dot of an abbreviation in pieces.
        if mark == '.' && is_initial && characters.peek() == Some(&' ') {
            continue;
        }
        while let Some(next) = characters.next_if(|next| MARKS.contains(*next)) {
            mark = next;
        }
        let is_closed = characters.next_if(|next| CLOSING.contains(*next)).is_some();
        while characters.next_if(|next| CLOSING.contains(*next)).is_some() {}
        let ends = characters.peek().is_none_or(|next| next.is_whitespace());
        if ends || WIDE_MARKS.contains(mark) && !is_closed {
            num_sentences += 1;
        }
    }
    num_sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_with_marks_before_blanks_or_of_wide_scripts() {
        for (text, expected) in [
            ("One. Two! \"Three?\" Four", 3),
            ("3.14 and e.g. this", 0),
            ("From 10 a.m. to 6 p.m.", 1),
            ("これはペンです。あれは本です。", 2),
            ("「はい。」と言った。", 1),
            ("What?! Yes...", 2),
        ] {
            assert_eq!(num_sentences(text), expected, "{text}");
        }
        assert_eq!(end("Why?\" "), Some(End::Question));
        assert_eq!((end("Because..."), end("so")), (Some(End::Other), None));
    }

    #[test]
    fn differences_are_those_of_the_signs() {
        let differences = |src: &str, tgt: &str| {
            let differences = Surface::new(src).differences(&Surface::new(tgt));
            differences.map(|value| value as u32)
        };
        assert_eq!(differences("I am 5, you 6.", "Ich bin 5, du 6."), [0; 6]);
        assert_eq!(
            differences("Why?", "Warum. Weil. Ja, 3"),
            [1, 1, 1, 0, 1, 1]
        );
    }
}
