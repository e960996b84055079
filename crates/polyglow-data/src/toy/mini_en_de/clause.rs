//! Clauses: who does what to whom, and in which order the two languages say it.
//!
//! English keeps subject, verb, object. In German the kind of clause decides where the finite verb
//! stands: second in a main clause, first in a question, last in a subordinate clause.

use super::category::Category;
use super::draft::{Draft, GermanWord, Phrase, in_order};
use super::lexicon::{Frame, NounClass, ObjectPronoun, Verb};
use super::morphology::{Agreement, Case, Number, Person};
use super::noun_phrase::{Nesting, NounPhrase, Slot, noun_phrase, subject};
use super::verb_group::{Predicate, VerbGroup, verb_group};
use super::words::{ADVERBS, OBJECT_PRONOUNS, PEOPLE, PLACES, PREPOSITIONS};

/// The kinds of clauses that differ in word order.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ClauseKind {
    /// Finite verb second, after the subject or an adverb.
    Main,
    /// Finite verb first; English puts its auxiliary there.
    Question,
    /// A main clause after its subordinate clause, which takes the first position: finite verb
    /// before the subject.
    Inverted,
    /// Finite verb last.
    Subordinate,
}

/// Draws a clause. A `Nested` one has a relative clause at its subject or its object (if it has
/// one).
pub(super) fn clause(draft: &mut Draft, kind: ClauseKind, nesting: Nesting) -> Phrase {
    let predicate = Predicate::draw(draft.random, kind);
    if kind != ClauseKind::Subordinate {
        draft.tense = predicate.tense;
    }
    let adverb = adverb(draft, &predicate);
    let [on_subject, on_object] = match nesting {
        Nesting::Flat => [Nesting::Flat, Nesting::Flat],
        Nesting::Nested if draft.random.chance(50) => [Nesting::Nested, Nesting::Flat],
        Nesting::Nested => [Nesting::Flat, Nesting::Nested],
    };
    let subject = subject(draft, on_subject);
    complete(
        draft,
        &predicate,
        adverb,
        subject.phrase,
        subject.agreement,
        on_object,
    )
}

/// Draws the rest of a relative clause whose pronoun is the subject.
pub(super) fn subject_relative_rest(draft: &mut Draft, agreement: Agreement) -> Phrase {
    let predicate = Predicate::draw(draft.random, ClauseKind::Subordinate);
    complete(
        draft,
        &predicate,
        Phrase::default(),
        Phrase::default(),
        agreement,
        Nesting::Flat,
    )
}

/// Adds verbs, objects and perhaps a location, and puts everything in order.
fn complete(
    draft: &mut Draft,
    predicate: &Predicate,
    adverb: Phrase,
    subject: Phrase,
    agreement: Agreement,
    on_object: Nesting,
) -> Phrase {
    let mut verbs = verb_group(draft, predicate, agreement);
    let mut objects = objects(draft, predicate, agreement, on_object);
    if let Some(last) = objects
        .last_mut()
        .filter(|object| object.is_bare_indefinite)
    {
        fuse_negation(&mut last.phrase, &mut verbs.negation);
    }
    let mut complement = Phrase::default();
    for object in objects {
        complement.append(object.phrase);
    }
    if !predicate.negated && draft.random.chance(22) && on_object == Nesting::Flat {
        complement.append(location(draft));
    }
    arrange(predicate.kind, adverb, subject, verbs, complement)
}

/// Puts the parts of a clause in the order of each language.
fn arrange(
    kind: ClauseKind,
    adverb: Phrase,
    subject: Phrase,
    verbs: VerbGroup,
    complement: Phrase,
) -> Phrase {
    // Only a question has a verb before its subject, and no question has an adverb.
    let english = if kind == ClauseKind::Question {
        in_order([
            verbs.english_auxiliary,
            subject.english,
            verbs.english_rest,
            complement.english,
        ])
    } else {
        in_order([
            adverb.english,
            subject.english,
            verbs.english_auxiliary,
            verbs.english_rest,
            complement.english,
        ])
    };

    // In German the verbs are a bracket around the middle of the clause; a subordinate clause has
    // both parts of it at its end.
    let finite = vec![verbs.finite];
    let middle = in_order([complement.german, verbs.negation, verbs.closing]);
    let german = match kind {
        ClauseKind::Subordinate => in_order([subject.german, middle, finite]),
        ClauseKind::Main if adverb.german.is_empty() => in_order([subject.german, finite, middle]),
        _ => in_order([adverb.german, finite, subject.german, middle]),
    };
    Phrase { english, german }
}

