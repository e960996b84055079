//! The last step of every model: from hidden states to scores, or directly to the loss.

use burn::tensor::{Int, Tensor};
use polyglow_kernels::{
    Factors, Layout, LossOutput, Targets, cross_entropy, projected_cross_entropy, rows_per_chunk,
};

use crate::embedding::Embedding;
use crate::linear::Linear;

/// The projection from hidden states to scores of tokens.
#[derive(Clone, Copy, Debug)]
pub enum Projection<'a> {
    /// A matrix of its own.
    Own(&'a Linear),
    /// The transposed matrix of the target's embedding.
    Tied(&'a Embedding),
}

/// The prediction of a model: scores, or the hidden states that they are computed from.
///
/// Training needs only the loss, and search only the scores; [`Self::loss`] does not hold all
/// scores in memory if there is a kernel for that.
#[derive(Clone, Debug)]
pub enum Prediction<'a> {
    /// Hidden states `[rows, d_model]`, and the projection that scores tokens by them.
    Hidden(Tensor<2>, Projection<'a>),
    /// Scores `[rows, num_classes]`.
    Scores(Tensor<2>),
}

impl<'a> Projection<'a> {
    /// The output projection of a model: `output`, or the tied `embedding` if there is none.
    pub fn new(output: Option<&'a Linear>, embedding: &'a Embedding) -> Self {
        output.map_or(Self::Tied(embedding), Self::Own)
    }

    /// Returns the prediction from hidden states; nothing is computed yet.
    ///
    /// # Shapes
    /// - `hidden`: `[rows, d_model]`
    pub fn project(self, hidden: Tensor<2>) -> Prediction<'a> {
        Prediction::Hidden(hidden, self)
    }

    /// The matrix, its layout, and the format that a kernel rounds factors to, if the projection is
    /// nothing but the product with the matrix.
    fn matrix(self, hidden: &Tensor<2>) -> Option<(Tensor<2>, Layout, Factors)> {
        let (layout, parts) = match self {
            Self::Own(linear) => (Layout::InOut, linear.matrix(hidden)),
            Self::Tied(embedding) => (Layout::OutIn, embedding.matrix(hidden)),
        };
        let (matrix, factors) = parts?;
        Some((matrix, layout, factors))
    }
}

impl Prediction<'_> {
    /// Computes the scores of every token.
    ///
    /// # Shapes
    /// - output: `[rows, vocab_size]`
    pub fn logits(self) -> Tensor<2> {
        match self {
            Self::Hidden(hidden, Projection::Own(linear)) => linear.rows(hidden),
            Self::Hidden(hidden, Projection::Tied(embedding)) => embedding.logits(hidden),
            Self::Scores(scores) => scores,
        }
    }

    /// Computes the [`cross_entropy`] of the scores. If there is a kernel, they are never all in
    /// memory at once.
    ///
    /// # Shapes
    /// - `targets`: `[rows]`
    pub fn loss(
        self,
        targets: impl Into<Targets>,
        label_smoothing: f64,
        pad_id: u32,
    ) -> LossOutput {
        let targets = targets.into();
        if let Self::Hidden(hidden, projection) = &self
            && let Some((matrix, layout, factors)) = projection.matrix(hidden)
        {
            return projected_cross_entropy(
                hidden.clone(),
                matrix,
                layout,
                targets,
                label_smoothing,
                pad_id,
                factors,
            );
        }
        cross_entropy(self.logits(), targets.all, label_smoothing, pad_id)
    }

    /// As [`Self::loss`], for targets without padding.
    ///
    /// # Shapes
    /// - `targets`: `[rows]`
    pub fn loss_without_padding(self, targets: Tensor<1, Int>, label_smoothing: f64) -> LossOutput {
        // No id is as large, so no target counts as padding.
        self.loss(targets, label_smoothing, u32::MAX)
    }
}

/// The number of elements that the loss over `rows` positions keeps for the backward pass, or holds
/// while it computes that pass.
pub(crate) fn loss_elements(rows: u64, vocab_size: usize, kernels: bool) -> u64 {
    let rows = rows.min(rows_per_chunk(vocab_size, kernels) as u64);
    if kernels {
        rows * vocab_size as u64
    } else {
        3 * rows * vocab_size as u64
    }
}
