//! Says of every pair of a corpus whether it stays, in three readings of it.
//!
//! Of each pair eight bytes are kept between readings, and a hash of those that stay; of the corpus a
//! sample, from which languages and translations are learned.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rayon::prelude::*;

use crate::clean::cleaner::{Cleaner, DUPLICATE, Duplicate, Inspected};
use crate::clean::group::Group;
use crate::clean::lexical::{CUT, JOINED, Lexical, MISALIGNED, Sampled};
use crate::clean::own_language::{Guess, Judgment, OwnLanguages};
use crate::clean::profile::SideProfile;
use crate::clean::reasons::{LANGUAGE, ReasonSet, SCORE};
use crate::clean::repair::Repairs;
use crate::clean::report::CleanReport;
use crate::clean::sample::Sample;
use crate::corpus::Corpus;
use crate::error::DataError;
use crate::example::Reason;
use crate::pair::Pair;

/// Pairs from which it is learned how a side is usually written.
const PROFILED: usize = 50_000;
/// Pairs that are looked at together, on all cores.
const CHUNK: usize = 4_096;
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
    /// The reasons of these groups.
    ignored: ReasonSet,
    /// The number of the first pair of each part of the corpus.
    starts: Vec<u64>,
    /// The languages of foreign sides, to which [`Fate::language`] is an index.
    languages: Vec<&'static str>,
    estimates: BTreeMap<&'static str, f64>,
    /// What was learned of the languages of both sides; `None` of too few pairs.
    own_languages: Option<OwnLanguages>,
    /// What was learned of what sides say; `None` of too few pairs.
    lexical: Option<Lexical>,
}

/// What becomes of a pair.
#[derive(Clone, Copy, Default)]
struct Fate {
    /// Whether its sides stand on the wrong sides.
    is_swapped: bool,
    /// The language of a side that is foreign, if one is.
    language: u8,
    /// Why it is to be removed: all reasons, of which the first is the one that counts. Empty if it
    /// stays. Duplicates are looked for only among pairs without another reason.
    reasons: ReasonSet,
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
        let mut cleaning = Self::new(corpus, held_out)?;
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

    /// Looks at all pairs of a corpus for sentences of `held_out` alone: all other filters are left out.
    ///
    /// # Errors
    /// The corpora cannot be read.
    pub fn for_held_out(
        corpus: &Corpus,
        held_out: &[Corpus],
        progress: &mut dyn FnMut(Reading, u64),
    ) -> Result<Self, DataError> {
        let mut cleaning = Self::new(corpus, held_out)?;
        cleaning.read_rules(corpus, progress)?;
        cleaning.leave_out(
            Group::ALL
                .into_iter()
                .filter(|group| *group != Group::HeldOut),
        );
        Ok(cleaning)
    }

