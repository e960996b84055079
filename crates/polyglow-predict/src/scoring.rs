//! How translations are compared with references: like with like, and scored as sacreBLEU scores
//! the text that is compared.

use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use polyglow_data::tokenizer::Tokenizer;
use polyglow_metrics::{
    BleuOptions, ChrfOptions, Metric, Signature, Tokenizer as BleuTokenizer, corpus_score,
    exact_match,
};
use rayon::prelude::*;
use serde::Serialize;

use crate::error::Result;

/// What follows from a model's target tokenizer for comparing its output with references.
///
/// - Ready-made subwords are joined to words on both sides: BLEU of subwords is no BLEU.
/// - Output is in the tokenizer's normal form, such as cleaned text in NFC, so references are
///   brought into it as well: a reference in NFD would otherwise differ in every accent. The
///   signatures name the form: `norm:clean+nfc`.
/// - If it lower-cases, no output has capitals, and both sides are compared without: `case:lc` in
///   the signatures.
pub struct Scoring {
    tgt: Arc<Tokenizer>,
    tokenize: BleuTokenizer,
    lowercase: bool,
}

impl Scoring {
    /// How the output of a model with this target tokenizer is compared; `tokenize` is BLEU's
    /// tokenizer.
    ///
    /// # Errors
    /// A foreign tokenizer fails.
    pub fn new(tgt: Arc<Tokenizer>, tokenize: BleuTokenizer) -> Result<Self> {
        let lowercase = tgt.lower_cases()?;
        Ok(Self {
            tgt,
            tokenize,
            lowercase,
        })
    }

    /// BLEU, as it is computed of [`Self::lines`].
    pub fn bleu(&self) -> BleuOptions {
        BleuOptions {
            tokenizer: self.tokenize.clone(),
            lowercase: self.lowercase,
            ..BleuOptions::default()
        }
    }

    /// chrF, as it is computed of [`Self::lines`].
    pub fn chrf(&self) -> ChrfOptions {
        ChrfOptions {
            lowercase: self.lowercase,
            ..ChrfOptions::default()
        }
    }

    /// Whether a score by `self` and one by `other` can be compared: lines are normalized in the
    /// same way, and metrics have the same options.
    pub fn is_comparable_with(&self, other: &Self) -> bool {
        let normalizations = [self, other].map(|scoring| scoring.tgt.normalization());
        normalizations[0] == normalizations[1]
            && self.bleu() == other.bleu()
            && self.chrf() == other.chrf()
    }

    /// Lines of either side as they are scored: normalized, and in words.
    ///
    /// # Errors
    /// A foreign tokenizer fails.
    pub fn lines<'t, S: AsRef<str> + Sync>(&self, lines: &'t [S]) -> Result<Vec<Cow<'t, str>>> {
        lines
            .par_iter()
            .map(|line| self.line(line.as_ref()))
            .collect()
    }

    fn line<'t>(&self, line: &'t str) -> Result<Cow<'t, str>> {
        Ok(match self.tgt.normalized(line)? {
            Cow::Borrowed(line) => self.tgt.in_words(line),
            Cow::Owned(line) => Cow::Owned(self.tgt.in_words(&line).into_owned()),
        })
    }

    /// The signature of a metric that was computed of [`Self::lines`].
    fn signature(&self, metric: Signature) -> Signature {
        match self.tgt.normalization() {
            Some(name) => metric.with_normalization(name),
            None => metric,
        }
    }

    /// A line as exact match compares it. Case is folded character by character, as tokenizers do.
    fn folded<'t>(&self, line: &'t str) -> Cow<'t, str> {
        if self.lowercase {
            line.chars()
                .flat_map(char::to_lowercase)
                .collect::<String>()
                .into()
        } else {
            line.into()
        }
    }
}

impl Debug for Scoring {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            tgt: _,
            tokenize,
            lowercase,
        } = self;
        formatter
            .debug_struct("Scoring")
            .field("tokenize", tokenize)
            .field("lowercase", lowercase)
            .finish_non_exhaustive()
    }
}

/// Scores of translations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TranslationScores {
    /// Corpus BLEU, 0 to 100.
    pub bleu: f64,
    /// Corpus chrF, 0 to 100.
    pub chrf: f64,
    /// Share of lines equal to their reference, or to one of several, 0 to 1.
    pub exact_match: f64,
    /// How BLEU and chrF were computed, in sacreBLEU's notation.
    pub signatures: Signatures,
}

/// The exact variants of the metrics.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Signatures {
    /// BLEU's.
    pub bleu: String,
    /// chrF's.
    pub chrf: String,
}

impl TranslationScores {
    /// Of hypotheses, each against its references, of which it has at least one.
    ///
    /// # Errors
    /// There are none; a foreign tokenizer fails.
    pub fn of(hypotheses: &[String], references: &[Vec<&str>], scoring: &Scoring) -> Result<Self> {
        let hypotheses = scoring.lines(hypotheses)?;
        let references: Vec<Vec<Cow<str>>> = references
            .iter()
            .map(|references| scoring.lines(references))
            .collect::<Result<_>>()?;
        let folded = |line: &Cow<str>| scoring.folded(line).trim().to_owned();
        let nearest = |(hypothesis, references): (&Cow<str>, &Vec<Cow<str>>)| {
            let equal = references
                .iter()
                .find(|reference| folded(reference) == folded(hypothesis));
            folded(equal.unwrap_or(&references[0]))
        };
        let nearest: Vec<String> = hypotheses.iter().zip(&references).map(nearest).collect();
        let exact_match =
            exact_match(&hypotheses.iter().map(folded).collect::<Vec<_>>(), &nearest)?;
        let counts = || references.iter().map(Vec::len);
        let (fewest, most) = (counts().min().unwrap_or(1), counts().max().unwrap_or(1));
        // The first once more where one is missing, which changes neither score.
        let stream = |number: usize| {
            let of_line = |references: &Vec<Cow<str>>| {
                references.get(number).unwrap_or(&references[0]).to_string()
            };
            references.iter().map(of_line).collect::<Vec<_>>()
        };
        let streams: Vec<Vec<String>> = (0..most).map(stream).collect();
        let signature = |metric: Signature| {
            let metric = scoring.signature(metric);
            if fewest == most {
                metric
            } else {
                metric.with_varying_references()
            }
            .to_string()
        };
        let (bleu, chrf) = (scoring.bleu(), scoring.chrf());
        Ok(Self {
            bleu: corpus_score(&bleu, &hypotheses, &streams)?.score,
            chrf: corpus_score(&chrf, &hypotheses, &streams)?.score,
            exact_match,
            signatures: Signatures {
                bleu: signature(bleu.signature(most)),
                chrf: signature(chrf.signature(most)),
            },
        })
    }
}
