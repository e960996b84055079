//! Token embeddings: rows of a table, `output[b, t] = scale * weight[ids[b, t]]`, and their
//! gradients added up by rows of the table.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::{Int, Tensor, module};

/// Returns `scale * weight[id]` for every id.
///
/// The gradient of a row of the table is `scale` times the sum of the gradients at all positions
/// that have its id.
///
/// # Shapes
/// - `weight`: `[vocab_size, d_model]`; `ids`: `[batch, len]`; output: `[batch, len, d_model]`
///
/// # Panics
/// On flex, an id is not below `vocab_size`.
pub fn embedding(weight: Tensor<2>, ids: Tensor<2, Int>, scale: f64) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if crate::flex::mode(&weight).is_some() {
        return flex::embedding(weight, ids, scale as f32);
    }
    module::embedding(weight, ids) * scale
}
