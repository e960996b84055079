//! The sizes of an attention layer.

use crate::config::{WIDEST, check_dropout, check_size};
use crate::error::ModelError;

/// The sizes of a [`SelfAttention`](super::SelfAttention) or a
/// [`CrossAttention`](super::CrossAttention).
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionConfig {
    /// Width of the input and of the output.
    pub d_model: usize,
    /// Heads of queries, a divisor of `d_model`.
    pub num_heads: usize,
    /// Heads of keys and values, a divisor of `num_heads` (Ainslie et al., 2023). `num_heads` is
    /// the attention of Vaswani et al., 2017; with fewer, neighboring heads of queries share one,
    /// and the cache of a search is smaller; 1 is multi-query attention (Shazeer, 2019).
    pub num_kv_heads: usize,
    /// Whether the projections have biases.
    pub bias: bool,
    /// Dropout on attention weights, a probability.
    pub dropout: f64,
}

impl AttentionConfig {
    /// The attention of Vaswani et al., 2017: heads that share nothing, projections with biases; no
    /// dropout.
    pub fn new(d_model: usize, num_heads: usize) -> Self {
        Self {
            d_model,
            num_heads,
            num_kv_heads: num_heads,
            bias: true,
            dropout: 0.0,
        }
    }

    /// Checks that a layer can have these sizes.
    ///
    /// # Errors
    /// [`ModelError::Config`], with the name of the field as its key, for a size of zero or beyond
    /// reason, for heads that do not divide what they share, and for a dropout outside `[0, 1)`.
    pub fn check(&self) -> Result<(), ModelError> {
        check_size("d_model", self.d_model, WIDEST)?;
        check_size("num_heads", self.num_heads, self.d_model)?;
        check_size("num_kv_heads", self.num_kv_heads, self.num_heads)?;
        check_dropout("dropout", self.dropout)?;
        if !self.d_model.is_multiple_of(self.num_heads) {
            let reason = format!("must divide `d_model = {}`", self.d_model);
            return Err(ModelError::config("num_heads", self.num_heads, reason));
        }
        if !self.num_heads.is_multiple_of(self.num_kv_heads) {
            let reason = format!("must divide `num_heads = {}`", self.num_heads);
            return Err(ModelError::config(
                "num_kv_heads",
                self.num_kv_heads,
                reason,
            ));
        }
        Ok(())
    }

    /// Width of one head: `d_model / num_heads`.
    pub fn head_dim(&self) -> usize {
        self.d_model / self.num_heads
    }

    /// Width of the keys of all heads, and of the values.
    pub(super) fn kv_width(&self) -> usize {
        self.num_kv_heads * self.head_dim()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_that_do_not_divide_what_they_share_are_refused() {
        let check = |num_heads, num_kv_heads| {
            let config = AttentionConfig {
                d_model: 12,
                num_heads,
                num_kv_heads,
                bias: true,
                dropout: 0.0,
            };
            config.check().map_err(|error| error.to_string())
        };
        assert_eq!(check(6, 2), Ok(()));
        for (heads, expected) in [
            ((5, 1), "`num_heads = 5`: must divide `d_model = 12`"),
            ((6, 4), "`num_kv_heads = 4`: must divide `num_heads = 6`"),
            ((6, 0), "`num_kv_heads = 0`: must be from 1 to 6"),
            ((0, 1), "`num_heads = 0`: must be from 1 to 12"),
        ] {
            assert_eq!(check(heads.0, heads.1), Err(expected.to_owned()));
        }
    }
}
