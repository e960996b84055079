//! Tests whether one system is better than another by more than chance: paired bootstrap resampling
//! (Koehn, 2004) and approximate randomization (Riezler and Maxwell, 2005).
//!
//! Draws, number types and the order of additions are those of sacreBLEU on numpy 2, so that
//! p-values and intervals are equal in every digit. The statistics given to these functions must be
//! counted by the metric given to them.
//!
//! The numbers of this example are sacreBLEU's. Three sentences are far too few for a difference to
//! be significant:
//!
//! ```
//! use polyglow_metrics::significance::{
//!     DEFAULT_BOOTSTRAP_SAMPLES, DEFAULT_SEED, baseline_confidence, paired_bootstrap, paired_randomization,
//! };
//! use polyglow_metrics::{BleuOptions, segment_statistics};
//!
//! let references = [
//!     vec!["The dog bit the man.", "It was not unexpected.", "The man bit him first."],
//!     vec!["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."],
//! ];
//! let baseline = ["The dog bites the man.", "It was not surprising.", "The man had bit him."];
//! let system = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."];
//!
//! let bleu = BleuOptions::default();
//! let baseline = segment_statistics(&bleu, &baseline, &references)?;
//! let system = segment_statistics(&bleu, &system, &references)?;
//! let (samples, seed) = (DEFAULT_BOOTSTRAP_SAMPLES, DEFAULT_SEED);
//! assert_eq!(baseline_confidence(&bleu, &baseline, samples, seed)?.to_string(), "μ = 30.50 ± 1.80");
//!
//! let comparison = paired_bootstrap(&bleu, &baseline, &system, samples, seed)?;
//! assert_eq!(format!("{:.2}, p = {:.4}", comparison.score, comparison.p_value), "48.53, p = 0.2498");
//! let comparison = paired_randomization(&bleu, &baseline, &system, 1000, None, seed)?;
//! assert_eq!(format!("{:.4}", comparison.p_value), "0.7682");
//! # Ok::<(), polyglow_metrics::MetricError>(())
//! ```

use crate::error::MetricError;
use crate::metric::Metric;
use crate::python::arithmetic::Arithmetic;
use crate::score::Score;
use crate::statistics::Statistics;

mod random;
mod scores;

use random::Pcg64;
pub use scores::Confidence;
use scores::Scores;

/// sacreBLEU's seed if the environment variable `SACREBLEU_SEED` is not set.
pub const DEFAULT_SEED: u64 = 12345;

/// The number of resamples that sacreBLEU draws by default.
pub const DEFAULT_BOOTSTRAP_SAMPLES: usize = 1000;

/// The comparison of a system with the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The system's score on the corpus itself.
    pub score: f64,
    /// The probability of a difference to the baseline at least this great if the systems were
    /// equal.
    pub p_value: f64,
    /// The interval of the system's resampled scores; `None` if none were requested.
    pub confidence: Option<Confidence>,
}

/// Estimates the mean and the interval of a corpus score, as `sacrebleu --confidence` does.
///
/// # Errors
/// `num_samples` is 0.
pub fn bootstrap_confidence(
    metric: &impl Metric,
    statistics: &Statistics,
    num_samples: usize,
    seed: u64,
) -> Result<Confidence, MetricError> {
    check_samples(num_samples)?;
    let scores = bootstrap(metric, statistics, num_samples, &mut Pcg64::new(seed));
    Ok(Confidence {
        mean: scores.exact_mean(),
        ..scores.confidence()
    })
}

/// Estimates the mean and the interval of the baseline's score, as `sacrebleu --paired-bs` does.
///
/// Equal to [`bootstrap_confidence`] but for rounding: sacreBLEU takes one mean by numpy and the
/// other by Python.
///
/// # Errors
/// `num_samples` is 0.
pub fn baseline_confidence(
    metric: &impl Metric,
    statistics: &Statistics,
    num_samples: usize,
    seed: u64,
) -> Result<Confidence, MetricError> {
    check_samples(num_samples)?;
    Ok(bootstrap(metric, statistics, num_samples, &mut Pcg64::new(seed)).confidence())
}

/// Compares a system with the baseline on the same resamples of the corpus.
///
/// # Errors
/// The two have different numbers of segments, or `num_samples` is 0.
pub fn paired_bootstrap(
    metric: &impl Metric,
    baseline: &Statistics,
    system: &Statistics,
    num_samples: usize,
    seed: u64,
) -> Result<Comparison, MetricError> {
    check_pair(baseline, system)?;
    check_samples(num_samples)?;
    let score = metric.score(&system.sum()).value();
    let difference = (metric.score(&baseline.sum()).value() - score).abs();
    let baseline = bootstrap(metric, baseline, num_samples, &mut Pcg64::new(seed));
    let system = bootstrap(metric, system, num_samples, &mut Pcg64::new(seed));
    // Differences of equal systems would lie around zero; these lie around their mean. So the mean
    // is subtracted, as in Moses' `bootstrap-hypothesis-difference-significance.pl`, which
    // sacreBLEU follows.
    let centered = system.abs_differences(&baseline).centered();
    let p_value = p_value(centered.iter(), centered.round(difference));
    Ok(Comparison {
        score,
        p_value,
        confidence: Some(system.confidence()),
    })
}

