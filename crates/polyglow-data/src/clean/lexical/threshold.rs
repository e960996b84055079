//! The score below which pairs are removed, drawn from the text itself.
//!
//! ```text
//! t                scores: quantiles of the text (.0005 to .2995) and of each method (.01 to .99)
//! F_k(t), F_X(t)   the shares of decoys of method k and of the text whose scores are below t
//! F(t)             the mean of all F_k(t)
//! pi_k             the shares of the text that are noise of method k, at least 0: the least sum of
//!                  ((F_X - sum_k pi_k F_k) / (F_X + .002))^2, over all t where .02 <= F <= .7
//! N(t)             sum_k pi_k F_k: the share of the text that is noise, with a score below t
//! excess(t)        max(0, excess(t') + dF_X - m dN), from one score t' to the next, t, where F >= .7
//! ```
//!
//! The excess is what the noise of the text does not explain, if it has any score at most `m` times
//! as often as decoys do: a cumulative sum (Page, 1954), where `dF` are increments from `t'` to
//! `t`. Its maximum up to `t` is the estimated share of the text that is right, and lost at `t`.
//! The threshold is the highest score at which that loss stays within a budget and within a share
//! of what is removed, and which at most a given share of the decoys is below: the highest decoys
//! score as right pairs do.
//!
//! Where decoys have the lowest scores, hardly anything is right, and what differs from them does
//! so by chance. Below the first of these scores `m N` is therefore taken for noise, and at least
//! `N` and a quarter of it, of which no more than the budget counts. And text without noise has
//! pairs among the higher decoys alone: the `pi_k` are made so small that `N` is a quarter more
//! than `F_X` at most where `F` is .3, with one pair more in the text.

/// The decoys from which the shares of noise are estimated: fewer are too few, and among more there
/// are translations.
const TYPICAL: (f64, f64) = (0.02, 0.7);
/// The shares of the decoys below which nothing, and hardly anything, of the text is right. A threshold
/// is never below the second.
const LOW: f64 = 0.3;
const SURE: f64 = 0.7;
/// The most by which the noise of a text and its estimate differ by chance, as a factor.
const CHANCE: f64 = 1.25;
/// A share of the text below which an error is not weighed more.
const SMALL_SHARE: f64 = 0.002;
/// Rounds of coordinate descent to these shares.
const ROUNDS: usize = 500;

/// The limits on the loss of right pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Budget {
    /// The share of the text.
    pub(super) loss: f64,
    /// The least share of noise among what is removed.
    pub(super) precision: f64,
    /// The largest ratio of the density of the text's noise at a score to that of the decoys: an
    /// allowance for what differs between the two. Right pairs within that are not counted as lost.
    pub(super) mismatch: f64,
    /// The largest share of the decoys that may score below a threshold. The highest decoys score
    /// as right pairs do, and the estimated loss, which is fitted to the lower ones, does not count
    /// all right pairs among them.
    pub(super) max_decoy_share: f64,
}

/// A threshold, and the estimated share of the text that is noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Threshold {
    pub(super) score: f64,
    pub(super) noise: f64,
}

