//! Tests whether the best validations of runs differ by more than chance.

use polyglow_metrics::significance::{
    DEFAULT_BOOTSTRAP_SAMPLES, DEFAULT_SEED, baseline_confidence, paired_bootstrap,
};
use polyglow_metrics::{Measure, Metric, Statistics, segment_statistics};
use polyglow_train::Result;

use super::RunSummary;

/// The comparison of a run's best validation with that of the first run, by one metric.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The name of the run.
    pub name: String,
    /// The title of the metric.
    pub metric: &'static str,
    /// The mean of the scores on resampled validation sets, and half the width of the interval that
    /// holds 95 % of them.
    pub confidence: (f64, f64),
    /// The probability of a difference to the first run at least this large if both runs were
    /// equally good; `None` for the first run.
    pub p_value: Option<f64>,
}

/// Compares the best validations of runs with that of the first, by paired bootstrap resampling
/// (Koehn, 2004), and returns a row for each run and metric: BLEU, then chrF.
///
/// Runs that were validated on other text than the first, or score it in another way, are left out,
/// as are runs without a best validation.
///
/// # Errors
/// The scores cannot be computed.
pub fn compare(runs: &[RunSummary]) -> Result<Vec<Comparison>> {
    let Some(first) = runs.first() else {
        return Ok(Vec::new());
    };
    let Some(scoring) = first.scoring.as_ref() else {
        return Ok(Vec::new());
    };
    let comparable: Vec<&RunSummary> = runs
        .iter()
        .filter(|run| run.is_scored_as(first) && run.has_comparable_output())
        .collect();
    let mut comparisons = compare_by(Measure::BLEU, &scoring.bleu(), &comparable)?;
    comparisons.extend(compare_by(Measure::CHRF, &scoring.chrf(), &comparable)?);
    Ok(comparisons)
}

/// Compares runs by one metric.
fn compare_by(
    measure: Measure,
    metric: &impl Metric,
    runs: &[&RunSummary],
) -> Result<Vec<Comparison>> {
    let mut comparisons = Vec::new();
    // The statistics of the first run, which the others are compared with.
    let mut baseline: Option<Statistics> = None;
    for run in runs {
        let Some(statistics) = statistics(metric, run)? else {
            continue;
        };
        let mut p_value = None;
        let confidence = match &baseline {
            None => Some(baseline_confidence(
                metric,
                &statistics,
                DEFAULT_BOOTSTRAP_SAMPLES,
                DEFAULT_SEED,
            )?),
            Some(baseline) => {
                let comparison = paired_bootstrap(
                    metric,
                    baseline,
                    &statistics,
                    DEFAULT_BOOTSTRAP_SAMPLES,
                    DEFAULT_SEED,
                )?;
                p_value = Some(comparison.p_value);
                comparison.confidence
            }
        };
        baseline.get_or_insert(statistics);
        let Some(confidence) = confidence else {
            continue;
        };
        comparisons.push(Comparison {
            name: run.name.clone(),
            metric: measure.title,
            confidence: (confidence.mean, confidence.half_width),
            p_value,
        });
    }
    Ok(comparisons)
}

/// The statistics of a run's best validation, by segment; `None` if it has no output.
fn statistics(metric: &impl Metric, run: &RunSummary) -> Result<Option<Statistics>> {
    let (Some(hypotheses), Some(scoring)) = (run.best_output(), &run.scoring) else {
        return Ok(None);
    };
    let references: Vec<&str> = run.valid.iter().map(|pair| pair.tgt.as_str()).collect();
    let hypotheses = scoring.lines(hypotheses)?;
    let references = scoring.lines(&references)?;
    Ok(Some(segment_statistics(
        metric,
        &hypotheses,
        &[references],
    )?))
}
