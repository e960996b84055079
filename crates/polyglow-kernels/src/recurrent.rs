//! Recurrent layers: what follows their products at a position, and whole sequences.
//!
//! With `s` the gradient of the new state, a GRU's gradients are `a = s (1 - z) (1 - n²)` of `p_n`,
//! `a r` of `u_n`, `a u_n r (1 - r)` of `p_r` and `u_r`, `s (h - n) z (1 - z)` of `p_z` and `u_z`,
//! and `s z` of `h` directly. With `t` the gradient of an LSTM's new memory, to which that of the
//! hidden state adds `s σ(o) (1 - tanh(c')²)`, its gradients are `t tanh(g) σ'(i)`, `t c σ'(f)`,
//! `t σ(i) (1 - tanh(g)²)` and `s tanh(c') σ'(o)` of the four sums, and `t σ(f)` of `c`, where
//! `σ' = σ (1 - σ)`. The gradient of both of a tanh network's sums is `s (1 - h'²)`. Through a
//! layer they go backwards over its positions: that of `u` times `Wᵀ` is added to `s`.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::activation::{sigmoid, tanh};
use burn::tensor::{Bool, Tensor};

/// How a state follows from the one before and the sums of products `p` (with the input) and `u`
/// (with that state).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `h' = tanh(p + u)` (Elman, 1990).
    Tanh,
    /// `r, z = σ(p + u)`, `n = tanh(p + r u)` and `h' = (1 - z) n + z h` (Cho et al., 2014, with
    /// `r` applied after the product, as in cuDNN and PyTorch).
    Gru,
    /// `i, f, g, o = p + u`, `c' = σ(f) c + σ(i) tanh(g)` and `h' = σ(o) tanh(c')` (Hochreiter and
    /// Schmidhuber, 1997); a state is `h` and, beside it, `c`.
    Lstm,
}

/// Which way a layer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first position to the last.
    Forward,
    /// From the last position to the first.
    Backward,
}

impl Cell {
    /// How many blocks of the layer's width its sums have.
    pub fn gates(self) -> usize {
        match self {
            Self::Tanh => 1,
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// How many blocks of the layer's width its state has.
    pub fn states(self) -> usize {
        match self {
            Self::Tanh | Self::Gru => 1,
            Self::Lstm => 2,
        }
    }
}

/// The state after one more position.
///
/// # Shapes
/// - `projected`, `recurrent`: `p` and `u`, `[batch, gates * width]`; `state`:
///   `[batch, states * width]`; output: as `state`
pub fn recurrent_step(
    cell: Cell,
    projected: Tensor<2>,
    recurrent: Tensor<2>,
    state: Tensor<2>,
) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::mode_of_both(&projected, &state).is_some() {
        return flex::recurrent_step(cell, projected, recurrent, state);
    }
    plain(cell, &projected, &recurrent, &state)
}

/// A layer's output at each position, where `u = h W + b`; `None` if there is no kernel for these
/// tensors.
///
/// Padding leaves the state as it is, so the positions after it are as if it were not there.
///
/// # Shapes
/// - `projected`: `p`, `[batch, len, gates * width]`; `weight`: `[width, gates * width]`; `bias`:
///   `[gates * width]`
/// - `start`: `[batch, states * width]`; `padding`: `[batch, len]`, `true` at padding; output:
///   `[batch, len, width]`
pub fn recurrent_layer(
    cell: Cell,
    direction: Direction,
    projected: &Tensor<3>,
    weight: &Tensor<2>,
    bias: &Tensor<1>,
    start: &Tensor<2>,
    padding: Option<&Tensor<2, Bool>>,
) -> Option<Tensor<3>> {
    kernel!(flex::recurrent_layer(
        cell, direction, projected, weight, bias, start, padding
    ))
}

fn plain(cell: Cell, projected: &Tensor<2>, recurrent: &Tensor<2>, state: &Tensor<2>) -> Tensor<2> {
    let width = state.dims()[1] / cell.states();
    let part = |all: &Tensor<2>, place: usize| all.clone().narrow(1, place * width, width);
    let sum = |place: usize| part(projected, place) + part(recurrent, place);
    match cell {
        Cell::Tanh => tanh(sum(0)),
        Cell::Gru => {
            let reset = sigmoid(sum(0));
            let update = sigmoid(sum(1));
            let new = tanh(part(projected, 2) + reset * part(recurrent, 2));
            new.clone() + update * (state.clone() - new)
        }
        Cell::Lstm => {
            let memory = sigmoid(sum(1)) * part(state, 1) + sigmoid(sum(0)) * tanh(sum(2));
            Tensor::cat(vec![sigmoid(sum(3)) * tanh(memory.clone()), memory], 1)
        }
    }
}
