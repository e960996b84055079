//! Repairs and removes pairs, one after the other.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;

use crate::clean::profile::SideProfile;
use crate::clean::repair::{Repairs, repair};
use crate::clean::rules::{REPEAT, RULES, refuse};
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
/// The reason of a pair of which a test set has a side.
pub const TEST: Reason = Reason {
    key: "test",
    title: "with a sentence of a test set",
};

/// Cleans the pairs of a corpus. Memory grows with hashes of the pairs that are kept.
pub struct Cleaner {
    profiles: [SideProfile; 2],
    /// Hashes of the normal forms of test sentences, for each side.
    test: [HashSet<u64>; 2],
    /// Hashes of the normal forms of the pairs so far.
    seen: HashSet<u128>,
    /// How many pairs with digits there were, by the hash of their normal forms without these.
    templates: HashMap<u128, u8>,
    report: CleanReport,
}

/// A pair that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Cleaned {
    /// The pair, repaired.
    pub pair: Pair,
    /// The repairs that it needed.
    pub repairs: Repairs,
    /// Why it is to be removed; `None` if it stays.
    pub removed: Option<Reason>,
}

/// What a cleaner has done so far.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CleanReport {
    /// Pairs that were looked at.
    pub pairs: u64,
    /// Pairs that stay.
    pub kept: u64,
    /// Pairs that stay and were repaired, by repair; one may have needed several.
    pub repaired: BTreeMap<&'static str, u64>,
    /// Pairs that are removed, by the key of the reason.
    pub removed: BTreeMap<&'static str, u64>,
}

impl Cleaner {
    /// Makes a cleaner of text whose sides are usually like `profiles`.
    pub fn new(profiles: [SideProfile; 2]) -> Self {
        Self {
            profiles,
            test: Default::default(),
            seen: HashSet::new(),
            templates: HashMap::new(),
            report: CleanReport::default(),
        }
    }

    /// Adds a pair of a test or validation set: pairs that have one of its sides are removed.
    pub fn add_test(&mut self, pair: &Pair) {
        for (side, text) in [&pair.src, &pair.tgt].into_iter().enumerate() {
            let (text, _) = repair(text, &self.profiles[side]);
            let form = normal_form(&text);
            // A side without letters, such as `...`, is in all text.
            if !form.is_empty() {
                self.test[side].insert(hash(&form));
            }
        }
    }

    /// Repairs a pair, and says whether it stays.
    pub fn clean(&mut self, pair: &Pair) -> Cleaned {
        let (src, src_repairs) = repair(&pair.src, &self.profiles[0]);
        let (tgt, tgt_repairs) = repair(&pair.tgt, &self.profiles[1]);
        let repairs = src_repairs.and(tgt_repairs);
        let pair = Pair { src, tgt };
        let removed = self.refuse(&pair);
        self.report.pairs += 1;
        if let Some(reason) = removed {
            *self.report.removed.entry(reason.key).or_default() += 1;
        } else {
            self.report.kept += 1;
            for name in repairs.names() {
                *self.report.repaired.entry(name).or_default() += 1;
            }
        }
        Cleaned {
            pair,
            repairs,
            removed,
        }
    }

    fn refuse(&mut self, pair: &Pair) -> Option<Reason> {
        let [src, tgt] = &self.profiles;
        if let Some(reason) = refuse(pair, [src, tgt]) {
            return Some(reason);
        }
        let forms = [normal_form(&pair.src), normal_form(&pair.tgt)];
        let is_test = |side: usize| self.test[side].contains(&hash(&forms[side]));
        if is_test(0) || is_test(1) {
            return Some(TEST);
        }
        if !self.seen.insert(hash_pair(&forms)) {
            return Some(DUPLICATE);
        }
        if forms.iter().any(|form| form.contains(char::is_numeric)) {
            let template = forms.map(|form| without_digits(&form));
            let count = self.templates.entry(hash_pair(&template)).or_default();
            *count = count.saturating_add(1);
            if *count > KEPT_OF_TEMPLATE {
                return Some(TEMPLATE);
            }
        }
        None
    }

    /// Returns what was done so far.
    pub fn report(&self) -> &CleanReport {
        &self.report
    }
}

/// Returns every reason for which a pair may be removed, in the order in which they are looked for.
pub fn reasons() -> impl Iterator<Item = Reason> {
    let rules = RULES.iter().map(|rule| rule.reason);
    rules.chain([REPEAT, TEST, DUPLICATE, TEMPLATE])
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

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
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

    fn pair(src: &str, tgt: &str) -> Pair {
        Pair {
            src: src.to_owned(),
            tgt: tgt.to_owned(),
        }
    }

    fn cleaner() -> Cleaner {
        let text = ["Der Bär schläft .", "Größe und Café , naïf"];
        Cleaner::new([SideProfile::learn(text), SideProfile::learn(text)])
    }

    #[test]
    fn duplicates_templates_and_test_sentences_are_removed() {
        let mut cleaner = cleaner();
        cleaner.add_test(&pair("The end.", "Das Ende."));
        cleaner.add_test(&pair("...", "!"));
        let mut keys = Vec::new();
        for (src, tgt) in [
            ("A dog.", "Ein Hund."),
            ("a dog", "Ein  HUND!"),
            ("A dog.", "Der Hund."),
            ("page 1 of it", "Seite 1 davon"),
            ("page 22 of it", "Seite 22 davon"),
            ("page 3 of it", "Seite 3 davon"),
            ("the END", "Schluss"),
            ("It is over", "das Ende"),
            ("Wait ...", "Warte ..."),
        ] {
            let removed = cleaner.clean(&pair(src, tgt)).removed;
            keys.push(removed.map(|reason| reason.key));
        }
        let template = Some("template");
        let [duplicate, test] = [Some("duplicate"), Some("test")];
        let expected = [
            None, duplicate, None, None, None, template, test, test, None,
        ];
        assert_eq!(keys, expected);
        let report = cleaner.report();
        assert_eq!((report.pairs, report.kept), (9, 5));
        assert_eq!(report.removed["test"], 2);
    }

    #[test]
    fn a_pair_that_can_be_read_is_repaired_and_stays() {
        let mut cleaner = cleaner();
        let bear = cleaner.clean(&pair("The <b>bear</b>", "Der BÃ¤r"));
        assert_eq!(bear.pair, pair("The bear", "Der Bär"));
        assert_eq!(bear.removed, None);
        assert_eq!(
            bear.repairs.names().collect::<Vec<_>>(),
            ["mojibake", "html"]
        );
        // The same again, which was right from the start.
        let again = cleaner.clean(&pair("the bear", "Der Bär"));
        assert_eq!(again.removed, Some(DUPLICATE));
        assert_eq!(cleaner.report().repaired["mojibake"], 1);
    }

    #[test]
    fn every_reason_has_a_key_of_its_own() {
        let mut keys: Vec<&str> = reasons().map(|reason| reason.key).collect();
        keys.sort_unstable();
        let count = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }
}
