//! Keys and values that attention layers keep between positions.

use burn::tensor::{Int, Tensor};
use polyglow_kernels::KeyValueCache;

/// The keys and values of one attention layer.
#[derive(Clone, Debug)]
pub enum KeyValue {
    /// By head, `[rows, num_heads, len, head_dim]` each: for products of matrices.
    Heads {
        /// The keys.
        key: Tensor<4>,
        /// The values.
        value: Tensor<4>,
    },
    /// Side by side, as they come out of the projection: for the kernel of polyglow-kernels.
    SideBySide(KeyValueCache),
}

impl KeyValue {
    /// How many sequences they are of.
    pub(crate) fn batch(&self) -> usize {
        match self {
            Self::Heads { key, .. } => key.dims()[0],
            Self::SideBySide(cache) => cache.rows(),
        }
    }

    /// Keeps the given rows, which `indices` are as well.
    pub(crate) fn select(&mut self, rows: &[usize], indices: &Tensor<1, Int>) {
        match self {
            Self::Heads { key, value } => {
                *key = key.clone().select(0, indices.clone());
                *value = value.clone().select(0, indices.clone());
            }
            Self::SideBySide(cache) => cache.select(rows),
        }
    }
}
