//! Products with weights of 8 bits, for a search in less time and memory (Jacob et al., 2018,
//! section 2, with 0 as the zero point).
//!
//! # Formula
//! A weight is `w[i, o] ≈ s_w[o] q_w[i, o]` with an integer `q_w` from -127 to 127 and a scale for
//! each output; an input is `x[i] ≈ s_x q_x[i]` with a scale for each row, computed when the row is
//! multiplied. So
//!
//! ```text
//! y[o] = s_x s_w[o] Σ_i q_x[i] q_w[i, o]
//! ```
//!
//! The sum of integers is exact in 32 bits, so neither the order of terms nor the instruction set
//! changes it; everything else is f32. There is no backward pass: weights are quantized after
//! training.
//!
//! # Layout
//! The instruction for such sums (`vpdpbusd`) adds, in each 32-bit lane, the products of four
//! unsigned and four signed bytes. So a [`Group`] holds the weights of four inputs for 16 outputs,
//! in the order `[output][input]`: 64 bytes, a cache line and one AVX-512 register. A panel is 16
//! outputs with the groups of all inputs, one after the other, and a matrix is its panels, one
//! after the other:
//!
//! ```text
//! panel 0: [inputs 0..4 x outputs 0..16]  [inputs 4..8 x outputs 0..16]  ...
//! panel 1: [inputs 0..4 x outputs 16..32] ...
//! ```
//!
//! A product reads a panel from one end to the other, multiplied by four broadcast bytes of a row
//! at a time. The bytes of a row are unsigned for the instruction: `q_x + 128`. Their sum is too
//! large by `128 Σ_i q_w[i, o]`, which is known in advance (`excess`) and subtracted.

#[cfg(feature = "flex")]
mod product;
#[cfg(feature = "flex")]
mod simd;

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData, activation};

use crate::linear::Layout;

/// Outputs in a panel: as many sums of 32 bits as the widest vector (AVX-512) holds.
const PANEL: usize = 16;
/// Inputs in a group: as many products as one instruction (`vpdpbusd`) adds to a sum.
const GROUP: usize = 4;
/// The largest quantized weight: -128 is not used, so that the range is symmetric.
const MAX_WEIGHT: f32 = 127.0;

/// The most inputs of which the sum of products always fits into 32 bits:
/// `255 * 127 * 65 000 < 2^31`.
pub const MOST_INT8_INPUTS: usize = 65_000;

/// A quantized matrix: 8-bit integers, with a scale for each output.
#[derive(Clone, Debug, PartialEq)]
pub struct Int8Weights {
    /// The integers, from -127 to 127, in the layout of the matrix.
    pub values: Vec<i8>,
    /// The scale of each output: the weight that the integer 1 stands for.
    pub scales: Vec<f32>,
}

impl Int8Weights {
    /// Rounds a matrix to integers, with scales that take the largest weight of each output to 127.
    ///
    /// # Shapes
    /// - `values`: `shape`, which has the layout `layout`
    ///
    /// # Panics
    /// The number of values does not match the shape.
    pub fn quantize(values: &[f32], shape: [usize; 2], layout: Layout) -> Self {
        let outputs = Outputs::new(values.len(), shape, layout);
        let mut scales = vec![0.0f32; outputs.count()];
        for (index, value) in values.iter().enumerate() {
            let scale = &mut scales[outputs.output_of(index)];
            *scale = scale.max(value.abs() / MAX_WEIGHT);
        }
        let mut quantized = Vec::with_capacity(values.len());
        for (index, value) in values.iter().enumerate() {
            quantized.push(rounded(*value, scales[outputs.output_of(index)]));
        }
        Self {
            values: quantized,
            scales,
        }
    }

    /// Returns the integers times their scales, in the same layout.
    ///
    /// # Panics
    /// The number of values or scales does not match the shape.
    pub fn dequantize(&self, shape: [usize; 2], layout: Layout) -> Vec<f32> {
        let outputs = Outputs::new(self.values.len(), shape, layout);
        assert_eq!(self.scales.len(), outputs.count(), "the scales of a matrix");
        self.values
            .iter()
            .enumerate()
            .map(|(index, value)| f32::from(*value) * self.scales[outputs.output_of(index)])
            .collect()
    }
}

/// The integer nearest to a weight over its scale.
fn rounded(value: f32, scale: f32) -> i8 {
    // An output whose weights are all 0 has no scale to divide by.
    if scale > 0.0 {
        (value / scale)
            .round_ties_even()
            .clamp(-MAX_WEIGHT, MAX_WEIGHT) as i8
    } else {
        0
    }
}

