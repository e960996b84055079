//! Vectors scaled to length 1, so that the cosine of the angle between two of them is their
//! product.

/// Independent sums of a dot product, so that the loop compiles to SIMD instructions and adds in
/// the same order on every machine.
const LANES: usize = 16;

/// Vectors scaled to length 1. Those of length 0 stay as they are and have the cosine 0 with all
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

    /// The vector at `place`.
    ///
    /// # Panics
    /// There is no such place.
    pub fn get(&self, place: usize) -> &[f32] {
        &self.units[place * self.dim..][..self.dim]
    }

    /// Places and cosines of the `count` vectors with the largest cosine to `vector`, largest
    /// first; among equals, the lower place comes first. Only places for which `keep` is true are
    /// searched.
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
        let rows = self
            .units
            .chunks(self.dim)
            .enumerate()
            .filter(|(place, _)| keep(*place));
        let mut found: Vec<(usize, f32)> = rows
            .map(|(place, row)| (place, product(row, query.get(0))))
            .collect();
        let order = |left: &(usize, f32), right: &(usize, f32)| {
            right.1.total_cmp(&left.1).then(left.0.cmp(&right.0))
        };
        if count < found.len() {
            found.select_nth_unstable_by(count, order);
            found.truncate(count);
        }
        found.sort_unstable_by(order);
        found
    }
}

fn product(left: &[f32], right: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let ((left, left_rest), (right, right_rest)) =
        (left.as_chunks::<LANES>(), right.as_chunks::<LANES>());
    for (left, right) in left.iter().zip(right) {
        sums.iter_mut()
            .zip(left.iter().zip(right))
            .for_each(|(sum, (left, right))| *sum += left * right);
    }
    let rest: f32 = left_rest
        .iter()
        .zip(right_rest)
        .map(|(left, right)| left * right)
        .sum();
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
        let found = directions.nearest(&[0.3, 0.4], 4, |_| true);
        assert_eq!(
            found.iter().map(|(place, _)| *place).collect::<Vec<_>>(),
            [1, 3, 0, 2]
        );
        let expected = [1.0, 1.0, 0.8, 0.0];
        assert!(
            found
                .iter()
                .zip(expected)
                .all(|((_, cosine), expected)| (cosine - expected).abs() < 1e-6),
            "{found:?}"
        );
        assert_eq!(
            directions.nearest(&[0.3, 0.4], 9, |place| place > 3),
            [(4, -0.6)]
        );
    }

    #[test]
    fn products_are_those_of_all_numbers() {
        for len in [1, 15, 16, 17, 40] {
            let numbers: Vec<f32> = (1..=len).map(|number| number as f32).collect();
            // Whole numbers of this size are exact.
            assert_eq!(
                product(&numbers, &numbers) as usize,
                (1..=len).map(|number| number * number).sum::<usize>()
            );
        }
    }
}
