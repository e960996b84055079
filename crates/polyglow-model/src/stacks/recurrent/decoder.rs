//! The recurrent decoder: with attention after each step and input feeding (Luong et al., 2015,
//! sections 3 and 3.3), or with attention before each step (Bahdanau et al., 2015, section 3.1 and
//! appendix A.2.2). For the latter, the output is computed from the new state, as in equation 4 of
//! that paper, by which a word depends on the context that was read for it; its appendix uses the
//! state before.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use polyglow_kernels::tanh;

use super::attention::{Source, SourceAttention};
use super::{Cell, Direction, Recurrent, State, unstack};
use crate::config::RnnShape;
use crate::config::recurrent::Attend;
use crate::dropout::Dropout;
use crate::linear::Linear;
use crate::parameter::init::ParamInit;

/// A stack of recurrent layers with attention to the source.
#[derive(Module, Debug)]
pub struct RecurrentDecoder {
    /// Projects the encoder's last state to the initial states of all layers,
    /// `[d_model, layers * d_model]`, twice as wide with LSTMs; a memory that is wider than the
    /// output is initially zero.
    pub bridge: Linear,
    /// From the lowest upwards.
    pub layers: Vec<Recurrent>,
    /// Projects the previous output for the lowest layer, with input feeding; or the context, with
    /// attention before the step.
    pub feed: Option<Linear>,
    /// Attention to the source; `None` if the decoder sees only the encoder's last state.
    pub attention: Option<SourceAttention>,
    /// Mixes the highest state with the context from attention, `[2 * d_model, d_model]`; with
    /// attention before the step, state, token and context, `[3 * d_model, 2 * d_model]`.
    pub combine: Option<Linear>,
    dropout: Dropout,
    #[module(skip)]
    attend: Attend,
}

/// A callback for attention weights, `[batch, len, src_len]`.
pub type Watch<'a> = Option<&'a mut dyn FnMut(Tensor<3>)>;

/// The decoder's state between positions.
#[derive(Clone, Debug)]
pub struct Progress {
    /// One state per layer.
    pub states: Vec<State>,
    /// The previous output, with input feeding, `[batch, d_model]`.
    pub fed: Option<Tensor<2>>,
}

impl Progress {
    /// The state of the highest layer, `[batch, d_model]`.
    fn top(&self) -> Tensor<2> {
        self.states
            .last()
            .expect("a decoder has at least one layer")
            .hidden()
    }

    /// Keeps these rows, in this order.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        for state in &mut self.states {
            *state = state.select(rows);
        }
        self.fed = self
            .fed
            .as_ref()
            .map(|fed| fed.clone().select(0, rows.clone()));
    }
}

/// Groups rows by sentence: the rows of a sentence attend to its source together, as if they were
/// positions of one sequence.
///
/// # Shapes
/// - `rows`: `[rows, d_model]`; output: `[sentences, rows / sentences, d_model]`
fn by_sentence(rows: Tensor<2>, source: Option<&Source>) -> Tensor<3> {
    let [count, d_model] = rows.dims();
    let sentences = source.map_or(count, |source| source.keys.dims()[0]);
    rows.reshape([sentences, count / sentences, d_model])
}

/// The larger one of each two neighbors (Goodfellow et al., 2013, "Maxout networks").
///
/// # Shapes
/// - `values`: `[rows, 2 * d_model]`; output: `[rows, d_model]`
fn larger_of_pairs(values: Tensor<2>) -> Tensor<2> {
    let [rows, width] = values.dims();
    values
        .reshape([rows, width / 2, 2])
        .max_dim(2)
        .squeeze_dim(2)
}

