//! Vectors scaled to length 1, so that the cosine of the angle between two of them is their dot
//! product.

use std::cmp::Ordering;

/// The number of independent sums of a dot product, so that the loop compiles to SIMD instructions
/// and adds in the same order on every machine.
const LANES: usize = 16;

/// Vectors scaled to length 1. Vectors of length 0 stay as they are, and have the cosine 0 with all
/// others.
///
/// ```
/// use polyglow_view::embeddings::Directions;
///
/// let directions = Directions::new(vec![3.0, 4.0, 0.0, 5.0, -3.0, -4.0], 2);
/// assert_eq!(directions.get(0), [0.6, 0.8]);
/// assert_eq!(directions.nearest(&[0.0, 2.0], 2, |_| true), [(1, 1.0), (0, 0.8)]);
/// ```
#[derive(Clone, Debug)]
pub struct Directions {
    dim: usize,
    /// `[rows, dim]`.
    units: Vec<f32>,
}

impl Directions {
    /// Scales vectors to length 1.
    ///
    /// # Shapes
    /// - `values`: `[rows, dim]` row by row
    ///
    /// # Panics
    /// `dim` is 0.
    pub fn new(mut values: Vec<f32>, dim: usize) -> Self {
        for vector in values.chunks_mut(dim) {
            let square: f64 = vector.iter().map(|value| f64::from(*value).powi(2)).sum();
            if square > 0.0 {
                for value in vector {
                    *value = (f64::from(*value) / square.sqrt()) as f32;
                }
            }
        }
        Self { dim, units: values }
    }

    /// Returns the vector with an index, scaled to length 1.
    ///
    /// # Panics
    /// There is no such vector.
    pub fn get(&self, index: usize) -> &[f32] {
        &self.units[index * self.dim..][..self.dim]
    }

    /// Returns the indices and cosines of the `count` vectors with the largest cosine to `vector`,
    /// largest first; among equals, the lower index comes first. Only vectors for whose index
    /// `keep` is true are searched.
    ///
    /// # Panics
    /// `vector` has another dimension.
    pub fn nearest(
        &self,
        vector: &[f32],
        count: usize,
        keep: impl Fn(usize) -> bool,
    ) -> Vec<(usize, f32)> {
        assert_eq!(vector.len(), self.dim, "dimension of the vector");
        let query = Self::new(vector.to_vec(), self.dim);
        let mut hits: Vec<(usize, f32)> = Vec::new();
        for (index, row) in self.units.chunks(self.dim).enumerate() {
            if keep(index) {
                hits.push((index, dot(row, query.get(0))));
            }
        }
        // Selecting a few before sorting takes linear time in the size of the vocabulary.
        if count < hits.len() {
            hits.select_nth_unstable_by(count, nearest_first);
            hits.truncate(count);
        }
        hits.sort_unstable_by(nearest_first);
        hits
    }
}

/// The order of hits, as index and cosine.
fn nearest_first(left: &(usize, f32), right: &(usize, f32)) -> Ordering {
    right.1.total_cmp(&left.1).then(left.0.cmp(&right.0))
}

fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (left, left_rest) = left.as_chunks::<LANES>();
    let (right, right_rest) = right.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (left, right) in left.iter().zip(right) {
        for (sum, (left, right)) in sums.iter_mut().zip(left.iter().zip(right)) {
            *sum += left * right;
        }
    }
    let rest = left_rest.iter().zip(right_rest);
    let rest: f32 = rest.map(|(left, right)| left * right).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_does_not_matter_and_equals_keep_their_order() {
        let directions =
            Directions::new(vec![0.0, 2.0, 3.0, 4.0, 0.0, 0.0, 30.0, 40.0, -1.0, 0.0], 2);
        assert_eq!(directions.get(1), [0.6, 0.8]);
        let hits = directions.nearest(&[0.3, 0.4], 4, |_| true);
        assert_eq!(
            hits.iter().map(|(index, _)| *index).collect::<Vec<_>>(),
            [1, 3, 0, 2]
        );
        let expected = [1.0, 1.0, 0.8, 0.0];
        assert!(
            hits.iter()
                .zip(expected)
                .all(|((_, cosine), expected)| (cosine - expected).abs() < 1e-6),
            "{hits:?}"
        );
        assert_eq!(
            directions.nearest(&[0.3, 0.4], 9, |index| index > 3),
            [(4, -0.6)]
        );
    }

    #[test]
    fn a_dot_product_is_that_of_all_elements() {
        for len in [1, 15, 16, 17, 40] {
            let numbers: Vec<f32> = (1..=len).map(|number| number as f32).collect();
            // Whole numbers of this size are exact.
            assert_eq!(
                dot(&numbers, &numbers) as usize,
                (1..=len).map(|number| number * number).sum::<usize>()
            );
        }
    }
}
