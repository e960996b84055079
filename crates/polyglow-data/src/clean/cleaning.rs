//! Says of every pair of a corpus whether it stays, in three readings of it.
//!
//! Memory holds eight bytes of each pair between readings, a hash of each pair that stays, and a
//! sample of the corpus, from which languages and translations are learned.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rayon::prelude::*;

use crate::clean::cleaner::{Cleaner, DUPLICATE, Duplicate, Inspected};
use crate::clean::filtered::Filtered;
use crate::clean::lexical::{self, CUT, JOINED, Lexical, MISALIGNED};
use crate::clean::links::LinkSample;
use crate::clean::own_language::{self, Judgment, OwnLanguages};
use crate::clean::profile::SideProfile;
use crate::clean::reasons::{LANGUAGE, ReasonSet, SCORE};
use crate::clean::sample::{Sample, Sampled};
use crate::config::FilterGroup;
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

/// The decision on each pair of a corpus, and all that was learned to reach it.
pub struct Cleaning {
    pub(super) cleaner: Cleaner,
    pub(super) fates: Vec<Fate>,
    /// The number of the first pair of each part of the corpus.
    starts: Vec<u64>,
    /// The languages of foreign sides, to which [`Fate::language`] is an index.
    pub(super) languages: Vec<&'static str>,
    pub(super) estimates: BTreeMap<&'static str, f64>,
    /// The lowest score that stays, once pairs are removed by their scores.
    pub(super) lowest_score: Option<f32>,
    /// The groups of filters that had too little text to learn from, each with a sentence that says
    /// so.
    pub(super) gaps: Vec<(FilterGroup, String)>,
    /// Language models of both sides; `None` if there are too few pairs.
    pub(super) own_languages: Option<OwnLanguages>,
    /// Word tables and classifiers of misaligned, cut and joined pairs; `None` if there are too few
    /// pairs.
    pub(super) lexical: Option<Lexical>,
    /// Pairs that stay, together with which others are aligned; `None` if there are too few, or it
    /// was not looked at what pairs mean.
    pub(super) link_sample: Option<LinkSample>,
}

/// The score that divides pairs that stay from those that go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreLimit {
    /// The lowest score that stays.
    pub lowest: f32,
    /// The number of pairs beyond the requested share that stay because they have that score, too.
    pub num_tied: usize,
}

/// The decision on a pair.
#[derive(Clone, Copy, Default)]
pub(super) struct Fate {
    /// Whether its sides stand on the wrong sides.
    pub(super) is_swapped: bool,
    /// The language of a side that is foreign, if one is.
    pub(super) language: u8,
    /// Why it is to be removed: all reasons, of which the first is the one that counts. Empty if it
    /// stays. Duplicates are looked for only among pairs that no rule and no held-out set removes.
    pub(super) reasons: ReasonSet,
}

impl Cleaning {
    /// Looks at all pairs of a corpus. `progress` is called with the reading and the number of pairs
    /// that were looked at in it.
    ///
    /// To save time, [`FilterGroup::Meaning`] is not computed if it is in `without`, and
    /// [`FilterGroup::Language`] is not if both are. [`Self::without`] must leave out the same groups then.
    /// Without `Meaning` the first of several copies stays, even if it is cut.
    ///
    /// # Errors
    /// The corpora cannot be read.
    pub fn of(
        corpus: &Corpus,
        held_out: &[Corpus],
        without: &BTreeSet<FilterGroup>,
        progress: &mut dyn FnMut(Reading, u64),
    ) -> Result<Self, DataError> {
        let mut cleaning = Self::new(corpus, held_out)?;
        let mut sample = cleaning.read_rules(corpus, progress)?;
        let has_meaning = !without.contains(&FilterGroup::Meaning);
        if !has_meaning && without.contains(&FilterGroup::Language) {
            return Ok(cleaning);
        }
        let pairs: Vec<&Pair> = sample.iter().map(|sampled| &sampled.pair).collect();
        if let Some(languages) = OwnLanguages::learn(&pairs) {
            cleaning.read_languages(corpus, &languages, progress)?;
            cleaning.own_languages = Some(languages);
        } else {
            cleaning.note_gap(
                FilterGroup::Language,
                "sides in another language",
                own_language::FEW_PAIRS,
            );
        }
        if !has_meaning {
            return Ok(cleaning);
        }
        sample.retain_mut(|Sampled { index, pair }| cleaning.apply(*index, pair));
        if let Some(lexical) = Lexical::learn(&sample) {
            cleaning.read_meanings(corpus, &lexical, progress)?;
            cleaning.estimates = lexical.estimates();
            cleaning.lexical = Some(lexical);
            sample.retain(|Sampled { index, .. }| cleaning.stays(*index));
            cleaning.link_sample = Some(LinkSample::choose(&sample));
        } else {
            cleaning.note_gap(
                FilterGroup::Meaning,
                "misaligned, cut and joined pairs",
                lexical::FEW_PAIRS,
            );
        }
        Ok(cleaning)
    }

