//! Logistic regression: how probable it is that a pair is a translation, by its features.
//!
//! ```text
//! score(x) = w . z(x) + b     z(x): features, their squares and some of their products, standardized
//! minimize  sum over pairs of weight ln(1 + exp(-y score)) + 5 |w|^2
//! ```
//!
//! by Newton's method.

use rayon::prelude::*;

use super::features::{Features, NUM_FEATURES};

/// Features, squares, and products of the first with all others, and of the second with all behind
/// it; and a constant.
const WIDTH: usize = 2 * NUM_FEATURES + (NUM_FEATURES - 1) + (NUM_FEATURES - 2) + 1;
/// The most steps of Newton's method, and the step that is small enough to stop.
const STEPS: usize = 25;
const SMALL: f64 = 1e-3;
/// The weight of the square of the weights. With a tenth of it, a sign that no right pair of the
/// examples has, such as a question mark on one side, would decide alone.
const PENALTY: f64 = 10.0;
/// The largest score that counts, which keeps the exponential function finite.
const MOST: f64 = 30.0;
/// Examples that are summed up together.
const CHUNK: usize = 512;

type Row = [f64; WIDTH];

/// An example to learn from.
#[derive(Clone, Copy)]
pub(super) struct Labeled {
    pub(super) features: Features,
    pub(super) is_translation: bool,
    pub(super) weight: f64,
}

/// A learned score.
#[derive(Clone)]
pub(super) struct Regression {
    means: Row,
    deviations: Row,
    weights: Row,
}

impl Regression {
    /// Learns to tell translations from others.
    pub(super) fn learn(examples: &[Labeled]) -> Self {
        let mut regression = Self::standardizing(examples);
        let rows: Vec<Row> = examples
            .iter()
            .map(|example| regression.row(&example.features))
            .collect();
        for _ in 0..STEPS {
            let step = regression.step(examples, &rows);
            let mut largest = 0.0_f64;
            for (weight, step) in regression.weights.iter_mut().zip(step) {
                *weight -= step;
                largest = largest.max(step.abs());
            }
            if largest < SMALL {
                break;
            }
        }
        regression
    }

    /// Makes a regression without weights, with the means and deviations of examples.
    fn standardizing(examples: &[Labeled]) -> Self {
        let count = examples.len().max(1) as f64;
        let expanded: Vec<Row> = examples
            .iter()
            .map(|example| expand(&example.features))
            .collect();
        let mut means = [0.0; WIDTH];
        for row in &expanded {
            for (mean, value) in means.iter_mut().zip(row) {
                *mean += value / count;
            }
        }
        let mut deviations = [0.0; WIDTH];
        for row in &expanded {
            for ((deviation, value), mean) in deviations.iter_mut().zip(row).zip(means) {
                *deviation += (value - mean).powi(2) / count;
            }
        }
        for deviation in &mut deviations {
            *deviation = deviation.sqrt() + 1e-9;
        }
        // The constant stays 1.
        means[WIDTH - 1] = 0.0;
        deviations[WIDTH - 1] = 1.0;
        Self {
            means,
            deviations,
            weights: [0.0; WIDTH],
        }
    }

    /// Returns what Newton's method takes from the weights.
    fn step(&self, examples: &[Labeled], rows: &[Row]) -> Row {
        let chunks = examples.par_chunks(CHUNK).zip(rows.par_chunks(CHUNK));
        let sums: Vec<Sums> = chunks
            .map(|(examples, rows)| self.sums(examples, rows))
            .collect();
        let mut all = Sums::zero();
        // Chunks are added in their order, so that no number of threads changes a bit.
        for sums in &sums {
            all.add(sums);
        }
        for index in 0..WIDTH {
            all.gradient[index] += PENALTY * self.weights[index];
            all.hessian[index][index] += PENALTY;
        }
        solve(&mut all.hessian, all.gradient)
    }

