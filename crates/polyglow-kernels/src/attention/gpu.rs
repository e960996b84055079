//! On GPUs: gradients of queries, keys and values are put side by side once, and dropout is made again where it is needed.

use burn::tensor::{Bool, Tensor};

use super::FORBIDDEN;
use crate::dropout::composed::ComposedMask;
use crate::gpu::{Slope, Slopes, open, record};
use crate::{Dropped, Factors};

/// [`super::self_attention`] on GPUs with autodiff; `None` elsewhere.
pub(super) fn self_attention(
    qkv: &Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
    factors: Factors,
) -> Option<Tensor<3>> {
    let (qkv, node) = open(qkv)?;
    let [query, key, value] = parts(&split(qkv, 3 * num_heads));
    let (context, state) = State::attend(query, key, value, mask, dropped, factors);
    Some(record(OfSelf(state), [node], join(context)))
}

/// [`super::cross_attention`] on GPUs with autodiff; `None` elsewhere.
pub(super) fn cross_attention(
    query: &Tensor<3>,
    key_value: &Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
    factors: Factors,
) -> Option<Tensor<3>> {
    let ((query, query_node), (key_value, key_value_node)) = (open(query)?, open(key_value)?);
    let [key, value] = parts(&split(key_value, 2 * num_heads));
    let (context, state) = State::attend(split(query, num_heads), key, value, mask, dropped, factors);
    Some(record(OfCross(state), [query_node, key_value_node], join(context)))
}

/// What the backward pass needs; factors are rounded.
#[derive(Clone, Debug)]
struct State {
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    /// After the softmax, before dropout.
    weights: Tensor<4>,
    mask: Tensor<4, Bool>,
    dropped: Option<ComposedMask<4>>,
    factors: Factors,
}

impl State {
    fn attend(
        query: Tensor<4>,
        key: Tensor<4>,
        value: Tensor<4>,
        mask: &Tensor<4, Bool>,
        dropped: Option<Dropped>,
        factors: Factors,
    ) -> (Tensor<4>, Self) {
        let [batch, num_heads, query_len, head_dim] = query.dims();
        let shape = [batch, num_heads, query_len, key.dims()[2]];
        let [query, key, value] = [query, key, value].map(|factor| factors.rounded(factor));
        // Scores are scaled, and not queries, as they go through the softmax anyway.
        let scores = factors.widened(query.clone().matmul(key.clone().transpose())) * scale(head_dim);
        let mask = mask.clone().inner().expand(shape);
        let scores = scores.mask_fill(mask.clone(), FORBIDDEN);
        // Not Burn's softmax, which would be an operation by itself.
        let exp = (scores.clone() - scores.max_dim(3)).exp();
        let weights = exp.clone() / exp.sum_dim(3);
        let dropped = dropped.map(|dropped| ComposedMask::new(shape, dropped, &weights.device()));
        let state = Self { query, key, value, weights, mask, dropped, factors };
        let context = factors.widened(state.dropped_weights().matmul(state.value.clone()));
        (context, state)
    }

    /// Rounded, for the product with the values and that of the backward pass.
    fn dropped_weights(&self) -> Tensor<4> {
        let weights = self.weights.clone();
        self.factors.rounded(match &self.dropped {
            Some(mask) => weights * mask.scaled(),
            None => weights,
        })
    }

    /// Those of query, key and value.
    fn slopes(self, gradient: Tensor<4>) -> [Tensor<4>; 3] {
        let gradient = self.factors.rounded(gradient);
        let of_value = self.dropped_weights().transpose().matmul(gradient.clone());
        let Self { query, key, value, weights, mask, dropped, factors } = self;
        let scale = scale(query.dims()[3]);
        let mut of_weights = factors.widened(gradient.matmul(value.transpose()));
        if let Some(mask) = dropped {
            of_weights = of_weights * mask.scaled();
        }
        let mean = (weights.clone() * of_weights.clone()).sum_dim(3);
        let of_scores = factors.rounded((weights * (of_weights - mean) * scale).mask_fill(mask, 0.0));
        let of_query = factors.widened(of_scores.clone().matmul(key));
        let of_key = factors.widened(of_scores.transpose().matmul(query));
        [of_query, of_key, factors.widened(of_value)]
    }
}

#[derive(Clone, Debug)]
struct OfSelf(State);

impl Slopes<1, 3> for OfSelf {
    fn slopes(self, gradient: Tensor<3>, _: [bool; 1]) -> [Option<Slope>; 1] {
        let num_heads = self.0.query.dims()[1];
        let all = self.0.slopes(split(gradient, num_heads));
        [Some(join(Tensor::cat(all.into(), 1)).into())]
    }
}

#[derive(Clone, Debug)]
struct OfCross(State);

impl Slopes<2, 3> for OfCross {
    fn slopes(self, gradient: Tensor<3>, _: [bool; 2]) -> [Option<Slope>; 2] {
        let num_heads = self.0.query.dims()[1];
        let [of_query, of_key, of_value] = self.0.slopes(split(gradient, num_heads));
        [Some(join(of_query).into()), Some(join(Tensor::cat(vec![of_key, of_value], 1)).into())]
    }
}

/// What scores are multiplied by.
fn scale(head_dim: usize) -> f64 {
    (head_dim as f64).powf(-0.5)
}

/// # Shapes
/// - `rows`: `[batch, len, num_heads * head_dim]`; output: `[batch, num_heads, len, head_dim]`
fn split(rows: Tensor<3>, num_heads: usize) -> Tensor<4> {
    let [batch, len, width] = rows.dims();
    rows.reshape([batch, len, num_heads, width / num_heads]).swap_dims(1, 2)
}

/// Heads in `N` equal parts.
fn parts<const N: usize>(heads: &Tensor<4>) -> [Tensor<4>; N] {
    let num_heads = heads.dims()[1] / N;
    std::array::from_fn(|part| heads.clone().narrow(1, part * num_heads, num_heads))
}

/// The reverse of [`split`].
fn join(heads: Tensor<4>) -> Tensor<3> {
    let [batch, num_heads, len, head_dim] = heads.dims();
    heads.swap_dims(1, 2).reshape([batch, len, num_heads * head_dim])
}
