//! Attention over several heads (Vaswani et al., 2017, section 3.2), which may share keys and values
//! (Ainslie et al., 2023).

mod alibi;
mod config;
mod cross;
mod key_value;
mod scaled_dot_product;
mod watch;

use burn::module::Module;
use burn::tensor::{Bool, Tensor};
use polyglow_kernels::{KeyValueCache, widened};

use crate::dropout::Dropout;
use crate::linear::{Linear, projection};
use crate::parameter::init::ParamInit;
use crate::position::Rotation;
use crate::precision::Precision;

pub use alibi::alibi;
pub use config::AttentionConfig;
pub use cross::CrossAttention;
pub use key_value::KeyValue;
pub use scaled_dot_product::{attend, context, scores};
pub use watch::{AttentionKind, AttentionMaps, Watch, reborrow};

/// The inputs that all layers of self-attention share in a batch.
#[derive(Clone, Copy, Debug)]
pub struct AttentionInput<'a> {
    /// `true` where attention is forbidden, broadcast to `[batch, num_heads, len, len]`; its last
    /// axis gives the length of the sequences.
    pub mask: &'a Tensor<4, Bool>,
    /// The rotation of the `len` positions, if they are rotary.
    pub rotation: Option<&'a Rotation>,
    /// A bias that is added to the scores before the softmax, broadcast to
    /// `[batch, num_heads, len, len]`, as [`alibi`] or trained vectors of relative positions give
    /// it; gradients flow into it.
    pub bias: Option<&'a Tensor<4>>,
}

impl<'a> AttentionInput<'a> {
    /// A mask, without rotation or bias.
    pub fn new(mask: &'a Tensor<4, Bool>) -> Self {
        Self {
            mask,
            rotation: None,
            bias: None,
        }
    }
}

