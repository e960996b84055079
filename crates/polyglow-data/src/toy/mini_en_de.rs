//! The `mini-en-de` corpus: English to German from a small grammar, with test sets for different
//! kinds of generalization.
//!
//! `test` has new sentences, `test_comp` new combinations of known words, `test_deep` deeper
//! nesting.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use sha2::{Digest, Sha256};

use super::AlignedPair;
use super::random::SplitMix64;
use draft::{Combination, Draft, Phrase};
use noun_phrase::Nesting;
pub(super) use sentence::SentenceKind;
pub(super) use verb_group::Tense;

mod category;
mod clause;
mod draft;
mod lexicon;
mod morphology;
mod noun_phrase;
mod relative;
mod sentence;
mod verb_group;
mod words;

/// Maximum length of a sentence in either language, in words.
const MAX_WORDS: usize = 40;

/// The English words that open a clause inside a sentence. Their number measures how deeply a
/// sentence is nested.
const SUBORDINATORS: [&str; 5] = ["who", "that", "because", "although", "if"];

/// The recipe of a split: how its sentences are drawn, and which of them it takes.
struct Recipe {
    name: &'static str,
    seed: u64,
    size: usize,
    nesting: Nesting,
    /// Whether the sentences combine words that training never combines.
    held_out: bool,
    /// The number of [`SUBORDINATORS`] that a sentence may have.
    subordinators: RangeInclusive<usize>,
}

/// The splits in the order of generation. No sentence occurs twice, so training gets the sentences
/// that are not in the other splits.
#[rustfmt::skip]
const RECIPES: [Recipe; 5] = [
    Recipe { name: "test", seed: 101, size: 1_000, nesting: Nesting::Flat, held_out: false, subordinators: 0..=usize::MAX },
    Recipe { name: "valid", seed: 102, size: 500, nesting: Nesting::Flat, held_out: false, subordinators: 0..=usize::MAX },
    Recipe { name: "test_comp", seed: 103, size: 1_000, nesting: Nesting::Flat, held_out: true, subordinators: 0..=1 },
    Recipe { name: "test_deep", seed: 104, size: 500, nesting: Nesting::Nested, held_out: false, subordinators: 3..=usize::MAX },
    Recipe { name: "train", seed: 2024, size: 20_000, nesting: Nesting::Flat, held_out: false, subordinators: 0..=2 },
];

/// A sentence, and what the grammar knows about it.
pub(super) struct Sentence {
    pub(super) pair: AlignedPair,
    /// The part of speech of each English word, with single spaces between them.
    pub(super) tags: String,
    pub(super) kind: SentenceKind,
    /// The tense of the main clause. Sentences such as "she knows that ..." are in the present.
    pub(super) tense: Tense,
}

/// Draws all splits; an English sentence occurs once in the whole corpus.
pub(super) fn draw() -> Vec<(&'static str, Vec<Sentence>)> {
    let mut seen = HashSet::new();
    RECIPES
        .iter()
        .map(|recipe| (recipe.name, draw_split(recipe, &mut seen)))
        .collect()
}

/// Draws sentences until the split has its size; `seen` has the English sentences of all splits.
fn draw_split(recipe: &Recipe, seen: &mut HashSet<String>) -> Vec<Sentence> {
    let mut random = SplitMix64::new(recipe.seed);
    let mut sentences = Vec::with_capacity(recipe.size);
    while sentences.len() < recipe.size {
        let mut draft = Draft::new(&mut random);
        let (kind, sentence) = sentence::sentence(&mut draft, recipe.nesting);
        if !recipe.accepts(&sentence, &draft.combinations) {
            continue;
        }
        let pair = sentence::aligned(&sentence);
        if seen.insert(pair.src.clone()) {
            sentences.push(Sentence {
                pair,
                tags: sentence::tags(&sentence),
                kind,
                tense: draft.tense,
            });
        }
    }
    sentences
}

impl Recipe {
    /// Whether a sentence belongs into this split.
    fn accepts(&self, sentence: &Phrase, combinations: &[Combination]) -> bool {
        let words = sentence.english.iter();
        let subordinators = words
            .filter(|word| SUBORDINATORS.contains(&word.text))
            .count();
        sentence.english.len() <= MAX_WORDS
            && sentence.german.len() <= MAX_WORDS
            && self.subordinators.contains(&subordinators)
            && combinations.iter().any(is_held_out) == self.held_out
    }
}

/// Holds out about one in ten combinations of an adjective and a noun, and one in ten of a verb and
/// its object.
fn is_held_out(combination: &Combination) -> bool {
    match *combination {
        Combination::AdjectiveNoun(adjective, noun) => tenth(adjective, noun) == 0,
        Combination::VerbObject(verb, noun) => tenth(verb, noun) == 1,
    }
}

/// Assigns a combination to one of ten parts of about equal size, by a hash that does not change
/// when words are added.
fn tenth(left: &str, right: &str) -> u32 {
    let digest = Sha256::new()
        .chain_update(left)
        .chain_update("|")
        .chain_update(right)
        .finalize();
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]) % 10
}

#[cfg(test)]
mod tests;
