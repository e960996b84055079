//! The measures of scores, with their titles: all that is shown of records comes from here.

use polyglow_metrics::Measure;
use polyglow_model::ModelError;
use polyglow_model::registry::{Named, Row, Table};
use serde_json::Value;

use crate::error::{Result, ensure};

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

/// Every built-in score that a record of `metrics.jsonl` may hold, in the order in which tables and
/// pages show them.
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

/// Computes a metric from all outputs of a set and, for each, its references, of which there is at
/// least one. Both are normalized as the tokenizer normalizes text, and in words. Every process of
/// a group calls it. The result must be finite for every set, also for outputs that are all empty.
pub type ScoreOutputs = fn(outputs: &[&str], references: &[Vec<&str>]) -> f64;

/// Keys of a record that are no scores.
const NO_SCORES: [&str; 5] = ["kind", "split", "step", "truncated", "signatures"];

/// A row of the table of metrics: a measure, and how it is computed if the program has added it.
#[derive(Debug)]
pub struct MetricRow {
    /// The measure.
    pub measure: Measure,
    /// Computes it of what a model writes; `None` where a task gives the score.
    score_outputs: Option<ScoreOutputs>,
}

impl MetricRow {
    const fn built_in(measure: Measure) -> Self {
        Self {
            measure,
            score_outputs: None,
        }
    }

    /// Returns whether it is one of [`SCORES`], of which it is known which tasks give them.
    pub fn is_built_in(&self) -> bool {
        SCORES.contains(&self.measure)
    }

    /// Returns whether it compares what a model writes with references.
    pub fn needs_references(&self) -> bool {
        let compares = [Measure::BLEU, Measure::CHRF, Measure::EXACT_MATCH];
        self.score_outputs.is_some() || compares.contains(&self.measure)
    }
}

/// The metrics that are built in: a row for each of [`SCORES`].
const BUILT_IN: [&MetricRow; SCORES.len()] = [
    &MetricRow::built_in(SCORES[0]),
    &MetricRow::built_in(SCORES[1]),
    &MetricRow::built_in(SCORES[2]),
    &MetricRow::built_in(SCORES[3]),
    &MetricRow::built_in(SCORES[4]),
    &MetricRow::built_in(SCORES[5]),
    &MetricRow::built_in(SCORES[6]),
    &MetricRow::built_in(SCORES[7]),
    &MetricRow::built_in(SCORES[8]),
    &MetricRow::built_in(SCORES[9]),
    &MetricRow::built_in(SCORES[10]),
];

static TABLE: Table<MetricRow> = Table::new("train.best_metric", &BUILT_IN);

impl Named for MetricRow {
    fn name(&self) -> &'static str {
        self.measure.key
    }
}

impl Row for MetricRow {
    fn table() -> &'static Table<Self> {
        &TABLE
    }
}

/// Registers a score that a task of the program's own gives ([`Scores::others`]), so that
/// `train.best_metric`, patience and reports know whether more of it is better.
///
/// [`Scores::others`]: crate::evaluation::Scores::others
///
/// # Errors
/// Its key is no word in lower case, or that of another measure.
pub fn register_measure(measure: Measure) -> Result<(), ModelError> {
    check_key(measure.key)?;
    TABLE.register(Box::new(MetricRow::built_in(measure)))
}

/// Registers a metric that is computed of every set of outputs and references, in validations, in
/// the final test and by `polyglow evaluate`.
///
/// ```
/// use polyglow_metrics::Measure;
/// use polyglow_predict::measures::register_metric;
///
/// let measure = Measure {
///     key: "empty",
///     title: "empty outputs",
///     higher_is_better: false,
///     decimals: 3,
/// };
/// register_metric(measure, |outputs, _| {
///     let num_empty = outputs.iter().filter(|output| output.is_empty()).count();
///     num_empty as f64 / outputs.len() as f64
/// })?;
/// # Ok::<(), polyglow_model::ModelError>(())
/// ```
///
/// # Errors
/// As [`register_measure`].
pub fn register_metric(measure: Measure, score_outputs: ScoreOutputs) -> Result<(), ModelError> {
    check_key(measure.key)?;
    TABLE.register(Box::new(MetricRow {
        measure,
        score_outputs: Some(score_outputs),
    }))
}

/// Refuses the keys that records have for other things.
fn check_key(key: &str) -> Result<(), ModelError> {
    if NO_SCORES.contains(&key) {
        let value = format!("\"{key}\"");
        let reason = "records have this key for something else";
        return Err(ModelError::config("train.best_metric", value, reason));
    }
    Ok(())
}

/// Returns the measures of all scores: [`SCORES`], and those that the program has registered.
pub fn all() -> Vec<Measure> {
    TABLE.rows().iter().map(|metric| metric.measure).collect()
}

/// Returns whether the program has registered metrics of outputs.
pub(crate) fn has_own_metrics() -> bool {
    TABLE.rows().iter().any(|row| row.score_outputs.is_some())
}

/// Computes the metrics that the program has registered, each with its key.
///
/// # Errors
/// One is not finite.
pub(crate) fn own_scores(
    outputs: &[&str],
    references: &[Vec<&str>],
) -> Result<Vec<(&'static str, f64)>> {
    let mut scores = Vec::new();
    for row in TABLE.rows() {
        let Some(score_outputs) = row.score_outputs else {
            continue;
        };
        let key = row.measure.key;
        let score = score_outputs(outputs, references);
        ensure!(
            score.is_finite(),
            "the metric `{key}` of {} outputs is {score}; it must be finite for every set of outputs",
            outputs.len()
        );
        scores.push((key, score));
    }
    Ok(scores)
}

/// The measures of [`all`] that at least one of the records holds.
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
    let measures = all();
    let mut is_recorded = vec![false; measures.len()];
    for record in records {
        for (is_recorded, measure) in is_recorded.iter_mut().zip(&measures) {
            *is_recorded |= record[measure.key].is_number();
        }
    }
    measures
        .into_iter()
        .zip(is_recorded)
        .filter_map(|(measure, is_recorded)| is_recorded.then_some(measure))
}

/// Returns the title of a score: `span F1` of `span_f1`. One that is not in [`all`] is its own
/// title.
pub fn title(key: &str) -> &str {
    TABLE.find(key).map_or(key, |metric| metric.measure.title)
}

/// Returns a score as a line of text has it: its title, and its value with the decimals of its
/// measure, `span F1 0.912`.
pub fn titled(key: &str, value: f64) -> String {
    let decimals = TABLE.find(key).map_or(3, |metric| metric.measure.decimals);
    format!("{} {value:.decimals$}", title(key))
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
