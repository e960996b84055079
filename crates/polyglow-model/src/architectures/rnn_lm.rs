//! The recurrent language model (Mikolov et al., 2010).

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use crate::architecture::{Generate, Inspect, Predict};
use crate::cache::indices;
use crate::config::{RnnLmShape, RnnShape, TieEmbeddings};
use crate::dropout::Dropout;
use crate::embedding::Embedding;
use crate::inputs::Text;
use crate::linear::Linear;
use crate::loss::prediction::{Prediction, Projection};
use crate::parameter::init::ParamInit;
use crate::recurrent::{Direction, Recurrent, State};
use crate::side::Side;

/// Recurrent layers that read a text from its beginning.
#[derive(Module, Debug)]
pub struct RecurrentLanguageModel {
    /// Vectors of the tokens; the output projection too, unless that is untied.
    pub embedding: Embedding,
    /// The output projection, unless it is tied.
    pub output: Option<Linear>,
    /// From the lowest upwards.
    pub layers: Vec<Recurrent>,
    dropout: Dropout,
    #[module(skip)]
    shape: RnnLmShape,
}

/// One state per layer; `None` before the first position.
pub type States = Option<Vec<State>>;

impl RecurrentLanguageModel {
    /// A model with initial values of one kind. Its layers are the configured decoder layers.
    pub(crate) fn build(shape: &RnnLmShape, init: ParamInit) -> Self {
        let stack = &shape.stack;
        let init = &mut init.with_precision(stack.precision);
        let RnnShape {
            vocabulary,
            d_model,
            ..
        } = *stack;
        let untied = stack.tie_embeddings == TieEmbeddings::None;
        Self {
            embedding: Embedding::new(vocabulary.tgt_size, d_model, init),
            output: untied.then(|| Linear::without_bias(d_model, vocabulary.tgt_size, init)),
            layers: (0..stack.num_decoder_layers)
                .map(|_| stack.layer(d_model, init))
                .collect(),
            dropout: Dropout::new(stack.dropout),
            shape: shape.clone(),
        }
    }

    /// The shape it was built with.
    pub fn shape(&self) -> &RnnLmShape {
        &self.shape
    }

    fn projection(&self) -> Projection<'_> {
        Projection::new(self.output.as_ref(), &self.embedding)
    }
}

impl Predict<Text> for RecurrentLanguageModel {
    fn predict(&self, text: Text) -> Prediction<'_> {
        let states = self.states(text.ids);
        self.projection().of(states
            .last()
            .expect("a model has at least one layer")
            .clone()
            .flatten(0, 1))
    }
}

impl Generate for RecurrentLanguageModel {
    type Cache = States;

    fn start(&self, _: Tensor<2, Int>) -> States {
        None
    }

    fn advance(&self, ids: Tensor<2, Int>, states: &mut States) -> Tensor<2> {
        let mut hidden: Tensor<2> = self.embedding.forward(ids).squeeze_dim(1);
        let (rows, device) = (hidden.dims()[0], hidden.device());
        let begin = || {
            self.layers
                .iter()
                .map(|layer| layer.begin(rows, &device))
                .collect()
        };
        let states = states.get_or_insert_with(begin);
        for (layer, state) in self.layers.iter().zip(states) {
            *state = layer.step(layer.input.rows(hidden), state);
            hidden = state.hidden();
        }
        self.projection().of(hidden).logits()
    }

    fn select(states: &mut States, rows: &[usize], device: &Device) {
        let rows = indices(rows, device);
        states
            .iter_mut()
            .flatten()
            .for_each(|state| *state = state.select(&rows));
    }
}

impl Inspect for RecurrentLanguageModel {
    type Inputs = Text;

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let mut hidden = self.dropout.forward(self.embedding.forward(ids));
        let read = |layer: &Recurrent| {
            hidden =
                self.dropout
                    .forward(layer.run(hidden.clone(), None, None, Direction::Forward));
            hidden.clone()
        };
        self.layers.iter().map(read).collect()
    }

    fn embedding(&self, _: Side) -> Option<&Embedding> {
        Some(&self.embedding)
    }
}
