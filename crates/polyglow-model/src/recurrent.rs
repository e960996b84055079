//! Recurrent layers: a state that reads a sequence position by position (GRU: Cho et al., 2014; LSTM: Hochreiter and
//! Schmidhuber, 1997).

pub mod attention;
pub mod decoder;
pub mod encoder;

use burn::module::Module;
use burn::tensor::activation::{sigmoid, tanh};
use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};

use crate::init::ParamInit;
use crate::linear::Linear;

/// What a recurrent layer is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// Gated recurrent unit (Cho et al., 2014), in the form of cuDNN and PyTorch.
    #[default]
    Gru,
    /// Long short-term memory (Hochreiter and Schmidhuber, 1997), with a forget gate.
    Lstm,
}

impl Cell {
    /// How many blocks of the state's width a projection has.
    pub(crate) fn gates(self) -> usize {
        match self {
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }
}

/// What a layer knows after some positions.
#[derive(Clone, Debug)]
pub struct State {
    /// `[batch, width]`; also the layer's output.
    pub hidden: Tensor<2>,
    /// `[batch, width]`, of an LSTM.
    pub memory: Option<Tensor<2>>,
}

impl State {
    /// All numbers 0, with the rows and the device of `like`, `[batch, any]`.
    fn zeros(cell: Cell, width: usize, like: &Tensor<2>) -> Self {
        let zeros = || Tensor::zeros([like.dims()[0], width], &like.device());
        Self { hidden: zeros(), memory: (cell == Cell::Lstm).then(zeros) }
    }

    /// Keeps these rows, in this order.
    #[must_use]
    pub fn select(&self, rows: &Tensor<1, Int>) -> Self {
        let select = |tensor: &Tensor<2>| tensor.clone().select(0, rows.clone());
        Self { hidden: select(&self.hidden), memory: self.memory.as_ref().map(select) }
    }

    /// This state where `real` is 1, and `old` where it is 0.
    ///
    /// # Shapes
    /// - `real`: `[batch, 1]`
    fn where_real(self, real: &Tensor<2>, old: &Self) -> Self {
        let mix = |new: Tensor<2>, old: &Tensor<2>| old.clone() + (new - old.clone()) * real.clone();
        let memory = self.memory.zip(old.memory.as_ref()).map(|(new, old)| mix(new, old));
        Self { hidden: mix(self.hidden, &old.hidden), memory }
    }
}

/// One direction of one layer.
///
/// With `x` the input and `h` the state before, an LSTM computes `i, f, g, o = x W + h U + b` and
/// `c' = σ(f) c + σ(i) tanh(g)`, `h' = σ(o) tanh(c')`; a GRU `r = σ(x W_r + h U_r + b_r)`, `z = σ(x W_z + h U_z + b_z)`,
/// `n = tanh(x W_n + b_n + r (h U_n + d_n))` and `h' = (1 - z) n + z h`. Gates stand side by side in PyTorch's order.
#[derive(Module, Debug)]
pub struct Recurrent {
    /// `[d_in, gates * width]`, applied to all positions at once.
    pub input: Linear,
    /// `[width, gates * width]`, applied position by position; without a bias in an LSTM, where it would be a second one.
    pub hidden: Linear,
    width: usize,
    #[module(skip)]
    cell: Cell,
}

impl Recurrent {
    /// A layer that reads `d_in` numbers a position and keeps `width`.
    pub fn new(cell: Cell, d_in: usize, width: usize, init: &mut ParamInit) -> Self {
        let input = Linear::fused(d_in, width, cell.gates(), init);
        let mut hidden = Linear::fused(width, width, cell.gates(), init);
        if cell == Cell::Lstm {
            hidden.bias = None;
        }
        Self { input, hidden, width, cell }
    }

    /// The state before the first position, all numbers 0, with the rows of `like`, `[rows, any]`.
    pub fn begin(&self, like: &Tensor<2>) -> State {
        State::zeros(self.cell, self.width, like)
    }

    /// The state after one more position.
    ///
    /// # Shapes
    /// - `projected`: `[batch, gates * width]`, what [`Self::input`] made of the position
    pub fn step(&self, projected: Tensor<2>, state: &State) -> State {
        let width = self.width;
        let recurrent = self.hidden.rows(state.hidden.clone());
        let part = |all: &Tensor<2>, start: usize, count: usize| all.clone().narrow(1, start * width, count * width);
        if let Some(memory) = &state.memory {
            let sums = projected + recurrent;
            let gates = sigmoid(part(&sums, 0, 2)); // [batch, 2 * width]: input and forget
            let (input, forget) = (part(&gates, 0, 1), part(&gates, 1, 1));
            let memory = forget * memory.clone() + input * tanh(part(&sums, 2, 1));
            let hidden = sigmoid(part(&sums, 3, 1)) * tanh(memory.clone());
            return State { hidden, memory: Some(memory) };
        }
        let gates = sigmoid(part(&projected, 0, 2) + part(&recurrent, 0, 2)); // reset and update
        let (reset, update) = (part(&gates, 0, 1), part(&gates, 1, 1));
        let new = tanh(part(&projected, 2, 1) + reset * part(&recurrent, 2, 1));
        let hidden = new.clone() + update * (state.hidden.clone() - new);
        State { hidden, memory: None }
    }

    /// The state after each position, from all zeros or from `start`, and the last one.
    ///
    /// Padding leaves the state as it is, so it changes neither what follows nor the last state.
    ///
    /// # Shapes
    /// - `input`: `[batch, len, d_in]`; `real`: for each position `[batch, 1]`, 1 where it is no padding, or nothing where
    ///   there is none; output: `[batch, len, width]`
    pub fn run(
        &self,
        input: Tensor<3>,
        real: &[Tensor<2>],
        start: Option<State>,
        direction: Direction,
    ) -> (Tensor<3>, State) {
        let positions = unstack(self.input.forward(input));
        let mut state = start.unwrap_or_else(|| self.begin(&positions[0]));
        let mut outputs = Vec::with_capacity(positions.len());
        let mut take = |(place, position)| {
            let next = self.step(position, &state);
            state = match real.get::<usize>(place) {
                Some(real) => next.where_real(real, &state),
                None => next,
            };
            outputs.push(state.hidden.clone());
        };
        let positions = positions.into_iter().enumerate();
        match direction {
            Direction::Forward => positions.for_each(&mut take),
            Direction::Backward => positions.rev().for_each(&mut take),
        }
        if direction == Direction::Backward {
            outputs.reverse();
        }
        (Tensor::stack(outputs, 1), state)
    }
}

/// Which way a layer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first position to the last.
    Forward,
    /// From the last position to the first.
    Backward,
}

/// The positions of a sequence, one by one.
///
/// By halves: the gradient of a slice is as large as what it was cut from, so cutting `len` slices from the whole would
/// cost `len²` in the backward pass, and this costs `len log(len)`.
///
/// # Shapes
/// - `sequence`: `[batch, len, width]`; output: `len` times `[batch, width]`
pub(crate) fn unstack(sequence: Tensor<3>) -> Vec<Tensor<2>> {
    let [batch, len, width] = sequence.dims();
    if len == 1 {
        return vec![sequence.reshape([batch, width])];
    }
    let middle = len / 2;
    let mut positions = unstack(sequence.clone().narrow(1, 0, middle));
    positions.extend(unstack(sequence.narrow(1, middle, len - middle)));
    positions
}
