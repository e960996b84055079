//! The last step of every model: from hidden states to scores, or straight to the loss.

use burn::tensor::{Int, Tensor};
use polyglow_kernels::{
    Factors, Layout, LossOutput, Targets, cross_entropy, projected_cross_entropy, rows_per_chunk,
};

use crate::embedding::Embedding;
use crate::linear::Linear;

/// The projection from hidden states to scores of tokens.
#[derive(Clone, Copy, Debug)]
pub enum Projection<'a> {
    /// A projection of its own.
    Own(&'a Linear),
    /// The transposed matrix of the target's embedding.
    Tied(&'a Embedding),
}

/// What a model predicts: scores, or what they are computed from.
///
/// Training wants only the loss, and search only the scores; [`Self::loss`] does not hold all
/// scores if it can avoid it.
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

    /// The prediction from hidden states.
    ///
    /// # Shapes
    /// - `hidden`: `[rows, d_model]`
    pub fn of(self, hidden: Tensor<2>) -> Prediction<'a> {
        Prediction::Hidden(hidden, self)
    }

    /// The matrix, its layout, and what a kernel rounds factors to, if the projection is nothing
    /// but the product with the matrix.
    fn matrix(self, hidden: &Tensor<2>) -> Option<(Tensor<2>, Layout, Factors)> {
        match self {
            Self::Own(linear) => linear
                .matrix(hidden)
                .map(|(matrix, factors)| (matrix, Layout::InOut, factors)),
            Self::Tied(embedding) => embedding
                .matrix(hidden)
                .map(|(matrix, factors)| (matrix, Layout::OutIn, factors)),
        }
    }
}

impl Prediction<'_> {
    /// Scores of every token.
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

    /// [`cross_entropy`] of the scores. If there is a kernel, they are never all in memory at once.
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

    /// As [`Self::loss`], where every target counts: there is no padding.
    ///
    /// # Shapes
    /// - `targets`: `[rows]`
    pub fn loss_of_all(self, targets: Tensor<1, Int>, label_smoothing: f64) -> LossOutput {
        // No id is as large.
        self.loss(targets, label_smoothing, u32::MAX)
    }
}

/// Values that the loss over `rows` positions keeps for the backward pass, or holds while it
/// computes that pass.
pub(crate) fn loss_numbers(rows: u64, vocab_size: usize, kernels: bool) -> u64 {
    let rows = rows.min(rows_per_chunk(vocab_size, kernels) as u64);
    if kernels {
        rows * vocab_size as u64
    } else {
        3 * rows * vocab_size as u64
    }
}