    /// Reads what must not be trained on, and how the corpus is usually written.
    fn new(corpus: &Corpus, held_out: &[Corpus]) -> Result<Self, DataError> {
        let mut cleaner = Cleaner::new(learn_profiles(corpus)?);
        for held_out in held_out {
            for pair in held_out.pairs() {
                cleaner.add_held_out(&pair?);
            }
        }
        Ok(Self {
            cleaner,
            fates: Vec::new(),
            left_out: BTreeSet::new(),
            ignored: ReasonSet::default(),
            starts: Vec::new(),
            languages: Vec::new(),
            estimates: BTreeMap::new(),
            own_languages: None,
            lexical: None,
        })
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
                let reasons = self.cleaner.admit(index, &inspected);
                self.fates.push(Fate {
                    reasons,
                    ..Fate::default()
                });
                if reasons.is_empty() {
                    sample.offer(index, inspected.pair);
                }
            }
        })?;
        Ok(sample.finish())
    }

    /// Looks at the languages of all pairs.
    fn read_languages(
        &mut self,
        corpus: &Corpus,
        languages: &OwnLanguages,
        progress: &mut dyn FnMut(Reading, u64),
    ) -> Result<(), DataError> {
        each_chunk(corpus, |start, pairs| {
            progress(Reading::Languages, start);
            let judge = |pair: &Pair| languages.judge(&self.cleaner.repair(pair).0);
            let judgments: Vec<Judgment> = pairs.par_iter().map(judge).collect();
            for ((index, judgment), pair) in (start as usize..).zip(judgments).zip(&pairs) {
                let stays = self.fates[index].reasons.is_empty();
                match judgment {
                    Judgment::Swapped if stays => self.fates[index] = self.swap(index as u64, pair),
                    Judgment::Own | Judgment::Swapped => {}
                    Judgment::Foreign { code, .. } => {
                        let language = self.index_of_language(code.unwrap_or("the other side's"));
                        let fate = &mut self.fates[index];
                        fate.language = language;
                        fate.reasons.insert(LANGUAGE);
                    }
                }
            }
        })?;
        Ok(())
    }

    /// Returns the index of a language, which is added if it is new.
    fn index_of_language(&mut self, code: &'static str) -> u8 {
        let index = self.languages.iter().position(|known| *known == code);
        let index = index.unwrap_or_else(|| {
            self.languages.push(code);
            self.languages.len() - 1
        });
        u8::try_from(index).expect("fewer than 256 languages are known")
    }

    /// Exchanges the sides of a pair, which may then repeat another one.
    fn swap(&mut self, index: u64, pair: &Pair) -> Fate {
        let swapped = Pair {
            src: pair.tgt.clone(),
            tgt: pair.src.clone(),
        };
        let inspected = self.cleaner.inspect(&swapped);
        Fate {
            is_swapped: true,
            reasons: self.cleaner.admit(index, &inspected),
            ..Fate::default()
        }
    }

    /// Looks at what all pairs say.
    fn read_meanings(
        &mut self,
        corpus: &Corpus,
        lexical: &Lexical,
        progress: &mut dyn FnMut(Reading, u64),
    ) -> Result<(), DataError> {
        each_chunk(corpus, |start, pairs| {
            progress(Reading::Meanings, start);
            let judge = |(offset, pair): (usize, &Pair)| -> Option<Reason> {
                let index = start + offset as u64;
                let (mut pair, _) = self.cleaner.repair(pair);
                self.apply(index, &mut pair);
                lexical.judge(index, &pair)
            };
            let reasons: Vec<Option<Reason>> = pairs.par_iter().enumerate().map(judge).collect();
            for (fate, reason) in self.fates[start as usize..].iter_mut().zip(reasons) {
                fate.reasons.extend(reason);
            }
        })?;
        self.keep_sound_duplicates();
        Ok(())
    }

    /// Keeps the first sound one of the pairs that repeat a pair which is removed because of what it
    /// says: a copy without its last word, say, may stand before the whole sentence.
    fn keep_sound_duplicates(&mut self) {
        let meanings = [MISALIGNED, CUT, JOINED];
        let only_repeats: ReasonSet = [DUPLICATE].into_iter().collect();
        let mut replaced: HashSet<u64> = HashSet::new();
        for &Duplicate { index, first } in self.cleaner.duplicates() {
            let reason = self.fates[first as usize].reasons.first();
            let is_lost = reason.is_some_and(|reason| meanings.contains(&reason));
            let fate = &mut self.fates[index as usize];
            if is_lost && fate.reasons == only_repeats && replaced.insert(first) {
                fate.reasons.remove(DUPLICATE);
            }
        }
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
        let stays = |fate: &Fate| fate.reasons.is_empty();
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
                fate.reasons.insert(SCORE);
            }
        }
    }

    /// Leaves out the filters of these groups, and of no others: pairs that they alone remove stay, and
    /// what they change is as it was. What was learned of the text, and which pairs repeat others, is as
    /// with these filters.
    pub fn leave_out(&mut self, groups: impl IntoIterator<Item = Group>) {
        self.left_out = groups.into_iter().collect();
        self.ignored = ReasonSet::from_groups(&self.left_out);
    }

    /// What becomes of a pair without the filters that are left out.
    fn fate(&self, index: u64) -> Fate {
        let fate = self.fates[index as usize];
        Fate {
            is_swapped: fate.is_swapped && !self.left_out.contains(&Group::Language),
            reasons: fate.reasons.without(self.ignored),
            ..fate
        }
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
            removed: fate.reasons.first(),
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
        if !self.left_out.contains(&Group::Meaning) {
            report.estimates = self.estimates.clone();
        }
        for index in 0..report.pairs {
            let Fate {
                language, reasons, ..
            } = self.fate(index);
            let Some(reason) = reasons.first() else {
                report.kept += 1;
                continue;
            };
            *report.removed.entry(reason.key).or_default() += 1;
            if reasons.has_one_group() {
                *report.removed_by_one_group.entry(reason.key).or_default() += 1;
            }
            if reason == LANGUAGE {
                let code = self.languages[usize::from(language)];
                *report.languages.entry(code).or_default() += 1;
            }
        }
        report
    }
}

impl Fate {
    /// Exchanges the sides of a pair if they stand on the wrong sides, and returns whether it stays.
    fn apply(self, pair: &mut Pair) -> bool {
        if self.is_swapped {
            std::mem::swap(&mut pair.src, &mut pair.tgt);
        }
        self.reasons.is_empty()
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
