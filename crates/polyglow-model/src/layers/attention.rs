//! Scaled dot-product attention over several heads (Vaswani et al., 2017, section 3.2).

mod key_value;
mod watch;

use burn::module::Module;
use burn::tensor::{Bool, Tensor, activation::softmax};
use polyglow_kernels::{FORBIDDEN, KeyValueCache, widened};

use crate::config::TransformerShape;
use crate::dropout::Dropout;
use crate::linear::Linear;
use crate::parameter::init::ParamInit;
use crate::position::Rotation;
use crate::precision::Precision;

pub use key_value::KeyValue;
pub(crate) use watch::reborrow;
pub use watch::{AttentionKind, AttentionMaps, Watch};

/// `softmax(query keyᵀ / sqrt(head_dim)) value` for each head, except where `mask` forbids
/// attention.
///
/// # Shapes
/// - `query`: `[batch, num_heads, query_len, head_dim]`; `key`, `value`:
///   `[batch, num_heads, key_len, head_dim]`
/// - `mask`: broadcast to `[batch, num_heads, query_len, key_len]`, `true` where attention is
///   forbidden; `None` if it is allowed everywhere, as for the newest position of a search
/// - output: as `query`, and the weights `[batch, num_heads, query_len, key_len]`
pub fn attend(
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    mask: Option<&Tensor<4, Bool>>,
    dropout: &Dropout,
    precision: Precision,
) -> (Tensor<4>, Tensor<4>) {
    let [batch, num_heads, query_len, head_dim] = query.dims();
    let key_len = key.dims()[2];
    // Scaling the query touches head_dim values per position, scaling the scores key_len.
    let mut scores = precision.product(query * (head_dim as f64).powf(-0.5), key.transpose());
    if let Some(mask) = mask {
        scores = scores.mask_fill(
            mask.clone().expand([batch, num_heads, query_len, key_len]),
            FORBIDDEN,
        );
    }
    let weights = softmax(scores, 3);
    let context = precision.product(dropout.forward(weights.clone()), value);
    (context, weights)
}

/// Self-attention: every position attends to the positions of its own sequence that `mask` allows.
#[derive(Module, Debug)]
pub struct SelfAttention {
    /// Queries, keys and values in one matrix, `[d_model, 3 * d_model]`.
    pub qkv: Linear,
    /// Mixes the heads.
    pub output: Linear,
    dropout: Dropout,
    num_heads: usize,
    #[module(skip)]
    precision: Precision,
}

impl SelfAttention {
    /// A layer with the configured heads.
    pub fn new(shape: &TransformerShape, init: &mut ParamInit) -> Self {
        Self {
            qkv: Linear::fused(shape.d_model, shape.d_model, 3, init),
            output: Linear::new(shape.d_model, shape.d_model, init),
            dropout: Dropout::new(shape.attention_dropout),
            num_heads: shape.num_heads,
            precision: init.precision(),
        }
    }

    /// Attends from all positions at once; the output is in the format of [`Linear::narrow`]. Calls
    /// `watch` with the attention weights and their `kind`.
    ///
    /// # Shapes
    /// - `input`: `[batch * len, d_model]`; output: as `input`
    /// - `mask`: broadcast to `[batch, num_heads, len, len]`; its last axis gives the length of the
    ///   sequences
    pub fn forward(
        &self,
        input: Tensor<2>,
        mask: &Tensor<4, Bool>,
        rotation: Option<&Rotation>,
        kind: AttentionKind,
        watch: Watch<'_>,
    ) -> Tensor<2> {
        let [.., len] = mask.dims();
        let batch = input.dims()[0] / len;
        let qkv = sequences(self.qkv.narrow(input), batch);
        // The kernel never holds the weights, and does not rotate.
        if watch.is_none() && rotation.is_none() {
            let dropped = self.dropout.draw(&qkv);
            let fused = polyglow_kernels::self_attention(&qkv, mask, self.num_heads, dropped);
            if let Some(context) = fused {
                return self.output.narrow(context.flatten(0, 1));
            }
        }
        let [query, key, value] = self.split(&widened(qkv), rotation);
        let (context, weights) =
            attend(query, key, value, Some(mask), &self.dropout, self.precision);
        if let Some(watch) = watch {
            watch(kind, weights);
        }
        self.output.narrow(join_heads(context).flatten(0, 1))
    }

