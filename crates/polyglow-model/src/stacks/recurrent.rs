//! Recurrent layers: a state that reads a sequence position by position (tanh: Elman, 1990; GRU:
//! Cho et al., 2014; LSTM: Hochreiter and Schmidhuber, 1997).

pub mod attention;
pub mod decoder;
pub mod encoder;

use burn::module::Module;
use burn::tensor::{Bool, Device, Int, Tensor};
pub use polyglow_kernels::Direction;
use polyglow_kernels::{recurrent_layer, recurrent_step};

pub use crate::config::recurrent::{Attend, Cell};
use crate::linear::Linear;
use crate::parameter::init::ParamInit;

/// The state of a layer between two positions.
#[derive(Clone, Debug)]
pub struct State {
    /// `[batch, width]`; for an LSTM the output and its memory side by side,
    /// `[batch, width + cell_size]`.
    values: Tensor<2>,
    /// Width of the output.
    width: usize,
}

impl State {
    /// The layer's output, `[batch, width]`.
    pub fn hidden(&self) -> Tensor<2> {
        let [_, width] = self.values.dims();
        if width == self.width {
            self.values.clone()
        } else {
            self.values.clone().narrow(1, 0, self.width)
        }
    }

    /// An LSTM's memory, `[batch, cell_size]`.
    fn memory(&self) -> Tensor<2> {
        let [_, width] = self.values.dims();
        self.values
            .clone()
            .narrow(1, self.width, width - self.width)
    }

    /// Detaches the state from the graph, so that no gradient passes through it.
    #[must_use]
    pub fn detach(self) -> Self {
        Self {
            values: self.values.detach(),
            width: self.width,
        }
    }

    /// Returns the state of these rows, in this order.
    #[must_use]
    pub fn select(&self, rows: &Tensor<1, Int>) -> Self {
        Self {
            values: self.values.clone().select(0, rows.clone()),
            width: self.width,
        }
    }

    /// Returns this state where `real` is 1, and `old` where it is 0.
    ///
    /// # Shapes
    /// - `real`: `[batch, 1]`
    fn where_real(self, real: &Tensor<2>, old: &Self) -> Self {
        let values = old.values.clone() + (self.values - old.values.clone()) * real.clone();
        Self {
            values,
            width: self.width,
        }
    }
}

/// One direction of one layer.
///
/// With `x` the input and `h` the state before, a tanh network computes `h' = tanh(x W + h U + b)`;
/// an LSTM computes `i, f, g, o = x W + h U + b` and `c' = σ(f) c + σ(i) tanh(g)`,
/// `h' = σ(o) tanh(c')`, or with cells that are wider than the output `h' = (σ(o) tanh(c')) P` (Sak
/// et al., 2014); a GRU `r = σ(x W_r + h U_r + b_r)`, `z = σ(x W_z + h U_z + b_z)`,
/// `n = tanh(x W_n + b_n + r (h U_n + d_n))` and `h' = (1 - z) n + z h`. Gates stand side by side
/// in PyTorch's order.
#[derive(Module, Debug)]
pub struct Recurrent {
    /// `[d_in, gates * cell_size]`, applied to all positions at once.
    pub input: Linear,
    /// `[width, gates * cell_size]`, applied position by position. Only a GRU has a bias here; in
    /// other cells it would be added to that of `input`.
    pub hidden: Linear,
    /// `P`, `[cell_size, width]`, if an LSTM's cells are wider than its output.
    pub projection: Option<Linear>,
    width: usize,
    cell_size: usize,
    #[module(skip)]
    cell: Cell,
}

impl Recurrent {
    /// A layer from inputs of width `d_in` to states of width `width`.
    pub fn new(cell: Cell, d_in: usize, width: usize, init: &mut ParamInit) -> Self {
        Self::with_cells(cell, d_in, width, width, init)
    }

    /// A layer of an LSTM whose memory has `cell_size` elements, and whose output has `width`; for
    /// other cells both must be the same.
    pub fn with_cells(
        cell: Cell,
        d_in: usize,
        width: usize,
        cell_size: usize,
        init: &mut ParamInit,
    ) -> Self {
        let input = Linear::fused(d_in, cell_size, cell.gates(), init);
        let mut hidden = Linear::fused(width, cell_size, cell.gates(), init);
        if cell != Cell::Gru {
            hidden.bias = None;
        }
        let projection = (cell_size != width).then(|| Linear::without_bias(cell_size, width, init));
        Self {
            input,
            hidden,
            projection,
            width,
            cell_size,
            cell,
        }
    }

    /// Removes all biases.
    #[must_use]
    pub fn without_biases(mut self) -> Self {
        self.input.bias = None;
        self.hidden.bias = None;
        self
    }

