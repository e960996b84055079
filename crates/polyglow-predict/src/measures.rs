//! The measures of scores, with their titles: all that is shown of records comes from here.

use polyglow_metrics::Measure;
use serde_json::Value;

/// Fraction of right answers, 0 to 1.
pub const ACCURACY: Measure = Measure {
    key: "accuracy",
    title: "accuracy",
    higher_is_better: true,
    decimals: 3,
};
/// Fraction of tokens that the model ranks first, 0 to 1.
pub const TOKEN_ACCURACY: Measure = Measure {
    key: "token_accuracy",
    title: "token accuracy",
    higher_is_better: true,
    decimals: 3,
};
/// Cross-entropy in nats per target token.
pub const LOSS: Measure = Measure {
    key: "loss",
    title: "loss",
    higher_is_better: false,
    decimals: 4,
};
/// `exp(loss)`.
pub const PERPLEXITY: Measure = Measure {
    key: "perplexity",
    title: "perplexity",
    higher_is_better: false,
    decimals: 2,
};
/// Cross-entropy in bits per byte of text.
pub const BITS_PER_BYTE: Measure = Measure {
    key: "bits_per_byte",
    title: "bits per byte",
    higher_is_better: false,
    decimals: 3,
};

/// Fraction of the spans that a model tagged that are right, 0 to 1.
pub const SPAN_PRECISION: Measure = Measure {
    key: "span_precision",
    title: "span precision",
    higher_is_better: true,
    decimals: 3,
};
/// Fraction of the spans of the references that a model tagged, 0 to 1.
pub const SPAN_RECALL: Measure = Measure {
    key: "span_recall",
    title: "span recall",
    higher_is_better: true,
    decimals: 3,
};
/// Harmonic mean of the precision and the recall of spans, 0 to 1.
pub const SPAN_F1: Measure = Measure {
    key: "span_f1",
    title: "span F1",
    higher_is_better: true,
    decimals: 3,
};

/// Every score that a record of `metrics.jsonl` may hold, in the order in which tables and pages
/// show them.
///
/// A record has only the scores that its model can be measured by: see [`recorded`].
pub const SCORES: [Measure; 11] = [
    Measure::BLEU,
    Measure::CHRF,
    Measure::EXACT_MATCH,
    ACCURACY,
    TOKEN_ACCURACY,
    SPAN_PRECISION,
    SPAN_RECALL,
    SPAN_F1,
    LOSS,
    PERPLEXITY,
    BITS_PER_BYTE,
];

/// The rows of [`SCORES`] that at least one of the records holds.
///
/// ```
/// use polyglow_predict::measures::recorded;
/// use serde_json::json;
///
/// let records = [json!({"step": 10, "loss": 2.5}), json!({"step": 20, "loss": 2.1, "bleu": 12.5})];
/// let titles: Vec<&str> = recorded(&records).map(|measure| measure.title).collect();
/// assert_eq!(titles, ["BLEU", "loss"]);
/// ```
pub fn recorded<'a>(records: impl IntoIterator<Item = &'a Value>) -> impl Iterator<Item = Measure> {
    let mut found = [false; SCORES.len()];
    for record in records {
        for (found, measure) in found.iter_mut().zip(&SCORES) {
            *found |= record[measure.key].is_number();
        }
    }
    SCORES
        .into_iter()
        .zip(found)
        .filter_map(|(measure, found)| found.then_some(measure))
}

/// Returns the title of a score: `span F1` of `span_f1`. One that is not in [`SCORES`] is its own
/// title.
pub fn title(key: &str) -> &str {
    SCORES
        .iter()
        .find(|measure| measure.key == key)
        .map_or(key, |measure| measure.title)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::evaluation::Scores;
    use crate::scoring::{Signatures, TranslationScores};

    use super::*;

    #[test]
    fn every_score_that_is_recorded_has_a_title() {
        let signatures = Signatures {
            bleu: String::new(),
            chrf: String::new(),
        };
        let translations = Some(TranslationScores {
            bleu: 1.0,
            chrf: 1.0,
            exact_match: 1.0,
            signatures,
        });
        let (accuracy, token_accuracy, bits_per_byte) = (Some(1.0), Some(1.0), Some(1.0));
        let (loss, perplexity, truncated) = (1.0, 1.0, None);
        let others: BTreeMap<String, f64> = [SPAN_PRECISION, SPAN_RECALL, SPAN_F1]
            .map(|measure| (measure.key.to_owned(), 1.0))
            .into();
        let scores = Scores {
            translations,
            accuracy,
            token_accuracy,
            loss,
            perplexity,
            bits_per_byte,
            others,
            truncated,
        };
        let record = serde_json::to_value(scores).unwrap();
        assert_eq!(recorded([&record]).count(), SCORES.len());
        let num_scores = record
            .as_object()
            .unwrap()
            .values()
            .filter(|value| value.is_number())
            .count();
        assert_eq!(num_scores, SCORES.len());
    }
}