impl Threshold {
    /// Draws a threshold from the scores of decoys, by their methods, and of the text.
    pub(super) fn draw(mut decoys: Vec<Vec<f64>>, mut text: Vec<f64>, budget: Budget) -> Self {
        let none = Self {
            score: f64::NEG_INFINITY,
            noise: 0.0,
        };
        decoys.retain(|of_method| !of_method.is_empty());
        if decoys.is_empty() || text.is_empty() {
            return none;
        }
        for values in decoys.iter_mut().chain([&mut text]) {
            values.sort_by(f64::total_cmp);
        }
        let points = points(&decoys, &text);
        let first_with = |share: f64| points.partition_point(|point| point.mean_decoys() < share);
        let sure = &points[first_with(SURE)..];
        let (Some(low), Some(first)) = (points.get(first_with(LOW)), sure.first()) else {
            return none;
        };
        let mut shares = shares_of_noise(&points, decoys.len());
        let most = CHANCE * (low.text + 1.0 / text.len() as f64);
        let scale = (most / low.noise(&shares).max(most)).min(1.0);
        for share in &mut shares {
            *share *= scale;
        }
        let mut threshold = Self {
            noise: shares.iter().sum(),
            ..none
        };
        let noise = first.noise(&shares);
        let by_chance = ((CHANCE - 1.0) * noise).min(budget.loss);
        let explained = f64::max(noise + by_chance, budget.mismatch * noise);
        let mut before = [noise, first.text];
        let mut excess = (first.text - explained).max(0.0);
        let mut loss = excess;
        // There is no threshold if equal scores lead beyond that share at once.
        let allowed = sure
            .iter()
            .take_while(|point| point.mean_decoys() <= budget.max_decoy_share);
        for point in allowed {
            let noise = point.noise(&shares);
            let explained = budget.mismatch * (noise - before[0]);
            excess = (excess + point.text - before[1] - explained).max(0.0);
            // A higher threshold cannot lose less.
            loss = loss.max(excess);
            before = [noise, point.text];
            if loss <= budget.loss && loss <= (1.0 - budget.precision) * point.text {
                threshold.score = point.score;
            }
        }
        threshold
    }
}

/// Counts what is below each of the scores that thresholds are chosen from, in ascending order; all
/// values are sorted.
fn points(decoys: &[Vec<f64>], text: &[f64]) -> Vec<Point> {
    let mut scores: Vec<f64> = (0..300)
        .map(|index| quantile(text, 0.0005 + 0.001 * f64::from(index)))
        .collect();
    for of_method in decoys {
        scores.extend((1..100).map(|index| quantile(of_method, f64::from(index) / 100.0)));
    }
    scores.sort_by(f64::total_cmp);
    let point = |score: f64| Point {
        score,
        decoys: decoys
            .iter()
            .map(|of_method| below(of_method, score))
            .collect(),
        text: below(text, score),
    };
    scores.into_iter().map(point).collect()
}

/// The pairs below a score.
struct Point {
    score: f64,
    /// `[method]`: the share of the decoys.
    decoys: Vec<f64>,
    /// The share of the text.
    text: f64,
}

impl Point {
    /// Returns the share of the decoys, all methods alike.
    fn mean_decoys(&self) -> f64 {
        self.decoys.iter().sum::<f64>() / self.decoys.len() as f64
    }

    /// Returns the expected share of the text that is noise with a score below this one, by the
    /// shares of noise in all of it.
    fn noise(&self, shares: &[f64]) -> f64 {
        self.decoys
            .iter()
            .zip(shares)
            .map(|(decoys, share)| decoys * share)
            .sum()
    }
}

