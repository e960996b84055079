//! A model's scores on held-out text: one path for `evaluate`, for validation and for the end of a
//! training.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use polyglow_metrics::Tokenizer as BleuTokenizer;
use polyglow_model::search::SearchRequest;
use serde::Serialize;

use crate::measures;
use crate::scoring::TranslationScores;
use crate::tasks::labels::confusion::LabelScores;
use crate::teacher_forcing::Forced;

/// The options by which text that a model writes for held-out examples is scored.
#[derive(Clone, Debug)]
pub struct EvaluationOptions {
    /// BLEU's tokenizer.
    pub bleu: BleuTokenizer,
    /// The search that finds the text.
    pub search: SearchRequest,
}

impl From<BleuTokenizer> for EvaluationOptions {
    /// Scores with this tokenizer of BLEU, and searches as the runner's config says.
    fn from(bleu: BleuTokenizer) -> Self {
        Self {
            bleu,
            search: SearchRequest::default(),
        }
    }
}

/// The scores of a model on one set. All but those of translations are teacher-forced.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// The scores of the best hypotheses against the references; `None` for models without references.
    #[serde(flatten)]
    pub translations: Option<TranslationScores>,
    /// The share of answers that are right, 0 to 1: of texts or images whose label is ranked first, or
    /// of words of a context that score above all drawn words. `None` for models that predict tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// The share of tokens that the model ranks first, 0 to 1: of a target given those before them, or
    /// of those that are hidden in a text. `None` for models with an accuracy, whose answers are no
    /// tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_accuracy: Option<f64>,
    /// The cross-entropy without smoothing, in nats per target token.
    pub loss: f64,
    /// `exp(loss)`.
    pub perplexity: f64,
    /// The cross-entropy of a language model in bits per byte of the text that was scored, its line
    /// breaks included, which is the same measure whatever the tokens are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_byte: Option<f64>,
    /// Scores that only some tasks have, by their names in records.
    #[serde(flatten)]
    pub others: BTreeMap<String, f64>,
    /// Examples of which only the beginning was read and scored, because they are longer than the
    /// model; none if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<usize>,
}

impl Scores {
    /// Returns the score of this key of a measure; `None` if the model has none.
    pub fn get(&self, key: &str) -> Option<f64> {
        let translations = self.translations.as_ref();
        match key {
            "bleu" => translations.map(|scores| scores.bleu),
            "chrf" => translations.map(|scores| scores.chrf),
            "exact_match" => translations.map(|scores| scores.exact_match),
            "accuracy" => self.accuracy,
            "token_accuracy" => self.token_accuracy,
            "loss" => Some(self.loss),
            "perplexity" => Some(self.perplexity),
            "bits_per_byte" => self.bits_per_byte,
            other => self.others.get(other).copied(),
        }
    }
}

/// The scores of a model on one set, with the outputs that were scored.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The scores.
    pub scores: Scores,
    /// The output for each pair, in order; empty for models that write no text.
    pub hypotheses: Vec<String>,
    /// The id that was ranked first at each target position, pair by pair.
    pub first: Vec<Vec<u32>>,
    /// The scores of each label that occurs; empty for models that give no labels.
    pub labels: Vec<LabelScores>,
    /// The number of examples that were scored. Language models that read line by line skip blank
    /// lines.
    pub num_scored: usize,
}

impl Evaluation {
    /// Makes the evaluation of the predictions at the targets of each example.
    pub fn from_forced(forced: Vec<Forced>) -> Self {
        let mut num_targets = 0;
        let mut num_correct = 0;
        let mut truncated = 0;
        let mut num_scored = 0;
        for example in &forced {
            num_targets += example.log_probs.len();
            num_correct += example.num_correct;
            truncated += usize::from(example.truncated);
            num_scored += usize::from(!example.log_probs.is_empty());
        }
        let log_prob = forced.iter().map(Forced::log_prob).sum::<f64>();
        let loss = -log_prob / num_targets as f64;
        let scores = Scores {
            translations: None,
            accuracy: None,
            token_accuracy: Some(num_correct as f64 / num_targets as f64),
            loss,
            perplexity: loss.exp(),
            bits_per_byte: None,
            others: BTreeMap::new(),
            truncated: (truncated > 0).then_some(truncated),
        };
        let first = forced.into_iter().map(|example| example.first).collect();
        Self {
            scores,
            hypotheses: Vec::new(),
            first,
            labels: Vec::new(),
            num_scored,
        }
    }

