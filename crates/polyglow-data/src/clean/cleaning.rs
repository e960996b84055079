//! Says of every pair of a corpus whether it stays, in three readings of it.
//!
//! Of each pair five bytes are kept between readings, and of the corpus a sample from which languages and
//! translations are learned: memory grows with hashes alone.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::LazyLock;

use rayon::prelude::*;
use serde::Serialize;

use crate::clean::cleaner::{Cleaner, DUPLICATE, Duplicate, Inspected, TEMPLATE};
use crate::clean::group::Group;
use crate::clean::held_out::{NEAR_TEST, TEST};
use crate::clean::lexical::{CUT, JOINED, Lexical, MISALIGNED, Sampled};
use crate::clean::own_language::{Guess, Judgment, OwnLanguages};
use crate::clean::profile::SideProfile;
use crate::clean::repair::Repairs;
use crate::clean::rules::{REPEAT, RULES};
use crate::corpus::Corpus;
use crate::error::DataError;
use crate::example::Reason;
use crate::pair::Pair;
use crate::random::mix;

/// Pairs from which it is learned how a side is usually written.
const PROFILED: usize = 50_000;
/// Pairs from which languages and translations are learned.
const SAMPLED: usize = 200_000;
/// Pairs that are looked at together, on all cores.
const CHUNK: usize = 4_096;
/// The key of the sample.
const SAMPLE_KEY: u64 = 0x636c_6561_6e00;

/// The reason of a pair of which a side is in another language.
pub const LANGUAGE: Reason = Reason {
    key: "language",
    title: "with a side in another language",
};

/// The reason of a pair that scores less than others.
pub const SCORE: Reason = Reason {
    key: "score",
    title: "with a low score",
};

/// Returns every reason for which a pair may be removed, in the order in which they are looked for.
pub fn reasons() -> impl Iterator<Item = Reason> {
    let rules = RULES.iter().map(|rule| rule.reason);
    let others = [
        REPEAT, TEST, NEAR_TEST, DUPLICATE, TEMPLATE, LANGUAGE, MISALIGNED, CUT, JOINED, SCORE,
    ];
    rules.chain(others)
}

/// A reading of the corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Each pair by itself, and beside earlier ones.
    Rules,
    /// The languages of its sides.
    Languages,
    /// Whether its sides say the same.
    Meanings,
}

/// What becomes of each pair of a corpus.
pub struct Cleaning {
    cleaner: Cleaner,
    fates: Vec<Fate>,
    /// The groups whose filters are left out.
    left_out: BTreeSet<Group>,
    /// The number of the first pair of each part of the corpus.
    starts: Vec<u64>,
    languages: BTreeMap<&'static str, u64>,
    estimates: BTreeMap<&'static str, f64>,
    /// What was learned of the languages of both sides; `None` of too few pairs.
    own_languages: Option<OwnLanguages>,
    /// What was learned of what sides say; `None` of too few pairs.
    lexical: Option<Lexical>,
}

/// What becomes of a pair. Reasons are indices in [`reasons`].
#[derive(Clone, Copy, Default)]
struct Fate {
    /// Whether its sides stand on the wrong sides.
    is_swapped: bool,
    /// The reason that a held-out set gives, whatever other reasons there are.
    held_out: Option<u8>,
    /// Why it is removed; `None` if it stays.
    removed: Option<u8>,
}

/// How many pairs were changed and removed.
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
    /// Of those that are removed because of their language, how many sides are in which.
    pub languages: BTreeMap<&'static str, u64>,
    /// The estimated share of the pairs, after the second reading, that are misaligned, cut or
    /// joined, by the key of the reason; empty if there are too few pairs to say.
    pub estimates: BTreeMap<&'static str, f64>,
}

/// A pair that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Cleaned {
    /// The pair as it stays.
    pub pair: Pair,
    /// What was repaired.
    pub repairs: Repairs,
    /// Whether its sides stood on the wrong sides.
    pub is_swapped: bool,
    /// Why it is to be removed; `None` if it stays.
    pub removed: Option<Reason>,
}