/// An adverb of time that agrees with the tense; only main clauses open with one, and not all of
/// them.
fn adverb(draft: &mut Draft, predicate: &Predicate) -> Phrase {
    if predicate.kind != ClauseKind::Main || !draft.random.chance(25) {
        return Phrase::default();
    }
    let fitting: Vec<_> = ADVERBS
        .iter()
        .filter(|adverb| adverb.tenses.contains(&predicate.tense))
        .collect();
    let adverb = *draft.random.choose(&fitting);
    draft.translated(Category::Adverb, adverb.english, adverb.german)
}

/// The objects that the verb asks for, a person in the dative before a thing in the accusative.
fn objects(
    draft: &mut Draft,
    predicate: &Predicate,
    subject: Agreement,
    nesting: Nesting,
) -> Vec<NounPhrase> {
    let verb = predicate.verb;
    match verb.frame {
        Frame::Intransitive => Vec::new(),
        Frame::Accusative(classes) => {
            let slot = direct_slot(verb, nesting, Case::Accusative, classes);
            vec![direct_object(draft, &slot, subject)]
        }
        Frame::Dative(classes) => {
            let slot = direct_slot(verb, nesting, Case::Dative, classes);
            vec![direct_object(draft, &slot, subject)]
        }
        Frame::Ditransitive(classes) => {
            let receiver = if draft.random.chance(30) {
                object_pronoun(draft, Case::Dative, subject)
            } else {
                noun_phrase(draft, &Slot::new(Case::Dative, PEOPLE))
            };
            let slot = direct_slot(verb, nesting, Case::Accusative, classes);
            vec![receiver, noun_phrase(draft, &slot)]
        }
    }
}

/// The slot of the direct object of `verb`.
fn direct_slot(
    verb: &'static Verb,
    nesting: Nesting,
    case: Case,
    classes: &'static [NounClass],
) -> Slot {
    Slot {
        object_of: Some(verb),
        nesting,
        ..Slot::new(case, classes)
    }
}

/// A noun phrase, or a pronoun where a person can be meant.
fn direct_object(draft: &mut Draft, slot: &Slot, subject: Agreement) -> NounPhrase {
    let wants_pronoun = draft.random.chance(20);
    if wants_pronoun && slot.classes.contains(&NounClass::Human) && slot.nesting == Nesting::Flat {
        object_pronoun(draft, slot.case, subject)
    } else {
        noun_phrase(draft, slot)
    }
}

/// An object pronoun, but never "I see me" or "I see us". (After "we" both stay in: the published
/// files have them.)
fn object_pronoun(draft: &mut Draft, case: Case, subject: Agreement) -> NounPhrase {
    let speaks_of_self = subject.person == Person::First && subject.number == Number::Singular;
    let fitting: Vec<&ObjectPronoun> = OBJECT_PRONOUNS
        .iter()
        .filter(|pronoun| !speaks_of_self || pronoun.agreement.person != Person::First)
        .collect();
    let pronoun = *draft.random.choose(&fitting);
    let german = if case == Case::Dative {
        pronoun.dative
    } else {
        pronoun.accusative
    };
    NounPhrase {
        phrase: draft.translated(Category::Pronoun, pronoun.english, german),
        agreement: pronoun.agreement,
        is_bare_indefinite: false,
    }
}

/// Moves the negation, if there is one, into the article: *nicht* + *ein* = *kein*.
fn fuse_negation(object: &mut Phrase, negation: &mut Vec<GermanWord>) {
    if let (Some(article), Some(not)) = (object.german.first_mut(), negation.pop()) {
        article.text.insert(0, 'k');
        article.links.extend(not.links);
    }
}

/// Draws the location of what happens: "near the house", *beim Haus*.
fn location(draft: &mut Draft) -> Phrase {
    let preposition = draft.random.choose(&PREPOSITIONS);
    let slot = Slot {
        adjective_chance: 30,
        plural_chance: 10,
        ..Slot::new(Case::Dative, PLACES)
    };
    let mut location = noun_phrase(draft, &slot).phrase;
    // *bei dem Haus* is written *beim Haus*; the fused word translates both English ones.
    let fused = preposition
        .with_dem
        .filter(|_| location.german[0].text == "dem");
    let mut phrase = draft.translated(
        Category::Preposition,
        preposition.english,
        fused.unwrap_or(preposition.german),
    );
    if fused.is_some() {
        let article = location.german.remove(0);
        phrase.german[0].links.extend(article.links);
    }
    phrase.append(location);
    phrase
}
