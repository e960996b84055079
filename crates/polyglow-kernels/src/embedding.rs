//! Vectors of tokens: rows of a table, and their gradients added back to it.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::{Int, Tensor, module};

/// `scale * weight[id]` for every id.
///
/// The gradient of a row of the table is `scale` times the sum of the gradients at all positions of
/// its id.
///
/// # Shapes
/// - `weight`: `[vocab_size, d_model]`; `ids`: `[batch, len]`; output: `[batch, len, d_model]`
///
/// # Panics
/// On flex, an id is not in the table.
pub fn embedding(weight: Tensor<2>, ids: Tensor<2, Int>, scale: f64) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if crate::flex::mode(&weight).is_some() {
        return flex::embedding(weight, ids, scale as f32);
    }
    module::embedding(weight, ids) * scale
}