/// What becomes of a pair, and what decided it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The pair.
    pub cleaned: Cleaned,
    /// The number of the first pair that says the same, if this one repeats it.
    pub first: Option<u64>,
    /// The languages of the source and the target, once repaired; `None` if nothing was learned of
    /// languages, or a side has no letters.
    pub guesses: [Option<Guess>; 2],
    /// How far the pair is above the limit of each kind of noise: below 0 it is removed. Empty if
    /// nothing was learned of what sides say, or a side has no words.
    pub margins: Vec<(&'static str, f64)>,
}

impl Cleaning {
    /// Looks at all pairs of a corpus. `progress` is called with the reading and the number of pairs
    /// that were looked at in it.
    ///
    /// # Errors
    /// The corpora cannot be read.
    pub fn of(
        corpus: &Corpus,
        held_out: &[Corpus],
        progress: &mut dyn FnMut(Reading, u64),
    ) -> Result<Self, DataError> {
        let mut cleaner = Cleaner::new(learn_profiles(corpus)?);
        for held_out in held_out {
            for pair in held_out.pairs() {
                cleaner.add_held_out(&pair?);
            }
        }
        let mut cleaning = Self {
            cleaner,
            fates: Vec::new(),
            left_out: BTreeSet::new(),
            starts: Vec::new(),
            languages: BTreeMap::new(),
            estimates: BTreeMap::new(),
            own_languages: None,
            lexical: None,
        };
        let mut sample = cleaning.read_rules(corpus, progress)?;
        let pairs: Vec<&Pair> = sample.iter().map(|sampled| &sampled.pair).collect();
        if let Some(languages) = OwnLanguages::learn(&pairs) {
            cleaning.read_languages(corpus, &languages, progress)?;
            cleaning.own_languages = Some(languages);
        }
        sample.retain_mut(|Sampled { index, pair }| cleaning.apply(*index, pair));
        if let Some(lexical) = Lexical::learn(&sample) {
            cleaning.read_meanings(corpus, &lexical, progress)?;
            for (key, share) in lexical.estimates() {
                *cleaning.estimates.entry(key).or_default() += share;
            }
            cleaning.lexical = Some(lexical);
        }
        Ok(cleaning)
    }

    /// Forgets what [`Self::explain`] alone needs, which takes memory.
    #[must_use]
    pub fn without_evidence(self) -> Self {
        Self {
            own_languages: None,
            lexical: None,
            ..self
        }
    }

    /// Looks at each pair by itself and beside earlier ones, and returns a sample of those that stay.
    fn read_rules(
        &mut self,
        corpus: &Corpus,
        progress: &mut dyn FnMut(Reading, u64),
    ) -> Result<Vec<Sampled>, DataError> {
        let mut sample = Sample::default();
        self.starts = each_chunk(corpus, |start, pairs| {
            progress(Reading::Rules, start);
            let inspected: Vec<Inspected> = pairs
                .par_iter()
                .map(|pair| self.cleaner.inspect(pair))
                .collect();
            for (index, inspected) in (start..).zip(inspected) {
                let removed = self.cleaner.admit(index, &inspected);
                self.fates.push(Fate {
                    is_swapped: false,
                    held_out: inspected.held_out().map(index_of),
                    removed: removed.map(index_of),
                });
                if removed.is_none() {
                    sample.offer(index, inspected.pair);
                }
            }
        })?;
        Ok(sample.finish())
    }

