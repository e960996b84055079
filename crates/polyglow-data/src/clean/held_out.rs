//! Sentences of test and validation sets, which must not be trained on.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use unicode_normalization::UnicodeNormalization;

use crate::clean::words::{fold, normal_form};
use crate::example::Reason;
use crate::pair::Pair;

/// Characters of the n-grams by which sentences are compared.
const NGRAM: usize = 4;
/// A side is near a sentence if they have this share of their n-grams in common (Jaccard's index).
const NEAR: f64 = 0.75;
/// Both sides are near the sides of one pair if each has this share, and both together that one.
const NEAR_BOTH: f64 = 0.45;
const NEAR_TOGETHER: f64 = 1.2;

/// The reason of a pair of which a test set has a side.
pub const TEST: Reason = Reason {
    key: "test",
    title: "with a sentence of a test set",
};
/// The reason of a pair of which a side is nearly one of a test set.
pub const NEAR_TEST: Reason = Reason {
    key: "near_test",
    title: "with a sentence that differs little from one of a test set",
};

/// The sentences of held-out sets.
#[derive(Default)]
pub struct HeldOut {
    sides: [HeldOutSide; 2],
}

#[derive(Default)]
struct HeldOutSide {
    /// Hashes of normal forms.
    forms: HashSet<u64>,
    /// For each sentence, the hashes of its n-grams in ascending order.
    sentences: Vec<Vec<u64>>,
    /// The sentences that have an n-gram.
    by_ngram: HashMap<u64, Vec<u32>>,
}

impl HeldOut {
    /// Adds a repaired pair.
    pub fn add(&mut self, pair: &Pair) {
        for (side, text) in self.sides.iter_mut().zip([&pair.src, &pair.tgt]) {
            side.add(text);
        }
    }

    /// Says whether a repaired pair has a sentence of a held-out set, or nearly; `forms` are the normal
    /// forms of its sides.
    pub fn refuse(&self, pair: &Pair, forms: &[String; 2]) -> Option<Reason> {
        let mut sides = self.sides.iter().zip(forms);
        if sides.any(|(side, form)| side.forms.contains(&hash(form))) {
            return Some(TEST);
        }
        let ngrams = [ngrams(&pair.src), ngrams(&pair.tgt)];
        let mut candidates: Vec<u32> = Vec::new();
        for (side, ngrams) in self.sides.iter().zip(&ngrams) {
            candidates.extend(side.candidates(ngrams));
        }
        candidates.sort_unstable();
        candidates.dedup();
        let is_near = candidates.into_iter().any(|sentence| {
            let [src, tgt] = [0, 1].map(|side| {
                jaccard(
                    &ngrams[side],
                    &self.sides[side].sentences[sentence as usize],
                )
            });
            src.max(tgt) >= NEAR || src.min(tgt) >= NEAR_BOTH && src + tgt >= NEAR_TOGETHER
        });
        is_near.then_some(NEAR_TEST)
    }
}

impl HeldOutSide {
    fn add(&mut self, text: &str) {
        let form = normal_form(text);
        let number = self.sentences.len() as u32;
        // A side without letters, such as `...`, is in all text.
        let ngrams = if form.is_empty() {
            Vec::new()
        } else {
            ngrams(text)
        };
        if !form.is_empty() {
            self.forms.insert(hash(&form));
        }
        for &ngram in &ngrams {
            self.by_ngram.entry(ngram).or_default().push(number);
        }
        self.sentences.push(ngrams);
    }

    /// Returns the sentences that may have [`NEAR_BOTH`] of their n-grams in common with those of a text.
    ///
    /// They then share that part of the text's n-grams, so that they have one of the others, however
    /// these are chosen: the rarest, which few sentences have.
    fn candidates(&self, ngrams: &[u64]) -> impl Iterator<Item = u32> {
        let num_shared = (NEAR_BOTH * ngrams.len() as f64).ceil() as usize;
        let mut lists: Vec<&[u32]> = ngrams
            .iter()
            .map(|ngram| self.by_ngram.get(ngram).map_or(&[][..], Vec::as_slice))
            .collect();
        lists.sort_by_key(|list| list.len());
        lists.truncate(ngrams.len() + 1 - num_shared.max(1));
        lists.into_iter().flatten().copied()
    }
}

/// Returns the hashes of the n-grams of a text in ascending order: letters and digits in one case and
/// width, with one blank for all else.
fn ngrams(text: &str) -> Vec<u64> {
    let compatible: String = text.nfkc().collect();
    let mut characters = vec![' '];
    for character in fold(&compatible).chars() {
        if character.is_alphanumeric() {
            characters.push(character);
        } else if characters.last() != Some(&' ') {
            characters.push(' ');
        }
    }
    if characters.last() != Some(&' ') {
        characters.push(' ');
    }
    let len = NGRAM.min(characters.len());
    let mut hashes: Vec<u64> = characters.windows(len).map(hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Returns the share of elements that two ascending lists have in common.
fn jaccard(left: &[u64], right: &[u64]) -> f64 {
    let mut num_common = 0_usize;
    let mut rest = right;
    for element in left {
        let skipped = rest.partition_point(|other| other < element);
        rest = &rest[skipped..];
        num_common += usize::from(rest.first() == Some(element));
    }
    let all = left.len() + right.len() - num_common;
    num_common as f64 / all.max(1) as f64
}

fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(src: &str, tgt: &str) -> Pair {
        Pair {
            src: src.to_owned(),
            tgt: tgt.to_owned(),
        }
    }

    #[test]
    fn sentences_and_what_differs_little_from_them_are_found() {
        let mut held_out = HeldOut::default();
        held_out.add(&pair(
            "The old man fishes every morning.",
            "Der alte Mann fischt jeden Morgen.",
        ));
        held_out.add(&pair("Thanks!", "Danke!"));
        held_out.add(&pair("...", "!"));
        let key = |src: &str, tgt: &str| {
            let forms = [normal_form(src), normal_form(tgt)];
            held_out
                .refuse(&pair(src, tgt), &forms)
                .map(|reason| reason.key)
        };
        assert_eq!(
            key("the OLD man fishes every morning", "Ganz anders."),
            Some("test")
        );
        assert_eq!(key("Merci", "danke"), Some("test"));
        assert_eq!(
            key(
                "The old man fishes each morning.",
                "Der alte Mann fischt jeden Morgen!"
            ),
            Some("test")
        );
        assert_eq!(
            key(
                "The old man fishes every evening.",
                "Der alte Mann fischt jeden Abend."
            ),
            Some("near_test")
        );
        assert_eq!(key("The old woman sleeps.", "Die alte Frau schläft."), None);
        assert_eq!(key("...", "ja"), None);
    }
}