    /// Reads what must not be trained on, and how the corpus is usually written.
    fn new(corpus: &Corpus, held_out: &[Corpus]) -> Result<Self, DataError> {
        let profiles = learn_profiles(corpus)?;
        if profiles.iter().any(SideProfile::is_in_other_encoding) {
            // Its error says how to convert the text.
            corpus.check_utf8()?;
        }
        let mut cleaner = Cleaner::new(profiles);
        for held_out in held_out {
            for pair in held_out.pairs() {
                cleaner.add_held_out(&pair?);
            }
        }
        Ok(Self {
            cleaner,
            fates: Vec::new(),
            starts: Vec::new(),
            languages: Vec::new(),
            estimates: BTreeMap::new(),
            lowest_score: None,
            gaps: Vec::new(),
            own_languages: None,
            lexical: None,
            link_sample: None,
        })
    }

    /// Notes which pairs were not looked for, and how many pairs it takes to look for them.
    fn note_gap(&mut self, group: FilterGroup, what: &str, pairs: usize) {
        let gap = format!(
            "{what} were not looked for, which takes {pairs} pairs that nothing else removes"
        );
        self.gaps.push((group, gap));
    }

    /// Forgets what [`Filtered::explain`] and [`Filtered::link`] alone need, which takes memory.
    #[must_use]
    pub fn without_evidence(self) -> Self {
        Self {
            own_languages: None,
            lexical: None,
            link_sample: None,
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
            let pairs = self.known(start, &pairs);
            let judge = |pair: &Pair| languages.judge(&self.cleaner.repair(pair).0);
            let judgments: Vec<Judgment> = pairs.par_iter().map(judge).collect();
            for ((index, judgment), pair) in (start as usize..).zip(judgments).zip(pairs) {
                let stays = self.stays(index as u64);
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

    /// Returns those of the pairs from a number on that were there in the first reading: files may grow.
    fn known<'p>(&self, start: u64, pairs: &'p [Pair]) -> &'p [Pair] {
        let left = self.fates.len().saturating_sub(start as usize);
        &pairs[..pairs.len().min(left)]
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
            let pairs = self.known(start, &pairs);
            let judge = |(offset, pair): (usize, &Pair)| -> Option<Reason> {
                let index = start + offset as u64;
                let (mut pair, _) = self.cleaner.repair(pair);
                self.apply(index, &mut pair);
                lexical.judge(index, &pair)
            };
            let reasons: Vec<Option<Reason>> = pairs.par_iter().enumerate().map(judge).collect();
            for (fate, reason) in self.fates.iter_mut().skip(start as usize).zip(reasons) {
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

    /// Returns the number of pairs that were looked at.
    pub fn num_pairs(&self) -> u64 {
        self.fates.len() as u64
    }

    /// Returns whether a pair stays.
    fn stays(&self, index: u64) -> bool {
        self.fates[index as usize].reasons.is_empty()
    }

    /// Exchanges the sides of a repaired pair if they stand on the wrong sides, and returns whether it
    /// stays.
    pub(super) fn apply(&self, index: u64, pair: &mut Pair) -> bool {
        self.fates[index as usize].apply(pair)
    }

    /// Keeps the best `keep` of the pairs that stay without the filters of some groups, a share from 0 to
    /// 1, by their scores, of which there is one for each pair of the corpus. Pairs without a score (NaN)
    /// stay. Returns the limit; `None` if no pair has a score, and all stay.
    ///
    /// # Panics
    /// There are fewer scores than pairs.
    pub fn keep_best(
        &mut self,
        scores: &[f32],
        keep: f64,
        without: &BTreeSet<FilterGroup>,
    ) -> Option<ScoreLimit> {
        let ignored = ReasonSet::from_groups(without);
        let stays = |fate: &Fate| fate.reasons.without(ignored).is_empty();
        let mut ranked: Vec<f32> = self
            .fates
            .iter()
            .zip(scores)
            .filter(|(fate, score)| stays(fate) && !score.is_nan())
            .map(|(_, score)| *score)
            .collect();
        ranked.sort_unstable_by(|left, right| right.total_cmp(left));
        let num_kept = (ranked.len() as f64 * keep).ceil() as usize;
        let lowest = *ranked.get(num_kept.checked_sub(1)?)?;
        for (index, fate) in self.fates.iter_mut().enumerate() {
            if stays(fate) && scores[index] < lowest {
                fate.reasons.insert(SCORE);
            }
        }
        self.lowest_score = Some(lowest);
        let num_tied = ranked.partition_point(|&score| score >= lowest) - num_kept;
        Some(ScoreLimit { lowest, num_tied })
    }

    /// Returns the decisions on the pairs by all filters.
    pub fn by_all_filters(&self) -> Filtered<'_> {
        self.without([])
    }

    /// Returns the decisions on the pairs without the filters of some groups: pairs that they alone remove
    /// stay, and what they change is as it was. What was learned of the text, and which pairs repeat
    /// others, is as with these filters.
    pub fn without(&self, groups: impl IntoIterator<Item = FilterGroup>) -> Filtered<'_> {
        Filtered::new(self, groups.into_iter().collect())
    }

    /// Returns the number in the corpus of the first pair of a part, by the number of the part.
    pub fn start(&self, part: usize) -> u64 {
        self.starts[part]
    }
}

impl Fate {
    /// Exchanges the sides of a pair if they stand on the wrong sides, and returns whether it stays.
    pub(super) fn apply(self, pair: &mut Pair) -> bool {
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
