//! Scaled dot-product attention (Vaswani et al., 2017, section 3.2.1) of tensors by head, by
//! products of matrices.

use burn::tensor::{Bool, Tensor, activation::softmax};
use polyglow_kernels::FORBIDDEN;

use crate::dropout::Dropout;
use crate::precision::Precision;

/// `softmax(query keyᵀ / sqrt(head_dim)) value` for each head, except where `mask` forbids
/// attention.
///
/// Queries may have more heads than keys and values: then neighboring heads share those of one head
/// (Ainslie et al., 2023, section 2.2), which are not copied. [`scores`] and [`context`] are its
/// two halves, for attention that changes the scores in between.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_model::Precision;
/// use polyglow_model::attention::attend;
/// use polyglow_model::dropout::Dropout;
///
/// let device = Device::flex();
/// let query = Tensor::<4>::ones([2, 4, 3, 8], &device);
/// let key = Tensor::<4>::ones([2, 2, 5, 8], &device);
/// let dropout = Dropout::new(0.0);
/// let (context, weights) =
///     attend(query, key.clone(), key, None, &dropout, Precision::F32);
/// assert_eq!(context.dims(), [2, 4, 3, 8]);
/// assert_eq!(weights.dims(), [2, 4, 3, 5]);
/// ```
///
/// # Shapes
/// - `query`: `[batch, num_heads, query_len, head_dim]`; `key`, `value`:
///   `[batch, num_kv_heads, key_len, head_dim]`
/// - `mask`: broadcast to `[batch, num_heads, query_len, key_len]`, `true` where attention is
///   forbidden; `None` if it is allowed everywhere, as for the newest position of a search
/// - output: as `query`, and the weights `[batch, num_heads, query_len, key_len]`
///
/// # Panics
/// If `num_kv_heads` does not divide `num_heads`.
pub fn attend(
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    mask: Option<&Tensor<4, Bool>>,
    dropout: &Dropout,
    precision: Precision,
) -> (Tensor<4>, Tensor<4>) {
    let scores = scores(query, key, precision);
    context(scores, value, mask, dropout, precision)
}

/// The scores of [`attend`], `query keyᵀ / sqrt(head_dim)` for each head of the queries, to which a
/// bias may be added before [`context`].
///
/// # Shapes
/// - as [`attend`]; output: `[batch, num_heads, query_len, key_len]`
///
/// # Panics
/// As [`attend`].
pub fn scores(query: Tensor<4>, key: Tensor<4>, precision: Precision) -> Tensor<4> {
    let [.., head_dim] = query.dims();
    // Scaling the query touches head_dim values per position, scaling the scores key_len.
    let query = query * (head_dim as f64).powf(-0.5);
    product(query, key.transpose(), precision)
}

/// Returns the sums of values that are weighted by the softmax of `scores`, with dropout on the
/// weights, and the weights without dropout.
///
/// # Shapes
/// - `scores`: `[batch, num_heads, query_len, key_len]`; others and output: as [`attend`]
///
/// # Panics
/// As [`attend`].
pub fn context(
    scores: Tensor<4>,
    value: Tensor<4>,
    mask: Option<&Tensor<4, Bool>>,
    dropout: &Dropout,
    precision: Precision,
) -> (Tensor<4>, Tensor<4>) {
    let shape = scores.dims();
    let scores = match mask {
        Some(mask) => scores.mask_fill(mask.clone().expand(shape), FORBIDDEN),
        None => scores,
    };
    let weights = softmax(scores, 3);
    let context = product(dropout.forward(weights.clone()), value, precision);
    (context, weights)
}

/// Multiplies each head of `left` by the head of `right` that it shares with its neighbors.
///
/// # Shapes
/// - `left`: `[batch, num_heads, len, inner]`; `right`: `[batch, num_kv_heads, inner, width]`;
///   output: `[batch, num_heads, len, width]`
fn product(left: Tensor<4>, right: Tensor<4>, precision: Precision) -> Tensor<4> {
    let [batch, num_heads, len, inner] = left.dims();
    let [_, num_kv_heads, _, width] = right.dims();
    if num_heads == num_kv_heads {
        return precision.product(left, right);
    }
    assert!(
        num_heads.is_multiple_of(num_kv_heads),
        "{num_heads} heads of queries cannot share {num_kv_heads} heads of keys and values equally"
    );
    // Heads of a group are rows of one product, so that what they share need not be repeated.
    let group_len = num_heads / num_kv_heads * len;
    let grouped = left.reshape([batch, num_kv_heads, group_len, inner]);
    precision
        .product(grouped, right)
        .reshape([batch, num_heads, len, width])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_of_self_attention_comes_out() {
        let device = crate::test_device();
        let tensor = |rows: [[f32; 3]; 4]| Tensor::<2>::from_data(rows, &device);
        let input = Tensor::<2>::from_data(
            [[1.0f32, 0., 1., 0.], [0., 2., 0., 2.], [1., 1., 1., 1.]],
            &device,
        );
        let key = input.clone().matmul(tensor([
            [0., 0., 1.],
            [1., 1., 0.],
            [0., 1., 0.],
            [1., 1., 0.],
        ]));
        let query = input.clone().matmul(tensor([
            [1., 0., 1.],
            [1., 0., 0.],
            [0., 0., 1.],
            [0., 1., 1.],
        ]));
        let value = input.matmul(tensor([
            [0., 2., 0.],
            [0., 3., 0.],
            [1., 0., 3.],
            [1., 1., 0.],
        ]));
        let first_query = query
            .clone()
            .narrow(0, 0, 1)
            .into_data()
            .try_to_vec::<f32>()
            .unwrap();
        assert_eq!(first_query, [1.0, 0.0, 2.0]);
        let scores = query.clone().matmul(key.clone().transpose());
        assert_eq!(
            scores
                .narrow(0, 0, 1)
                .into_data()
                .try_to_vec::<f32>()
                .unwrap(),
            [2.0, 4.0, 4.0]
        );

        let heads = |tensor: Tensor<2>| tensor.unsqueeze_dims::<4>(&[0, 0]);
        let open = Tensor::<4, Bool>::from_data([[[[false, false, false]]]], &device);
        // Unscaled in the worked example: a query times sqrt(head_dim) undoes the scale.
        let query = heads(query) * 3.0f64.sqrt();
        let (context, weights) = attend(
            query,
            heads(key),
            heads(value.clone()),
            Some(&open),
            &Dropout::new(0.0),
            Precision::F32,
        );
        // softmax([2, 4, 4]) = [e^-2, 1, 1] / (2 + e^-2), and the sum of the values weighted by it.
        let rest = (-2.0f32).exp();
        let expected = [rest / (2.0 + rest), 1.0 / (2.0 + rest), 1.0 / (2.0 + rest)];
        let first = weights
            .narrow(2, 0, 1)
            .into_data()
            .try_to_vec::<f32>()
            .unwrap();
        for (weight, expected) in first.iter().zip(expected) {
            assert!((weight - expected).abs() < 1e-6, "{first:?}");
        }
        let values = value.into_data().try_to_vec::<f32>().unwrap();
        let first = context
            .narrow(2, 0, 1)
            .into_data()
            .try_to_vec::<f32>()
            .unwrap();
        for (dim, value) in first.iter().enumerate() {
            let sum: f32 = (0..3)
                .map(|row| expected[row] * values[row * 3 + dim])
                .sum();
            assert!((value - sum).abs() < 1e-5, "{first:?}");
        }
    }
}
