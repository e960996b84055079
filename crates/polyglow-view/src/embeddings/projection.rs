//! Principal component analysis: the plane on which vectors differ most (Pearson, 1901).

/// The most power iterations. They converge slowly if two components explain nearly the same; either
/// is then as good.
const MOST_ROUNDS: usize = 1000;
/// The share of the variance below which a component is a rounding error.
const NOTHING: f64 = 1e-12;
/// A component has converged when none of its values changes by this much.
const STILL: f64 = 1e-10;

/// Vectors projected on a plane.
#[derive(Clone, Debug)]
pub struct Projection {
    /// The coordinates of each vector along the first and the second component.
    pub points: Vec<[f64; 2]>,
    /// The share of the variance that each component explains, 0 to 1.
    pub explained: [f64; 2],
}

/// Projects vectors on their first two principal components, which are computed one after the other
/// by power iteration.
///
/// The largest value of a component is positive, so that the same vectors give the same picture.
///
/// ```
/// use polyglow_view::embeddings::project;
///
/// // Three vectors on a line: their distances from the mean remain, and the second component explains nothing.
/// let projection = project(&[0.0, 0.0, 3.0, 4.0, 6.0, 8.0], 2);
/// for (point, x) in projection.points.iter().zip([-5.0, 0.0, 5.0]) {
///     assert!((point[0] - x).abs() < 1e-6 && point[1].abs() < 1e-6);
/// }
/// assert!(projection.explained[0] > 0.999);
/// ```
///
/// # Shapes
/// - `values`: `[rows, dim]` row by row
///
/// # Panics
/// `dim` is 0.
pub fn project(values: &[f32], dim: usize) -> Projection {
    let count = values.len() / dim;
    let mut mean = vec![0.0; dim];
    for row in values.chunks(dim) {
        for (mean, value) in mean.iter_mut().zip(row) {
            *mean += f64::from(*value) / count as f64;
        }
    }
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(count);
    for row in values.chunks(dim) {
        let pairs = row.iter().zip(&mean);
        rows.push(
            pairs
                .map(|(value, mean)| f64::from(*value) - mean)
                .collect(),
        );
    }
    let total: f64 = rows.iter().map(|row| dot(row, row)).sum();
    let first = component(&rows, dim, total, None);
    let second = component(&rows, dim, total, Some(&first));
    let points: Vec<[f64; 2]> = rows
        .iter()
        .map(|row| [dot(row, &first), dot(row, &second)])
        .collect();
    let explained = [0, 1].map(|axis: usize| {
        let variance: f64 = points.iter().map(|point| point[axis].powi(2)).sum();
        if total > 0.0 { variance / total } else { 0.0 }
    });
    Projection { points, explained }
}

/// The direction of length 1 in which rows differ most, among those orthogonal to `before`; zeros
/// if they differ in none. `total` is the sum of the rows' squares.
///
/// Each iteration multiplies the vector by `X^T X` for the rows `X`, which need not be stored.
fn component(rows: &[Vec<f64>], dim: usize, total: f64, before: Option<&[f64]>) -> Vec<f64> {
    // The start must not be orthogonal to the component that is sought, which these values hardly
    // ever are.
    let mut vector: Vec<f64> = (0..dim)
        .map(|axis| 1.0 + (axis as f64 + 1.0).sin())
        .collect();
    for _ in 0..MOST_ROUNDS {
        let mut next = vec![0.0; dim];
        for row in rows {
            add_scaled(&mut next, row, dot(row, &vector));
        }
        // Each round, because rounding errors bring the earlier component back.
        if let Some(before) = before {
            let along = dot(&next, before);
            add_scaled(&mut next, before, -along);
        }
        let length = dot(&next, &next).sqrt();
        if length <= NOTHING * total {
            return vec![0.0; dim];
        }
        let next: Vec<f64> = next.into_iter().map(|value| value / length).collect();
        let changes = next.iter().zip(&vector).map(|(new, old)| (new - old).abs());
        let largest_change = changes.fold(0.0, f64::max);
        vector = next;
        if largest_change < STILL {
            break;
        }
    }
    // A direction and its opposite are the same component; the sign of the largest value decides.
    let largest = vector
        .iter()
        .copied()
        .max_by(|left, right| left.abs().total_cmp(&right.abs()));
    let sign = if largest.is_some_and(|largest| largest < 0.0) {
        -1.0
    } else {
        1.0
    };
    vector.into_iter().map(|value| sign * value).collect()
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    let pairs = left.iter().zip(right);
    pairs.map(|(left, right)| left * right).sum()
}

/// Adds `factor * vector` to `sum`.
fn add_scaled(sum: &mut [f64], vector: &[f64], factor: f64) {
    for (sum, value) in sum.iter_mut().zip(vector) {
        *sum += factor * value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_lie_on_the_first_axis() {
        // Along (3, 4, 0), at -10, 0 and 10 from their mean.
        let projection = project(&[1.0, 1.0, 7.0, 7.0, 9.0, 7.0, 13.0, 17.0, 7.0], 3);
        for (point, expected) in projection.points.iter().zip([-10.0, 0.0, 10.0]) {
            assert!(
                (point[0] - expected).abs() < 1e-6 && point[1].abs() < 1e-6,
                "{point:?}"
            );
        }
        assert!((projection.explained[0] - 1.0).abs() < 1e-9 && projection.explained[1] < 1e-9);
    }

    #[test]
    fn equal_vectors_have_no_extent() {
        let projection = project(&[1.0, 2.0, 1.0, 2.0], 2);
        assert_eq!(
            (projection.points, projection.explained),
            (vec![[0.0; 2]; 2], [0.0; 2])
        );
    }
}
