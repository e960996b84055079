//! The entries of the dictionary; the words themselves are in [`super::words`].

use super::morphology::Number::{self, Singular};
use super::morphology::{Agreement, EnglishPresent, Gender, Present};
use super::verb_group::Tense;

/// The class of things that a noun names, which decides the adjectives and verbs that go with it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum NounClass {
    Human,
    Animal,
    Thing,
    /// A thing that can be opened.
    Openable,
    Place,
}

pub(super) struct Noun {
    /// Singular and plural.
    pub(super) english: [&'static str; 2],
    /// Nominative singular and nominative plural.
    pub(super) german: [&'static str; 2],
    pub(super) gender: Gender,
    pub(super) class: NounClass,
}

pub(super) struct Adjective {
    pub(super) english: &'static str,
    /// The stem, to which the endings are added.
    pub(super) german: &'static str,
    /// The nouns it describes sensibly.
    pub(super) classes: &'static [NounClass],
}

/// The objects that a verb takes, with the classes of its (direct) object.
pub(super) enum Frame {
    Intransitive,
    Accusative(&'static [NounClass]),
    /// German asks for the dative where English has a plain object: *jemandem helfen*.
    Dative(&'static [NounClass]),
    /// A person in the dative, then the direct object in the accusative.
    Ditransitive(&'static [NounClass]),
}

pub(super) struct Verb {
    pub(super) english: EnglishPresent,
    pub(super) english_participle: &'static str,
    /// Parts from the verb in main clauses (*ruft ... an*); empty for most verbs.
    pub(super) prefix: &'static str,
    /// Without the prefix.
    pub(super) german: Present,
    /// Without the prefix.
    pub(super) german_participle: &'static str,
    pub(super) frame: Frame,
}

/// A verb that governs another verb or a clause.
pub(super) struct Governor {
    pub(super) english: EnglishPresent,
    pub(super) german: Present,
}

pub(super) struct SubjectPronoun {
    pub(super) english: &'static str,
    pub(super) german: &'static str,
    pub(super) agreement: Agreement,
}

pub(super) struct ObjectPronoun {
    pub(super) english: &'static str,
    pub(super) accusative: &'static str,
    pub(super) dative: &'static str,
    pub(super) agreement: Agreement,
}

pub(super) struct Adverb {
    pub(super) english: &'static str,
    pub(super) german: &'static str,
    /// The tenses that agree with the time it names.
    pub(super) tenses: &'static [Tense],
}

pub(super) struct Preposition {
    pub(super) english: &'static str,
    pub(super) german: &'static str,
    /// Fused with the article *dem*.
    pub(super) with_dem: Option<&'static str>,
}

/// A word that is never inflected: English, German.
pub(super) type Entry = (&'static str, &'static str);

impl Noun {
    pub(super) const fn english(&self, number: Number) -> &'static str {
        self.english[number as usize]
    }

    /// The word by which lists of held-out combinations know the noun.
    pub(super) const fn name(&self) -> &'static str {
        self.english(Singular)
    }
}

impl Verb {
    /// The infinitive with its prefix: *anrufen*.
    pub(super) fn infinitive(&self) -> String {
        format!("{}{}", self.prefix, self.german.infinitive)
    }

    /// The participle with its prefix: *angerufen*.
    pub(super) fn participle(&self) -> String {
        format!("{}{}", self.prefix, self.german_participle)
    }

    /// The word by which lists of held-out combinations know the verb.
    pub(super) const fn name(&self) -> &'static str {
        self.english.base
    }
}
