//! The score below which pairs are removed, drawn from the text itself.
//!
//! ```text
//! F_D(t), F_X(t)   the shares of decoys and of the text whose scores are below t
//! pi               the share of the text that is noise: the median of F_X / F_D where .3 <= F_D <= .7
//! F_X - pi F_D     the estimated share of the text that is right, and lost at t
//! ```
//!
//! The threshold is the highest at which that loss stays within a budget, and within a share of what
//! is removed. (The minimum of `F_X / F_D` in place of the median would be too low by a third.)

use super::features::median;

/// The decoys from which the share of noise is estimated: fewer are too few, and among more there
/// are translations.
const TYPICAL: (f64, f64) = (0.3, 0.7);

/// What may be lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Budget {
    /// The share of the text.
    pub(super) loss: f64,
    /// The least share of noise among what is removed.
    pub(super) precision: f64,
}

/// A threshold, and the estimated share of the text that is noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Threshold {
    pub(super) score: f64,
    pub(super) noise: f64,
}

impl Threshold {
    /// Draws a threshold from the scores of decoys and of the text.
    pub(super) fn draw(mut decoys: Vec<f64>, mut text: Vec<f64>, budget: Budget) -> Self {
        let none = Self {
            score: f64::NEG_INFINITY,
            noise: 0.0,
        };
        if decoys.is_empty() || text.is_empty() {
            return none;
        }
        decoys.sort_by(f64::total_cmp);
        text.sort_by(f64::total_cmp);
        let mut scores: Vec<f64> = (1..100)
            .map(|index| quantile(&decoys, f64::from(index) / 100.0))
            .collect();
        scores.extend((0..300).map(|index| quantile(&text, 0.0005 + 0.001 * f64::from(index))));
        scores.sort_by(f64::total_cmp);
        let shares: Vec<[f64; 2]> = scores
            .iter()
            .map(|&score| [below(&decoys, score), below(&text, score)])
            .collect();
        let is_typical = |share: f64| (TYPICAL.0..=TYPICAL.1).contains(&share);
        let typical = shares.iter().filter(|[decoys, _]| is_typical(*decoys));
        let mut ratios: Vec<f64> = typical.map(|[decoys, text]| text / decoys).collect();
        let noise = median(&mut ratios);
        let mut threshold = Self { noise, ..none };
        // Monotone: a higher threshold cannot lose less.
        let mut most = 0.0_f64;
        for (&score, [decoys, text]) in scores.iter().zip(&shares) {
            let loss = text - noise * decoys;
            most = most.max(loss);
            if most <= budget.loss && loss <= (1.0 - budget.precision) * text {
                threshold.score = score;
            }
        }
        threshold
    }
}

/// Returns the value that a share of sorted values is below, interpolated.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let index = place as usize;
    let next = sorted[(index + 1).min(sorted.len() - 1)];
    sorted[index] + (next - sorted[index]) * place.fract()
}

/// Returns the share of sorted values below a score.
fn below(sorted: &[f64], score: f64) -> f64 {
    sorted.partition_point(|&value| value < score) as f64 / sorted.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget {
        loss: 0.01,
        precision: 0.75,
    };

    /// Values around a center.
    fn around(center: f64, count: usize) -> impl Iterator<Item = f64> {
        (0..count).map(move |index| center + (index as f64 + 0.5) / count as f64 - 0.5)
    }

    #[test]
    fn the_share_of_noise_and_a_threshold_between_noise_and_text_are_found() {
        let decoys: Vec<f64> = around(-2.0, 1000).collect();
        let text: Vec<f64> = around(-2.0, 50).chain(around(2.0, 950)).collect();
        let threshold = Threshold::draw(decoys.clone(), text, BUDGET);
        assert!((threshold.noise - 0.05).abs() < 0.005, "{threshold:?}");
        assert!((-1.6..1.6).contains(&threshold.score), "{threshold:?}");
        // Nothing is removed from text without noise.
        let clean = Threshold::draw(decoys, around(2.0, 1000).collect(), BUDGET);
        assert!(clean.noise == 0.0 && clean.score <= 1.6, "{clean:?}");
    }
}
