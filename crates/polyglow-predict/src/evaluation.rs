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

/// How held-out examples are scored where a model writes text for them.
#[derive(Clone, Debug)]
pub struct EvaluationOptions {
    /// BLEU's tokenizer.
    pub bleu: BleuTokenizer,
    /// How the text that is scored is searched for.
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

/// Scores on one set, teacher-forced but for those of translations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// The best hypotheses against the references; none of a language model, which translates
    /// nothing.
    #[serde(flatten)]
    pub translations: Option<TranslationScores>,
    /// Share of answers that are right, 0 to 1: of texts or images whose label is ranked first, or
    /// of words of a context that score above all words drawn beside them. None of models that
    /// write or find tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Share of tokens that the model ranks first, 0 to 1: of a target given those before them, or
    /// of those that are hidden in a text. None of models with an accuracy, whose answers are no
    /// tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_accuracy: Option<f64>,
    /// Cross-entropy without smoothing, in nats per target token.
    pub loss: f64,
    /// `exp(loss)`.
    pub perplexity: f64,
    /// Cross-entropy of a language model in bits per byte of the text that was scored, its line
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

/// Scores and the translations that they are of.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The scores.
    pub scores: Scores,
    /// One translation a pair, in order; none of a language model.
    pub hypotheses: Vec<String>,
    /// What each target position was taken for, pair by pair.
    pub first: Vec<Vec<u32>>,
    /// Scores of each label that occurs; none of models that give no labels.
    pub labels: Vec<LabelScores>,
    /// How many examples were scored: of language models that read line by line, all lines but
    /// blank ones.
    pub num_scored: usize,
}

impl Evaluation {
    /// Of what was found at the targets of each example.
    pub fn from_forced(forced: Vec<Forced>) -> Self {
        let num_targets = forced
            .iter()
            .map(|example| example.log_probs.len())
            .sum::<usize>() as f64;
        let num_correct = forced
            .iter()
            .map(|example| example.num_correct)
            .sum::<usize>() as f64;
        let loss = -forced.iter().map(Forced::log_prob).sum::<f64>() / num_targets;
        let truncated = forced.iter().filter(|example| example.truncated).count();
        let scores = Scores {
            translations: None,
            accuracy: None,
            token_accuracy: Some(num_correct / num_targets),
            loss,
            perplexity: loss.exp(),
            bits_per_byte: None,
            others: BTreeMap::new(),
            truncated: (truncated > 0).then_some(truncated),
        };
        let num_scored = forced
            .iter()
            .filter(|example| !example.log_probs.is_empty())
            .count();
        let first = forced.into_iter().map(|example| example.first).collect();
        Self {
            scores,
            hypotheses: Vec::new(),
            first,
            labels: Vec::new(),
            num_scored,
        }
    }

    /// With what was translated, and its scores.
    #[must_use]
    pub fn with_translations(mut self, hypotheses: Vec<String>, scores: TranslationScores) -> Self {
        self.hypotheses = hypotheses;
        self.scores.translations = Some(scores);
        self
    }

    /// With the loss in bits per byte.
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

    /// With what is right counted as answers, not as tokens.
    #[must_use]
    pub fn with_accuracy(mut self) -> Self {
        self.scores.accuracy = self.scores.token_accuracy.take();
        self
    }
}

/// On one line, for people: two spaces are between scores.
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
            parts.push(format!("{} {value:.3}", measures::title(key)));
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
