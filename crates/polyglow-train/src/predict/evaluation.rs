//! A model's scores on held-out text: one path for `evaluate`, for validation and for the end of a training.

use std::fmt::{self, Display, Formatter};

use polyglow_data::corpus::Pair;
use polyglow_metrics::{BleuOptions, ChrfOptions, Metric, Tokenizer, corpus_score, exact_match};
use serde::Serialize;

use crate::error::Result;
use crate::predict::teacher_forcing::Forced;

/// Scores on one set, teacher-forced but for those of translations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// The best hypotheses against the references; none of a language model, which translates nothing.
    #[serde(flatten)]
    pub translations: Option<TranslationScores>,
    /// Share of answers that are right, 0 to 1: of texts or images whose label is ranked first, or of words of a context
    /// that score above all words drawn beside them. None of models that write or find tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Share of tokens that the model ranks first, 0 to 1: of a target given those before them, or of those that are hidden
    /// in a text. Of models with an accuracy the same as that.
    pub token_accuracy: f64,
    /// Cross-entropy without smoothing, in nats per target token.
    pub loss: f64,
    /// `exp(loss)`.
    pub perplexity: f64,
    /// Cross-entropy of a language model in bits per byte of the text, its line breaks included, which is the same
    /// measure whatever the tokens are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_byte: Option<f64>,
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

/// Scores and the translations that they are of.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The scores.
    pub scores: Scores,
    /// One translation a pair, in order; none of a language model.
    pub hypotheses: Vec<String>,
    /// What each target position was taken for, pair by pair.
    pub first: Vec<Vec<u32>>,
}

impl Evaluation {
    /// Of what was found at the targets of each example.
    pub(crate) fn of_forced(forced: Vec<Forced>) -> Self {
        let num_targets = forced.iter().map(|example| example.log_probs.len()).sum::<usize>() as f64;
        let num_correct = forced.iter().map(|example| example.num_correct).sum::<usize>() as f64;
        let loss = -forced.iter().map(Forced::log_prob).sum::<f64>() / num_targets;
        let scores = Scores {
            translations: None,
            accuracy: None,
            token_accuracy: num_correct / num_targets,
            loss,
            perplexity: loss.exp(),
            bits_per_byte: None,
        };
        Self { scores, hypotheses: Vec::new(), first: forced.into_iter().map(|example| example.first).collect() }
    }

    /// With what was translated, and its scores.
    pub(crate) fn with_translations(mut self, hypotheses: Vec<String>, scores: TranslationScores) -> Self {
        self.hypotheses = hypotheses;
        self.scores.translations = Some(scores);
        self
    }

    /// With the loss in bits per byte.
    pub(crate) fn with_bits_per_byte(mut self, bits: f64) -> Self {
        self.scores.bits_per_byte = Some(bits);
        self
    }

    /// With what is right counted as accuracy.
    pub(crate) fn with_accuracy(mut self) -> Self {
        self.scores.accuracy = Some(self.scores.token_accuracy);
        self
    }
}

/// Converts the nats of all target sides to bits per byte of them; the end mark of each stands for its line break.
pub fn bits_per_byte(nats: f64, pairs: &[Pair]) -> f64 {
    let bytes: usize = pairs.iter().map(|pair| pair.tgt.len() + 1).sum();
    nats / std::f64::consts::LN_2 / bytes as f64
}

impl TranslationScores {
    /// Of hypotheses against the targets of `pairs`.
    ///
    /// # Errors
    /// There are none.
    pub(crate) fn of(hypotheses: &[String], pairs: &[Pair], tokenizer: Tokenizer) -> Result<Self> {
        let references: Vec<&str> = pairs.iter().map(|pair| pair.tgt.as_str()).collect();
        let hypotheses: Vec<&str> = hypotheses.iter().map(String::as_str).collect();
        let bleu = BleuOptions { tokenizer, ..BleuOptions::default() };
        let chrf = ChrfOptions::default();
        let streams = vec![references.clone()];
        Ok(Self {
            bleu: corpus_score(&bleu, &hypotheses, &streams)?.score,
            chrf: corpus_score(&chrf, &hypotheses, &streams)?.score,
            exact_match: exact_match(&hypotheses, &references)?,
            signatures: Signatures { bleu: bleu.signature(1).to_string(), chrf: chrf.signature(1).to_string() },
        })
    }
}

/// On one line, for people.
impl Display for Scores {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { translations, accuracy, token_accuracy, loss, perplexity, bits_per_byte } = self;
        if let Some(accuracy) = accuracy {
            return write!(formatter, "accuracy {accuracy:.4}  loss {loss:.4}");
        }
        if let Some(TranslationScores { bleu, chrf, exact_match, .. }) = translations {
            write!(formatter, "BLEU {bleu:.2}  chrF {chrf:.2}  exact match {exact_match:.3}  ")?;
        }
        write!(formatter, "token accuracy {token_accuracy:.3}  loss {loss:.3}  perplexity {perplexity:.2}")?;
        match bits_per_byte {
            Some(bits) => write!(formatter, "  bits per byte {bits:.3}"),
            None => Ok(()),
        }
    }
}
