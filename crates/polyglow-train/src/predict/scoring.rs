//! How translations are compared with references, so that the scores are those that sacreBLEU gives for the same text.

use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use polyglow_data::tokenizer::Tokenizer;
use polyglow_metrics::{BleuOptions, ChrfOptions, Metric, Tokenizer as BleuTokenizer, corpus_score, exact_match};
use serde::Serialize;

use crate::error::Result;

/// What follows from a model's target tokenizer for comparing its output with references.
///
/// - Ready-made subwords are joined to words on both sides: BLEU of subwords is no BLEU.
/// - If it lower-cases, no output has capitals, and both sides are compared without: `case:lc` in the signatures.
/// - Any other loss in the tokenizer, such as that of compatibility forms under `nfkc`, is a loss in the output, and counts.
pub struct Scoring {
    tgt: Arc<Tokenizer>,
    tokenize: BleuTokenizer,
    lowercase: bool,
}

impl Scoring {
    /// How the output of a model with this target tokenizer is compared; `tokenize` is BLEU's tokenizer.
    ///
    /// # Errors
    /// A foreign tokenizer fails.
    pub fn new(tgt: Arc<Tokenizer>, tokenize: BleuTokenizer) -> Result<Self> {
        let lowercase = tgt.lower_cases()?;
        Ok(Self { tgt, tokenize, lowercase })
    }

    /// BLEU, as it is computed of [`Self::lines`].
    pub fn bleu(&self) -> BleuOptions {
        BleuOptions { tokenizer: self.tokenize.clone(), lowercase: self.lowercase, ..BleuOptions::default() }
    }

    /// chrF, as it is computed of [`Self::lines`].
    pub fn chrf(&self) -> ChrfOptions {
        ChrfOptions { lowercase: self.lowercase, ..ChrfOptions::default() }
    }

    /// Lines of either side as they are scored: in words.
    pub fn lines<'t, S: AsRef<str>>(&self, lines: &'t [S]) -> Vec<Cow<'t, str>> {
        lines.iter().map(|line| self.tgt.in_words(line.as_ref())).collect()
    }

    /// A line as exact match compares it. Case is folded character by character, as tokenizers do.
    fn folded<'t>(&self, line: &'t str) -> Cow<'t, str> {
        if self.lowercase { line.chars().flat_map(char::to_lowercase).collect::<String>().into() } else { line.into() }
    }
}

impl Debug for Scoring {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { tgt: _, tokenize, lowercase } = self;
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
    /// Share of lines equal to their reference, 0 to 1.
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
    /// Of hypotheses against as many references.
    ///
    /// # Errors
    /// There are none.
    pub(crate) fn of(hypotheses: &[String], references: &[&str], scoring: &Scoring) -> Result<Self> {
        let (hypotheses, references) = (scoring.lines(hypotheses), scoring.lines(references));
        let folded =
            |lines: &[Cow<str>]| lines.iter().map(|line| scoring.folded(line).into_owned()).collect::<Vec<_>>();
        let exact_match = exact_match(&folded(&hypotheses), &folded(&references))?;
        let (bleu, chrf, streams) = (scoring.bleu(), scoring.chrf(), [references]);
        Ok(Self {
            bleu: corpus_score(&bleu, &hypotheses, &streams)?.score,
            chrf: corpus_score(&chrf, &hypotheses, &streams)?.score,
            exact_match,
            signatures: Signatures { bleu: bleu.signature(1).to_string(), chrf: chrf.signature(1).to_string() },
        })
    }
}