/// The outputs that the elements of a matrix belong to.
struct Outputs {
    /// `[d_in, d_out]` or `[d_out, d_in]`, as the layout says.
    shape: [usize; 2],
    layout: Layout,
}

impl Outputs {
    /// Panics if `len` elements do not make this shape.
    fn new(len: usize, shape: [usize; 2], layout: Layout) -> Self {
        assert_eq!(len, shape[0] * shape[1], "the values of a matrix");
        Self { shape, layout }
    }

    /// The number of outputs.
    fn count(&self) -> usize {
        self.shape[usize::from(self.layout == Layout::InOut)]
    }

    /// The output that element `index` belongs to.
    fn output_of(&self, index: usize) -> usize {
        let [_, columns] = self.shape;
        if self.layout == Layout::InOut {
            index % columns
        } else {
            index / columns
        }
    }
}

/// The weights of four inputs for each output of a panel, `[output][input]`: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group([i8; GROUP * PANEL]);

/// [`Int8Weights`] in the order that products read them in. Clones share the memory.
#[derive(Clone, Debug)]
pub struct Int8Matrix {
    d_in: usize,
    d_out: usize,
    /// `[panels][groups]`, filled up with zeros.
    bytes: Arc<[Group]>,
    /// The scale of each output.
    scales: Arc<[[f32; PANEL]]>,
    /// `128 * sum(weights)` of each output, which is subtracted from its sum.
    #[cfg_attr(
        not(feature = "flex"),
        expect(dead_code, reason = "only the kernel multiplies such values")
    )]
    excess: Arc<[[i32; PANEL]]>,
}

impl Int8Matrix {
    /// Copies weights into panels.
    ///
    /// # Shapes
    /// - `weights`: `shape`, which has the layout `layout`
    ///
    /// # Panics
    /// The number of values or scales does not match the shape, or there are more inputs than
    /// [`MOST_INT8_INPUTS`].
    pub fn new(weights: &Int8Weights, shape: [usize; 2], layout: Layout) -> Self {
        let output = Outputs::new(weights.values.len(), shape, layout);
        let d_out = output.count();
        let d_in = shape[usize::from(layout == Layout::OutIn)];
        assert_eq!(weights.scales.len(), d_out, "the scales of a matrix");
        assert!(
            d_in <= MOST_INT8_INPUTS,
            "the sums of {d_in} products of bytes do not fit into 32 bits"
        );
        let groups = d_in.div_ceil(GROUP);
        let panels = d_out.div_ceil(PANEL);
        // Inputs and outputs beyond the matrix stay 0, so the kernel needs no special case for the
        // last of them.
        let mut bytes = vec![Group([0; GROUP * PANEL]); panels * groups];
        let mut scales = vec![[0.0; PANEL]; panels];
        let mut excess = vec![[0; PANEL]; panels];
        scales.as_flattened_mut()[..d_out].copy_from_slice(&weights.scales);
        for (index, &weight) in weights.values.iter().enumerate() {
            let row = index / shape[1];
            let column = index % shape[1];
            let (input, output) = if layout == Layout::InOut {
                (row, column)
            } else {
                (column, row)
            };
            let group = &mut bytes[output / PANEL * groups + input / GROUP];
            group.0[output % PANEL * GROUP + input % GROUP] = weight;
            excess[output / PANEL][output % PANEL] += 128 * i32::from(weight);
        }
        Self {
            d_in,
            d_out,
            bytes: bytes.into(),
            scales: scales.into(),
            excess: excess.into(),
        }
    }

    /// The number of groups in a panel.
    fn groups(&self) -> usize {
        self.d_in.div_ceil(GROUP)
    }

    /// The weights of an output times its scale.
    fn output(&self, output: usize) -> impl Iterator<Item = f32> {
        let panel = output / PANEL;
        let lane = output % PANEL;
        let groups = &self.bytes[panel * self.groups()..][..self.groups()];
        let scale = self.scales[panel][lane];
        let weights = groups
            .iter()
            .flat_map(move |group| group.0[lane * GROUP..][..GROUP].iter());
        weights
            .take(self.d_in)
            .map(move |weight| f32::from(*weight) * scale)
    }
}

/// Whether products with 8-bit weights have a kernel on this device; without one they take longer
/// than those in f32.
pub fn has_int8_kernels(device: &Device) -> bool {
    kernel!(product::has_kernels(device)) == Some(())
}

