//! Recurrent layers: a state that reads a sequence position by position (GRU: Cho et al., 2014; LSTM: Hochreiter and
//! Schmidhuber, 1997).

pub mod attention;
pub mod decoder;
pub mod encoder;

use burn::module::Module;
use burn::tensor::{Bool, Device, Int, Tensor};
pub use polyglow_kernels::Direction;
use polyglow_kernels::{recurrent_layer, recurrent_step};
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
        self.kernel().gates()
    }

    pub(crate) fn kernel(self) -> polyglow_kernels::Cell {
        match self {
            Self::Gru => polyglow_kernels::Cell::Gru,
            Self::Lstm => polyglow_kernels::Cell::Lstm,
        }
    }
}

/// What a layer knows after some positions.
#[derive(Clone, Debug)]
pub struct State {
    /// `[batch, width]`; of an LSTM the layer's output and, beside it, its memory, `[batch, 2 * width]`.
    numbers: Tensor<2>,
    width: usize,
}

impl State {
    /// The layer's output, `[batch, width]`.
    pub fn hidden(&self) -> Tensor<2> {
        let [_, width] = self.numbers.dims();
        if width == self.width { self.numbers.clone() } else { self.numbers.clone().narrow(1, 0, self.width) }
    }

    /// The same state, through which no gradient passes.
    #[must_use]
    pub fn detach(self) -> Self {
        Self { numbers: self.numbers.detach(), width: self.width }
    }

    /// Keeps these rows, in this order.
    #[must_use]
    pub fn select(&self, rows: &Tensor<1, Int>) -> Self {
        Self { numbers: self.numbers.clone().select(0, rows.clone()), width: self.width }
    }

    /// This state where `real` is 1, and `old` where it is 0.
    ///
    /// # Shapes
    /// - `real`: `[batch, 1]`
    fn where_real(self, real: &Tensor<2>, old: &Self) -> Self {
        let numbers = old.numbers.clone() + (self.numbers - old.numbers.clone()) * real.clone();
        Self { numbers, width: self.width }
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

    /// The state before the first position, all numbers 0.
    pub fn begin(&self, rows: usize, device: &Device) -> State {
        let numbers = Tensor::zeros([rows, self.cell.kernel().states() * self.width], device);
        State { numbers, width: self.width }
    }

    /// The state after one more position.
    ///
    /// # Shapes
    /// - `projected`: `[batch, gates * width]`, what [`Self::input`] made of the position
    pub fn step(&self, projected: Tensor<2>, state: &State) -> State {
        let recurrent = self.hidden.rows(state.hidden());
        let numbers = recurrent_step(self.cell.kernel(), projected, recurrent, state.numbers.clone());
        State { numbers, width: self.width }
    }

    /// The output at each position, from a state of all zeros or from `start`.
    ///
    /// Padding leaves the state as it is, so it changes nothing of what follows; and the output at the position that is
    /// read last is that of the last word.
    ///
    /// # Shapes
    /// - `input`: `[batch, len, d_in]`; `padding`: `[batch, len]`, `true` there, or none; output: `[batch, len, width]`
    pub fn run(
        &self,
        input: Tensor<3>,
        padding: Option<&Tensor<2, Bool>>,
        start: Option<State>,
        direction: Direction,
    ) -> Tensor<3> {
        let projected = self.input.forward(input);
        let start = start.unwrap_or_else(|| self.begin(projected.dims()[0], &projected.device()));
        self.run_whole(&projected, padding, &start, direction)
            .unwrap_or_else(|| self.run_by_steps(projected, padding, start, direction))
    }

    /// In one operation; none where there is none for these weights and their device.
    fn run_whole(
        &self,
        projected: &Tensor<3>,
        padding: Option<&Tensor<2, Bool>>,
        start: &State,
        direction: Direction,
    ) -> Option<Tensor<3>> {
        let (weight, bias) = self.hidden.parts(projected)?;
        let bias = bias.unwrap_or_else(|| Tensor::zeros([weight.dims()[1]], &projected.device()));
        recurrent_layer(self.cell.kernel(), direction, projected, &weight, &bias, &start.numbers, padding)
    }

    fn run_by_steps(
        &self,
        projected: Tensor<3>,
        padding: Option<&Tensor<2, Bool>>,
        mut state: State,
        direction: Direction,
    ) -> Tensor<3> {
        let real = padding.map(|padding| padding.clone().bool_not().float());
        let mut outputs = Vec::new();
        let mut take = |(place, position)| {
            let next = self.step(position, &state);
            state = match &real {
                Some(real) => next.where_real(&real.clone().narrow(1, place, 1), &state),
                None => next,
            };
            outputs.push(state.hidden());
        };
        let positions = unstack(projected).into_iter().enumerate();
        match direction {
            Direction::Forward => positions.for_each(&mut take),
            Direction::Backward => positions.rev().for_each(&mut take),
        }
        if direction == Direction::Backward {
            outputs.reverse();
        }
        Tensor::stack(outputs, 1)
    }
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
