//! Sentences: one or two clauses, a full stop or question mark, and the alignment of the whole.

use super::category::Category;
use super::clause::{ClauseKind, clause};
use super::draft::{Draft, GermanWord, Phrase, german_comma};
use super::noun_phrase::{Nesting, human_subject};
use super::words::{CONDITIONS, REASONS, REPORTING, THAT};
use crate::toy::AlignedPair;
use crate::toy::random::SplitMix64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::toy) enum SentenceKind {
    /// "the dog sleeps ."
    Statement,
    /// "does the dog sleep ?"
    Question,
    /// "the dog sleeps because ..."
    Reason,
    /// "if ... , the dog sleeps ."
    Condition,
    /// "she knows that the dog sleeps ."
    Report,
}

impl SentenceKind {
    pub(in crate::toy) const ALL: [Self; 5] = [
        Self::Statement,
        Self::Question,
        Self::Reason,
        Self::Condition,
        Self::Report,
    ];

    fn draw(random: &mut SplitMix64) -> Self {
        match random.below(100) {
            0..45 => Self::Statement,
            45..57 => Self::Question,
            57..72 => Self::Reason,
            72..86 => Self::Condition,
            _ => Self::Report,
        }
    }
}

/// Draws a sentence. In a `Nested` one every clause has a relative clause (where it can have one);
/// in a `Flat` one only some sentences of a single clause have.
pub(super) fn sentence(draft: &mut Draft, nesting: Nesting) -> (SentenceKind, Phrase) {
    let kind = SentenceKind::draw(draft.random);
    let alone = if nesting == Nesting::Nested || draft.random.chance(18) {
        Nesting::Nested
    } else {
        Nesting::Flat
    };
    let mut sentence = match kind {
        SentenceKind::Statement => clause(draft, ClauseKind::Main, alone),
        SentenceKind::Question => clause(draft, ClauseKind::Question, alone),
        SentenceKind::Reason => reason(draft, nesting),
        SentenceKind::Condition => condition(draft, nesting),
        SentenceKind::Report => report(draft, nesting),
    };
    // Both languages end a sentence with the same sign.
    let mark = if matches!(kind, SentenceKind::Question) {
        "?"
    } else {
        "."
    };
    sentence.append(draft.translated(Category::Punctuation, mark, mark));
    sentence.german = merge_commas(sentence.german);
    (kind, sentence)
}

/// A main clause and its reason: "... because ...", *... , weil ...*.
fn reason(draft: &mut Draft, nesting: Nesting) -> Phrase {
    let (english, german) = *draft.random.choose(&REASONS);
    let mut sentence = clause(draft, ClauseKind::Main, nesting);
    sentence.german.push(german_comma());
    sentence.append(draft.translated(Category::Conjunction, english, german));
    sentence.append(clause(draft, ClauseKind::Subordinate, nesting));
    sentence
}

/// A condition and its main clause: "if ... , ...", *wenn ... , ...*. Here English writes the
/// comma, too.
fn condition(draft: &mut Draft, nesting: Nesting) -> Phrase {
    let (english, german) = *draft.random.choose(&CONDITIONS);
    let mut sentence = draft.translated(Category::Conjunction, english, german);
    sentence.append(clause(draft, ClauseKind::Subordinate, nesting));
    sentence.append(draft.translated(Category::Punctuation, ",", ","));
    sentence.append(clause(draft, ClauseKind::Inverted, nesting));
    sentence
}

/// Something that a speaker knows or believes: "she knows that ...", *sie weiß, dass ...*.
fn report(draft: &mut Draft, nesting: Nesting) -> Phrase {
    let speaker = human_subject(draft);
    let verb = draft.random.choose(&REPORTING);
    let mut sentence = speaker.phrase;
    sentence.append(draft.translated(
        Category::Verb,
        verb.english.form(speaker.agreement),
        verb.german.form(speaker.agreement),
    ));
    sentence.german.push(german_comma());
    sentence.append(draft.translated(Category::Conjunction, THAT.0, THAT.1));
    sentence.append(clause(draft, ClauseKind::Subordinate, nesting));
    sentence
}

/// A comma before another comma or before the closing mark is written once, as the later of the
/// two.
fn merge_commas(words: Vec<GermanWord>) -> Vec<GermanWord> {
    let mut merged: Vec<GermanWord> = Vec::with_capacity(words.len());
    for mut word in words {
        let is_mark = matches!(&*word.text, "," | "." | "?");
        if let Some(comma) = merged.pop_if(|last| is_mark && last.text == ",")
            && word.links.is_empty()
        {
            word.links = comma.links;
        }
        merged.push(word);
    }
    merged
}

/// Reads the parts of speech of the English words off a finished sentence, with single spaces
/// between them.
pub(super) fn tags(sentence: &Phrase) -> String {
    let tags: Vec<&str> = sentence.english.iter().map(|word| word.tag).collect();
    tags.join(" ")
}

/// Reads the text and the alignment off a finished sentence.
pub(super) fn aligned(sentence: &Phrase) -> AlignedPair {
    let src: Vec<&str> = sentence.english.iter().map(|word| word.text).collect();
    let tgt: Vec<&str> = sentence.german.iter().map(|word| &*word.text).collect();
    let mut alignment = Vec::new();
    for (position, english) in sentence.english.iter().enumerate() {
        let translations = sentence
            .german
            .iter()
            .enumerate()
            .filter(|(_, german)| german.links.contains(&english.link));
        alignment.extend(translations.map(|(translation, _)| (position, translation)));
    }
    AlignedPair {
        src: src.join(" "),
        tgt: tgt.join(" "),
        alignment,
    }
}
