//! Recurrent layers: what follows their products at a position, and whole sequences.

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod layer;
#[cfg(feature = "flex")]
mod row;

use burn::tensor::activation::{sigmoid, tanh};
use burn::tensor::{Bool, Tensor};

/// What becomes of a state at a position, by the sums of products `p` (with the input) and `u` (with the state before).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `r, z = σ(p + u)`, `n = tanh(p + r u)` and `h' = (1 - z) n + z h` (Cho et al., 2014, as in cuDNN).
    Gru,
    /// `i, f, g, o = p + u`, `c' = σ(f) c + σ(i) tanh(g)` and `h' = σ(o) tanh(c')` (Hochreiter and Schmidhuber, 1997); a
    /// state is `h` and, beside it, `c`.
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
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// How many blocks of the layer's width its state has.
    pub fn states(self) -> usize {
        match self {
            Self::Gru => 1,
            Self::Lstm => 2,
        }
    }
}

/// The state after one more position.
///
/// # Shapes
/// - `projected`, `recurrent`: `p` and `u`, `[batch, gates * width]`; `state`: `[batch, states * width]`; output: as `state`
pub fn recurrent_step(cell: Cell, projected: Tensor<2>, recurrent: Tensor<2>, state: Tensor<2>) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if crate::flex::has_kernels(&projected) && crate::flex::has_kernels(&state) {
        return flex::recurrent_step(cell, projected, recurrent, state);
    } else if crate::flex::is_flex(&projected) && crate::flex::is_flex(&state) {
        return flex::apply(cell, projected, recurrent, state);
    }
    plain(cell, &projected, &recurrent, &state)
}

/// A layer's output at each position, where `u = h W + b`; none where the tensors are not where the kernel is.
///
/// Padding leaves the state as it is, so it changes nothing of what follows.
///
/// # Shapes
/// - `projected`: `p`, `[batch, len, gates * width]`; `weight`: `[width, gates * width]`; `bias`: `[gates * width]`
/// - `start`: `[batch, states * width]`; `padding`: `[batch, len]`; output: `[batch, len, width]`
pub fn recurrent_layer(
    cell: Cell,
    direction: Direction,
    projected: &Tensor<3>,
    weight: &Tensor<2>,
    bias: &Tensor<1>,
    start: &Tensor<2>,
    padding: Option<&Tensor<2, Bool>>,
) -> Option<Tensor<3>> {
    #[cfg(feature = "flex")]
    {
        let inputs = || layer::Inputs {
            projected: projected.clone(),
            weight: weight.clone(),
            bias: bias.clone(),
            start: start.clone(),
        };
        if crate::flex::has_kernels(projected) && crate::flex::has_kernels(start) {
            return Some(layer::recurrent_layer(cell, direction, inputs(), padding));
        } else if crate::flex::is_flex(projected) && crate::flex::is_flex(start) {
            return Some(layer::apply(cell, direction, inputs(), padding));
        }
    }
    let _ = (cell, direction, projected, weight, bias, start, padding);
    None
}

fn plain(cell: Cell, projected: &Tensor<2>, recurrent: &Tensor<2>, state: &Tensor<2>) -> Tensor<2> {
    let width = state.dims()[1] / cell.states();
    let part = |all: &Tensor<2>, start: usize, count: usize| all.clone().narrow(1, start * width, count * width);
    let gates = sigmoid(part(projected, 0, 2) + part(recurrent, 0, 2));
    let (first, second) = (part(&gates, 0, 1), part(&gates, 1, 1));
    match cell {
        Cell::Gru => {
            let new = tanh(part(projected, 2, 1) + first * part(recurrent, 2, 1));
            new.clone() + second * (state.clone() - new)
        }
        Cell::Lstm => {
            let sum = |place: usize| part(projected, place, 1) + part(recurrent, place, 1);
            let memory = second * part(state, 1, 1) + first * tanh(sum(2));
            Tensor::cat(vec![sigmoid(sum(3)) * tanh(memory.clone()), memory], 1)
        }
    }
}