    fn sums(&self, examples: &[Labeled], rows: &[Row]) -> Sums {
        let mut sums = Sums::zero();
        for (example, row) in examples.iter().zip(rows) {
            let score = dot(row, &self.weights).clamp(-MOST, MOST);
            let probability = 1.0 / (1.0 + (-score).exp());
            let label = f64::from(u8::from(example.is_translation));
            let residual = example.weight * (probability - label);
            let curvature = example.weight * probability * (1.0 - probability);
            for index in 0..WIDTH {
                sums.gradient[index] += residual * row[index];
                let scaled = curvature * row[index];
                for (sum, value) in sums.hessian[index][..=index].iter_mut().zip(row) {
                    *sum += scaled * value;
                }
            }
        }
        sums
    }

    /// Returns the score of a pair: the higher, the more it looks like a translation.
    pub(super) fn score(&self, features: &Features) -> f64 {
        dot(&self.row(features), &self.weights)
    }

    fn row(&self, features: &Features) -> Row {
        let mut row = expand(features);
        for ((value, mean), deviation) in row.iter_mut().zip(self.means).zip(self.deviations) {
            *value = (*value - mean) / deviation;
        }
        row
    }
}

/// The gradient and the lower triangle of the Hessian of the loss.
struct Sums {
    gradient: Row,
    hessian: Vec<Row>,
}

impl Sums {
    fn zero() -> Self {
        Self {
            gradient: [0.0; WIDTH],
            hessian: vec![[0.0; WIDTH]; WIDTH],
        }
    }

    fn add(&mut self, other: &Self) {
        for index in 0..WIDTH {
            self.gradient[index] += other.gradient[index];
            for column in 0..=index {
                self.hessian[index][column] += other.hessian[index][column];
            }
        }
    }
}

fn expand(features: &Features) -> Row {
    let squares = features.iter().map(|value| value * value);
    let first = features[1..].iter().map(|value| features[0] * value);
    let second = features[2..].iter().map(|value| features[1] * value);
    let all = features
        .iter()
        .copied()
        .chain(squares)
        .chain(first)
        .chain(second)
        .chain([1.0]);
    let mut row = [0.0; WIDTH];
    for (place, value) in row.iter_mut().zip(all) {
        *place = value;
    }
    row
}

fn dot(left: &Row, right: &Row) -> f64 {
    left.iter()
        .zip(right)
        .map(|(left, right)| left * right)
        .sum()
}

/// Solves `matrix x = right` by Cholesky's decomposition of the lower triangle of a positive definite
/// matrix, which is overwritten.
fn solve(matrix: &mut [Row], mut right: Row) -> Row {
    for row in 0..WIDTH {
        for column in 0..=row {
            let above = &matrix[column][..column];
            let product: f64 = matrix[row][..column]
                .iter()
                .zip(above)
                .map(|(a, b)| a * b)
                .sum();
            let rest = matrix[row][column] - product;
            matrix[row][column] = if row == column {
                rest.sqrt()
            } else {
                rest / matrix[column][column]
            };
        }
    }
    for row in 0..WIDTH {
        let product: f64 = (0..row)
            .map(|column| matrix[row][column] * right[column])
            .sum();
        right[row] = (right[row] - product) / matrix[row][row];
    }
    for row in (0..WIDTH).rev() {
        let product: f64 = (row + 1..WIDTH)
            .map(|column| matrix[column][row] * right[column])
            .sum();
        right[row] = (right[row] - product) / matrix[row][row];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn probabilities_that_are_logistic_in_the_features_are_learned() {
        let mut random = Random::new(1);
        let mut examples = Vec::new();
        for _ in 0..4000 {
            let mut features = [0.0; NUM_FEATURES];
            for value in &mut features {
                *value = random.uniform() - 0.5;
            }
            let probability = 1.0 / (1.0 + (1.0 - 6.0 * features[3]).exp());
            let is_translation = random.uniform() < probability;
            examples.push(Labeled {
                features,
                is_translation,
                weight: 1.0,
            });
        }
        let regression = Regression::learn(&examples);
        let mut features = [0.0; NUM_FEATURES];
        let middle = regression.score(&features);
        features[3] = 0.4;
        let high = regression.score(&features);
        assert!(
            (middle + 1.0).abs() < 0.3 && (high - 1.4).abs() < 0.4,
            "{middle} {high}"
        );
    }
}
