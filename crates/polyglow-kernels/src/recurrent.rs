//! Recurrent cells: one step, and layers over whole sequences.
//!
//! A step computes the new state from `p`, the projected input of the position, and `u = h W + b`,
//! the product with the old hidden state `h`. Both are a row of blocks of the layer's width, one
//! for each gate (`p_r` is the block of `r`). The formulas of the forward pass are at [`Cell`].
//! With `s` the gradient of the new hidden state `h'`, those of the backward pass are:
//!
//! ```text
//! tanh:  d p = d u   = s (1 - h'²)
//!
//! GRU:   d p_n       = s (1 - z) (1 - n²)
//!        d u_n       = d p_n r
//!        d p_r = d u_r = d p_n u_n r (1 - r)
//!        d p_z = d u_z = s (h - n) z (1 - z)
//!        d h         = s z                       directly, without the part through u
//!
//! LSTM:  t           = (gradient of c') + s σ(o) (1 - tanh(c')²)
//!        d i         = t tanh(g) σ(i) (1 - σ(i))     of the sums i, f, g, o = p + u
//!        d f         = t c σ(f) (1 - σ(f))
//!        d g         = t σ(i) (1 - tanh(g)²)
//!        d o         = s tanh(c') σ(o) (1 - σ(o))
//!        d c         = t σ(f)
//! ```
//!
//! A layer's backward pass visits the positions in reverse; at each it adds `d u Wᵀ` to the
//! gradient of the hidden state before. The gradient of `W` is `Σ hᵀ d u` over all positions.

#[cfg(feature = "flex")]
mod flex;

use burn::tensor::activation::{sigmoid, tanh};
use burn::tensor::{Bool, Tensor};

/// The kind of a cell: how the new state follows from the old one, the projected input `p`, and
/// `u`, the product with the old hidden state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `h' = tanh(p + u)` (Elman, 1990).
    Tanh,
    /// `r, z = σ(p + u)`, `n = tanh(p + r u)` and `h' = (1 - z) n + z h` (Cho et al., 2014, with
    /// `r` applied after the product, as in cuDNN and PyTorch).
    Gru,
    /// `i, f, g, o = p + u`, `c' = σ(f) c + σ(i) tanh(g)` and `h' = σ(o) tanh(c')` (Hochreiter and
    /// Schmidhuber, 1997). A state is a row of `h` followed by `c`.
    Lstm,
}

/// The direction in which a layer reads a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first position to the last.
    Forward,
    /// From the last position to the first.
    Backward,
}

impl Cell {
    /// The number of blocks of the layer's width in `p` and `u`.
    pub fn gates(self) -> usize {
        match self {
            Self::Tanh => 1,
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// The number of blocks of the layer's width in a state.
    pub fn states(self) -> usize {
        match self {
            Self::Tanh | Self::Gru => 1,
            Self::Lstm => 2,
        }
    }
}

/// Returns the state after one more position.
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

/// Returns the hidden states of a layer at all positions, where `u = h W + b`; `None` if there is
/// no kernel for these tensors.
///
/// Padding leaves the state as it is, so later positions do not depend on it.
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

/// [`recurrent_step`] in terms of Burn's operations.
fn plain(cell: Cell, projected: &Tensor<2>, recurrent: &Tensor<2>, state: &Tensor<2>) -> Tensor<2> {
    let width = state.dims()[1] / cell.states();
    let sum = |index: usize| block(projected, index, width) + block(recurrent, index, width);
    match cell {
        Cell::Tanh => tanh(sum(0)),
        Cell::Gru => {
            let reset = sigmoid(sum(0));
            let update = sigmoid(sum(1));
            let new = tanh(block(projected, 2, width) + reset * block(recurrent, 2, width));
            new.clone() + update * (state.clone() - new)
        }
        Cell::Lstm => {
            let memory = sigmoid(sum(1)) * block(state, 1, width) + sigmoid(sum(0)) * tanh(sum(2));
            Tensor::cat(vec![sigmoid(sum(3)) * tanh(memory.clone()), memory], 1)
        }
    }
}

/// Block `index` of `width` columns.
fn block(all: &Tensor<2>, index: usize, width: usize) -> Tensor<2> {
    all.clone().narrow(1, index * width, width)
}
