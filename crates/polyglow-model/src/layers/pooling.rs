//! Pooling: one state from the states of all positions, without padding.

use burn::module::Module;
use burn::tensor::{Bool, Tensor, s};

use crate::config::Pooling;
use crate::parameter::init::ParamInit;
use crate::position::LearnedPositions;

/// Initial standard deviation of the class vector.
const STD: f64 = 0.02;

/// Pools the states of all positions into one.
#[derive(Module, Debug)]
pub struct Pool {
    /// The trained class vector before all positions, a table of one row; `None` with mean pooling.
    pub class_embedding: Option<LearnedPositions>,
}

impl Pool {
    /// The configured kind of pooling.
    pub fn new(pooling: Pooling, d_model: usize, init: &mut ParamInit) -> Self {
        let class = pooling == Pooling::Class;
        Self {
            class_embedding: class.then(|| LearnedPositions::new(1, d_model, STD, init)),
        }
    }

    /// Number of positions that [`Self::prepend`] adds before the input.
    pub fn num_before(&self) -> usize {
        usize::from(self.class_embedding.is_some())
    }

    /// Puts the class vector, if there is one, before the others.
    ///
    /// # Shapes
    /// - `input`: `[batch, len, d_model]`; output: `[batch, num_before + len, d_model]`
    pub fn prepend(&self, input: Tensor<3>) -> Tensor<3> {
        let Some(class) = &self.class_embedding else {
            return input;
        };
        let [batch, _, d_model] = input.dims();
        let class: Tensor<3> = class.weight.val().unsqueeze();
        Tensor::cat(vec![class.expand([batch, 1, d_model]), input], 1)
    }

    /// Removes the state of the class vector, if there is one.
    ///
    /// # Shapes
    /// - `states`: `[batch, num_before + len, d_model]`; output: `[batch, len, d_model]`
    pub fn without_class(&self, states: Tensor<3>) -> Tensor<3> {
        states.slice(s![.., self.num_before()..])
    }

    /// Returns the state of the class vector, or the mean over positions that are not padding.
    ///
    /// # Shapes
    /// - `states`: `[batch, num_before + len, d_model]`; output: `[batch, d_model]`
    /// - `pad_mask`: `[batch, 1, 1, len]`, `true` on padding; `None` if all positions count
    pub fn forward(&self, states: Tensor<3>, pad_mask: Option<Tensor<4, Bool>>) -> Tensor<2> {
        if self.class_embedding.is_some() {
            return states.slice(s![.., 0..1]).squeeze_dim(1);
        }
        let Some(pad_mask) = pad_mask else {
            return states.mean_dim(1).squeeze_dim(1);
        };
        let [batch, len, _] = states.dims();
        let real = pad_mask.bool_not().float().reshape([batch, len]);
        let weights = real.clone() / real.sum_dim(1);
        (states * weights.unsqueeze_dim(2))
            .sum_dim(1)
            .squeeze_dim(1)
    }
}
