//! Relative clauses: "who calls her", *, der sie anruft,* and "that he buys", *, das er kauft,*.
//!
//! In German they are subordinate clauses between commas, with the finite verb at the end. The
//! pronoun takes its gender and number from the noun and its case from its own clause.

use super::category::Category;
use super::clause::{ClauseKind, subject_relative_rest};
use super::draft::{Combination, Draft, Phrase, german_comma, in_order};
use super::lexicon::{Frame, Noun, NounClass, Verb};
use super::morphology::{Agreement, Case, Inflection};
use super::noun_phrase::{Nesting, subject};
use super::verb_group::{Predicate, Tense, verb_group};
use super::words::{ANIMATE, VERBS};

/// Draws a relative clause after `noun`, which has this inflection in its own clause.
pub(super) fn relative_clause(draft: &mut Draft, noun: &Noun, inflection: Inflection) -> Phrase {
    let english = if noun.class == NounClass::Human {
        "who"
    } else {
        "that"
    };
    let is_subject = draft.random.chance(60) && ANIMATE.contains(&noun.class);
    let case = if is_subject {
        Case::Nominative
    } else {
        Case::Accusative
    };
    // The German relative pronoun has the form of the article, but for the dative plural, which
    // does not occur.
    let pronoun = draft.translated(
        Category::Pronoun,
        english,
        Inflection { case, ..inflection }.definite_article(),
    );
    let rest = if is_subject {
        subject_relative_rest(draft, Agreement::third(inflection.number))
    } else {
        object_relative_rest(draft, noun)
    };
    Phrase {
        english: in_order([pronoun.english, rest.english]),
        german: in_order([
            vec![german_comma()],
            pronoun.german,
            rest.german,
            vec![german_comma()],
        ]),
    }
}

/// Draws the rest of a relative clause whose pronoun is the object: a subject and a verb that takes
/// `noun` as its object.
fn object_relative_rest(draft: &mut Draft, noun: &Noun) -> Phrase {
    let subject = subject(draft, Nesting::Flat);
    let fitting: Vec<&Verb> = VERBS
        .iter()
        .filter(|verb| matches!(verb.frame, Frame::Accusative(classes) if classes.contains(&noun.class)))
        .collect();
    let verb = *draft.random.choose(&fitting);
    draft
        .combinations
        .push(Combination::VerbObject(verb.name(), noun.name()));
    let tense = if draft.random.chance(60) {
        Tense::Present
    } else {
        Tense::Perfect
    };
    let predicate = Predicate {
        kind: ClauseKind::Subordinate,
        verb,
        tense,
        negated: false,
    };
    let verbs = verb_group(draft, &predicate, subject.agreement);
    Phrase {
        english: in_order([
            subject.phrase.english,
            verbs.english_auxiliary,
            verbs.english_rest,
        ]),
        german: in_order([subject.phrase.german, verbs.closing, vec![verbs.finite]]),
    }
}