/// Self-attention: every position attends to the positions of its own sequence that a mask allows.
///
/// `output(heads side by side)`, where head `h` is
/// `softmax(query[h] key[g]ᵀ / sqrt(head_dim) + bias[h]) value[g]`, and `g = h * num_kv_heads /
/// num_heads` is the head of keys and values that it shares with its neighbors. A fused kernel
/// computes it where there is one, unless heads share keys, or there is a bias, a rotation or a
/// callback for the weights.
///
/// A whole sequence at once, with a bias for the distance of positions:
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_model::attention::{
///     AttentionConfig, AttentionInput, AttentionKind, SelfAttention, alibi,
/// };
/// use polyglow_model::init::ParamInit;
/// use polyglow_model::mask::causal_mask;
///
/// let config = AttentionConfig {
///     d_model: 16,
///     num_heads: 4,
///     num_kv_heads: 2,
///     bias: false,
///     dropout: 0.0,
/// };
/// let device = Device::flex();
/// let layer = SelfAttention::new(&config, &mut ParamInit::new(1, &device));
///
/// let [batch, len] = [2, 3];
/// let states = Tensor::<2>::ones([batch * len, 16], &device);
/// let mask = causal_mask(len, &device);
/// let bias = alibi(4, 0..len, &device);
/// let shared = AttentionInput {
///     bias: Some(&bias),
///     ..AttentionInput::new(&mask)
/// };
/// let whole = layer.forward(states.clone(), &shared, AttentionKind::Decoder, None);
/// assert_eq!(whole.dims(), [batch * len, 16]);
///
/// // The same, one position at a time, as a search does it.
/// let mut past = None;
/// for position in 0..len {
///     let newest = states.clone().narrow(0, 0, batch);
///     let bias = alibi(4, position..position + 1, &device);
///     layer.advance(newest, None, Some(&bias), &mut past);
/// }
/// ```
#[derive(Module, Debug)]
pub struct SelfAttention {
    /// Queries, keys and values in one matrix,
    /// `[d_model, (num_heads + 2 * num_kv_heads) * head_dim]`.
    pub qkv: Linear,
    /// Mixes the heads.
    pub output: Linear,
    dropout: Dropout,
    num_heads: usize,
    num_kv_heads: usize,
    #[module(skip)]
    precision: Precision,
}

impl SelfAttention {
    /// A layer with fresh weights.
    ///
    /// # Panics
    /// If [`AttentionConfig::check`] refuses the config.
    pub fn new(config: &AttentionConfig, init: &mut ParamInit) -> Self {
        config.check().expect("the sizes of self-attention");
        let d_model = config.d_model;
        let kv_width = config.kv_width();
        let widths = [d_model, kv_width, kv_width];
        Self {
            qkv: projection(d_model, &widths, config.bias, init),
            output: projection(d_model, &[d_model], config.bias, init),
            dropout: Dropout::new(config.dropout),
            num_heads: config.num_heads,
            num_kv_heads: config.num_kv_heads,
            precision: init.precision(),
        }
    }

    /// Attends from all positions at once; the output is in the format of [`Linear::narrow`]. Calls
    /// `watch` with the attention weights and their `kind`.
    ///
    /// # Shapes
    /// - `input`: `[batch * len, d_model]`; output: as `input`
    ///
    /// # Panics
    /// If the shapes of `input` and `shared` do not agree.
    pub fn forward(
        &self,
        input: Tensor<2>,
        shared: &AttentionInput<'_>,
        kind: AttentionKind,
        watch: Watch<'_>,
    ) -> Tensor<2> {
        let AttentionInput {
            mask,
            rotation,
            bias,
        } = *shared;
        let [.., len] = mask.dims();
        let batch = input.dims()[0] / len;
        let qkv = sequences(self.qkv.narrow(input), batch);
        // The kernel never holds the weights.
        if watch.is_none() && self.has_kernel(rotation, bias) {
            let dropped = self.dropout.draw(&qkv);
            let fused = polyglow_kernels::self_attention(&qkv, mask, self.num_heads, dropped);
            if let Some(context) = fused {
                return self.output.narrow(context.flatten(0, 1));
            }
        }
        let [query, key, value] = self.split(&widened(qkv), rotation);
        let scores = biased(scores(query, key, self.precision), bias);
        let (context, weights) = context(scores, value, Some(mask), &self.dropout, self.precision);
        if let Some(watch) = watch {
            watch(kind, weights);
        }
        self.output.narrow(join_heads(context).flatten(0, 1))
    }

    /// Attends from one more position to itself and to all of `past`, to which its key and value
    /// are added. `past` is `None` before the first position; [`KeyValue::select`] keeps some of
    /// its rows.
    ///
    /// # Shapes
    /// - `input`: `[rows, d_model]`; output: as `input`
    /// - `rotation`: that of the one position
    /// - `bias`: broadcast to `[rows, num_heads, 1, key_len]`, with the new position as the last
    ///   key
    ///
    /// # Panics
    /// If there is a rotation or a bias at a later position and was none at the first.
    pub fn advance(
        &self,
        input: Tensor<2>,
        rotation: Option<&Rotation>,
        bias: Option<&Tensor<4>>,
        past: &mut Option<KeyValue>,
    ) -> Tensor<2> {
        let qkv = self.qkv.rows(input).unsqueeze_dim(1); // [rows, 1, width]
        let has_kernel = self.has_kernel(rotation, bias);
        if past.is_none() && has_kernel {
            // The kernel's cache, if there is one; it does not rotate, so rotated keys are kept by
            // head.
            let d_model = qkv.dims()[2] / 3;
            *past = KeyValueCache::empty(&qkv, d_model, self.num_heads).map(KeyValue::Slots);
        }
        let context = match past {
            Some(KeyValue::Slots(cache)) => {
                assert!(
                    has_kernel,
                    "a rotation or bias that the first position lacked"
                );
                cache.append(&qkv);
                cache.attention(&qkv, None)
            }
            by_head => self.advance_by_head(&qkv, rotation, bias, by_head),
        };
        self.output.rows(context.flatten(0, 1))
    }

    /// As [`Self::advance`], by products of matrices. `past` holds keys and values by head, or is
    /// `None` before the first position.
    ///
    /// # Shapes
    /// - `qkv`: `[rows, 1, width]`; output: `[rows, 1, d_model]`
    fn advance_by_head(
        &self,
        qkv: &Tensor<3>,
        rotation: Option<&Rotation>,
        bias: Option<&Tensor<4>>,
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
        let scores = biased(scores(query, key, Precision::F32), bias);
        let (context, _) = context(scores, value, None, &self.dropout, Precision::F32);
        join_heads(context)
    }

    /// Whether fused kernels, which neither rotate nor add a bias, know this attention.
    fn has_kernel(&self, rotation: Option<&Rotation>, bias: Option<&Tensor<4>>) -> bool {
        rotation.is_none() && bias.is_none() && self.num_heads == self.num_kv_heads
    }

    /// Returns queries, keys and values by head, the first two rotated if positions are rotary.
    fn split(&self, qkv: &Tensor<3>, rotation: Option<&Rotation>) -> [Tensor<4>; 3] {
        let num_heads = self.num_heads;
        let num_kv_heads = self.num_kv_heads;
        let [query, key, value] = split_heads(qkv, [num_heads, num_kv_heads, num_kv_heads]);
        match rotation {
            Some(rotation) => [rotation.apply(query), rotation.apply(key), value],
            None => [query, key, value],
        }
    }
}

/// Adds the bias to scores, if there is one.
///
/// # Shapes
/// - as [`scores`]; `bias`: broadcast to them
fn biased(scores: Tensor<4>, bias: Option<&Tensor<4>>) -> Tensor<4> {
    match bias {
        Some(bias) => scores + bias.clone(),
        None => scores,
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

/// Takes fused projections with these numbers of heads apart, each into its heads.
///
/// # Shapes
/// - `fused`: `[batch, len, sum of num_heads * head_dim]`; output: for each number
///   `[batch, num_heads, len, head_dim]`
fn split_heads<const N: usize>(fused: &Tensor<3>, num_heads: [usize; N]) -> [Tensor<4>; N] {
    let [batch, len, width] = fused.dims();
    let head_dim = width / num_heads.iter().sum::<usize>();
    let mut start = 0;
    num_heads.map(|num_heads| {
        let columns = num_heads * head_dim;
        let projection = if columns == width {
            fused.clone()
        } else {
            fused.clone().narrow(2, start, columns)
        };
        start += columns;
        projection
            .reshape([batch, len, num_heads, head_dim])
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
