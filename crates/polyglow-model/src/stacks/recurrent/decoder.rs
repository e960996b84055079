//! Writes the target position by position, with attention and input feeding (Luong et al., 2015, sections 3 and 3.3).

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use polyglow_kernels::tanh;

use super::attention::{Source, SourceAttention};
use super::{Cell, Direction, Recurrent, State, unstack};
use crate::config::RnnShape;
use crate::dropout::Dropout;
use crate::linear::Linear;
use crate::parameter::init::ParamInit;

/// A stack of layers, what they look at, and what comes out.
#[derive(Module, Debug)]
pub struct RecurrentDecoder {
    /// From the encoder's last state to the first states of all layers, `[d_model, layers * d_model]`, twice as wide
    /// with LSTMs.
    pub bridge: Linear,
    /// From the lowest upwards.
    pub layers: Vec<Recurrent>,
    /// Projects the previous output for the lowest layer, if input feeding is on.
    pub feed: Option<Linear>,
    /// Attention to the source; `None` if the encoder's last state is all that the decoder sees.
    pub attention: Option<SourceAttention>,
    /// Mixes the highest state with the context from attention, `[2 * d_model, d_model]`.
    pub combine: Option<Linear>,
    dropout: Dropout,
    #[module(skip)]
    cell: Cell,
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
    /// Keeps these rows, in this order.
    pub fn select(&mut self, rows: &Tensor<1, Int>) {
        self.states.iter_mut().for_each(|state| *state = state.select(rows));
        self.fed = self.fed.as_ref().map(|fed| fed.clone().select(0, rows.clone()));
    }
}

impl RecurrentDecoder {
    /// The configured number of layers.
    pub fn new(shape: &RnnShape, init: &mut ParamInit) -> Self {
        let RnnShape { d_model, cell, num_decoder_layers, .. } = *shape;
        let states = cell.kernel().states();
        let bridge = Linear::fused(d_model, d_model, num_decoder_layers * states, init);
        let layers = (0..num_decoder_layers).map(|_| Recurrent::new(cell, d_model, d_model, init)).collect();
        let attention = SourceAttention::new(shape.attention, d_model, init);
        let feeds = attention.is_some() && shape.input_feeding;
        let feed = feeds.then(|| {
            let mut feed = Linear::fused(d_model, d_model, cell.gates(), init);
            feed.bias = None;
            feed
        });
        let combine = attention.is_some().then(|| Linear::new(2 * d_model, d_model, init));
        Self { bridge, layers, feed, attention, combine, dropout: Dropout::new(shape.dropout), cell }
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
        let state = |layer: usize| match self.cell {
            Cell::Tanh | Cell::Gru => State { numbers: part(layer), width: d_model },
            Cell::Lstm => State { numbers: Tensor::cat(vec![part(layer), part(count + layer)], 1), width: d_model },
        };
        let fed = self.feed.is_some().then(|| summary.zeros_like());
        Progress { states: (0..count).map(state).collect(), fed }
    }

    /// All positions; shows the attention weights, `[batch, tgt_len, src_len]`, to `watch`.
    ///
    /// # Shapes
    /// - `input`: `[batch, tgt_len, d_model]`, embedded; `summary`: `[batch, d_model]`; output: as `input`
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
            for projected in unstack(self.layers[0].input.forward(input)) {
                let mut keep = |weights| maps.push(weights);
                let keep: Watch<'_> = if watch.is_some() { Some(&mut keep) } else { None };
                outputs.push(self.step(projected, &mut progress, source, keep));
            }
            if let Some(watch) = watch {
                watch(Tensor::cat(maps, 1));
            }
            Tensor::stack(outputs, 1)
        } else {
            let hidden =
                self.layers.iter().zip(progress.states).enumerate().fold(input, |input, (number, (layer, state))| {
                    let input = if number > 0 { self.dropout.forward(input) } else { input };
                    layer.run(input, None, Some(state), Direction::Forward)
                });
            self.look(hidden, source, watch)
        };
        self.dropout.forward(output)
    }

    /// One more position.
    ///
    /// # Shapes
    /// - `input`: `[batch, d_model]`, embedded; output: as `input`
    pub fn advance(&self, input: Tensor<2>, progress: &mut Progress, source: Option<&Source>) -> Tensor<2> {
        let projected = self.layers[0].input.rows(input);
        self.step(projected, progress, source, None)
    }

    /// # Shapes
    /// - `projected`: `[batch, gates * d_model]`; output: `[batch, d_model]`
    fn step(
        &self,
        mut projected: Tensor<2>,
        progress: &mut Progress,
        source: Option<&Source>,
        watch: Watch<'_>,
    ) -> Tensor<2> {
        if let (Some(feed), Some(fed)) = (&self.feed, &progress.fed) {
            projected = projected + feed.rows(fed.clone());
        }
        for (number, (layer, state)) in self.layers.iter().zip(&mut progress.states).enumerate() {
            *state = layer.step(projected.clone(), state);
            if let Some(above) = self.layers.get(number + 1) {
                projected = above.input.rows(self.dropout.forward(state.hidden()));
            }
        }
        let top = progress.states.last().expect("a decoder has at least one layer").hidden();
        // The rows of a sentence look at its source together, as if they were positions of one sequence.
        let [rows, d_model] = top.dims();
        let sentences = source.map_or(rows, |source| source.keys.dims()[0]);
        let states = top.reshape([sentences, rows / sentences, d_model]);
        let output = self.look(states, source, watch).reshape([rows, d_model]);
        progress.fed = progress.fed.is_some().then(|| output.clone());
        output
    }

    /// `tanh(W [state; context])`, or the state itself without attention.
    ///
    /// # Shapes
    /// - `states`: `[batch, len, d_model]`; output: as `states`
    fn look(&self, states: Tensor<3>, source: Option<&Source>, watch: Watch<'_>) -> Tensor<3> {
        let (Some(attention), Some(combine), Some(source)) = (&self.attention, &self.combine, source) else {
            return states;
        };
        let (found, weights) = attention.forward(states.clone(), source);
        if let Some(watch) = watch {
            watch(weights);
        }
        tanh(combine.forward(Tensor::cat(vec![states, found], 2)))
    }
}
