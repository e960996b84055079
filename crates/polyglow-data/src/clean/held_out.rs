//! Sentences of test and validation sets, which must not be trained on.

use std::collections::HashMap;
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

/// The reason of a pair of which a held-out set has a side.
pub const TEST: Reason = Reason {
    key: "test",
    title: "with a sentence of a validation or test set",
};
/// The reason of a pair of which a side is nearly one of a held-out set.
pub const NEAR_TEST: Reason = Reason {
    key: "near_test",
    title: "with a sentence that differs little from one of a validation or test set",
};

/// The sentences of held-out sets.
#[derive(Default)]
pub struct HeldOut {
    pairs: Vec<Pair>,
    sides: [HeldOutSide; 2],
}

#[derive(Default)]
struct HeldOutSide {
    /// The first sentence of each normal form, by its hash.
    forms: HashMap<u64, u32>,
    /// The number of n-grams of each sentence.
    sentences: Vec<usize>,
    /// The sentences that have an n-gram.
    by_ngram: HashMap<u64, Vec<u32>>,
}

impl HeldOut {
    /// Adds a repaired pair.
    pub fn add(&mut self, pair: &Pair) {
        for (side, text) in self.sides.iter_mut().zip([&pair.src, &pair.tgt]) {
            side.add(text);
        }
        self.pairs.push(pair.clone());
    }

    /// Returns a held-out pair of which a repaired pair has a sentence, or nearly, and which of both it is;
    /// `forms` are the normal forms of its sides.
    pub fn find(&self, pair: &Pair, forms: &[String; 2]) -> Option<(Reason, &Pair)> {
        let mut sides = self.sides.iter().zip(forms);
        if let Some(same) = sides.find_map(|(side, form)| side.forms.get(&hash(form))) {
            return Some((TEST, &self.pairs[*same as usize]));
        }
        let [src, tgt] = [(&pair.src, 0), (&pair.tgt, 1)]
            .map(|(text, side)| self.sides[side].similarities(&ngrams(text)));
        let near = src.iter().zip(&tgt).position(|(&src, &tgt)| {
            src.max(tgt) >= NEAR || src.min(tgt) >= NEAR_BOTH && src + tgt >= NEAR_TOGETHER
        });
        near.map(|near| (NEAR_TEST, &self.pairs[near]))
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
            self.forms.entry(hash(&form)).or_insert(number);
        }
        for &ngram in &ngrams {
            self.by_ngram.entry(ngram).or_default().push(number);
        }
        self.sentences.push(ngrams.len());
    }

    /// Returns Jaccard's index of the n-grams of a text and of each sentence: the share of those of either
    /// that both have.
    fn similarities(&self, ngrams: &[u64]) -> Vec<f64> {
        let mut num_common = vec![0_u32; self.sentences.len()];
        for ngram in ngrams {
            for &sentence in self.by_ngram.get(ngram).into_iter().flatten() {
                num_common[sentence as usize] += 1;
            }
        }
        let similarity = |(num_common, len): (u32, &usize)| {
            let all = ngrams.len() + len - num_common as usize;
            f64::from(num_common) / all.max(1) as f64
        };
        num_common
            .into_iter()
            .zip(&self.sentences)
            .map(similarity)
            .collect()
    }
}

/// Returns the hashes of the n-grams of a text, each once: letters and digits in one case and
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

fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_and_what_differs_little_from_them_are_found() {
        let mut held_out = HeldOut::default();
        held_out.add(&Pair::new(
            "The old man fishes every morning.",
            "Der alte Mann fischt jeden Morgen.",
        ));
        held_out.add(&Pair::new("Thanks!", "Danke!"));
        held_out.add(&Pair::new("...", "!"));
        let key = |src: &str, tgt: &str| {
            let forms = [normal_form(src), normal_form(tgt)];
            held_out
                .find(&Pair::new(src, tgt), &forms)
                .map(|(reason, found)| (reason.key, found.src.as_str()))
        };
        let fisher = "The old man fishes every morning.";
        assert_eq!(
            key("the OLD man fishes every morning", "Ganz anders."),
            Some(("test", fisher))
        );
        assert_eq!(key("Merci", "danke"), Some(("test", "Thanks!")));
        assert_eq!(
            key(
                "The old man fishes each morning.",
                "Der alte Mann fischt jeden Morgen!"
            ),
            Some(("test", fisher))
        );
        assert_eq!(
            key(
                "The old man fishes every evening.",
                "Der alte Mann fischt jeden Abend."
            ),
            Some(("near_test", fisher))
        );
        assert_eq!(key("The old woman sleeps.", "Die alte Frau schläft."), None);
        assert_eq!(key("...", "ja"), None);
    }
}
