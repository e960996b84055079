//! Attention of a recurrent decoder to the source: additive (Bahdanau et al., 2015) and
//! multiplicative (Luong et al., 2015) attention.

use burn::module::{Module, Param};
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Int, Tensor};
use polyglow_kernels::{FORBIDDEN, additive_weights, tanh};

pub use crate::config::recurrent::Score;
use crate::linear::Linear;
use crate::parameter::init::ParamInit;
use crate::precision::Precision;

/// Attention from states to source positions, with one head.
#[derive(Module, Debug)]
pub struct SourceAttention {
    /// `W`, of additive attention.
    pub query: Option<Linear>,
    /// `U` and `b` of additive attention; `W` of Luong's general score.
    pub key: Option<Linear>,
    /// `v` of additive attention, `[d_model, 1]`.
    pub score: Option<Param<Tensor<2>>>,
    #[module(skip)]
    precision: Precision,
}

/// Keys and values of the source for attention, the same for every target position.
#[derive(Clone, Debug)]
pub struct Source {
    /// The keys that states are compared with, `[batch, src_len, d_model]`.
    pub keys: Tensor<3>,
    /// The values that are averaged, `[batch, src_len, d_model]`.
    pub values: Tensor<3>,
    /// `[batch, 1, src_len]`, `true` on padding.
    pub pad_mask: Tensor<3, Bool>,
}

impl Source {
    /// Returns the source of these sentences, in this order.
    #[must_use]
    pub fn select(&self, sentences: &Tensor<1, Int>) -> Self {
        Self {
            keys: self.keys.clone().select(0, sentences.clone()),
            values: self.values.clone().select(0, sentences.clone()),
            pad_mask: self.pad_mask.clone().select(0, sentences.clone()),
        }
    }
}

impl SourceAttention {
    /// Attention with the parameters that the score needs; `None` without attention.
    pub fn new(score: Score, d_model: usize, init: &mut ParamInit) -> Option<Self> {
        let mut attention = Self {
            query: None,
            key: None,
            score: None,
            precision: init.precision(),
        };
        match score {
            Score::None => return None,
            Score::Dot => {}
            Score::General => attention.key = Some(Linear::without_bias(d_model, d_model, init)),
            Score::Additive => {
                attention.query = Some(Linear::without_bias(d_model, d_model, init));
                attention.key = Some(Linear::new(d_model, d_model, init));
                attention.score = Some(init.xavier([d_model, 1], 1));
            }
        }
        Some(attention)
    }

    /// Computes keys and values of the encoder's output.
    ///
    /// # Shapes
    /// - `memory`: `[batch, src_len, d_model]`; `pad_mask`: `[batch, 1, 1, src_len]`
    pub fn read(&self, memory: &Tensor<3>, pad_mask: &Tensor<4, Bool>) -> Source {
        let keys = match &self.key {
            Some(key) => key.forward(memory.clone()),
            None => memory.clone(),
        };
        Source {
            keys,
            values: memory.clone(),
            pad_mask: pad_mask.clone().squeeze_dim(1),
        }
    }

    /// Attends from each state to the source: returns the context and the attention weights.
    ///
    /// # Shapes
    /// - `states`: `[batch, len, d_model]`; output: as `states`, and `[batch, len, src_len]`
    pub fn forward(&self, states: Tensor<3>, source: &Source) -> (Tensor<3>, Tensor<3>) {
        let weights = if let (Some(query), Some(score)) = (&self.query, &self.score) {
            self.additive(&query.forward(states), &score.val(), source)
        } else {
            let keys = source.keys.clone().swap_dims(1, 2);
            masked_softmax(self.precision.product(states, keys), source)
        };
        let values = source.values.clone();
        let context = self.precision.product(weights.clone(), values);
        (context, weights)
    }

    /// The weights of additive attention.
    ///
    /// # Shapes
    /// - `queries`: `[batch, len, d_model]`; `score`: `[d_model, 1]`; output:
    ///   `[batch, len, src_len]`
    fn additive(&self, queries: &Tensor<3>, score: &Tensor<2>, source: &Source) -> Tensor<3> {
        if let Some(weights) = additive_weights(queries, &source.keys, score, &source.pad_mask) {
            return weights;
        }
        // Every query with every key: [batch, len, 1, d_model] + [batch, 1, src_len, d_model].
        let pairs: Tensor<4> =
            queries.clone().unsqueeze_dim(2) + source.keys.clone().unsqueeze_dim(1);
        let [batch, len, src_len, d_model] = pairs.dims();
        let mixed = tanh(pairs).reshape([batch * len * src_len, d_model]);
        let scores = self.precision.product(mixed, score.clone());
        masked_softmax(scores.reshape([batch, len, src_len]), source)
    }
}

/// The softmax over source positions that are not padding.
///
/// # Shapes
/// - `scores`: `[batch, len, src_len]`; output: as `scores`
fn masked_softmax(scores: Tensor<3>, source: &Source) -> Tensor<3> {
    let mask = source.pad_mask.clone().expand(scores.dims());
    softmax(scores.mask_fill(mask, FORBIDDEN), 2)
}