    /// Looks at the languages of the pairs that stay.
    fn read_languages(
        &mut self,
        corpus: &Corpus,
        languages: &OwnLanguages,
        progress: &mut dyn FnMut(Reading, u64),
    ) -> Result<(), DataError> {
        each_chunk(corpus, |start, pairs| {
            progress(Reading::Languages, start);
            let judge = |(offset, pair): (usize, &Pair)| -> Judgment {
                if self.fates[start as usize + offset].removed.is_some() {
                    return Judgment::Own;
                }
                languages.judge(&self.cleaner.repair(pair).0)
            };
            let judgments: Vec<Judgment> = pairs.par_iter().enumerate().map(judge).collect();
            for ((index, judgment), pair) in (start as usize..).zip(judgments).zip(&pairs) {
                match judgment {
                    Judgment::Own => {}
                    Judgment::Swapped => self.fates[index] = self.swap(index as u64, pair),
                    Judgment::Foreign { code, .. } => {
                        self.fates[index].removed = Some(index_of(LANGUAGE));
                        let language = code.unwrap_or("the other side's");
                        *self.languages.entry(language).or_default() += 1;
                    }
                }
            }
        })?;
        Ok(())
    }

    /// Exchanges the sides of a pair, which may then repeat another one.
    fn swap(&mut self, index: u64, pair: &Pair) -> Fate {
        let swapped = Pair {
            src: pair.tgt.clone(),
            tgt: pair.src.clone(),
        };
        let inspected = self.cleaner.inspect(&swapped);
        let removed = self.cleaner.admit(index, &inspected);
        Fate {
            is_swapped: true,
            held_out: inspected.held_out().map(index_of),
            removed: removed.map(index_of),
        }
    }

    /// Looks at what the pairs that stay say, and those that repeat them.
    fn read_meanings(
        &mut self,
        corpus: &Corpus,
        lexical: &Lexical,
        progress: &mut dyn FnMut(Reading, u64),
    ) -> Result<(), DataError> {
        let mut sound_duplicates: HashSet<u64> = HashSet::new();
        each_chunk(corpus, |start, pairs| {
            progress(Reading::Meanings, start);
            let judge = |(offset, pair): (usize, &Pair)| -> Option<Reason> {
                let index = start + offset as u64;
                let (mut pair, _) = self.cleaner.repair(pair);
                let is_judged =
                    self.apply(index, &mut pair) || self.is_removed(index, &[DUPLICATE]);
                is_judged.then(|| lexical.judge(index, &pair))?
            };
            let reasons: Vec<Option<Reason>> = pairs.par_iter().enumerate().map(judge).collect();
            for (index, reason) in (start..).zip(reasons) {
                match reason {
                    None if self.is_removed(index, &[DUPLICATE]) => {
                        sound_duplicates.insert(index);
                    }
                    Some(reason) if !self.is_removed(index, &[DUPLICATE]) => {
                        self.fates[index as usize].removed = Some(index_of(reason));
                    }
                    _ => {}
                }
            }
        })?;
        self.keep_sound_duplicates(&sound_duplicates);
        Ok(())
    }

    /// Keeps the first sound one of the pairs that repeat a pair which is removed because of what it
    /// says: a copy without its last word, say, may stand before the whole sentence.
    fn keep_sound_duplicates(&mut self, sound: &HashSet<u64>) {
        let mut replaced: HashSet<u64> = HashSet::new();
        for &Duplicate { index, first } in self.cleaner.duplicates() {
            let is_lost = self.is_removed(first, &[MISALIGNED, CUT, JOINED]);
            if is_lost && sound.contains(&index) && replaced.insert(first) {
                self.fates[index as usize].removed = None;
            }
        }
    }

    /// Returns whether a pair is removed for one of some reasons.
    fn is_removed(&self, index: u64, reasons: &[Reason]) -> bool {
        let removed = self.fates[index as usize].removed;
        reasons
            .iter()
            .any(|&reason| removed == Some(index_of(reason)))
    }

    /// Exchanges the sides of a repaired pair if they stand on the wrong sides, and returns whether it
    /// stays.
    fn apply(&self, index: u64, pair: &mut Pair) -> bool {
        self.fates[index as usize].apply(pair)
    }

