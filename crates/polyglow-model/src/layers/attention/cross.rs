//! Attention of target positions to the encoder's output (Vaswani et al., 2017, section 3.2.3).

use burn::module::Module;
use burn::tensor::{Bool, Tensor};
use polyglow_kernels::{KeyValueCache, widened};

use super::{
    AttentionConfig, AttentionKind, KeyValue, Watch, attend, join_heads, sequences, split_heads,
};
use crate::dropout::Dropout;
use crate::linear::{Linear, projection};
use crate::parameter::init::ParamInit;
use crate::precision::Precision;

/// Cross-attention: every target position attends to the encoder's output.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_model::attention::{AttentionConfig, CrossAttention};
/// use polyglow_model::init::ParamInit;
/// use polyglow_model::mask::no_mask;
///
/// let config = AttentionConfig {
///     d_model: 16,
///     num_heads: 4,
///     num_kv_heads: 1,
///     bias: true,
///     dropout: 0.0,
/// };
/// let device = Device::flex();
/// let layer = CrossAttention::new(&config, &mut ParamInit::new(1, &device));
///
/// let [batch, src_len, tgt_len] = [2, 5, 3];
/// let memory = Tensor::<3>::ones([batch, src_len, 16], &device);
/// let mask = no_mask(batch, src_len, &device);
/// let target = Tensor::<2>::ones([batch * tgt_len, 16], &device);
/// let output = layer.forward(target, memory.clone().flatten(0, 1), &mask, None);
/// assert_eq!(output.dims(), [batch * tgt_len, 16]);
///
/// // The same for one position, from keys and values that are computed once.
/// let key_value = layer.key_value(memory);
/// let newest = Tensor::<2>::ones([batch, 16], &device);
/// assert_eq!(layer.advance(newest, &key_value, &mask).dims(), [batch, 16]);
/// ```
#[derive(Module, Debug)]
pub struct CrossAttention {
    /// Queries, from the target side.
    pub query: Linear,
    /// Keys and values of the encoder's output in one matrix,
    /// `[d_model, 2 * num_kv_heads * head_dim]`.
    pub key_value: Linear,
    /// Mixes the heads.
    pub output: Linear,
    dropout: Dropout,
    num_heads: usize,
    num_kv_heads: usize,
    #[module(skip)]
    precision: Precision,
}

impl CrossAttention {
    /// A layer with fresh weights.
    ///
    /// # Panics
    /// If [`AttentionConfig::check`] refuses the config.
    pub fn new(config: &AttentionConfig, init: &mut ParamInit) -> Self {
        config.check().expect("the sizes of cross-attention");
        let d_model = config.d_model;
        let kv_width = config.kv_width();
        Self {
            query: projection(d_model, &[d_model], config.bias, init),
            key_value: projection(d_model, &[kv_width, kv_width], config.bias, init),
            output: projection(d_model, &[d_model], config.bias, init),
            dropout: Dropout::new(config.dropout),
            num_heads: config.num_heads,
            num_kv_heads: config.num_kv_heads,
            precision: init.precision(),
        }
    }

    /// Computes keys and values of the encoder's output, the same for every target position.
    ///
    /// # Shapes
    /// - `memory`: `[batch, src_len, d_model]`
    pub fn key_value(&self, memory: Tensor<3>) -> KeyValue {
        let key_value = self.key_value.forward(memory);
        if self.has_kernel() {
            let d_model = key_value.dims()[2] / 2;
            let cache = KeyValueCache::empty(&key_value, d_model, self.num_heads);
            if let Some(mut cache) = cache {
                cache.append(&key_value);
                return KeyValue::Slots(cache);
            }
        }
        let [key, value] = split_heads(&key_value, [self.num_kv_heads; 2]);
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
        if watch.is_none() && self.has_kernel() {
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
        let [query] = split_heads(&widened(query), [self.num_heads]);
        let [key, value] = split_heads(&widened(key_value), [self.num_kv_heads; 2]);
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
                let [query] = split_heads(&query, [self.num_heads]);
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

    /// Whether fused kernels, whose heads do not share keys, know this attention.
    fn has_kernel(&self) -> bool {
        self.num_heads == self.num_kv_heads
    }
}
