//! Positions: sinusoidal (Vaswani et al., 2017, section 3.5), learned, and rotary (Su et al.,
//! 2021).

use std::ops::Range;

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData, s};

use crate::config::Position;
use crate::parameter::init::ParamInit;

/// Base of the geometric series of wavelengths, in both papers.
pub const WAVELENGTHS: f64 = 10_000.0;

/// The encoding of positions that is added to embeddings.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_model::Position;
/// use polyglow_model::init::ParamInit;
/// use polyglow_model::position::PositionEmbedding;
///
/// let device = Device::flex();
/// let mut init = ParamInit::new(1, &device);
/// let position = PositionEmbedding::new(Position::Learned, 16, 8, &mut init);
/// let embedded = Tensor::<3>::ones([2, 5, 8], &device);
/// assert_eq!(position.add(embedded, 0).dims(), [2, 5, 8]);
/// ```
#[derive(Module, Debug)]
pub enum PositionEmbedding {
    /// The paper's fixed table; rows beyond `max_len` are computed when needed.
    Sinusoidal(Sinusoids),
    /// A trained vector per position.
    Learned(LearnedPositions),
    /// Nothing is added, since positions are rotary or there are none; holds `d_model`.
    None(usize),
}

impl PositionEmbedding {
    /// This kind of positions: vectors of `d_model` elements for the positions below `max_len`.
    /// Trained ones are drawn with standard deviation `d_model^-0.5`.
    pub fn new(position: Position, max_len: usize, d_model: usize, init: &mut ParamInit) -> Self {
        match position {
            Position::Sinusoidal => {
                Self::Sinusoidal(Sinusoids::new(max_len, d_model, init.device()))
            }
            Position::Learned => {
                let std = (d_model as f64).powf(-0.5);
                Self::Learned(LearnedPositions::new(max_len, d_model, std, init))
            }
            Position::Rotary | Position::None => Self::None(d_model),
        }
    }

    /// Adds the vectors of positions `start ..` to `input`.
    ///
    /// # Shapes
    /// - `input`: `[batch, len, d_model]`; output: as `input`
    ///
    /// # Panics
    /// With learned positions, when `start + len` exceeds the trained `max_len`: callers split such
    /// input.
    pub fn add(&self, input: Tensor<3>, start: usize) -> Tensor<3> {
        let [_, len, _] = input.dims();
        match self {
            Self::Sinusoidal(sinusoids) => input + sinusoids.rows(start, len).unsqueeze(),
            Self::Learned(positions) => {
                let rows = positions.weight.val().slice(s![start..start + len]);
                input + rows.unsqueeze()
            }
            Self::None(_) => input,
        }
    }
}

/// Trained positions.
#[derive(Module, Debug)]
pub struct LearnedPositions {
    /// `[max_len, d_model]`.
    pub weight: Param<Tensor<2>>,
}

impl LearnedPositions {
    /// Vectors drawn from a normal distribution with this standard deviation.
    pub fn new(max_len: usize, d_model: usize, std: f64, init: &mut ParamInit) -> Self {
        Self {
            weight: init.normal([max_len, d_model], std),
        }
    }
}

/// The table of `sin(p / 10000^(2i / d_model))` in even and the cosine in odd dimensions, for every
/// position `p`.
#[derive(Module, Debug)]
pub struct Sinusoids {
    /// `[max_len, d_model]`.
    table: Tensor<2>,
}

impl Sinusoids {
    /// The table of the first `max_len` positions.
    pub fn new(max_len: usize, d_model: usize, device: &Device) -> Self {
        Self {
            table: sinusoid_table(0, max_len, d_model, &device.clone().inner()),
        }
    }

    /// Returns rows `start .. start + len`, computed anew if the table ends before.
    ///
    /// # Shapes
    /// - output: `[len, d_model]`
    fn rows(&self, start: usize, len: usize) -> Tensor<2> {
        let [max_len, d_model] = self.table.dims();
        if start + len > max_len {
            return sinusoid_table(start, len, d_model, &self.table.device());
        }
        self.table.clone().slice(s![start..start + len])
    }
}

fn sinusoid_table(start: usize, len: usize, d_model: usize, device: &Device) -> Tensor<2> {
    let mut values = Vec::with_capacity(len * d_model);
    for position in start..start + len {
        for dim in 0..d_model {
            let angle = angle(WAVELENGTHS, position, dim / 2, d_model);
            let value = if dim.is_multiple_of(2) {
                angle.sin()
            } else {
                angle.cos()
            };
            values.push(value as f32);
        }
    }
    Tensor::from_data(TensorData::new(values, [len, d_model]), device)
}

