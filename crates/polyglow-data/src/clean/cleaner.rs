//! Looks at pairs one after the other: repairs them, and says which are to be removed by themselves,
//! because an earlier one is the same, or because of a held-out set.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::clean::held_out::HeldOut;
use crate::clean::profile::SideProfile;
use crate::clean::reasons::ReasonSet;
use crate::clean::repair::{Repairs, readable, repair};
use crate::clean::rules::refuse;
use crate::clean::words::normal_form;
use crate::example::Reason;
use crate::pair::Pair;

/// The number of pairs that stay of those that differ in their digits alone.
const KEPT_OF_TEMPLATE: u8 = 2;

/// The reason of a pair that says what an earlier one says.
pub const DUPLICATE: Reason = Reason {
    key: "duplicate",
    title: "that repeat an earlier pair",
};
/// The reason of a pair that differs from earlier ones in digits alone.
pub const TEMPLATE: Reason = Reason {
    key: "template",
    title: "that differ from earlier pairs in digits alone",
};

/// Cleans the pairs of a corpus by looking at each once. Memory grows with hashes of the pairs that
/// stay.
pub struct Cleaner {
    profiles: [SideProfile; 2],
    held_out: HeldOut,
    /// The numbers of the pairs so far, by the hashes of their normal forms.
    seen: HashMap<u128, u64>,
    duplicates: Vec<Duplicate>,
    /// The pairs with digits, by the hash of their normal forms without these.
    templates: HashMap<u128, Template>,
}

/// Pairs that differ in their digits alone.
struct Template {
    /// The number of the first of them.
    first: u64,
    /// The number of these pairs.
    count: u8,
}

/// A pair that repeats an earlier one, by their numbers in the corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The pair that repeats another.
    pub index: u64,
    /// The first pair that says the same.
    pub first: u64,
}

/// A pair that was looked at by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspected {
    /// The pair, repaired.
    pub pair: Pair,
    /// The repairs that it needed.
    pub repairs: Repairs,
    /// Why it is to be removed, by itself or because of a held-out set.
    reasons: ReasonSet,
    /// The normal forms of its sides.
    forms: [String; 2],
}

impl Cleaner {
    /// Makes a cleaner of text whose sides are usually like `profiles`.
    pub fn new(profiles: [SideProfile; 2]) -> Self {
        Self {
            profiles,
            held_out: HeldOut::default(),
            seen: HashMap::new(),
            duplicates: Vec::new(),
            templates: HashMap::new(),
        }
    }

    /// Adds a pair of a test or validation set: pairs that have one of its sides are removed.
    pub fn add_held_out(&mut self, pair: &Pair) {
        let (pair, _) = self.repair(pair);
        self.held_out.add(&pair);
    }

    /// Repairs both sides of a pair.
    pub fn repair(&self, pair: &Pair) -> (Pair, Repairs) {
        let (src, src_repairs) = repair(&pair.src, &self.profiles[0]);
        let (tgt, tgt_repairs) = repair(&pair.tgt, &self.profiles[1]);
        (Pair { src, tgt }, src_repairs.and(tgt_repairs))
    }

    /// Returns a pair with characters in place of bytes that are no UTF-8, and what that needed; nothing else
    /// is repaired.
    pub fn readable(&self, pair: &Pair) -> (Pair, Repairs) {
        let (src, src_repairs) = readable(&pair.src, &self.profiles[0]);
        let (tgt, tgt_repairs) = readable(&pair.tgt, &self.profiles[1]);
        (Pair { src, tgt }, src_repairs.and(tgt_repairs))
    }

    /// Repairs a pair, and looks at it by itself. Pairs may be inspected in any order.
    pub fn inspect(&self, pair: &Pair) -> Inspected {
        let (pair, repairs) = self.repair(pair);
        let [src, tgt] = &self.profiles;
        let mut reasons = refuse(&pair, [src, tgt]);
        let forms = [normal_form(&pair.src), normal_form(&pair.tgt)];
        reasons.extend(self.held_out.find(&pair, &forms).map(|(reason, _)| reason));
        Inspected {
            pair,
            repairs,
            reasons,
            forms,
        }
    }

    /// Says why an inspected pair, of a number in the corpus, is to be removed; nothing if it stays. A
    /// pair with which nothing else is wrong is compared with those that were admitted before.
    pub fn admit(&mut self, index: u64, inspected: &Inspected) -> ReasonSet {
        let Inspected { reasons, forms, .. } = inspected;
        let mut reasons = *reasons;
        if reasons.is_empty() {
            reasons.extend(self.find_repeat(index, forms));
        }
        reasons
    }

