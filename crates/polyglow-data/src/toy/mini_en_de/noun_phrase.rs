//! Noun phrases: determiner, adjectives, noun and perhaps a relative clause; or a pronoun.
//!
//! German inflects determiner, adjectives and noun together, by case, gender and number: "the old
//! dog" is *der alte Hund* as a subject, *den alten Hund* as an object and *dem alten Hund* in the
//! dative.
//!
//! The order in which random numbers are drawn is a part of the corpus: a draw more, or one that is
//! moved, changes every sentence after it.

use super::category::Category;
use super::draft::{Combination, Draft, Phrase};
use super::lexicon::{Adjective, Noun, NounClass, Verb};
use super::morphology::{Agreement, Case, Declension, Inflection, Number};
use super::relative::relative_clause;
use super::words::{ADJECTIVES, ANIMATE, NOUNS, NUMERALS, PEOPLE, POSSESSIVES, SUBJECT_PRONOUNS};
use crate::toy::random::SplitMix64;

/// Whether a relative clause is nested in a phrase or in one of the phrases of a clause.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Nesting {
    Flat,
    Nested,
}

/// The position in a sentence that a noun phrase is to fill.
pub(super) struct Slot {
    pub(super) case: Case,
    pub(super) classes: &'static [NounClass],
    /// The verb whose direct object this is.
    pub(super) object_of: Option<&'static Verb>,
    pub(super) nesting: Nesting,
    /// Chance of a first adjective, in percent.
    pub(super) adjective_chance: usize,
    /// Chance of the plural, in percent.
    pub(super) plural_chance: usize,
}

/// A noun phrase, with what the rest of the clause needs to know about it.
pub(super) struct NounPhrase {
    pub(super) phrase: Phrase,
    pub(super) agreement: Agreement,
    /// The phrase is *ein ...* without a relative clause, which German negates by *kein*.
    pub(super) is_bare_indefinite: bool,
}

/// The kinds of determiners, which differ in the endings of the adjectives after them.
#[derive(Clone, Copy, PartialEq)]
enum DeterminerKind {
    /// "the", *der*
    Definite,
    /// "this", *dieser*
    Demonstrative,
    /// "every", *jeder*
    Universal,
    /// "a", *ein*
    Indefinite,
    /// "my", *mein*
    Possessive,
    /// "two", *zwei*
    Numeral,
}

impl Slot {
    pub(super) const fn new(case: Case, classes: &'static [NounClass]) -> Self {
        Self {
            case,
            classes,
            object_of: None,
            nesting: Nesting::Flat,
            adjective_chance: 45,
            plural_chance: 30,
        }
    }
}

/// A subject: a pronoun, a person or, now and then, an animal.
pub(super) fn subject(draft: &mut Draft, nesting: Nesting) -> NounPhrase {
    if wants_pronoun(draft) && nesting == Nesting::Flat {
        return subject_pronoun(draft);
    }
    let classes = if draft.random.chance(15) {
        ANIMATE
    } else {
        PEOPLE
    };
    noun_phrase(
        draft,
        &Slot {
            nesting,
            ..Slot::new(Case::Nominative, classes)
        },
    )
}

/// The subject of a verb that takes a thinking one.
pub(super) fn human_subject(draft: &mut Draft) -> NounPhrase {
    if wants_pronoun(draft) {
        subject_pronoun(draft)
    } else {
        noun_phrase(draft, &Slot::new(Case::Nominative, PEOPLE))
    }
}

/// Draws a noun phrase for `slot`.
pub(super) fn noun_phrase(draft: &mut Draft, slot: &Slot) -> NounPhrase {
    let candidates: Vec<&Noun> = NOUNS
        .iter()
        .filter(|noun| slot.classes.contains(&noun.class))
        .collect();
    let noun = *draft.random.choose(&candidates);
    let number = if draft.random.chance(slot.plural_chance) {
        Number::Plural
    } else {
        Number::Singular
    };
    let inflection = Inflection {
        case: slot.case,
        gender: noun.gender,
        number,
    };
    let adjectives = adjectives(draft.random, noun, slot.adjective_chance);
    note_combinations(draft, slot, noun, &adjectives);

    let kind = DeterminerKind::draw(draft.random, number);
    let next_word = adjectives
        .first()
        .map_or(noun.english(number), |adjective| adjective.english);
    let (mut phrase, declension) = determiner(draft, kind, inflection, next_word);
    let ending = inflection.adjective_ending(declension);
    for adjective in adjectives {
        let german = format!("{}{ending}", adjective.german);
        phrase.append(draft.translated(Category::Adjective, adjective.english, german));
    }
    let german = inflection.noun_form(noun.german);
    phrase.append(draft.translated(Category::Noun, noun.english(number), german));
    if slot.nesting == Nesting::Nested {
        phrase.append(relative_clause(draft, noun, inflection));
    }
    NounPhrase {
        phrase,
        agreement: Agreement::third(number),
        is_bare_indefinite: kind == DeterminerKind::Indefinite && slot.nesting == Nesting::Flat,
    }
}