impl RecurrentDecoder {
    /// A stack of the configured number of layers.
    pub fn new(shape: &RnnShape, init: &mut ParamInit) -> Self {
        let RnnShape {
            d_model,
            cell,
            num_decoder_layers,
            ..
        } = *shape;
        let states = shape.bridged_states();
        let bridge = Linear::fused(d_model, d_model, num_decoder_layers * states, init);
        let layers = (0..num_decoder_layers)
            .map(|_| shape.layer(d_model, init))
            .collect();
        let attention = SourceAttention::new(shape.attention, d_model, init);
        let attends_before = shape.attend == Attend::Before;
        let feeds = attention.is_some() && (shape.input_feeding || attends_before);
        let feed = feeds.then(|| {
            let mut feed = Linear::fused(d_model, shape.cell_size, cell.gates(), init);
            // Its output is added to that of the lowest layer's input, which has the bias.
            feed.bias = None;
            feed
        });
        // In vectors of `d_model`: state and context to an output; or state, token and context to
        // twice the output, of which the larger of each two elements is taken.
        let [inputs, outputs] = if attends_before { [3, 2] } else { [2, 1] };
        let combine = attention
            .is_some()
            .then(|| Linear::new(inputs * d_model, outputs * d_model, init));
        Self {
            bridge,
            layers,
            feed,
            attention,
            combine,
            dropout: Dropout::new(shape.dropout),
            attend: shape.attend,
        }
    }

    /// Computes the state before the first position.
    ///
    /// # Shapes
    /// - `summary`: `[batch, d_model]`, the last state of the encoder
    pub fn start(&self, summary: &Tensor<2>) -> Progress {
        let bridged = tanh(self.bridge.rows(summary.clone()));
        let [_, d_model] = summary.dims();
        let num_layers = self.layers.len();
        let mut states = Vec::with_capacity(num_layers);
        for (index, layer) in self.layers.iter().enumerate() {
            let hidden = bridged.clone().narrow(1, index * d_model, d_model);
            let bridges_memory = layer.cell == Cell::Lstm && layer.projection.is_none();
            states.push(if bridges_memory {
                // The bridge has the outputs of all layers first, then their memories.
                let memory = bridged
                    .clone()
                    .narrow(1, (num_layers + index) * d_model, d_model);
                State {
                    values: Tensor::cat(vec![hidden, memory], 1),
                    width: d_model,
                }
            } else {
                layer.initial_state_from(hidden)
            });
        }
        let has_input_feeding = self.feed.is_some() && self.attend == Attend::After;
        Progress {
            states,
            fed: has_input_feeding.then(|| summary.zeros_like()),
        }
    }

    /// Runs over all target positions, and calls `watch` with the attention weights,
    /// `[batch, tgt_len, src_len]`.
    ///
    /// # Shapes
    /// - `input`: `[batch, tgt_len, d_model]`, embedded; `summary`: `[batch, d_model]`; output: as
    ///   `input`
    pub fn forward(
        &self,
        input: Tensor<3>,
        summary: &Tensor<2>,
        source: Option<&Source>,
        watch: Watch<'_>,
    ) -> Tensor<3> {
        let progress = self.start(summary);
        let output = if self.feed.is_some() {
            self.forward_by_steps(input, progress, source, watch)
        } else {
            self.forward_by_layers(input, progress, source, watch)
        };
        self.dropout.forward(output)
    }