/// Estimates the share of the text that is noise of each method, by coordinate descent.
fn shares_of_noise(points: &[Point], num_methods: usize) -> Vec<f64> {
    let is_typical = |point: &&Point| (TYPICAL.0..=TYPICAL.1).contains(&point.mean_decoys());
    let typical: Vec<&Point> = points.iter().filter(is_typical).collect();
    let mut shares = vec![0.0; num_methods];
    for _ in 0..ROUNDS {
        for method in 0..num_methods {
            let (mut product, mut square) = (0.0, 0.0);
            for point in &typical {
                let decoys = point.decoys[method];
                let rest = point.text - point.noise(&shares) + shares[method] * decoys;
                let weight = (point.text + SMALL_SHARE).powi(-2);
                product += weight * decoys * rest;
                square += weight * decoys * decoys;
            }
            if square > 0.0 {
                shares[method] = f64::max(product / square, 0.0);
            }
        }
    }
    shares
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
        max_decoy_share: 1.0,
    };

    /// Values around a center.
    fn around(center: f64, count: usize) -> impl Iterator<Item = f64> {
        (0..count).map(move |index| center + (index as f64 + 0.5) / count as f64 - 0.5)
    }

    #[test]
    fn the_share_of_noise_and_a_threshold_between_noise_and_text_are_found() {
        let decoys: Vec<f64> = around(-2.0, 1000).collect();
        let text: Vec<f64> = around(-2.0, 50).chain(around(2.0, 950)).collect();
        let threshold = Threshold::draw(vec![decoys.clone()], text, BUDGET);
        assert!((threshold.noise - 0.05).abs() < 0.005, "{threshold:?}");
        assert!((-1.6..1.6).contains(&threshold.score), "{threshold:?}");
        // Nothing is removed from text without noise.
        let clean = Threshold::draw(vec![decoys], around(2.0, 1000).collect(), BUDGET);
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
            let threshold = Threshold::draw(vec![decoys.clone()], text.clone(), budget);
            noise
                .iter()
                .filter(|score| **score < threshold.score)
                .count()
        };
        // Without a mismatch those stay that are beyond what chance and the budget allow for.
        assert!(num_removed(1.0) < 80, "{}", num_removed(1.0));
        assert!(num_removed(4.0) >= 99, "{}", num_removed(4.0));
    }

    #[test]
    fn a_threshold_stays_below_decoys_that_look_right() {
        let decoys: Vec<f64> = around(-2.0, 900).chain(around(2.0, 100)).collect();
        let right = || around(2.0, 1900);
        let text: Vec<f64> = around(-2.0, 100).chain(right()).collect();
        let num_lost = |share: f64| {
            let budget = Budget {
                max_decoy_share: share,
                ..BUDGET
            };
            let threshold = Threshold::draw(vec![decoys.clone()], text.clone(), budget);
            right().filter(|score| *score < threshold.score).count()
        };
        assert!(num_lost(1.0) >= 10, "{}", num_lost(1.0));
        assert_eq!(num_lost(0.8), 0);
    }

    #[test]
    fn noise_of_two_methods_is_told_from_what_is_right() {
        let low: Vec<f64> = around(-3.0, 1000).collect();
        let high: Vec<f64> = around(-2.0, 1000).collect();
        let right = around(2.0, 940);
        let noise = around(-3.0, 20).chain(around(-2.0, 40));
        let text: Vec<f64> = noise.chain(right).collect();
        let both = Threshold::draw(vec![low.clone(), high], text.clone(), BUDGET);
        assert!((both.noise - 0.06).abs() < 0.005, "{both:?}");
        assert!((-1.6..1.6).contains(&both.score), "{both:?}");
        // With decoys of the one method alone, what is of the other looks like right pairs that are
        // lost.
        let one = Threshold::draw(vec![low], text, BUDGET);
        assert!(one.score < -1.6, "{one:?}");
    }

    #[test]
    fn few_right_pairs_are_lost_where_scores_overlap() {
        // Sums of uniform values: bells around centers, as heads give them.
        let mut random = crate::random::Random::new(7);
        let mut bell = |center: f64, count: usize| -> Vec<f64> {
            let mut value = || (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0;
            (0..count).map(|_| center + 2.0 * value()).collect()
        };
        // If they overlap too much, nothing is removed; with a little less, more is lost than the
        // budget allows.
        for (gap, most_lost) in [(5.0, 0.0), (6.0, 0.02), (8.0, 0.011)] {
            for num_noise in [0, 1000, 5000] {
                let decoys = vec![bell(0.0, 8000), bell(1.0, 8000)];
                let right = bell(gap, 19_000);
                let noise = bell(0.0, num_noise);
                let text = [&*right, &*noise].concat();
                let budget = Budget {
                    loss: 0.004,
                    precision: 0.8,
                    mismatch: 1.0,
                    max_decoy_share: 1.0,
                };
                let threshold = Threshold::draw(decoys, text, budget);
                let lost = right
                    .iter()
                    .filter(|score| **score < threshold.score)
                    .count();
                let share = lost as f64 / right.len() as f64;
                assert!(
                    share <= most_lost,
                    "{gap} {num_noise}: {share} {threshold:?}"
                );
            }
        }
    }
}