    /// Keeps the best `keep` of the pairs that stay, a share from 0 to 1, by their scores, of which there
    /// is one for each pair of the corpus. Pairs without a score (NaN) stay.
    ///
    /// # Panics
    /// There are fewer scores than pairs.
    pub fn keep_best(&mut self, scores: &[f32], keep: f64) {
        let stays = |fate: &Fate| fate.removed.is_none();
        let mut ranked: Vec<f32> = self
            .fates
            .iter()
            .zip(scores)
            .filter(|(fate, score)| stays(fate) && !score.is_nan())
            .map(|(_, score)| *score)
            .collect();
        ranked.sort_unstable_by(|left, right| right.total_cmp(left));
        let num_kept = (ranked.len() as f64 * keep).ceil() as usize;
        let Some(&least) = num_kept.checked_sub(1).and_then(|last| ranked.get(last)) else {
            return;
        };
        for (index, fate) in self.fates.iter_mut().enumerate() {
            if stays(fate) && scores[index] < least {
                fate.removed = Some(index_of(SCORE));
            }
        }
    }

    /// Leaves out the filters of these groups, and of no others: pairs that they remove stay, and what
    /// they change is as it was. Filters that come later have not looked at those pairs.
    pub fn leave_out(&mut self, groups: impl IntoIterator<Item = Group>) {
        self.left_out = groups.into_iter().collect();
    }

    /// What becomes of a pair without the filters that are left out.
    fn fate(&self, index: u64) -> Fate {
        let mut fate = self.fates[index as usize];
        let is_left_out = |group: Group| self.left_out.contains(&group);
        fate.is_swapped &= !is_left_out(Group::Language);
        fate.removed = fate
            .removed
            .filter(|reason| !is_left_out(group_of(*reason)))
            .or(fate.held_out.filter(|_| !is_left_out(Group::HeldOut)));
        fate
    }

    /// Returns what becomes of a pair of the corpus, by its number from 0.
    pub fn cleaned(&self, index: u64, pair: &Pair) -> Cleaned {
        let (mut cleaned, repairs) = if self.left_out.contains(&Group::Repairs) {
            (pair.clone(), Repairs::default())
        } else {
            self.cleaner.repair(pair)
        };
        let fate = self.fate(index);
        fate.apply(&mut cleaned);
        Cleaned {
            pair: cleaned,
            repairs,
            is_swapped: fate.is_swapped,
            removed: fate.reason(),
        }
    }

    /// Returns what becomes of a pair of the corpus, by its number from 0, with what decided it.
    pub fn explain(&self, index: u64, pair: &Pair) -> Explanation {
        let cleaned = self.cleaned(index, pair);
        let mut duplicates = self.cleaner.duplicates().iter();
        let same = duplicates.find(|duplicate| duplicate.index == index);
        let guesses = self
            .own_languages
            .as_ref()
            .map_or([None, None], |languages| languages.guesses(&cleaned.pair));
        let margins = self
            .lexical
            .as_ref()
            .map_or_else(Vec::new, |lexical| lexical.margins(index, &cleaned.pair));
        Explanation {
            cleaned,
            first: same.map(|duplicate| duplicate.first),
            guesses,
            margins,
        }
    }

    /// Returns the number in the corpus of the first pair of a part, by the number of the part.
    pub fn start(&self, part: usize) -> u64 {
        self.starts[part]
    }

    /// Returns how many pairs stay and are removed. Repairs are not counted, which are made when a pair
    /// is read: see [`CleanReport::count_repairs`].
    pub fn report(&self) -> CleanReport {
        let mut report = CleanReport {
            pairs: self.fates.len() as u64,
            ..CleanReport::default()
        };
        if !self.left_out.contains(&Group::Language) {
            report.languages = self.languages.clone();
        }
        if !self.left_out.contains(&Group::Meaning) {
            report.estimates = self.estimates.clone();
        }
        let mut counts = vec![0_u64; reasons().count()];
        for index in 0..report.pairs {
            match self.fate(index).removed {
                Some(reason) => counts[usize::from(reason)] += 1,
                None => report.kept += 1,
            }
        }
        let removed = reasons().map(|reason| reason.key).zip(counts);
        report.removed = removed.filter(|(_, count)| *count > 0).collect();
        report
    }
}