/// Up to two different adjectives that suit the noun.
fn adjectives(
    random: &mut SplitMix64,
    noun: &Noun,
    first_chance: usize,
) -> Vec<&'static Adjective> {
    let count = if !random.chance(first_chance) {
        0
    } else if !random.chance(30) {
        1
    } else {
        2
    };
    let mut chosen: Vec<&Adjective> = Vec::new();
    while chosen.len() < count {
        let adjective = random.choose(&ADJECTIVES);
        let is_new = chosen
            .iter()
            .all(|other| other.english != adjective.english);
        if is_new && adjective.classes.contains(&noun.class) {
            chosen.push(adjective);
        }
    }
    chosen
}

/// Records the combinations of words that some splits hold out.
fn note_combinations(
    draft: &mut Draft,
    slot: &Slot,
    noun: &Noun,
    adjectives: &[&'static Adjective],
) {
    if let Some(verb) = slot.object_of {
        draft
            .combinations
            .push(Combination::VerbObject(verb.name(), noun.name()));
    }
    for adjective in adjectives {
        draft
            .combinations
            .push(Combination::AdjectiveNoun(adjective.english, noun.name()));
    }
}

impl DeterminerKind {
    /// Draws a determiner that exists in this number: there is no plural of "a" and "every".
    fn draw(random: &mut SplitMix64, number: Number) -> Self {
        let percentile = random.below(100);
        match number {
            Number::Singular => match percentile {
                0..40 => Self::Definite,
                40..70 => Self::Indefinite,
                70..78 => Self::Demonstrative,
                78..83 => Self::Universal,
                _ => Self::Possessive,
            },
            Number::Plural => match percentile {
                0..45 => Self::Definite,
                45..55 => Self::Demonstrative,
                55..75 => Self::Possessive,
                _ => Self::Numeral,
            },
        }
    }

    /// The declension of adjectives after the determiner.
    const fn declension(self) -> Declension {
        match self {
            Self::Definite | Self::Demonstrative | Self::Universal => Declension::Weak,
            Self::Indefinite | Self::Possessive => Declension::Mixed,
            Self::Numeral => Declension::Strong,
        }
    }

    const fn category(self) -> Category {
        match self {
            Self::Definite | Self::Demonstrative | Self::Universal | Self::Indefinite => {
                Category::Determiner
            }
            Self::Possessive => Category::Pronoun,
            Self::Numeral => Category::Numeral,
        }
    }
}

/// Draws the determiner, and returns it with the declension of the adjectives after it.
fn determiner(
    draft: &mut Draft,
    kind: DeterminerKind,
    inflection: Inflection,
    next_word: &str,
) -> (Phrase, Declension) {
    let (english, german) = determiner_words(draft.random, kind, inflection, next_word);
    let phrase = draft.translated(kind.category(), english, german);
    (phrase, kind.declension())
}

/// Draws the English and the German determiner.
fn determiner_words(
    random: &mut SplitMix64,
    kind: DeterminerKind,
    inflection: Inflection,
    next_word: &str,
) -> (&'static str, String) {
    let der_ending = inflection.der_word_ending();
    let ein_ending = inflection.ein_word_ending();
    match kind {
        DeterminerKind::Definite => ("the", inflection.definite_article().to_owned()),
        DeterminerKind::Demonstrative => {
            let english = if inflection.number == Number::Plural {
                "these"
            } else {
                "this"
            };
            (english, format!("dies{der_ending}"))
        }
        DeterminerKind::Universal => ("every", format!("jed{der_ending}")),
        DeterminerKind::Indefinite => {
            let english = if next_word.starts_with(['a', 'e', 'i', 'o', 'u']) {
                "an"
            } else {
                "a"
            };
            (english, format!("ein{ein_ending}"))
        }
        DeterminerKind::Possessive => {
            let (english, german) = *random.choose(&POSSESSIVES);
            (english, format!("{german}{ein_ending}"))
        }
        DeterminerKind::Numeral => {
            let (english, german) = *random.choose(&NUMERALS);
            (english, german.to_owned())
        }
    }
}

/// Draws whether a subject is a pronoun.
fn wants_pronoun(draft: &mut Draft) -> bool {
    draft.random.chance(35)
}

/// Draws a pronoun as a subject.
fn subject_pronoun(draft: &mut Draft) -> NounPhrase {
    let pronoun = draft.random.choose(&SUBJECT_PRONOUNS);
    NounPhrase {
        phrase: draft.translated(Category::Pronoun, pronoun.english, pronoun.german),
        agreement: pronoun.agreement,
        is_bare_indefinite: false,
    }
}