    /// The state before the first position: zeros.
    pub fn initial_state(&self, rows: usize, device: &Device) -> State {
        State {
            values: Tensor::zeros([rows, self.width + self.memory_size()], device),
            width: self.width,
        }
    }

    /// Elements of a state besides the output: those of an LSTM's memory.
    fn memory_size(&self) -> usize {
        (self.cell.kernel().states() - 1) * self.cell_size
    }

    /// The state before the first position with the output `hidden` and a memory of zeros.
    ///
    /// # Shapes
    /// - `hidden`: `[batch, width]`
    pub(crate) fn initial_state_from(&self, hidden: Tensor<2>) -> State {
        let memory_size = self.memory_size();
        if memory_size == 0 {
            return State {
                values: hidden,
                width: self.width,
            };
        }
        let memory = Tensor::zeros([hidden.dims()[0], memory_size], &hidden.device());
        State {
            values: Tensor::cat(vec![hidden, memory], 1),
            width: self.width,
        }
    }

    /// Computes the state after one more position.
    ///
    /// # Shapes
    /// - `projected`: `[batch, gates * cell_size]`, the output of [`Self::input`] for the position
    pub fn step(&self, projected: Tensor<2>, state: &State) -> State {
        let cell = self.cell.kernel();
        let width = self.width;
        let recurrent = self.hidden.rows(state.hidden());
        let Some(projection) = &self.projection else {
            return State {
                values: recurrent_step(cell, projected, recurrent, state.values.clone()),
                width,
            };
        };
        // With a projection, the output is narrower than the memory. An LSTM's step reads the old
        // output through `recurrent` alone, so zeros of the memory's width stand in for it.
        let memory = state.memory();
        let before = Tensor::cat(vec![memory.zeros_like(), memory], 1);
        let after = State {
            values: recurrent_step(cell, projected, recurrent, before),
            width: self.cell_size,
        };
        State {
            values: Tensor::cat(vec![projection.rows(after.hidden()), after.memory()], 1),
            width,
        }
    }

    /// Runs over a sequence from `start`, or from zeros, and returns the output at each position.
    ///
    /// Padding leaves the state as it is, so the output at the position that is read last is that
    /// of the last real token.
    ///
    /// # Shapes
    /// - `input`: `[batch, len, d_in]`; `padding`: `[batch, len]`, `true` on padding; output:
    ///   `[batch, len, width]`
    pub fn run(
        &self,
        input: Tensor<3>,
        padding: Option<&Tensor<2, Bool>>,
        start: Option<State>,
        direction: Direction,
    ) -> Tensor<3> {
        let projected = self.input.forward(input);
        let start =
            start.unwrap_or_else(|| self.initial_state(projected.dims()[0], &projected.device()));
        self.run_whole(&projected, padding, &start, direction)
            .unwrap_or_else(|| self.run_by_steps(projected, padding, start, direction))
    }

    /// As [`Self::run`], in one operation; `None` if there is no kernel for this layer on this
    /// device.
    fn run_whole(
        &self,
        projected: &Tensor<3>,
        padding: Option<&Tensor<2, Bool>>,
        start: &State,
        direction: Direction,
    ) -> Option<Tensor<3>> {
        if self.projection.is_some() {
            return None;
        }
        let (weight, bias) = self.hidden.parts()?;
        let bias = bias.unwrap_or_else(|| Tensor::zeros([weight.dims()[1]], &projected.device()));
        recurrent_layer(
            self.cell.kernel(),
            direction,
            projected,
            &weight,
            &bias,
            &start.values,
            padding,
        )
    }

    /// As [`Self::run`], position by position.
    fn run_by_steps(
        &self,
        projected: Tensor<3>,
        padding: Option<&Tensor<2, Bool>>,
        mut state: State,
        direction: Direction,
    ) -> Tensor<3> {
        let real = padding.map(|padding| padding.clone().bool_not().float());
        let mut positions: Vec<_> = unstack(projected).into_iter().enumerate().collect();
        if direction == Direction::Backward {
            positions.reverse();
        }
        let mut outputs = Vec::with_capacity(positions.len());
        for (position, projected) in positions {
            let next = self.step(projected, &state);
            state = match &real {
                Some(real) => next.where_real(&real.clone().narrow(1, position, 1), &state),
                None => next,
            };
            outputs.push(state.hidden());
        }
        // Outputs are in the order of positions, not in that of the steps.
        if direction == Direction::Backward {
            outputs.reverse();
        }
        Tensor::stack(outputs, 1)
    }
}

/// Splits a sequence into its positions.
///
/// It is halved recursively: the gradient of a slice has the size of the tensor that it was cut
/// from, so `len` slices of the whole would cost `len²` in the backward pass; halves cost
/// `len log(len)`.
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
