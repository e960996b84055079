//! Whether runs differ by more than chance.

use polyglow_metrics::significance::{
    DEFAULT_BOOTSTRAP_SAMPLES, DEFAULT_SEED, baseline_confidence, paired_bootstrap,
};
use polyglow_metrics::{Measure, Metric, segment_statistics};
use polyglow_train::Result;

use super::RunSummary;

/// How the best validation of a run compares with that of the first run, by one metric.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The name of the run.
    pub name: String,
    /// The title of the metric.
    pub metric: &'static str,
    /// Scores of the resampled validation sets: their mean, and half the width of the interval that
    /// holds 95 % of them.
    pub confidence: (f64, f64),
    /// The probability of a difference to the first run at least this large if both runs were
    /// equally good; `None` for the first run.
    pub p_value: Option<f64>,
}

/// Compares the best validations by paired bootstrap resampling (Koehn, 2004), for BLEU and chrF.
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
    let same: Vec<&RunSummary> = runs
        .iter()
        .filter(|run| run.is_scored_as(first) && run.has_comparable_output())
        .collect();
    let Some(scoring) = first.scoring.as_ref() else {
        return Ok(Vec::new());
    };
    let mut comparisons = compare_by(Measure::BLEU, &scoring.bleu(), &same)?;
    comparisons.extend(compare_by(Measure::CHRF, &scoring.chrf(), &same)?);
    Ok(comparisons)
}

fn compare_by(
    measure: Measure,
    metric: &impl Metric,
    runs: &[&RunSummary],
) -> Result<Vec<Comparison>> {
    let mut comparisons = Vec::new();
    let mut baseline = None;
    for run in runs {
        let (Some(hypotheses), Some(scoring)) = (run.best_output(), &run.scoring) else {
            continue;
        };
        let references: Vec<&str> = run.valid.iter().map(|pair| pair.tgt.as_str()).collect();
        let statistics = segment_statistics(
            metric,
            &scoring.lines(hypotheses)?,
            &[scoring.lines(&references)?],
        )?;
        let (confidence, p_value) = match &baseline {
            None => (
                baseline_confidence(metric, &statistics, DEFAULT_BOOTSTRAP_SAMPLES, DEFAULT_SEED)?,
                None,
            ),
            Some(baseline) => {
                let found = paired_bootstrap(
                    metric,
                    baseline,
                    &statistics,
                    DEFAULT_BOOTSTRAP_SAMPLES,
                    DEFAULT_SEED,
                )?;
                let Some(confidence) = found.confidence else {
                    continue;
                };
                (confidence, Some(found.p_value))
            }
        };
        baseline.get_or_insert(statistics);
        let confidence = (confidence.mean, confidence.half_width);
        comparisons.push(Comparison {
            name: run.name.clone(),
            metric: measure.title,
            confidence,
            p_value,
        });
    }
    Ok(comparisons)
}