/// The angle `position / base^(2 pair / width)`, in radians.
fn angle(base: f64, position: usize, pair: usize, width: usize) -> f64 {
    position as f64 / base.powf(2.0 * pair as f64 / width as f64)
}

/// Cosines and sines of the angles of some positions, computed once and shared by all layers:
/// rotary positions (Su et al., 2021, section 3.2.2).
///
/// Pair `i` of a head, its elements `2i` and `2i + 1`, is rotated by
/// `position / base^(2i / head_dim)` radians. So a score of a rotated query and a rotated key
/// depends on the distance of their positions alone:
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_model::position::{Rotation, WAVELENGTHS};
///
/// let device = Device::flex();
/// let head = Tensor::<4>::ones([1, 1, 1, 8], &device);
/// let score = |query: usize, key: usize| {
///     let [query, key] = [query, key].map(|position| {
///         let rotation = Rotation::new(8, WAVELENGTHS, position..position + 1, &device);
///         rotation.apply(head.clone())
///     });
///     (query * key).sum().into_scalar::<f32>()
/// };
/// assert!((score(2, 0) - score(7, 5)).abs() < 1e-5);
/// ```
#[derive(Clone, Debug)]
pub struct Rotation {
    /// Cosines, and below sines, `[1, 1, len, head_dim / 2, 1]`.
    cos: Tensor<5>,
    sin: Tensor<5>,
}

impl Rotation {
    /// The rotation of heads of width `head_dim` at these positions, on `device`: `0..len` for a
    /// whole sequence, and `len - 1..len` for the newest position of a search. `base` is
    /// [`WAVELENGTHS`] in the paper; models of long texts have larger ones.
    ///
    /// # Panics
    /// If `head_dim` is odd.
    pub fn new(head_dim: usize, base: f64, positions: Range<usize>, device: &Device) -> Self {
        assert!(
            head_dim.is_multiple_of(2),
            "a head of width {head_dim} has no pairs to rotate"
        );
        let num_pairs = head_dim / 2;
        let shape = [1, 1, positions.len(), num_pairs, 1];
        let mut cos = Vec::with_capacity(positions.len() * num_pairs);
        let mut sin = Vec::with_capacity(positions.len() * num_pairs);
        for position in positions {
            for pair in 0..num_pairs {
                let angle = angle(base, position, pair, head_dim);
                cos.push(angle.cos() as f32);
                sin.push(angle.sin() as f32);
            }
        }
        // Tables are constants, so they are no part of the graph.
        let device = device.clone().inner();
        Self {
            cos: Tensor::from_data(TensorData::new(cos, shape), &device),
            sin: Tensor::from_data(TensorData::new(sin, shape), &device),
        }
    }

    /// Rotates each pair of elements `(2i, 2i + 1)` by the angle of its position.
    ///
    /// # Shapes
    /// - `heads`: `[batch, num_heads, len, head_dim]`; output: as `heads`
    ///
    /// # Panics
    /// If heads have another width, or another number of positions.
    pub fn apply(&self, heads: Tensor<4>) -> Tensor<4> {
        let [batch, num_heads, len, head_dim] = heads.dims();
        let [_, _, num_positions, num_pairs, _] = self.cos.dims();
        // One position would otherwise be broadcast to all.
        assert_eq!(
            [len, head_dim],
            [num_positions, 2 * num_pairs],
            "positions and width of rotated heads"
        );
        let pairs: Tensor<5> = heads.reshape([batch, num_heads, len, head_dim / 2, 2]);
        let even = pairs.clone().narrow(4, 0, 1);
        let odd = pairs.narrow(4, 1, 1);
        let rotated_even = even.clone() * self.cos.clone() - odd.clone() * self.sin.clone();
        let rotated_odd = even * self.sin.clone() + odd * self.cos.clone();
        Tensor::cat(vec![rotated_even, rotated_odd], 4).reshape([batch, num_heads, len, head_dim])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinusoids_follow_the_paper_and_continue_beyond_the_table() {
        let device = crate::test_device();
        let sinusoids = Sinusoids::new(4, 4, &device);
        let rows = sinusoids
            .rows(3, 3)
            .into_data()
            .try_to_vec::<f32>()
            .unwrap();
        // Positions 3, 4, 5; wavelengths 1 and 10000^(2/4) = 100.
        let expected: Vec<f32> = [3.0f32, 4.0, 5.0]
            .iter()
            .flat_map(|p| [p.sin(), p.cos(), (p / 100.0).sin(), (p / 100.0).cos()])
            .collect();
        for (row, value) in rows.iter().zip(&expected) {
            assert!((row - value).abs() < 1e-6, "{rows:?} {expected:?}");
        }
    }
}
