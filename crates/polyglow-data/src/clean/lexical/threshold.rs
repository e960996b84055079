//! The score below which pairs are removed, drawn from the text itself.
//!
//! ```text
//! F_D(t), F_X(t)   the shares of decoys and of the text whose scores are below t
//! pi               the share of the text that is noise: the median of F_X / F_D where .3 <= F_D <= .7
//! excess(t)        max(0, excess(t') + dF_X - m pi dF_D), from one score t' to the next, t
//! ```
//!
//! The excess is what the noise of the text does not explain, if it has any score at most `m` times as
//! often as decoys do: a cumulative sum (Page, 1954), where `dF` are increments from `t'` to `t`. Its maximum
//! up to `t` is the estimated share of the text that is right, and lost at `t`. The threshold is the highest at which that loss stays within a budget, and
//! within a share of what is removed. (The minimum of `F_X / F_D` in place of the median would be too low
//! by a third.)

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
    /// How many times denser the noise of the text may be at a score than that of the decoys, for all that
    /// differs between them. Right pairs within that are not counted as lost.
    pub(super) mismatch: f64,
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
        let mut before = [0.0, 0.0];
        let mut excess = 0.0_f64;
        let mut loss = 0.0_f64;
        for (&score, &[decoys, text]) in scores.iter().zip(&shares) {
            let explained = budget.mismatch * noise * (decoys - before[0]);
            excess = (excess + text - before[1] - explained).max(0.0);
            // A higher threshold cannot lose less.
            loss = loss.max(excess);
            before = [decoys, text];
            if loss <= budget.loss && loss <= (1.0 - budget.precision) * text {
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
        mismatch: 1.0,
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

    #[test]
    fn noise_that_scores_higher_than_decoys_is_found_up_to_the_mismatch() {
        let decoys: Vec<f64> = around(-2.0, 1000).collect();
        // Four fifths of the noise of the text are in the upper half of the decoys.
        let low = (0..20).map(|index| -2.5 + 0.5 * f64::from(index) / 20.0);
        let high = (0..80).map(|index| -2.0 + 0.5 * f64::from(index) / 80.0);
        let noise: Vec<f64> = low.chain(high).collect();
        let text: Vec<f64> = noise.iter().copied().chain(around(2.0, 1900)).collect();
        let num_removed = |mismatch: f64| {
            let budget = Budget { mismatch, ..BUDGET };
            let threshold = Threshold::draw(decoys.clone(), text.clone(), budget);
            noise
                .iter()
                .filter(|score| **score < threshold.score)
                .count()
        };
        assert!(num_removed(1.0) < 60, "{}", num_removed(1.0));
        assert!(num_removed(4.0) >= 99, "{}", num_removed(4.0));
    }
}
