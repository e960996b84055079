//! Writes the target position by position, with attention and input feeding (Luong et al., 2015,
//! sections 3 and 3.3), or with attention before each step (Bahdanau et al., 2015, section 3.1 and
//! appendix A.2.2). Their output is made here of the new state, as in their equation 4, which has
//! it that a word depends on what was read for it; their appendix has the state before.

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

/// A stack of layers, what they look at, and what comes out.
#[derive(Module, Debug)]
pub struct RecurrentDecoder {
    /// From the encoder's last state to the first states of all layers,
    /// `[d_model, layers * d_model]`, twice as wide with LSTMs; a memory that is wider than the
    /// output begins empty.
    pub bridge: Linear,
    /// From the lowest upwards.
    pub layers: Vec<Recurrent>,
    /// Projects the previous output for the lowest layer, if input feeding is on; or the context,
    /// if attention is before the step.
    pub feed: Option<Linear>,
    /// Attention to the source; `None` if the encoder's last state is all that the decoder sees.
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

/// Where the decoder stands.
#[derive(Clone, Debug)]
pub struct Progress {
    /// One state per layer.
    pub states: Vec<State>,
    /// The previous output, if input feeding is on, `[batch, d_model]`.
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
        self.states
            .iter_mut()
            .for_each(|state| *state = state.select(rows));
        self.fed = self
            .fed
            .as_ref()
            .map(|fed| fed.clone().select(0, rows.clone()));
    }
}

/// The rows of a sentence look at its source together, as if they were positions of one sequence.
///
/// # Shapes
/// - `rows`: `[rows, d_model]`; output: `[sentences, rows / sentences, d_model]`
fn of_sentences(rows: Tensor<2>, source: Option<&Source>) -> Tensor<3> {
    let [count, d_model] = rows.dims();
    let sentences = source.map_or(count, |source| source.keys.dims()[0]);
    rows.reshape([sentences, count / sentences, d_model])
}

/// The larger of each two neighbors (Goodfellow et al., 2013, "Maxout networks").
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
    /// The configured number of layers.
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
        let before = shape.attend == Attend::Before;
        let feeds = attention.is_some() && (shape.input_feeding || before);
        let feed = feeds.then(|| {
            let mut feed = Linear::fused(d_model, shape.cell_size, cell.gates(), init);
            feed.bias = None;
            feed
        });
        let [inputs, outputs] = if before { [3, 2] } else { [2, 1] };
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

    /// The state before the first position.
    ///
    /// # Shapes
    /// - `summary`: `[batch, d_model]`, the encoder's last states
    pub fn start(&self, summary: &Tensor<2>) -> Progress {
        let bridged = tanh(self.bridge.rows(summary.clone()));
        let [_, d_model] = summary.dims();
        let part = |number: usize| bridged.clone().narrow(1, number * d_model, d_model);
        let count = self.layers.len();
        let state = |layer: usize| match self.layers[layer].cell {
            Cell::Lstm if self.layers[layer].projection.is_none() => State {
                numbers: Tensor::cat(vec![part(layer), part(count + layer)], 1),
                width: d_model,
            },
            _ => self.layers[layer].begin_from(part(layer)),
        };
        let fed =
            (self.feed.is_some() && self.attend == Attend::After).then(|| summary.zeros_like());
        Progress {
            states: (0..count).map(state).collect(),
            fed,
        }
    }

    /// All positions; shows the attention weights, `[batch, tgt_len, src_len]`, to `watch`.
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
        let mut progress = self.start(summary);
        let output = if self.feed.is_some() {
            let (mut outputs, mut maps) = (Vec::new(), Vec::new());
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
        } else {
            let hidden = self.layers.iter().zip(progress.states).enumerate().fold(
                input,
                |input, (number, (layer, state))| {
                    let input = if number > 0 {
                        self.dropout.forward(input)
                    } else {
                        input
                    };
                    layer.run(input, None, Some(state), Direction::Forward)
                },
            );
            self.look(hidden, source, watch)
        };
        self.dropout.forward(output)
    }

    /// One more position.
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

    /// # Shapes
    /// - `embedded`: `[batch, d_model]`; `projected`: `[batch, gates * cell_size]`, of the same;
    ///   output: `[batch, d_model]`
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
        if let (Some(feed), Some(fed)) = (&self.feed, context.as_ref().or(progress.fed.as_ref())) {
            projected = projected + feed.rows(fed.clone());
        }
        for (number, (layer, state)) in self.layers.iter().zip(&mut progress.states).enumerate() {
            *state = layer.step(projected.clone(), state);
            if let Some(above) = self.layers.get(number + 1) {
                projected = above.input.rows(self.dropout.forward(state.hidden()));
            }
        }
        let top = progress.top();
        if let (Some(combine), Some(context)) = (&self.combine, context) {
            return larger_of_pairs(combine.rows(Tensor::cat(vec![top, embedded, context], 1)));
        }
        let [rows, d_model] = top.dims();
        let output = self
            .look(of_sentences(top, source), source, watch)
            .reshape([rows, d_model]);
        progress.fed = progress.fed.is_some().then(|| output.clone());
        output
    }

    /// What each row reads from the source.
    ///
    /// # Shapes
    /// - `states`: `[rows, d_model]`; output: as `states`
    fn context(
        &self,
        states: Tensor<2>,
        source: Option<&Source>,
        watch: Watch<'_>,
    ) -> Option<Tensor<2>> {
        let (attention, source) = (self.attention.as_ref()?, source?);
        let shape = states.dims();
        let (found, weights) = attention.forward(of_sentences(states, Some(source)), source);
        if let Some(watch) = watch {
            watch(weights);
        }
        Some(found.reshape(shape))
    }

    /// `tanh(W [state; context])`, or the state itself without attention.
    ///
    /// # Shapes
    /// - `states`: `[batch, len, d_model]`; output: as `states`
    fn look(&self, states: Tensor<3>, source: Option<&Source>, watch: Watch<'_>) -> Tensor<3> {
        let (Some(attention), Some(combine), Some(source)) =
            (&self.attention, &self.combine, source)
        else {
            return states;
        };
        let (found, weights) = attention.forward(states.clone(), source);
        if let Some(watch) = watch {
            watch(weights);
        }
        tanh(combine.forward(Tensor::cat(vec![states, found], 2)))
    }
}