    /// Returns [`DUPLICATE`] or [`TEMPLATE`] if a pair repeats earlier ones, and remembers the pair.
    fn find_repeat(&mut self, index: u64, forms: &[String; 2]) -> Option<Reason> {
        let first = *self.seen.entry(hash_pair(forms)).or_insert(index);
        if first != index {
            self.duplicates.push(Duplicate { index, first });
            return Some(DUPLICATE);
        }
        if forms.iter().any(|form| form.contains(char::is_numeric)) {
            let template = self.templates.entry(hash_template(forms));
            let template = template.or_insert(Template {
                first: index,
                count: 0,
            });
            template.count = template.count.saturating_add(1);
            if template.count > KEPT_OF_TEMPLATE {
                return Some(TEMPLATE);
            }
        }
        None
    }

    /// Returns the number of the first pair that differs from a repaired one in digits alone.
    pub fn first_of_template(&self, pair: &Pair) -> Option<u64> {
        let forms = [normal_form(&pair.src), normal_form(&pair.tgt)];
        let template = self.templates.get(&hash_template(&forms));
        template.map(|template| template.first)
    }

    /// Returns a held-out pair of which a repaired pair has a sentence, or nearly.
    pub fn find_held_out(&self, pair: &Pair) -> Option<&Pair> {
        let forms = [normal_form(&pair.src), normal_form(&pair.tgt)];
        let (_, held_out) = self.held_out.find(pair, &forms)?;
        Some(held_out)
    }

    /// Returns the pairs that repeat earlier ones, in the order in which they were admitted.
    pub fn duplicates(&self) -> &[Duplicate] {
        &self.duplicates
    }
}

/// Hashes both sides without their digits.
fn hash_template([src, tgt]: &[String; 2]) -> u128 {
    hash_pair(&[without_digits(src), without_digits(tgt)])
}

/// Replaces each run of digits by one 0.
fn without_digits(form: &str) -> String {
    let mut template = String::with_capacity(form.len());
    for character in form.chars() {
        if !character.is_numeric() {
            template.push(character);
        } else if !template.ends_with('0') {
            template.push('0');
        }
    }
    template
}

/// Hashes both sides to 128 bits: with 64 two of a hundred million pairs would be taken for one.
fn hash_pair([src, tgt]: &[String; 2]) -> u128 {
    let mut hasher = DefaultHasher::new();
    (src, tgt).hash(&mut hasher);
    let low = hasher.finish();
    (low, tgt, src).hash(&mut hasher);
    u128::from(hasher.finish()) << 64 | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaner() -> Cleaner {
        let text = ["Der Bär schläft .", "Größe und Café , naïf"];
        Cleaner::new([SideProfile::learn(text), SideProfile::learn(text)])
    }

    fn removed(cleaner: &mut Cleaner, src: &str, tgt: &str) -> Option<&'static str> {
        let inspected = cleaner.inspect(&Pair::new(src, tgt));
        let index = cleaner.seen.len() as u64 + cleaner.duplicates.len() as u64;
        let reasons = cleaner.admit(index, &inspected);
        reasons.first().map(|reason| reason.key)
    }

    #[test]
    fn duplicates_templates_and_test_sentences_are_removed() {
        let mut cleaner = cleaner();
        cleaner.add_held_out(&Pair::new("The end.", "Das Ende."));
        let template = Some("template");
        let [duplicate, test] = [Some("duplicate"), Some("test")];
        for (src, tgt, expected) in [
            ("A dog.", "Ein Hund.", None),
            ("a dog", "Ein  HUND!", duplicate),
            ("A dog.", "Der Hund.", None),
            ("page 1 of it", "Seite 1 davon", None),
            ("page 22 of it", "Seite 22 davon", None),
            ("page 3 of it", "Seite 3 davon", template),
            ("the END", "Schluss", test),
            ("It is over", "das Ende", test),
        ] {
            assert_eq!(removed(&mut cleaner, src, tgt), expected, "{src} | {tgt}");
        }
    }

    #[test]
    fn a_pair_that_can_be_read_is_repaired_and_stays() {
        let mut cleaner = cleaner();
        let bear = cleaner.inspect(&Pair::new("The <b>bear</b>", "Der BÃ¤r"));
        assert_eq!(bear.pair, Pair::new("The bear", "Der Bär"));
        assert_eq!(
            bear.repairs.names().collect::<Vec<_>>(),
            ["mojibake", "html"]
        );
        assert!(cleaner.admit(0, &bear).is_empty());
        // The same again, which was right from the start.
        assert_eq!(
            removed(&mut cleaner, "the bear", "Der Bär"),
            Some("duplicate")
        );
    }
}
