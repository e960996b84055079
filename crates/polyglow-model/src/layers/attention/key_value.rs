//! Keys and values that attention layers keep between positions.

use burn::tensor::{Int, Tensor};

/// The keys and values of one attention layer.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there are two for each layer, and a tensor is a handle of this size")]
pub enum KeyValue {
    /// By head, `[rows, num_heads, len, head_dim]` each: for products of matrices.
    Heads {
        /// The keys.
        key: Tensor<4>,
        /// The values.
        value: Tensor<4>,
    },
    /// Side by side, `[rows, len, 2 * d_model]`: as they come out of the projection, for the kernel of
    /// polyglow-kernels.
    SideBySide(Tensor<3>),
}

impl KeyValue {
    /// Appends the newest positions, which have the same form.
    ///
    /// # Panics
    /// If the forms differ; a layer keeps one form.
    #[must_use]
    pub fn append(self, newest: Self) -> Self {
        match (self, newest) {
            (Self::Heads { key, value }, Self::Heads { key: new_key, value: new_value }) => {
                Self::Heads { key: Tensor::cat(vec![key, new_key], 2), value: Tensor::cat(vec![value, new_value], 2) }
            }
            (Self::SideBySide(past), Self::SideBySide(newest)) => Self::SideBySide(Tensor::cat(vec![past, newest], 1)),
            _ => panic!("a layer's cache keeps one form"),
        }
    }

    /// How many sequences they are of.
    pub(crate) fn batch(&self) -> usize {
        match self {
            Self::Heads { key, .. } => key.dims()[0],
            Self::SideBySide(both) => both.dims()[0],
        }
    }

    pub(crate) fn select(&mut self, rows: &Tensor<1, Int>) {
        match self {
            Self::Heads { key, value } => {
                *key = key.clone().select(0, rows.clone());
                *value = value.clone().select(0, rows.clone());
            }
            Self::SideBySide(both) => *both = both.clone().select(0, rows.clone()),
        }
    }
}