    /// Adds the outputs of a model, and their scores against references.
    #[must_use]
    pub fn with_translations(mut self, hypotheses: Vec<String>, scores: TranslationScores) -> Self {
        self.hypotheses = hypotheses;
        self.scores.translations = Some(scores);
        self
    }

    /// Adds the loss in bits per byte.
    #[must_use]
    pub fn with_bits_per_byte(mut self, bits: f64) -> Self {
        self.scores.bits_per_byte = Some(bits);
        self
    }

    /// Adds scores of each label.
    #[must_use]
    pub fn with_labels(mut self, labels: Vec<LabelScores>) -> Self {
        self.labels = labels;
        self
    }

    /// Adds a score that only some tasks have, under its name in records.
    #[must_use]
    pub fn with_score(mut self, key: &str, value: f64) -> Self {
        self.scores.others.insert(key.to_owned(), value);
        self
    }

    /// Turns the token accuracy into an accuracy, for models whose answers are no tokens.
    #[must_use]
    pub fn with_accuracy(mut self) -> Self {
        self.scores.accuracy = self.scores.token_accuracy.take();
        self
    }
}

/// Displays the scores on one line, with two spaces between them.
impl Display for Scores {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            translations,
            accuracy,
            token_accuracy,
            loss,
            perplexity,
            bits_per_byte,
            others,
            truncated,
        } = self;
        let mut parts = Vec::new();
        if let Some(accuracy) = accuracy {
            parts.extend([format!("accuracy {accuracy:.4}"), format!("loss {loss:.4}")]);
        }
        if let Some(TranslationScores {
            bleu,
            chrf,
            exact_match,
            ..
        }) = translations
        {
            parts.extend([
                format!("BLEU {bleu:.2}"),
                format!("chrF {chrf:.2}"),
                format!("exact match {exact_match:.3}"),
            ]);
        }
        if let Some(token_accuracy) = token_accuracy {
            parts.push(format!("token accuracy {token_accuracy:.3}"));
        }
        for (key, value) in others {
            parts.push(measures::titled(key, *value));
        }
        if accuracy.is_none() {
            parts.extend([
                format!("loss {loss:.3}"),
                format!("perplexity {perplexity:.2}"),
            ]);
        }
        if let Some(bits) = bits_per_byte {
            parts.push(format!("bits per byte {bits:.3}"));
        }
        if let Some(count) = truncated {
            parts.push(format!("({count} too long, read in part)"));
        }
        formatter.write_str(&parts.join("  "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoring::Signatures;

    #[test]
    fn scores_of_every_kind_are_apart_from_each_other() {
        let signatures = Signatures {
            bleu: String::new(),
            chrf: String::new(),
        };
        let translations = TranslationScores {
            bleu: 1.66,
            chrf: 20.0,
            exact_match: 0.25,
            signatures,
        };
        let loss_alone = Scores {
            translations: None,
            accuracy: None,
            token_accuracy: None,
            loss: 3.2972,
            perplexity: 27.04,
            bits_per_byte: None,
            others: BTreeMap::new(),
            truncated: None,
        };
        let language = Scores {
            token_accuracy: Some(0.5),
            bits_per_byte: Some(1.25),
            truncated: Some(3),
            ..loss_alone.clone()
        };
        let translated = Scores {
            translations: Some(translations),
            token_accuracy: Some(0.5),
            ..loss_alone.clone()
        };
        let labels = Scores {
            accuracy: Some(0.75),
            ..loss_alone.clone()
        };
        let both = Scores {
            accuracy: Some(0.75),
            token_accuracy: None,
            ..translated.clone()
        };
        for (scores, expected) in [
            (loss_alone, "loss 3.297  perplexity 27.04"),
            (
                language,
                "token accuracy 0.500  loss 3.297  perplexity 27.04  bits per byte 1.250  (3 too long, read in part)",
            ),
            (
                translated,
                "BLEU 1.66  chrF 20.00  exact match 0.250  token accuracy 0.500  loss 3.297  perplexity 27.04",
            ),
            (labels, "accuracy 0.7500  loss 3.2972"),
            (
                both,
                "accuracy 0.7500  loss 3.2972  BLEU 1.66  chrF 20.00  exact match 0.250",
            ),
        ] {
            assert_eq!(scores.to_string(), expected);
        }
    }
}
