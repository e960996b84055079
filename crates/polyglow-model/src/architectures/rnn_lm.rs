//! The recurrent language model (Mikolov et al., 2010).

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use crate::architecture::{Generate, Inspect, Predict};
use crate::cache::indices;
use crate::config::{RnnLmShape, RnnShape, TieEmbeddings};
use crate::dropout::Dropout;
use crate::embedding::Embedding;
use crate::inputs::{Source, Text};
use crate::linear::Linear;
use crate::loss::prediction::{Prediction, Projection};
use crate::parameter::init::ParamInit;
use crate::recurrent::{Direction, Recurrent, State};
use crate::side::Side;

/// A language model of recurrent layers.
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
    /// A model with the given kind of initial values. Its layers are the configured decoder layers.
    pub(crate) fn build(shape: &RnnLmShape, init: ParamInit) -> Self {
        let stack = &shape.stack;
        let init = &mut init.with_precision(stack.precision);
        let RnnShape {
            vocabulary,
            d_model,
            ..
        } = *stack;
        let has_output = stack.tie_embeddings == TieEmbeddings::None;
        Self {
            embedding: Embedding::new(vocabulary.tgt_size, d_model, init),
            output: has_output.then(|| Linear::without_bias(d_model, vocabulary.tgt_size, init)),
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

    /// The states before the first position of as many rows as `hidden` has.
    fn initial_states(&self, hidden: &Tensor<2>) -> Vec<State> {
        let [rows, _] = hidden.dims();
        let device = hidden.device();
        self.layers
            .iter()
            .map(|layer| layer.initial_state(rows, &device))
            .collect()
    }

    fn projection(&self) -> Projection<'_> {
        Projection::new(self.output.as_ref(), &self.embedding)
    }
}

impl Predict<Text> for RecurrentLanguageModel {
    fn predict(&self, text: Text) -> Prediction<'_> {
        let states = self.states(text.ids);
        let highest = states.last().expect("a model has at least one layer");
        self.projection().project(highest.clone().flatten(0, 1))
    }
}

impl Generate for RecurrentLanguageModel {
    type Cache = States;

    fn start(&self, _: Source) -> States {
        None
    }

    fn advance(&self, ids: Tensor<2, Int>, states: &mut States) -> Tensor<2> {
        let mut hidden: Tensor<2> = self.embedding.forward(ids).squeeze_dim(1);
        let states = states.get_or_insert_with(|| self.initial_states(&hidden));
        for (layer, state) in self.layers.iter().zip(states) {
            *state = layer.step(layer.input.rows(hidden), state);
            hidden = state.hidden();
        }
        self.projection().project(hidden).logits()
    }

    fn select(states: &mut States, rows: &[usize], device: &Device) {
        let rows = indices(rows, device);
        for state in states.iter_mut().flatten() {
            *state = state.select(&rows);
        }
    }
}

impl Inspect for RecurrentLanguageModel {
    type Inputs = Text;

    fn states(&self, ids: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let mut hidden = self.dropout.forward(self.embedding.forward(ids));
        let mut states = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            // Padding stands behind the text, so it changes no state that has a target.
            let output = layer.run(hidden, None, None, Direction::Forward);
            hidden = self.dropout.forward(output);
            states.push(hidden.clone());
        }
        states
    }

    fn embedding(&self, _: Side) -> Option<&Embedding> {
        Some(&self.embedding)
    }
}