    /// As [`Self::forward`], position by position: each step reads the result of the one before.
    fn forward_by_steps(
        &self,
        input: Tensor<3>,
        mut progress: Progress,
        source: Option<&Source>,
        watch: Watch<'_>,
    ) -> Tensor<3> {
        let mut outputs = Vec::new();
        let mut maps = Vec::new();
        let projected = unstack(self.layers[0].input.forward(input.clone()));
        for (embedded, projected) in unstack(input).into_iter().zip(projected) {
            let mut keep = |weights| maps.push(weights);
            let keep: Watch<'_> = if watch.is_some() {
                Some(&mut keep)
            } else {
                None
            };
            outputs.push(self.step(embedded, projected, &mut progress, source, keep));
        }
        if let Some(watch) = watch {
            watch(Tensor::cat(maps, 1));
        }
        Tensor::stack(outputs, 1)
    }

    /// As [`Self::forward`], layer by layer, which kernels compute in one operation each.
    fn forward_by_layers(
        &self,
        input: Tensor<3>,
        progress: Progress,
        source: Option<&Source>,
        watch: Watch<'_>,
    ) -> Tensor<3> {
        let mut hidden = input;
        for (index, (layer, state)) in self.layers.iter().zip(progress.states).enumerate() {
            // Embeddings have had their dropout before.
            if index > 0 {
                hidden = self.dropout.forward(hidden);
            }
            hidden = layer.run(hidden, None, Some(state), Direction::Forward);
        }
        self.attend_after(hidden, source, watch)
    }

    /// Runs on one more target position.
    ///
    /// # Shapes
    /// - `input`: `[batch, d_model]`, embedded; output: as `input`
    pub fn advance(
        &self,
        input: Tensor<2>,
        progress: &mut Progress,
        source: Option<&Source>,
    ) -> Tensor<2> {
        let projected = self.layers[0].input.rows(input.clone());
        self.step(input, projected, progress, source, None)
    }

    /// Runs on one more position: `projected` is the output of the lowest layer's input for
    /// `embedded`.
    ///
    /// # Shapes
    /// - `embedded`: `[batch, d_model]`; `projected`: `[batch, gates * cell_size]`; output:
    ///   `[batch, d_model]`
    fn step(
        &self,
        embedded: Tensor<2>,
        mut projected: Tensor<2>,
        progress: &mut Progress,
        source: Option<&Source>,
        mut watch: Watch<'_>,
    ) -> Tensor<2> {
        let context = match self.attend {
            Attend::Before => self.context(progress.top(), source, watch.take()),
            Attend::After => None,
        };
        // The context, with attention before the step; or the previous output, with input feeding.
        let fed = context.as_ref().or(progress.fed.as_ref());
        if let (Some(feed), Some(fed)) = (&self.feed, fed) {
            projected = projected + feed.rows(fed.clone());
        }
        for (index, (layer, state)) in self.layers.iter().zip(&mut progress.states).enumerate() {
            *state = layer.step(projected.clone(), state);
            if let Some(above) = self.layers.get(index + 1) {
                projected = above.input.rows(self.dropout.forward(state.hidden()));
            }
        }
        let top = progress.top();
        if let (Some(combine), Some(context)) = (&self.combine, context) {
            // The output after attention before the step: a maxout of state, token and context.
            return larger_of_pairs(combine.rows(Tensor::cat(vec![top, embedded, context], 1)));
        }
        let [rows, d_model] = top.dims();
        let output = self
            .attend_after(by_sentence(top, source), source, watch)
            .reshape([rows, d_model]);
        progress.fed = progress.fed.is_some().then(|| output.clone());
        output
    }

    /// The context that each row reads from the source before its step; `None` without attention.
    ///
    /// # Shapes
    /// - `states`: `[rows, d_model]`; output: as `states`
    fn context(
        &self,
        states: Tensor<2>,
        source: Option<&Source>,
        watch: Watch<'_>,
    ) -> Option<Tensor<2>> {
        let attention = self.attention.as_ref()?;
        let source = source?;
        let shape = states.dims();
        let (context, weights) = attention.forward(by_sentence(states, Some(source)), source);
        if let Some(watch) = watch {
            watch(weights);
        }
        Some(context.reshape(shape))
    }

    /// The output after a step: `tanh(W [state; context])`, or the state itself without attention.
    ///
    /// # Shapes
    /// - `states`: `[batch, len, d_model]`; output: as `states`
    fn attend_after(
        &self,
        states: Tensor<3>,
        source: Option<&Source>,
        watch: Watch<'_>,
    ) -> Tensor<3> {
        let (Some(attention), Some(combine), Some(source)) =
            (&self.attention, &self.combine, source)
        else {
            return states;
        };
        let (context, weights) = attention.forward(states.clone(), source);
        if let Some(watch) = watch {
            watch(weights);
        }
        tanh(combine.forward(Tensor::cat(vec![states, context], 2)))
    }
}
