//! The pieces a sentence is drawn from: words in two languages, tied by links.

use super::category::Category;
use super::verb_group::Tense;
use crate::toy::random::SplitMix64;

/// Ties words together: an English word and a German one that carry the same link translate each
/// other.
///
/// Links make the alignment independent of word order, so that each language can put its words
/// where it wants them.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Link(u32);

pub(super) struct EnglishWord {
    pub(super) text: &'static str,
    /// Its part of speech, by the name of Universal Dependencies.
    pub(super) tag: &'static str,
    pub(super) link: Link,
}

pub(super) struct GermanWord {
    pub(super) text: String,
    /// None for most commas; two where German fuses words, as in *im* for "in the".
    pub(super) links: Vec<Link>,
}

/// A stretch of a sentence in both languages, each in its own order.
#[derive(Default)]
pub(super) struct Phrase {
    pub(super) english: Vec<EnglishWord>,
    pub(super) german: Vec<GermanWord>,
}

/// Two words that the grammar combines. Splits hold some combinations out of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Combination {
    /// An adjective and the noun it describes.
    AdjectiveNoun(&'static str, &'static str),
    /// A verb and the noun that is its object.
    VerbObject(&'static str, &'static str),
}

/// The state while one sentence is drawn.
pub(super) struct Draft<'a> {
    pub(super) random: &'a mut SplitMix64,
    pub(super) combinations: Vec<Combination>,
    /// When the main clause happens.
    pub(super) tense: Tense,
    num_links: u32,
}

impl<'a> Draft<'a> {
    pub(super) const fn new(random: &'a mut SplitMix64) -> Self {
        Self {
            random,
            combinations: Vec::new(),
            tense: Tense::Present,
            num_links: 0,
        }
    }

    /// A link that no word carries yet.
    pub(super) const fn link(&mut self) -> Link {
        self.num_links += 1;
        Link(self.num_links)
    }

    /// Makes a phrase of English words of a category, such as "in front of", and the one German
    /// word that translates them.
    pub(super) fn translated(
        &mut self,
        category: Category,
        english: &'static str,
        german: impl Into<String>,
    ) -> Phrase {
        let link = self.link();
        Phrase {
            english: link.english(category, english),
            german: vec![link.german(german)],
        }
    }
}

impl Phrase {
    /// Adds a phrase that follows this one in both languages.
    pub(super) fn append(&mut self, other: Self) {
        self.english.extend(other.english);
        self.german.extend(other.german);
    }
}

impl Link {
    /// Makes the English words of an expression of this category, all with this link.
    pub(super) fn english(self, category: Category, words: &'static str) -> Vec<EnglishWord> {
        let mut english = Vec::new();
        for (index, text) in words.split(' ').enumerate() {
            english.push(EnglishWord {
                text,
                tag: category.tag(index),
                link: self,
            });
        }
        english
    }

    /// Makes a German word with this link.
    pub(super) fn german(self, text: impl Into<String>) -> GermanWord {
        GermanWord {
            text: text.into(),
            links: vec![self],
        }
    }
}

/// A comma that German wants and English does not.
pub(super) fn german_comma() -> GermanWord {
    GermanWord {
        text: ",".to_owned(),
        links: Vec::new(),
    }
}

/// Puts parts one after the other.
pub(super) fn in_order<T, const N: usize>(parts: [Vec<T>; N]) -> Vec<T> {
    parts.into_iter().flatten().collect()
}
