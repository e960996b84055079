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

/// The source as attention sees it, the same for every target position.
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
    /// Keeps these sentences, in this order.
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
    /// The parameters that a score needs; `None` without attention.
    pub fn new(score: Score, d_model: usize, init: &mut ParamInit) -> Option<Self> {
        let (mut query, mut key, mut mixed) = (None, None, None);
        match score {
            Score::None => return None,
            Score::Dot => {}
            Score::General => key = Some(Linear::without_bias(d_model, d_model, init)),
            Score::Additive => {
                query = Some(Linear::without_bias(d_model, d_model, init));
                key = Some(Linear::new(d_model, d_model, init));
                mixed = Some(init.xavier([d_model, 1], 1));
            }
        }
        Some(Self {
            query,
            key,
            score: mixed,
            precision: init.precision(),
        })
    }

    /// Prepares the encoder's output.
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

    /// The context that each state reads from the source, and the attention weights.
    ///
    /// # Shapes
    /// - `states`: `[batch, len, d_model]`; output: as `states`, and `[batch, len, src_len]`
    pub fn forward(&self, states: Tensor<3>, source: &Source) -> (Tensor<3>, Tensor<3>) {
        let weights = match (&self.query, &self.score) {
            (Some(query), Some(score)) => {
                self.additive(&query.forward(states), &score.val(), source)
            }
            _ => masked_softmax(
                self.precision
                    .product(states, source.keys.clone().swap_dims(1, 2)),
                source,
            ),
        };
        (
            self.precision
                .product(weights.clone(), source.values.clone()),
            weights,
        )
    }

    fn additive(&self, queries: &Tensor<3>, score: &Tensor<2>, source: &Source) -> Tensor<3> {
        if let Some(weights) = additive_weights(queries, &source.keys, score, &source.pad_mask) {
            return weights;
        }
        let pairs: Tensor<4> =
            queries.clone().unsqueeze_dim(2) + source.keys.clone().unsqueeze_dim(1);
        let [batch, len, src_len, d_model] = pairs.dims();
        let mixed = tanh(pairs).reshape([batch * len * src_len, d_model]);
        masked_softmax(
            self.precision
                .product(mixed, score.clone())
                .reshape([batch, len, src_len]),
            source,
        )
    }
}

/// # Shapes
/// - `scores`: `[batch, len, src_len]`; output: as `scores`
fn masked_softmax(scores: Tensor<3>, source: &Source) -> Tensor<3> {
    let mask = source.pad_mask.clone().expand(scores.dims());
    softmax(scores.mask_fill(mask, FORBIDDEN), 2)
}
