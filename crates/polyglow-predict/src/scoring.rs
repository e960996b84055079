//! Comparison of translations with references: like with like, and scored as sacreBLEU scores
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
use crate::measures;

/// The comparison of a model's output with references that its target tokenizer asks for.
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
    /// Returns the comparison for a model with this target tokenizer; `tokenize` is BLEU's
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

    /// Computes the metrics that the program has registered, each by the key of its measure, of
    /// lines as [`Self::lines`] returns them.
    ///
    /// # Errors
    /// A foreign tokenizer fails; a metric is not finite.
    pub(crate) fn own_scores(
        &self,
        outputs: &[String],
        references: &[Vec<&str>],
    ) -> Result<Vec<(&'static str, f64)>> {
        if !measures::has_own_metrics() {
            return Ok(Vec::new());
        }
        let outputs = self.lines(outputs)?;
        let outputs: Vec<&str> = outputs.iter().map(AsRef::as_ref).collect();
        let mut lines = Vec::with_capacity(references.len());
        for references in references {
            lines.push(self.lines(references)?);
        }
        let mut references: Vec<Vec<&str>> = Vec::with_capacity(lines.len());
        for lines in &lines {
            references.push(lines.iter().map(AsRef::as_ref).collect());
        }
        measures::own_scores(&outputs, &references)
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
    /// The signatures of BLEU and chrF, in sacreBLEU's notation.
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
    /// Scores hypotheses, each against its references, of which it has at least one.
    ///
    /// # Errors
    /// There is no hypothesis; a foreign tokenizer fails.
    pub fn new(hypotheses: &[String], references: &[Vec<&str>], scoring: &Scoring) -> Result<Self> {
        let hypotheses = scoring.lines(hypotheses)?;
        let mut lines = Vec::with_capacity(references.len());
        for references in references {
            lines.push(scoring.lines(references)?);
        }
        let streams = ReferenceStreams::new(&lines);
        let bleu = scoring.bleu();
        let chrf = scoring.chrf();
        let signatures = Signatures {
            bleu: streams.signature(scoring, bleu.signature(streams.all.len())),
            chrf: streams.signature(scoring, chrf.signature(streams.all.len())),
        };
        Ok(Self {
            bleu: corpus_score(&bleu, &hypotheses, &streams.all)?.score,
            chrf: corpus_score(&chrf, &hypotheses, &streams.all)?.score,
            exact_match: share_of_equal(&hypotheses, &lines, scoring)?,
            signatures,
        })
    }
}

/// References as metrics read them: the first of each line, the second of each, and so on.
struct ReferenceStreams {
    all: Vec<Vec<String>>,
    /// Whether some lines have fewer references than others.
    vary: bool,
}

impl ReferenceStreams {
    fn new(lines: &[Vec<Cow<str>>]) -> Self {
        let fewest = lines.iter().map(Vec::len).min().unwrap_or(1);
        let most = lines.iter().map(Vec::len).max().unwrap_or(1);
        let mut all = vec![Vec::with_capacity(lines.len()); most];
        for references in lines {
            for (number, stream) in all.iter_mut().enumerate() {
                // The first once more where one is missing, which changes neither score.
                let reference = references.get(number).unwrap_or(&references[0]);
                stream.push(reference.to_string());
            }
        }
        Self {
            all,
            vary: fewest != most,
        }
    }

    fn signature(&self, scoring: &Scoring, metric: Signature) -> String {
        let metric = scoring.signature(metric);
        if self.vary {
            metric.with_varying_references().to_string()
        } else {
            metric.to_string()
        }
    }
}

/// The share of hypotheses that are equal to one of their references.
fn share_of_equal(
    hypotheses: &[Cow<str>],
    references: &[Vec<Cow<str>>],
    scoring: &Scoring,
) -> Result<f64> {
    let mut outputs = Vec::with_capacity(hypotheses.len());
    let mut nearest = Vec::with_capacity(hypotheses.len());
    for (hypothesis, references) in hypotheses.iter().zip(references) {
        let output = scoring.folded(hypothesis).trim().to_owned();
        let mut folded = references.iter().map(|line| scoring.folded(line));
        let equal = folded.find(|reference| reference.trim() == output);
        let reference = equal.unwrap_or_else(|| scoring.folded(&references[0]));
        nearest.push(reference.trim().to_owned());
        outputs.push(output);
    }
    Ok(exact_match(&outputs, &nearest)?)
}
