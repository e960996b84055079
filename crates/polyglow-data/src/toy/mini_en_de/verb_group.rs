//! The verbs of a clause. English keeps them together; German splits them into a finite verb and a
//! closing part.
//!
//! The two German parts form the *sentence bracket*: *sie **ruft** die Frau **an***, *sie **hat**
//! die Frau **angerufen***. Only subordinate clauses put both at the end.

use super::category::Category;
use super::clause::ClauseKind;
use super::draft::{Draft, EnglishWord, GermanWord, Phrase, in_order};
use super::lexicon::{Governor, Verb};
use super::morphology::Agreement;
use super::words::{CAN, DO, HAVE, MUST, NOT, VERBS, WANT, WILL};
use crate::toy::random::SplitMix64;

/// The tense of a clause. A modal verb counts as a tense here, for the two exclude each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::toy) enum Tense {
    Present,
    Perfect,
    Future,
    Modal,
}

enum Modal {
    Can,
    Must,
    Want,
}

/// Everything about a clause that shapes its verbs, except the subject.
pub(super) struct Predicate {
    pub(super) kind: ClauseKind,
    pub(super) verb: &'static Verb,
    pub(super) tense: Tense,
    pub(super) negated: bool,
}

pub(super) struct VerbGroup {
    /// The English words that a question puts before its subject; empty where there is no
    /// auxiliary.
    pub(super) english_auxiliary: Vec<EnglishWord>,
    pub(super) english_rest: Vec<EnglishWord>,
    /// Opens the German bracket.
    pub(super) finite: GermanWord,
    /// *nicht*, or nothing.
    pub(super) negation: Vec<GermanWord>,
    /// Closes the German bracket: an infinitive, a participle, a separated prefix, or nothing.
    pub(super) closing: Vec<GermanWord>,
}

impl Tense {
    pub(in crate::toy) const ALL: [Self; 4] =
        [Self::Present, Self::Perfect, Self::Future, Self::Modal];

    fn draw(random: &mut SplitMix64) -> Self {
        match random.below(100) {
            0..40 => Self::Present,
            40..65 => Self::Perfect,
            65..80 => Self::Future,
            _ => Self::Modal,
        }
    }
}

impl Predicate {
    pub(super) fn draw(random: &mut SplitMix64, kind: ClauseKind) -> Self {
        Self {
            kind,
            verb: random.choose(&VERBS),
            tense: Tense::draw(random),
            negated: random.chance(18),
        }
    }

    /// Whether English asks for "do" where the verb has no auxiliary of its own.
    fn needs_do(&self) -> bool {
        self.negated || self.kind == ClauseKind::Question
    }
}

/// Draws the verbs of a clause, whose finite verb agrees with the subject.
pub(super) fn verb_group(
    draft: &mut Draft,
    predicate: &Predicate,
    agreement: Agreement,
) -> VerbGroup {
    let verb = predicate.verb;
    match predicate.tense {
        Tense::Present => present(draft, predicate, agreement),
        Tense::Perfect => with_auxiliary(
            draft,
            predicate,
            agreement,
            &HAVE,
            (verb.english_participle, verb.participle()),
        ),
        Tense::Future => with_auxiliary(
            draft,
            predicate,
            agreement,
            &WILL,
            (verb.english.base, verb.infinitive()),
        ),
        Tense::Modal => modal(draft, predicate, agreement),
    }
}

/// "calls", *ruft ... an*; in a subordinate clause *anruft*; with "do" in questions and negations.
fn present(draft: &mut Draft, predicate: &Predicate, agreement: Agreement) -> VerbGroup {
    let verb = predicate.verb;
    let link = draft.link();
    let not = negation(draft, predicate);
    let mut finite = verb.german.form(agreement).to_owned();
    let mut closing = Vec::new();
    if predicate.kind == ClauseKind::Subordinate {
        finite.insert_str(0, verb.prefix);
    } else if !verb.prefix.is_empty() {
        closing.push(link.german(verb.prefix));
    }
    let mut english_auxiliary = Vec::new();
    let mut english_verb = verb.english.form(agreement);
    if predicate.needs_do() {
        english_auxiliary = link.english(Category::Auxiliary, DO.form(agreement));
        english_verb = verb.english.base;
    }
    VerbGroup {
        english_auxiliary,
        english_rest: in_order([not.english, link.english(Category::Verb, english_verb)]),
        finite: link.german(finite),
        negation: not.german,
        closing,
    }
}

/// "has called", *hat ... angerufen*: an auxiliary in both languages, and the form of the verb that
/// it governs.
fn with_auxiliary(
    draft: &mut Draft,
    predicate: &Predicate,
    agreement: Agreement,
    auxiliary: &Governor,
    (english, german): (&'static str, String),
) -> VerbGroup {
    let not = negation(draft, predicate);
    let finite = draft.link();
    let main = draft.link();
    VerbGroup {
        english_auxiliary: finite.english(Category::Auxiliary, auxiliary.english.form(agreement)),
        english_rest: in_order([not.english, main.english(Category::Verb, english)]),
        finite: finite.german(auxiliary.german.form(agreement)),
        negation: not.german,
        closing: vec![main.german(german)],
    }
}

/// "can call", *kann ... anrufen*. A negated "must" is left out, because *nicht müssen* means "need
/// not".
fn modal(draft: &mut Draft, predicate: &Predicate, agreement: Agreement) -> VerbGroup {
    let modals: &[Modal] = if predicate.negated {
        &[Modal::Can, Modal::Want]
    } else {
        &[Modal::Can, Modal::Must, Modal::Want]
    };
    let infinitive = (predicate.verb.english.base, predicate.verb.infinitive());
    match draft.random.choose(modals) {
        Modal::Can => with_auxiliary(draft, predicate, agreement, &CAN, infinitive),
        Modal::Must => with_auxiliary(draft, predicate, agreement, &MUST, infinitive),
        Modal::Want => want(draft, predicate, agreement),
    }
}

/// "wants to call", *will ... anrufen*: a modal verb in German only, so that English needs "do" and
/// "to".
fn want(draft: &mut Draft, predicate: &Predicate, agreement: Agreement) -> VerbGroup {
    let not = negation(draft, predicate);
    let finite = draft.link();
    let to = draft.link();
    let main = draft.link();
    let mut english_auxiliary = Vec::new();
    let mut english_want = WANT.english.form(agreement);
    if predicate.needs_do() {
        english_auxiliary = finite.english(Category::Auxiliary, DO.form(agreement));
        english_want = WANT.english.base;
    }
    let infinitive = in_order([
        to.english(Category::Particle, "to"),
        main.english(Category::Verb, predicate.verb.english.base),
    ]);
    VerbGroup {
        english_auxiliary,
        english_rest: in_order([
            not.english,
            finite.english(Category::Verb, english_want),
            infinitive,
        ]),
        finite: finite.german(WANT.german.form(agreement)),
        negation: not.german,
        closing: vec![main.german(predicate.verb.infinitive())],
    }
}

/// "not" and *nicht*, or nothing.
fn negation(draft: &mut Draft, predicate: &Predicate) -> Phrase {
    if predicate.negated {
        draft.translated(Category::Particle, NOT.0, NOT.1)
    } else {
        Phrase::default()
    }
}
