//! The language of each side of a pair, by models of both sides that are learned from the text
//! itself, noise included, beside those of known languages.
//!
//! The probability of a language L is
//!
//! ```text
//! p(L | text) = softmax(score(L, text) / 10 + ln prior(L))
//! ```
//!
//! Scores are divided because n-grams that overlap count each character several times, and words
//! count six times. The priors come from the text, by the EM algorithm: without them short
//! sentences of words that several languages have would be taken for foreign ones.

use std::collections::BTreeSet;

use rayon::prelude::*;
use serde::Serialize;

use crate::clean::language::identifier::{Identifier, NgramCounts};
use crate::clean::language::known;
use crate::pair::Pair;

/// Pairs below which no language is learned.
pub(super) const FEW_PAIRS: usize = 100;
/// Sentences of a side from which its model is learned.
const LEARNED: usize = 12_000;
/// The temperature by which scores are divided.
const TEMPERATURE: f32 = 10.0;
/// Rounds in which languages are learned.
const ROUNDS: usize = 5;
/// A sentence from which the next round learns is in its language with more than this probability.
const SURE: f64 = 0.9;
/// Rounds of the EM algorithm, in each of those.
const PRIOR_ROUNDS: usize = 8;
/// The prior of a side's own language at the beginning.
const OWN_PRIOR: f64 = 0.95;
/// Sentences that are added to those of every language, so that no prior becomes 0.
const PSEUDO_SENTENCES: f64 = 0.02;
/// A known language that is the most probable one of this share of a side is the side's own.
const SAME_SHARE: f64 = 0.25;
/// A side whose own language is less probable is in another one.
const FOREIGN: f64 = 0.05;
/// Both sides must be in the language of the other one with this probability to be exchanged.
const SWAPPED: f64 = 0.5;

/// The languages of both sides of a text.
pub struct OwnLanguages {
    identifier: Identifier,
    /// The codes of known languages; those of the source and the target follow in the models.
    codes: Vec<&'static str>,
    sides: [OwnLanguage; 2],
}

/// The language of a side.
struct OwnLanguage {
    /// Natural logarithms of the priors of all languages on this side.
    log_priors: Vec<f32>,
    /// The models of the side's own language: what was learned from the side, and known languages that
    /// are the same.
    own: Vec<usize>,
}

/// The verdict on a pair by the languages of its sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgment {
    /// Each side is in its own language.
    Own,
    /// Each side is in the language of the other.
    Swapped,
    /// A side is in another language: its code, if it is a known one.
    Foreign {
        /// 0 for the source, 1 for the target.
        side: usize,
        /// The most probable language, `None` if that is the language of the other side.
        code: Option<&'static str>,
    },
}

/// The most probable language of a side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Guess {
    /// Its code, if it is a known one; `None` for what was learned from a side of the text.
    pub code: Option<&'static str>,
    /// Its probability.
    pub probability: f64,
    /// The probability that the side is in its own language.
    pub own: f64,
}

impl OwnLanguages {
    /// Learns the languages of the sides from pairs that are mostly right; `None` if they are too few.
    ///
    /// At first all sentences of a side are taken for its own, and known languages have the words of
    /// one document. Each round then learns from the sentences that the last one found to be in a
    /// language, on both sides: what is foreign leaves the models of the sides, and the models of other
    /// languages learn how the text at hand speaks.
    pub fn learn(pairs: &[&Pair]) -> Option<Self> {
        if pairs.len() < FEW_PAIRS {
            return None;
        }
        let codes: Vec<&'static str> = known::codes().collect();
        let known: Vec<NgramCounts> = known::counts().collect();
        let step = pairs.len().div_ceil(LEARNED).max(1);
        let sample: Vec<&Pair> = pairs.iter().step_by(step).copied().collect();
        let mut assigned = Vec::with_capacity(2 * sample.len());
        for side in [0, 1] {
            // A sentence that is repeated a hundred times counts once: it may be a foreign notice.
            let texts: BTreeSet<&str> = sample.iter().map(|pair| text(pair, side)).collect();
            assigned.extend(texts.into_iter().map(|text| (text, codes.len() + side)));
        }
        let mut languages = Self::round(&codes, &known, &sample, &assigned);
        for _ in 1..ROUNDS {
            let assigned = languages.assign(&sample);
            languages = Self::round(&codes, &known, &sample, &assigned);
        }
        Some(languages)
    }