/// Returns [`crate::linear()`] with weights of 8 bits, and inputs that are rounded to 8 bits. The
/// bits of an output row do not depend on the other rows.
///
/// # Shapes
/// - `input`: `[rows, d_in]`; `bias`: `[d_out]`; output: `[rows, d_out]`
pub fn int8_linear(input: Tensor<2>, matrix: &Int8Matrix, bias: Option<Tensor<1>>) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::mode(&input) == Some(crate::flex::Mode::Inference) {
        return product::linear(input, matrix, bias, product::Negative::Kept);
    }
    plain(input, matrix, bias)
}

/// Returns `max(0, int8_linear)`.
///
/// # Shapes
/// - as in [`int8_linear`]
pub fn int8_linear_relu(
    input: Tensor<2>,
    matrix: &Int8Matrix,
    bias: Option<Tensor<1>>,
) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::mode(&input) == Some(crate::flex::Mode::Inference) {
        return product::linear(input, matrix, bias, product::Negative::Zeroed);
    }
    activation::relu(plain(input, matrix, bias))
}

/// Returns the weights of an output for each id, times `sqrt(d_in)`: an embedding, which may share
/// its matrix with the output projection.
///
/// # Shapes
/// - `ids`: `[batch, len]`; output: `[batch, len, d_in]`
///
/// # Panics
/// An id is not below `d_out`.
pub fn int8_embedding(matrix: &Int8Matrix, ids: Tensor<2, Int>) -> Tensor<3> {
    let [batch, len] = ids.dims();
    let device = ids.device();
    let ids = ids.into_data();
    let factor = (matrix.d_in as f32).sqrt();
    let mut values = Vec::with_capacity(batch * len * matrix.d_in);
    for id in ids.iter::<i64>() {
        assert!(
            (0..matrix.d_out as i64).contains(&id),
            "id {id} of {} embeddings",
            matrix.d_out
        );
        values.extend(matrix.output(id as usize).map(|weight| weight * factor));
    }
    Tensor::from_data(TensorData::new(values, [batch, len, matrix.d_in]), &device)
}

