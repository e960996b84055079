//! The `digits` corpus: a string of digits and its reverse, one digit per word.
//!
//! For `3 1 4` the target is `4 1 3` and the alignment `0-2 1-1 2-0`.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::AlignedPair;
use super::random::SplitMix64;

/// Strings up to this length may repeat, because there are too few different ones: 121 of the 500
/// in `test` and 111 in `valid` are also in `train`.
const LONGEST_REPEATABLE: usize = 3;

const DIGITS: [char; 10] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];

/// The recipe of a split.
struct Recipe {
    name: &'static str,
    seed: u64,
    size: usize,
    lengths: RangeInclusive<usize>,
}

/// The splits in the order of generation: a string of a held-out split is not generated again for
/// training.
const RECIPES: [Recipe; 4] = [
    Recipe {
        name: "test",
        seed: 201,
        size: 500,
        lengths: 1..=12,
    },
    Recipe {
        name: "valid",
        seed: 202,
        size: 500,
        lengths: 1..=12,
    },
    Recipe {
        name: "test_long",
        seed: 203,
        size: 500,
        lengths: 13..=24,
    },
    Recipe {
        name: "train",
        seed: 2025,
        size: 20_000,
        lengths: 1..=12,
    },
];

/// Draws all splits; a string longer than [`LONGEST_REPEATABLE`] occurs once in the whole corpus.
pub(super) fn draw() -> Vec<(&'static str, Vec<AlignedPair>)> {
    let mut seen = HashSet::new();
    RECIPES
        .iter()
        .map(|recipe| (recipe.name, draw_split(recipe, &mut seen)))
        .collect()
}

fn draw_split(recipe: &Recipe, seen: &mut HashSet<Vec<char>>) -> Vec<AlignedPair> {
    let mut random = SplitMix64::new(recipe.seed);
    let shortest = *recipe.lengths.start();
    let longest = *recipe.lengths.end();
    let mut pairs = Vec::with_capacity(recipe.size);
    while pairs.len() < recipe.size {
        let length = shortest + random.below(longest - shortest + 1);
        let digits: Vec<char> = (0..length).map(|_| *random.choose(&DIGITS)).collect();
        if length <= LONGEST_REPEATABLE || seen.insert(digits.clone()) {
            pairs.push(reversal(&digits));
        }
    }
    pairs
}

/// Makes the pair of a string and its reverse.
fn reversal(digits: &[char]) -> AlignedPair {
    AlignedPair {
        src: spaced(digits.iter()),
        tgt: spaced(digits.iter().rev()),
        alignment: (0..digits.len())
            .map(|position| (position, digits.len() - 1 - position))
            .collect(),
    }
}

fn spaced<'a>(digits: impl Iterator<Item = &'a char>) -> String {
    let words: Vec<String> = digits.map(char::to_string).collect();
    words.join(" ")
}