    /// Attends from one more position to itself and to all of `past`, to which its key and value
    /// are added.
    ///
    /// # Shapes
    /// - `input`: `[rows, d_model]`; output: as `input`
    pub fn advance(
        &self,
        input: Tensor<2>,
        rotation: Option<&Rotation>,
        past: &mut Option<KeyValue>,
    ) -> Tensor<2> {
        let qkv = self.qkv.rows(input).unsqueeze_dim(1); // [rows, 1, 3 * d_model]
        if past.is_none() && rotation.is_none() {
            // The kernel's cache, if there is one; it does not rotate, so rotated keys are kept by
            // head.
            let d_model = qkv.dims()[2] / 3;
            *past = KeyValueCache::empty(&qkv, d_model, self.num_heads).map(KeyValue::Slots);
        }
        let context = match past {
            Some(KeyValue::Slots(cache)) => {
                cache.append(&qkv);
                cache.attention(&qkv, None)
            }
            by_head => self.advance_by_head(&qkv, rotation, by_head),
        };
        self.output.rows(context.flatten(0, 1))
    }

    /// As [`Self::advance`], by products of matrices. `past` holds keys and values by head, or is
    /// `None` before the first position.
    ///
    /// # Shapes
    /// - `qkv`: `[rows, 1, 3 * d_model]`; output: `[rows, 1, d_model]`
    fn advance_by_head(
        &self,
        qkv: &Tensor<3>,
        rotation: Option<&Rotation>,
        past: &mut Option<KeyValue>,
    ) -> Tensor<3> {
        let [query, mut key, mut value] = self.split(qkv, rotation);
        if let Some(KeyValue::Heads {
            key: past_key,
            value: past_value,
        }) = past.take()
        {
            key = Tensor::cat(vec![past_key, key], 2);
            value = Tensor::cat(vec![past_value, value], 2);
        }
        *past = Some(KeyValue::Heads {
            key: key.clone(),
            value: value.clone(),
        });
        // Search runs without autodiff, where no product is rounded.
        let (context, _) = attend(query, key, value, None, &self.dropout, Precision::F32);
        join_heads(context)
    }

    /// Returns queries, keys and values by head, the first two rotated if positions are rotary.
    fn split(&self, qkv: &Tensor<3>, rotation: Option<&Rotation>) -> [Tensor<4>; 3] {
        let [query, key, value] = split_heads(qkv, self.num_heads);
        match rotation {
            Some(rotation) => [rotation.apply(query), rotation.apply(key), value],
            None => [query, key, value],
        }
    }
}

/// Cross-attention: every target position attends to the encoder's output.
#[derive(Module, Debug)]
pub struct CrossAttention {
    /// Queries, from the target side.
    pub query: Linear,
    /// Keys and values of the encoder's output in one matrix, `[d_model, 2 * d_model]`.
    pub key_value: Linear,
    /// Mixes the heads.
    pub output: Linear,
    dropout: Dropout,
    num_heads: usize,
    #[module(skip)]
    precision: Precision,
}

impl CrossAttention {
    /// A layer with the configured heads.
    pub fn new(shape: &TransformerShape, init: &mut ParamInit) -> Self {
        Self {
            query: Linear::new(shape.d_model, shape.d_model, init),
            key_value: Linear::fused(shape.d_model, shape.d_model, 2, init),
            output: Linear::new(shape.d_model, shape.d_model, init),
            dropout: Dropout::new(shape.attention_dropout),
            num_heads: shape.num_heads,
            precision: init.precision(),
        }
    }

    /// Computes keys and values of the encoder's output, the same for every target position.
    ///
    /// # Shapes
    /// - `memory`: `[batch, src_len, d_model]`
    pub fn key_value(&self, memory: Tensor<3>) -> KeyValue {
        let key_value = self.key_value.forward(memory);
        if let Some(mut cache) =
            KeyValueCache::empty(&key_value, key_value.dims()[2] / 2, self.num_heads)
        {
            cache.append(&key_value);
            return KeyValue::Slots(cache);
        }
        let [key, value] = split_heads(&key_value, self.num_heads);
        KeyValue::Heads { key, value }
    }