/// Compares a system with the baseline by exchanging random segments between the two.
///
/// `num_trials` is the number of random exchanges; `num_resamples` that of resamples for the system's
/// confidence interval, which is left out with `None`.
///
/// # Errors
/// The two have different numbers of segments, or `num_trials` or `num_resamples` is 0.
pub fn paired_randomization(
    metric: &impl Metric,
    baseline: &Statistics,
    system: &Statistics,
    num_trials: usize,
    num_resamples: Option<usize>,
    seed: u64,
) -> Result<Comparison, MetricError> {
    check_pair(baseline, system)?;
    check_samples(num_trials)?;
    let score = metric.score(&system.sum()).value();
    let difference = (metric.score(&baseline.sum()).value() - score).abs();
    let mut generator = Pcg64::new(seed);
    let differences = exchange_differences(metric, baseline, system, num_trials, &mut generator);
    let p_value = p_value(differences.into_iter(), difference);
    let confidence = match num_resamples {
        None => None,
        Some(num_samples) => {
            check_samples(num_samples)?;
            Some(bootstrap(metric, system, num_samples, &mut generator).confidence())
        }
    };
    Ok(Comparison {
        score,
        p_value,
        confidence,
    })
}

/// Scores corpora of the same size made of segments drawn with replacement.
fn bootstrap(
    metric: &impl Metric,
    statistics: &Statistics,
    num_samples: usize,
    generator: &mut Pcg64,
) -> Scores {
    let width = statistics.width();
    let num_segments = statistics.num_segments();
    // numpy adds the counts in single precision.
    let values = statistics.rows().flatten();
    let values: Vec<f32> = values.map(|&value| value as f32).collect();
    // One after the other: all resamples draw from one generator, as in
    // `rng.choice(size=(num_samples, num_segments))`.
    let mut scores = Vec::with_capacity(num_samples);
    for _ in 0..num_samples {
        let mut sums = vec![0.0_f32; width];
        for _ in 0..num_segments {
            let start = width * generator.below(num_segments as u32) as usize;
            for (sum, value) in sums.iter_mut().zip(&values[start..start + width]) {
                *sum += value;
            }
        }
        let sums: Vec<_> = sums.into_iter().map(f64::from).collect();
        scores.push(metric.resampled_score(&sums, Arithmetic::Single));
    }
    Scores::new(&scores)
}

/// The absolute differences between two systems that exchange each segment by the flip of a coin.
fn exchange_differences(
    metric: &impl Metric,
    baseline: &Statistics,
    system: &Statistics,
    num_trials: usize,
    generator: &mut Pcg64,
) -> Vec<f64> {
    let mut flips = generator.flips();
    let mut differences = Vec::with_capacity(num_trials);
    for _ in 0..num_trials {
        let flips: Vec<bool> = flips.by_ref().take(baseline.num_segments()).collect();
        // One pseudo-system keeps the baseline's segments where the coin shows true and has the
        // system's elsewhere; the other has the rest.
        let [baseline_true, baseline_false] = partial_sums(baseline, &flips);
        let [system_true, system_false] = partial_sums(system, &flips);
        let first = score_of_sum(metric, &baseline_true, &system_false);
        let second = score_of_sum(metric, &baseline_false, &system_true);
        differences.push((first - second).abs());
    }
    differences
}

fn score_of_sum(metric: &impl Metric, left: &[f64], right: &[f64]) -> f64 {
    let pairs = left.iter().zip(right);
    let sums: Vec<f64> = pairs.map(|(left, right)| left + right).collect();
    metric.resampled_score(&sums, Arithmetic::Integer).value
}

/// The sums of the segments whose coin shows true and of those whose coin shows false.
fn partial_sums(statistics: &Statistics, flips: &[bool]) -> [Vec<f64>; 2] {
    let zeros = vec![0.0; statistics.width()];
    let mut sums = [zeros.clone(), zeros];
    for (row, &flip) in statistics.rows().zip(flips) {
        for (sum, value) in sums[usize::from(!flip)].iter_mut().zip(row) {
            *sum += value;
        }
    }
    sums
}

/// The share of trials with a difference greater than the real one, counting the real one as a
/// trial.
///
/// Both rules are sacreBLEU's, from `multeval`: the real one counts, so that no p-value is zero; an
/// equal difference does not, so that a system compared with itself has the least p-value,
/// `1 / (n + 1)`.
fn p_value(differences: impl ExactSizeIterator<Item = f64>, real: f64) -> f64 {
    let num_trials = differences.len();
    let greater = differences.filter(|&difference| difference > real).count();
    (greater + 1) as f64 / (num_trials + 1) as f64
}

fn check_pair(baseline: &Statistics, system: &Statistics) -> Result<(), MetricError> {
    let baseline = baseline.num_segments();
    let system = system.num_segments();
    if baseline == system {
        Ok(())
    } else {
        Err(MetricError::UnpairedSystems { baseline, system })
    }
}

fn check_samples(num_samples: usize) -> Result<(), MetricError> {
    if num_samples == 0 {
        Err(MetricError::NoSamples)
    } else {
        Ok(())
    }
}
