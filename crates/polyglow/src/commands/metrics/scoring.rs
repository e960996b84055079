//! From lines to scores, the same way for every metric.

use polyglow_metrics::significance::{
    Comparison, Confidence, baseline_confidence, bootstrap_confidence, paired_bootstrap,
    paired_randomization,
};
use polyglow_metrics::{Metric, MetricError, Score, Signature, Statistics, segment_statistics};

use super::input::Systems;
use super::{MetricName, MetricsArgs, Task};
use crate::failure::{usage, with_hint};

/// The scores by one metric.
pub(super) struct Scores {
    /// The signature, which says how the scores were computed.
    pub(super) signature: Signature,
    /// One for each system, or for each line where lines are scored.
    pub(super) scores: Vec<Scored>,
}

/// A score with its name, details and significance.
pub(super) struct Scored {
    /// The name of the metric with its options.
    pub(super) name: String,
    /// The score.
    pub(super) value: f64,
    /// The components of the score; empty if sacreBLEU prints none.
    pub(super) details: String,
    /// The confidence interval of the resampled scores.
    pub(super) confidence: Option<Confidence>,
    /// The p-value of the difference to the first system.
    pub(super) p_value: Option<f64>,
}

impl Scored {
    fn new(score: &impl Score) -> Self {
        Self {
            name: score.name(),
            value: score.value(),
            details: score.details(),
            confidence: None,
            p_value: None,
        }
    }
}

/// Scores all systems by one metric.
///
/// # Errors
/// The score is undefined for the options of the metric, or BLEU's tokenizer cannot be had.
pub(super) fn score(
    metric: MetricName,
    args: &MetricsArgs,
    task: Task,
    systems: &Systems<'_>,
    seed: u64,
) -> anyhow::Result<Scores> {
    let (scores, options) = match metric {
        MetricName::Bleu => {
            let bleu = args
                .bleu
                .options(args.sentence_level, &systems.references[0])?;
            if !args.bleu.force {
                systems.warn_of_phrases(&bleu.tokenizer);
            }
            (
                score_by(&bleu, task, systems, seed),
                "`--max-ngram-order` and `--smooth-value`",
            )
        }
        MetricName::Chrf => (
            score_by(&args.chrf.options(), task, systems, seed),
            "`--chrf-char-order` and `--chrf-word-order`",
        ),
        MetricName::Ter => (
            score_by(&args.ter.options(), task, systems, seed),
            "the options of TER",
        ),
    };
    // The lines have been checked before, so only the options can be wrong.
    scores.map_err(|error| usage(with_hint(error, format!("see {options}"))))
}

fn score_by(
    metric: &impl Metric,
    task: Task,
    systems: &Systems<'_>,
    seed: u64,
) -> Result<Scores, MetricError> {
    let statistics: Vec<Statistics> = systems
        .hypotheses
        .iter()
        .map(|hypotheses| segment_statistics(metric, hypotheses, &systems.references))
        .collect::<Result<_, _>>()?;
    let (baseline, others) = statistics.split_first().ok_or(MetricError::NoHypotheses)?;
    let signature = metric.signature(systems.references.len());
    Ok(match task {
        Task::Corpus => Scores {
            signature,
            scores: statistics
                .iter()
                .map(|statistics| of_corpus(metric, statistics))
                .collect(),
        },
        Task::Sentences => Scores {
            signature,
            scores: baseline
                .rows()
                .map(|row| Scored::new(&metric.score(row)))
                .collect(),
        },
        Task::Confidence(number) => {
            let confidence = Some(bootstrap_confidence(metric, baseline, number, seed)?);
            let scores = vec![Scored {
                confidence,
                ..of_corpus(metric, baseline)
            }];
            Scores {
                signature: signature.resampled(Some(number), None, seed),
                scores,
            }
        }
        Task::PairedBootstrap(number) => {
            let confidence = Some(baseline_confidence(metric, baseline, number, seed)?);
            let mut scores = vec![Scored {
                confidence,
                ..of_corpus(metric, baseline)
            }];
            scores.extend(compared(metric, others, |system| {
                paired_bootstrap(metric, baseline, system, number, seed)
            })?);
            Scores {
                signature: signature.resampled(Some(number), None, seed),
                scores,
            }
        }
        Task::PairedRandomization(number) => {
            let mut scores = vec![of_corpus(metric, baseline)];
            scores.extend(compared(metric, others, |system| {
                paired_randomization(metric, baseline, system, number, None, seed)
            })?);
            Scores {
                signature: signature.resampled(None, Some(number), seed),
                scores,
            }
        }
    })
}

/// Scores the corpus of a system.
fn of_corpus(metric: &impl Metric, statistics: &Statistics) -> Scored {
    Scored::new(&metric.score(&statistics.sum()))
}

/// Scores systems, each with its test against the baseline, which `compare` makes.
fn compared(
    metric: &impl Metric,
    systems: &[Statistics],
    compare: impl Fn(&Statistics) -> Result<Comparison, MetricError>,
) -> Result<Vec<Scored>, MetricError> {
    let mut scores = Vec::new();
    for system in systems {
        let Comparison {
            p_value,
            confidence,
            ..
        } = compare(system)?;
        scores.push(Scored {
            p_value: Some(p_value),
            confidence,
            ..of_corpus(metric, system)
        });
    }
    Ok(scores)
}