/// [`int8_linear`] in terms of Burn's operations, with dequantized weights and inputs in f32.
fn plain(input: Tensor<2>, matrix: &Int8Matrix, bias: Option<Tensor<1>>) -> Tensor<2> {
    // Dequantized in every call: a device without kernels should use weights in f32
    // (`has_int8_kernels`).
    let weights: Vec<f32> = (0..matrix.d_out)
        .flat_map(|output| matrix.output(output))
        .collect();
    let weights = Tensor::<2>::from_data(
        TensorData::new(weights, [matrix.d_out, matrix.d_in]),
        &input.device(),
    );
    let output = input.matmul(weights.transpose());
    match bias {
        Some(bias) => output + bias.unsqueeze(),
        None => output,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values between -1 and 1 without visible order.
    fn pseudo_random(len: usize) -> Vec<f32> {
        (0..len)
            .map(|index| (index as f32 * 12.9898).sin())
            .collect()
    }

    fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().iter::<f32>().collect()
    }

    fn tensor<const D: usize>(values: &[f32], shape: [usize; D]) -> Tensor<D> {
        Tensor::from_data(TensorData::new(values.to_vec(), shape), &Device::flex())
    }

    #[test]
    fn weights_are_rounded_to_half_a_step_of_their_output() {
        let mut matrix = pseudo_random(15);
        matrix[3..6].fill(0.0);
        for (layout, count) in [(Layout::InOut, 3), (Layout::OutIn, 5)] {
            let weights = Int8Weights::quantize(&matrix, [5, 3], layout);
            assert_eq!(weights.scales.len(), count);
            for (index, (dequantized, value)) in weights
                .dequantize([5, 3], layout)
                .iter()
                .zip(&matrix)
                .enumerate()
            {
                let scale = weights.scales[if layout == Layout::InOut {
                    index % 3
                } else {
                    index / 3
                }];
                assert!(
                    (dequantized - value).abs() <= scale * 0.500_001,
                    "{index}: {value} became {dequantized}"
                );
            }
            assert!(weights.values.contains(&127) || weights.values.contains(&-127));
        }
        assert!(
            Int8Weights::quantize(&matrix, [5, 3], Layout::OutIn).scales[1].abs()
                < f32::MIN_POSITIVE
        );
    }

    #[test]
    fn a_product_is_as_near_as_its_scales_allow() {
        for (rows, d_in, d_out) in [(1, 1, 1), (5, 7, 33), (7, 128, 130), (100, 30, 17)] {
            let input = pseudo_random(rows * d_in);
            let weight = pseudo_random(d_in * d_out);
            let weights = Int8Weights::quantize(&weight, [d_in, d_out], Layout::InOut);
            let matrix = Int8Matrix::new(&weights, [d_in, d_out], Layout::InOut);
            let bias = pseudo_random(d_out);
            let input_tensor = tensor(&input, [rows, d_in]);
            let bias_tensor = tensor(&bias, [d_out]);
            let output = values(int8_linear(input_tensor.clone(), &matrix, None));
            let biased = int8_linear(input_tensor.clone(), &matrix, Some(bias_tensor.clone()));
            let biased = values(biased);
            for row in 0..rows {
                let input = &input[row * d_in..][..d_in];
                let step = input
                    .iter()
                    .fold(0.0f32, |most, value| most.max(value.abs()))
                    / 127.0;
                for column in 0..d_out {
                    let mut exact = 0.0f64;
                    let mut bound = 1e-6f64;
                    for (value, weight) in input.iter().zip(weight[column..].iter().step_by(d_out))
                    {
                        exact += f64::from(value * weight);
                        let rounding = value.abs() * weights.scales[column] / 2.0
                            + (weight.abs() + weights.scales[column]) * step / 2.0;
                        bound += f64::from(rounding) * 1.000_01;
                    }
                    let actual = output[row * d_out + column];
                    assert!(
                        (f64::from(actual) - exact).abs() <= bound,
                        "{actual}, {exact}, within {bound}"
                    );
                    let error = biased[row * d_out + column] - (actual + bias[column]);
                    assert!(error.abs() < 1e-6, "{error}");
                }
            }
            let rectified = int8_linear_relu(input_tensor, &matrix, Some(bias_tensor));
            assert_eq!(
                values(rectified),
                biased
                    .iter()
                    .map(|value| value.max(0.0))
                    .collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn without_a_kernel_only_the_inputs_are_more_exact() {
        let input = pseudo_random(3 * 20);
        let weight = pseudo_random(20 * 18);
        let matrix = Int8Matrix::new(
            &Int8Weights::quantize(&weight, [18, 20], Layout::OutIn),
            [18, 20],
            Layout::OutIn,
        );
        let input = tensor(&input, [3, 20]);
        let bias = tensor(&pseudo_random(18), [18]);
        let kernel = values(int8_linear(input.clone(), &matrix, Some(bias.clone())));
        for (kernel, plain) in kernel.iter().zip(values(plain(input, &matrix, Some(bias)))) {
            // A sum of 20 inputs below 1, each at most half a step of 1 / 127 away from its
            // rounding.
            assert!((kernel - plain).abs() < 20.0 / 254.0, "{kernel}, {plain}");
        }
    }

    #[test]
    fn an_embedding_is_a_row_of_the_matrix() {
        let weights = Int8Weights::quantize(&pseudo_random(40 * 6), [40, 6], Layout::OutIn);
        let matrix = Int8Matrix::new(&weights, [40, 6], Layout::OutIn);
        let ids = Tensor::<2, Int>::from_data([[17, 0, 39]], &Device::flex());
        let dequantized = weights.dequantize([40, 6], Layout::OutIn);
        let expected = [17, 0, 39].iter().flat_map(|id| {
            dequantized[id * 6..][..6]
                .iter()
                .map(|value| value * 6f32.sqrt())
        });
        assert_eq!(
            values(int8_embedding(&matrix, ids)),
            expected.collect::<Vec<_>>()
        );
    }

    #[test]
    fn nan_propagates_within_its_row_and_zeros_stay_zeros() {
        let weights = Int8Weights::quantize(&pseudo_random(5 * 20), [5, 20], Layout::InOut);
        let matrix = Int8Matrix::new(&weights, [5, 20], Layout::InOut);
        let input = [
            0.0,
            f32::NAN,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            1.0,
            0.0,
            0.0,
            1e-38,
            0.0,
            0.0,
        ];
        let output = values(int8_linear_relu(tensor(&input, [3, 5]), &matrix, None));
        assert!(output[..20].iter().all(|value| value.is_nan()));
        assert!(output[20..40].iter().all(|value| value.is_finite()));
        assert!(
            output[40..]
                .iter()
                .all(|value| value.abs() < f32::MIN_POSITIVE)
        );
    }
}