impl Fate {
    /// Exchanges the sides of a pair if they stand on the wrong sides, and returns whether it stays.
    fn apply(self, pair: &mut Pair) -> bool {
        if self.is_swapped {
            std::mem::swap(&mut pair.src, &mut pair.tgt);
        }
        self.removed.is_none()
    }

    /// Returns why a pair is removed; `None` if it stays.
    fn reason(self) -> Option<Reason> {
        reasons().nth(usize::from(self.removed?))
    }
}

impl CleanReport {
    /// Counts what was repaired in a pair that stays.
    pub fn count_repairs(&mut self, cleaned: &Cleaned) {
        let swapped = cleaned.is_swapped.then_some("swapped");
        for name in cleaned.repairs.names().chain(swapped) {
            *self.repaired.entry(name).or_default() += 1;
        }
    }
}

/// Learns from the first pairs of a corpus how its sides are usually written.
fn learn_profiles(corpus: &Corpus) -> Result<[SideProfile; 2], DataError> {
    let pairs: Vec<Pair> = corpus.pairs().take(PROFILED).collect::<Result<_, _>>()?;
    Ok([
        SideProfile::learn(pairs.iter().map(|pair| &*pair.src)),
        SideProfile::learn(pairs.iter().map(|pair| &*pair.tgt)),
    ])
}

/// Reads the pairs of all parts of a corpus, and visits some thousand at a time with the number of the
/// first. Returns the number of the first pair of each part.
fn each_chunk(
    corpus: &Corpus,
    mut visit: impl FnMut(u64, Vec<Pair>),
) -> Result<Vec<u64>, DataError> {
    let mut start = 0;
    let mut starts = Vec::new();
    let mut chunk = Vec::with_capacity(CHUNK);
    for part in corpus.parts() {
        starts.push(start + chunk.len() as u64);
        for pair in part.pairs()? {
            chunk.push(pair?);
            if chunk.len() == CHUNK {
                visit(start, std::mem::take(&mut chunk));
                start += CHUNK as u64;
            }
        }
    }
    visit(start, chunk);
    Ok(starts)
}

/// The group of a reason, by its index in [`reasons`].
fn group_of(index: u8) -> Group {
    static GROUPS: LazyLock<Vec<Group>> =
        LazyLock::new(|| reasons().map(Group::for_reason).collect());
    GROUPS[usize::from(index)]
}

/// The index of a reason in [`reasons`].
fn index_of(reason: Reason) -> u8 {
    let index = reasons().position(|other| other.key == reason.key);
    index.expect("every reason is in the list") as u8
}

/// A random sample of pairs, the same for the same corpus.
struct Sample {
    /// The largest key that is taken: keys are hashes of the pairs' numbers.
    limit: u64,
    pairs: Vec<Sampled>,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            limit: u64::MAX,
            pairs: Vec::new(),
        }
    }
}

impl Sample {
    fn offer(&mut self, index: u64, pair: Pair) {
        if key(index) > self.limit {
            return;
        }
        self.pairs.push(Sampled { index, pair });
        if self.pairs.len() == 2 * SAMPLED {
            self.shrink();
        }
    }

    /// Keeps the pairs with the lowest keys.
    fn shrink(&mut self) {
        self.pairs
            .select_nth_unstable_by_key(SAMPLED - 1, |sampled| key(sampled.index));
        self.pairs.truncate(SAMPLED);
        self.limit = key(self.pairs[SAMPLED - 1].index);
    }

    /// Returns the pairs in the order of their numbers.
    fn finish(mut self) -> Vec<Sampled> {
        if self.pairs.len() > SAMPLED {
            self.shrink();
        }
        self.pairs.sort_unstable_by_key(|sampled| sampled.index);
        self.pairs
    }
}

fn key(index: u64) -> u64 {
    mix(&[SAMPLE_KEY, index])
}
