//! Attention with linear biases (`ALiBi`: Press et al., 2022): positions by the distance of keys.

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};

/// Returns a linear bias for the scores of self-attention: `-m |i - j|` for query `i` and key `j`,
/// where the slope `m` of head `h`, counted from 1, is `2^(-8h / num_heads)` (Press et al., 2022,
/// section 3). If `num_heads` is no power of 2, the slopes are those of the largest power below,
/// and then every other one of those of twice that power, as in the paper's program.
///
/// `queries` are the positions that attend; keys are all positions from 0 to the last of them. So
/// `0..len` is for a whole sequence, and `len - 1..len` for the newest position of a search.
///
/// ```
/// use burn::tensor::Device;
/// use polyglow_model::attention::alibi;
///
/// let bias = alibi(2, 2..3, &Device::flex());
/// assert_eq!(bias.dims(), [1, 2, 1, 3]);
/// let elements = bias.into_data().try_to_vec::<f32>().unwrap();
/// // Slopes 1/16 and 1/256, distances 2, 1 and 0.
/// assert_eq!(elements[..3], [-2.0 / 16.0, -1.0 / 16.0, 0.0]);
/// assert_eq!(elements[3..], [-2.0 / 256.0, -1.0 / 256.0, 0.0]);
/// ```
///
/// # Shapes
/// - output: `[1, num_heads, queries.len(), queries.end]`
pub fn alibi(num_heads: usize, queries: Range<usize>, device: &Device) -> Tensor<4> {
    let key_len = queries.end;
    let query_len = queries.len();
    let mut elements = Vec::with_capacity(num_heads * query_len * key_len);
    for slope in slopes(num_heads) {
        for query in queries.clone() {
            for key in 0..key_len {
                elements.push((-slope * query.abs_diff(key) as f64) as f32);
            }
        }
    }
    // A constant is no part of the graph.
    let device = device.clone().inner();
    Tensor::from_data(
        TensorData::new(elements, [1, num_heads, query_len, key_len]),
        &device,
    )
}

/// The slope of each head.
fn slopes(num_heads: usize) -> Vec<f64> {
    let power = 1 << num_heads.max(1).ilog2();
    let of_power = |head: usize, power: usize| (-8.0 * head as f64 / power as f64).exp2();
    let first = (1..=power).map(|head| of_power(head, power));
    let between = (1..2 * power)
        .step_by(2)
        .map(|head| of_power(head, 2 * power));
    first.chain(between).take(num_heads).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_paper_and_of_its_program() {
        let eight: Vec<f64> = (1..=8).map(|head| 0.5f64.powi(head)).collect();
        assert_eq!(slopes(8), eight);
        // `get_slopes(6)` of github.com/ofirpress/attention_with_linear_biases.
        let six = [0.25, 0.0625, 0.015_625, 0.003_906_25, 0.5, 0.125];
        assert_eq!(slopes(6), six);
        assert_eq!(slopes(1), [0.003_906_25]);
    }
}