    /// Learns all languages from sentences that are assigned to them, and priors from the sample.
    fn round(
        codes: &[&'static str],
        known: &[NgramCounts],
        sample: &[&Pair],
        assigned: &[(&str, usize)],
    ) -> Self {
        let mut models = known.to_vec();
        models.resize(codes.len() + 2, NgramCounts::default());
        let mut by_language: Vec<Vec<&str>> = vec![Vec::new(); models.len()];
        for &(text, language) in assigned {
            by_language[language].push(text);
        }
        models
            .par_iter_mut()
            .zip(by_language)
            .for_each(|(model, texts)| {
                for text in texts {
                    model.add(text, 1);
                }
            });
        let identifier = Identifier::learn(&models);
        let sides = [0, 1].map(|side| {
            let scores: Vec<Vec<f32>> = sample
                .par_iter()
                .map(|pair| identifier.scores(text(pair, side)))
                .filter(|scores| scores.iter().any(|&score| score != 0.0))
                .collect();
            OwnLanguage::learn(&scores, codes.len(), side)
        });
        Self {
            identifier,
            codes: codes.to_vec(),
            sides,
        }
    }

    /// Assigns the sentences of a sample to the languages that they are surely in.
    fn assign<'t>(&self, sample: &[&'t Pair]) -> Vec<(&'t str, usize)> {
        let texts = sample
            .par_iter()
            .flat_map_iter(|pair| [0, 1].map(|side| (text(pair, side), side)));
        let assign = |(text, side): (&'t str, usize)| {
            let posteriors = self.posteriors(text, side)?;
            let best = best(&posteriors);
            (f64::from(posteriors[best]) > SURE).then_some((text, best))
        };
        let assigned: BTreeSet<(&str, usize)> = texts.filter_map(assign).collect();
        assigned.into_iter().collect()
    }

    /// Says which languages the sides of a repaired pair are in.
    pub fn judge(&self, pair: &Pair) -> Judgment {
        let [src, tgt] = [0, 1].map(|side| self.posteriors(text(pair, side), side));
        let (Some(src), Some(tgt)) = (src, tgt) else {
            return Judgment::Own;
        };
        if self.probability(&src, 1) > SWAPPED && self.probability(&tgt, 0) > SWAPPED {
            return Judgment::Swapped;
        }
        for (side, posteriors) in [&src, &tgt].into_iter().enumerate() {
            if self.probability(posteriors, side) < FOREIGN {
                let code = self.codes.get(best(posteriors)).copied();
                return Judgment::Foreign { side, code };
            }
        }
        Judgment::Own
    }

    /// Returns what both sides of a repaired pair are judged by; nothing of a side without letters that
    /// are known.
    pub fn guesses(&self, pair: &Pair) -> [Option<Guess>; 2] {
        [0, 1].map(|side| {
            let posteriors = self.posteriors(text(pair, side), side)?;
            let best = best(&posteriors);
            Some(Guess {
                code: self.codes.get(best).copied(),
                probability: f64::from(posteriors[best]),
                own: self.probability(&posteriors, side),
            })
        })
    }

    /// The probability that a text is in the language of a side.
    fn probability(&self, posteriors: &[f32], side: usize) -> f64 {
        let own = self.sides[side].own.iter();
        own.map(|&language| f64::from(posteriors[language])).sum()
    }

    /// Returns the probability of each language; `None` for a text without letters that are known.
    fn posteriors(&self, text: &str, side: usize) -> Option<Vec<f32>> {
        let scores = self.identifier.scores(text);
        let is_known = scores.iter().any(|&score| score != 0.0);
        is_known.then(|| softmax(&scores, &self.sides[side].log_priors))
    }
}

fn text(pair: &Pair, side: usize) -> &str {
    if side == 0 { &pair.src } else { &pair.tgt }
}

impl OwnLanguage {
    /// Learns from the scores of the sentences of a side.
    fn learn(scores: &[Vec<f32>], num_known: usize, side: usize) -> Self {
        let mut wins = vec![0_usize; num_known];
        for scores in scores {
            wins[best(&scores[..num_known])] += 1;
        }
        let is_own = |language: &usize| wins[*language] as f64 >= SAME_SHARE * scores.len() as f64;
        let mut own: Vec<usize> = (0..num_known).filter(is_own).collect();
        own.push(num_known + side);
        Self {
            log_priors: log_priors(scores, num_known, side),
            own,
        }
    }
}

/// Learns the priors of the languages of a side from the scores of its sentences.
fn log_priors(scores: &[Vec<f32>], num_known: usize, side: usize) -> Vec<f32> {
    let num_languages = num_known + 2;
    let mut priors = vec![(1.0 - OWN_PRIOR) / num_languages as f64; num_languages];
    priors[num_known + side] += OWN_PRIOR;
    for _ in 0..PRIOR_ROUNDS {
        let logarithms: Vec<f32> = priors.iter().map(|prior| prior.ln() as f32).collect();
        let sums: Vec<Vec<f64>> = scores
            .par_chunks(1024)
            .map(|chunk| sum_of_posteriors(chunk, &logarithms))
            .collect();
        let all = scores.len() as f64 + PSEUDO_SENTENCES * num_languages as f64;
        // Chunks are added in their order, so that no number of threads changes a bit.
        for (language, prior) in priors.iter_mut().enumerate() {
            let sum: f64 = sums.iter().map(|sums| sums[language]).sum();
            *prior = (sum + PSEUDO_SENTENCES) / all;
        }
    }
    priors.iter().map(|prior| prior.ln() as f32).collect()
}

fn sum_of_posteriors(scores: &[Vec<f32>], log_priors: &[f32]) -> Vec<f64> {
    let mut sums = vec![0.0; log_priors.len()];
    for scores in scores {
        for (sum, posterior) in sums.iter_mut().zip(softmax(scores, log_priors)) {
            *sum += f64::from(posterior);
        }
    }
    sums
}

/// Returns the probabilities of languages by their scores and priors.
fn softmax(scores: &[f32], log_priors: &[f32]) -> Vec<f32> {
    let tempered = |(score, prior): (&f32, &f32)| score / TEMPERATURE + prior;
    let mut values: Vec<f32> = scores.iter().zip(log_priors).map(tempered).collect();
    let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for value in &mut values {
        *value = (*value - max).exp();
        sum += *value;
    }
    for value in &mut values {
        *value /= sum;
    }
    values
}

/// Returns the index of the largest value, the first if there are several.
fn best(values: &[f32]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best
}