    /// Attends from each target position to the encoder's output; the result is in the format of
    /// [`Linear::narrow`]. Calls `watch` with the attention weights.
    ///
    /// # Shapes
    /// - `input`: `[batch * tgt_len, d_model]`; `memory`: `[batch * src_len, d_model]`; output: as
    ///   `input`
    /// - `mask`: broadcast to `[batch, 1, 1, src_len]`; its last axis gives the length of the
    ///   sources
    pub fn forward(
        &self,
        input: Tensor<2>,
        memory: Tensor<2>,
        mask: &Tensor<4, Bool>,
        watch: Watch<'_>,
    ) -> Tensor<2> {
        let [.., src_len] = mask.dims();
        let batch = memory.dims()[0] / src_len;
        let query = sequences(self.query.narrow(input), batch);
        let key_value = sequences(self.key_value.narrow(memory), batch);
        if watch.is_none() {
            let dropped = self.dropout.draw(&query);
            let fused = polyglow_kernels::cross_attention(
                &query,
                &key_value,
                mask,
                self.num_heads,
                dropped,
            );
            if let Some(context) = fused {
                return self.output.narrow(context.flatten(0, 1));
            }
        }
        let [query] = split_heads(&widened(query), self.num_heads);
        let [key, value] = split_heads(&widened(key_value), self.num_heads);
        let (context, weights) =
            attend(query, key, value, Some(mask), &self.dropout, self.precision);
        if let Some(watch) = watch {
            watch(AttentionKind::Cross, weights);
        }
        self.output.narrow(join_heads(context).flatten(0, 1))
    }

    /// As [`Self::forward`], from keys and values that were computed before.
    ///
    /// # Shapes
    /// - `input`: `[batch * tgt_len, d_model]`; output: as `input`
    /// - `mask`: `[batch, 1, 1, src_len]`
    pub fn advance(
        &self,
        input: Tensor<2>,
        memory: &KeyValue,
        mask: &Tensor<4, Bool>,
    ) -> Tensor<2> {
        let query = sequences(self.query.rows(input), memory.batch());
        let context = match memory {
            KeyValue::Slots(cache) => cache.attention(&query, Some(mask)),
            KeyValue::Heads { key, value } => {
                let [query] = split_heads(&query, self.num_heads);
                let (context, _) = attend(
                    query,
                    key.clone(),
                    value.clone(),
                    Some(mask),
                    &self.dropout,
                    Precision::F32,
                );
                join_heads(context)
            }
        };
        self.output.rows(context.flatten(0, 1))
    }
}

/// Rows as sequences of the same length.
///
/// # Shapes
/// - `rows`: `[batch * len, width]`; output: `[batch, len, width]`
fn sequences(rows: Tensor<2>, batch: usize) -> Tensor<3> {
    let [num_rows, width] = rows.dims();
    rows.reshape([batch, num_rows / batch, width])
}

/// Takes `N` fused projections apart, each into its heads.
///
/// # Shapes
/// - `fused`: `[batch, len, N * d_model]`; output: `N` times `[batch, num_heads, len, head_dim]`
fn split_heads<const N: usize>(fused: &Tensor<3>, num_heads: usize) -> [Tensor<4>; N] {
    let [batch, len, width] = fused.dims();
    let d_model = width / N;
    std::array::from_fn(|block| {
        let projection = if N == 1 {
            fused.clone()
        } else {
            fused.clone().narrow(2, block * d_model, d_model)
        };
        projection
            .reshape([batch, len, num_heads, d_model / num_heads])
            .swap_dims(1, 2)
    })
}

/// Puts heads side by side, the inverse of [`split_heads`].
///
/// # Shapes
/// - `heads`: `[batch, num_heads, len, head_dim]`; output: `[batch, len, d_model]`
fn join_heads(heads: Tensor<4>) -> Tensor<3> {
    let [batch, num_heads, len, head_dim] = heads.dims();
    heads
        .swap_dims(1, 2)
        .reshape([batch, len, num_heads * head_dim])
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
