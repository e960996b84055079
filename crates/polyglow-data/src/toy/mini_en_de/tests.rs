//! The words that the splits combine, read off the finished English text instead of the generator's
//! own notes.

use super::lexicon::{Adjective, Frame, Verb};
use super::morphology::Number;
use super::words::{
    ADJECTIVES, HAVE, NOUNS, NUMERALS, OBJECT_PRONOUNS, POSSESSIVES, SUBJECT_PRONOUNS, VERBS,
};
use super::*;

const ARTICLES: [&str; 6] = ["the", "a", "an", "this", "these", "every"];

#[test]
fn only_test_comp_combines_held_out_words_and_it_always_does() {
    for (split, sentences) in draw() {
        for Sentence { pair, .. } in sentences {
            let held_out = combinations(&pair.src).iter().any(is_held_out);
            assert_eq!(held_out, split == "test_comp", "{split}: {}", pair.src);
        }
    }
}

#[test]
fn the_reader_finds_every_kind_of_combination() {
    let found = combinations("the big old man who I see does not give the girl a red book .");
    let expected = [
        Combination::AdjectiveNoun("big", "man"),
        Combination::AdjectiveNoun("old", "man"),
        Combination::VerbObject("see", "man"),
        Combination::VerbObject("give", "book"),
        Combination::AdjectiveNoun("red", "book"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn about_a_tenth_of_all_combinations_is_held_out() {
    let all = ADJECTIVES.iter().flat_map(|adjective| {
        NOUNS
            .iter()
            .map(|noun| Combination::AdjectiveNoun(adjective.english, noun.name()))
    });
    let held_out = all.filter(is_held_out).count();
    assert!((35..70).contains(&held_out), "{held_out} of 512");
}

fn combinations(text: &str) -> Vec<Combination> {
    let words: Vec<&str> = text.split(' ').collect();
    let mut found = Vec::new();
    for start in 0..words.len() {
        let words = &words[start..];
        if let Some((adjectives, noun, rest)) = noun_phrase(words) {
            found.extend(
                adjectives
                    .iter()
                    .map(|adjective| Combination::AdjectiveNoun(adjective.english, noun)),
            );
            found.extend(
                object_relative(rest).map(|verb| Combination::VerbObject(verb.name(), noun)),
            );
        }
        if let Some((verb, rest)) = verb(words) {
            let rest = if matches!(verb.frame, Frame::Ditransitive(_)) {
                after_receiver(rest)
            } else {
                rest
            };
            found.extend(
                noun_phrase(rest).map(|(_, noun, _)| Combination::VerbObject(verb.name(), noun)),
            );
        }
    }
    found
}

/// A determiner, adjectives and a noun at the start of `words`; the adjectives, the noun and the
/// words after it.
fn noun_phrase<'a>(
    words: &'a [&'a str],
) -> Option<(Vec<&'static Adjective>, &'static str, &'a [&'a str])> {
    let (determiner, mut words) = words.split_first()?;
    let entries = POSSESSIVES.iter().chain(&NUMERALS).map(|entry| entry.0);
    entries
        .chain(ARTICLES)
        .find(|english| english == determiner)?;
    let mut adjectives = Vec::new();
    while let Some(adjective) = ADJECTIVES
        .iter()
        .find(|adjective| words.first() == Some(&adjective.english))
    {
        adjectives.push(adjective);
        words = &words[1..];
    }
    let is_next = |number, noun: &lexicon::Noun| words.first() == Some(&noun.english(number));
    let noun = NOUNS
        .iter()
        .find(|noun| is_next(Number::Singular, noun) || is_next(Number::Plural, noun))?;
    Some((adjectives, noun.name(), &words[1..]))
}

/// A verb in any form at the start of `words`, and the words after it.
fn verb<'a>(words: &'a [&'a str]) -> Option<(&'static Verb, &'a [&'a str])> {
    VERBS.iter().find_map(|verb| {
        let forms = [
            verb.english.base,
            verb.english.third_singular,
            verb.english_participle,
        ];
        forms.into_iter().find_map(|form| {
            let form: Vec<&str> = form.split(' ').collect();
            Some((verb, words.strip_prefix(&*form)?))
        })
    })
}

/// The verb of a relative clause with a subject of its own, such as "that he has seen", at the
/// start of `words`.
fn object_relative(words: &[&str]) -> Option<&'static Verb> {
    let words = words
        .strip_prefix(&["who"])
        .or_else(|| words.strip_prefix(&["that"]))?;
    let is_pronoun = SUBJECT_PRONOUNS
        .iter()
        .any(|pronoun| words.first() == Some(&pronoun.english));
    let rest = if is_pronoun {
        &words[1..]
    } else {
        noun_phrase(words)?.2
    };
    let auxiliaries = [HAVE.english.base, HAVE.english.third_singular];
    let rest = if auxiliaries.contains(rest.first()?) {
        &rest[1..]
    } else {
        rest
    };
    verb(rest).map(|(verb, _)| verb)
}

/// Returns the words behind the person to whom something is given.
fn after_receiver<'a>(words: &'a [&'a str]) -> &'a [&'a str] {
    let is_pronoun = OBJECT_PRONOUNS
        .iter()
        .any(|pronoun| words.first() == Some(&pronoun.english));
    if is_pronoun {
        &words[1..]
    } else {
        noun_phrase(words).map_or(words, |(_, _, rest)| rest)
    }
}
