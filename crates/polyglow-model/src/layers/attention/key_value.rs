//! Keys and values that attention layers keep between positions.

use burn::tensor::{Int, Tensor};
use polyglow_kernels::KeyValueCache;

/// The keys and values of one attention layer, for all rows of a search.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "an attention layer has one")]
pub enum KeyValue {
    /// Tensors by head, `[rows, num_kv_heads, len, head_dim]` each, for products of matrices.
    Heads {
        /// The keys.
        key: Tensor<4>,
        /// The values.
        value: Tensor<4>,
    },
    /// Slots in host memory for the kernel of polyglow-kernels; a row that is kept is not copied
    /// when others are dropped.
    Slots(KeyValueCache),
}

impl KeyValue {
    /// Number of sequences.
    pub(crate) fn batch(&self) -> usize {
        match self {
            Self::Heads { key, .. } => key.dims()[0],
            Self::Slots(cache) => cache.rows(),
        }
    }

    /// Keeps the given rows, in the given order; a row may be named several times or not at all.
    /// `indices` are the same rows on the device, from [`indices`](crate::cache::indices), which
    /// all layers share.
    ///
    /// # Panics
    /// If a row does not exist.
    pub fn select(&mut self, rows: &[usize], indices: &Tensor<1, Int>) {
        match self {
            Self::Heads { key, value } => {
                *key = key.clone().select(0, indices.clone());
                *value = value.clone().select(0, indices.clone());
            }
            Self::Slots(cache) => cache.select(rows),
        }
    }
}
