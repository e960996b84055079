//! Recurrent cells on the CPU: here one step with its backward pass, in [`layer`] whole sequences,
//! in [`row`] the arithmetic of one row that both share.
//!
//! `p` and `u` are `[rows, gates * width]` and states `[rows, states * width]`, all contiguous; a
//! task is some rows of each. The forward pass keeps its three inputs. The backward pass computes
//! the gates again: they are as large as an input and cheap next to the products around a step, so
//! keeping them would cost more time than it saves.

mod layer;
mod row;

use burn::tensor::Tensor;
use rayon::prelude::*;

pub(super) use layer::recurrent_layer;
use row::{Rows, RowsMut, Step, StepBackward};

use super::Cell;
use crate::flex::vector::vectorized;
use crate::flex::{BackwardPass, Contiguous, FlexTensor, from_values, into_values, read, record};

/// Elements of states that are worth a task: a cell computes several exponentials for each.
const PART: usize = 1 << 13;

/// [`super::recurrent_step`] on flex.
pub(super) fn recurrent_step(
    cell: Cell,
    projected: Tensor<2>,
    recurrent: Tensor<2>,
    state: Tensor<2>,
) -> Tensor<2> {
    let sizes = Sizes::new(cell, &projected, &recurrent, &state);
    let (projected, projected_node) = read(projected);
    let (recurrent, recurrent_node) = read(recurrent);
    let (before, state_node) = read(state);
    let mut states = before.slice().to_vec();
    sizes.step(projected.slice(), recurrent.slice(), &mut states);
    let output = from_values(states, [sizes.rows, sizes.state_len()]);
    let state = State {
        sizes,
        projected,
        recurrent,
        before,
    };
    record(state, [projected_node, recurrent_node, state_node], output)
}

/// The sizes of a step.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    cell: Cell,
    rows: usize,
    /// Elements of a hidden state.
    width: usize,
}

impl Sizes {
    /// The sizes of these tensors.
    ///
    /// Panics if they do not fit each other.
    fn new(cell: Cell, projected: &Tensor<2>, recurrent: &Tensor<2>, state: &Tensor<2>) -> Self {
        let [rows, state_len] = state.dims();
        let sizes = Self {
            cell,
            rows,
            width: state_len / cell.states(),
        };
        let gates = [rows, sizes.gates_len()];
        assert_eq!(
            (state_len, projected.dims(), recurrent.dims()),
            (sizes.state_len(), gates, gates),
            "the sums of a recurrent cell"
        );
        sizes
    }

    /// Elements in a row of `p` or `u`.
    fn gates_len(self) -> usize {
        self.cell.gates() * self.width
    }

    /// Elements in a state.
    fn state_len(self) -> usize {
        self.cell.states() * self.width
    }

    /// Rows in a task.
    fn rows_per_task(self) -> usize {
        (PART / self.state_len().max(1)).max(1)
    }

    /// Overwrites states with those after one more position.
    fn step(self, projected: &[f32], recurrent: &[f32], states: &mut [f32]) {
        let block = self.rows_per_task();
        let gates_len = self.gates_len();
        if self.rows <= block {
            // Waking another thread would take longer.
            return self.step_rows(projected, recurrent, states);
        }
        states
            .par_chunks_mut(block * self.state_len())
            .zip(projected.par_chunks(block * gates_len))
            .zip(recurrent.par_chunks(block * gates_len))
            .for_each(|((states, projected), recurrent)| {
                self.step_rows(projected, recurrent, states);
            });
    }

    /// [`Self::step`] for the rows of a task, on this core.
    fn step_rows(self, projected: &[f32], recurrent: &[f32], states: &mut [f32]) {
        let stride = self.gates_len();
        vectorized(Step {
            cell: self.cell,
            width: self.width,
            projected: Rows {
                values: projected,
                stride,
            },
            recurrent: Rows {
                values: recurrent,
                stride,
            },
            states,
            padding: &[],
        });
    }
}

/// The data that the forward pass keeps for the gradients.
#[derive(Clone, Debug)]
struct State {
    sizes: Sizes,
    /// `p`.
    projected: Contiguous,
    /// `u`.
    recurrent: Contiguous,
    /// The state that the step began with.
    before: Contiguous,
}

impl State {
    /// Computes the gradients of the rows of a task, from row `first` on. `grads` is the gradient
    /// of their new states, and becomes that of the old ones.
    fn backward_rows(
        &self,
        first: usize,
        grads: &mut [f32],
        grad_projected: &mut [f32],
        grad_recurrent: &mut [f32],
    ) {
        let Sizes { cell, width, .. } = self.sizes;
        let gates_len = self.sizes.gates_len();
        vectorized(StepBackward {
            cell,
            width,
            projected: Rows::from(self.projected.slice(), first, gates_len),
            recurrent: Rows::from(self.recurrent.slice(), first, gates_len),
            states: Rows::from(self.before.slice(), first, self.sizes.state_len()),
            grads,
            padding: &[],
            grad_projected: RowsMut {
                values: grad_projected,
                stride: gates_len,
            },
            grad_recurrent: RowsMut {
                values: grad_recurrent,
                stride: gates_len,
            },
        });
    }
}

impl BackwardPass<3> for State {
    fn gradients(self, gradient: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Sizes { rows, .. } = self.sizes;
        let gates_len = self.sizes.gates_len();
        let state_len = self.sizes.state_len();
        // The gradient of the output becomes that of the state before, in place.
        let mut grads = into_values(gradient);
        let mut grad_projected = vec![0.0; rows * gates_len];
        let mut grad_recurrent = vec![0.0; rows * gates_len];
        let block = self.sizes.rows_per_task();
        if rows <= block {
            // Waking another thread would take longer.
            self.backward_rows(0, &mut grads, &mut grad_projected, &mut grad_recurrent);
        } else {
            grads
                .par_chunks_mut(block * state_len)
                .zip(grad_projected.par_chunks_mut(block * gates_len))
                .zip(grad_recurrent.par_chunks_mut(block * gates_len))
                .enumerate()
                .for_each(|(part, ((grads, projected), recurrent))| {
                    self.backward_rows(part * block, grads, projected, recurrent);
                });
        }
        [
            Some(from_values(grad_projected, [rows, gates_len])),
            Some(from_values(grad_recurrent, [rows, gates_len])),
            Some(from_values(grads, [rows, state_len])),
        ]
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Gradients;

    use super::super::{plain, recurrent_step};
    use super::*;
    use crate::flex::tests::{
        assert_near, elements, on_threads, random, random_tracked, with_autodiff,
    };

    /// The gradient of a tensor; zeros if the output does not depend on it.
    fn gradient_or_zeros(tensor: &Tensor<2>, gradients: &Gradients) -> Vec<f32> {
        let gradient = tensor.grad(gradients);
        elements(gradient.unwrap_or_else(|| tensor.clone().inner().zeros_like()))
    }

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        // The last is large enough for several threads.
        for (rows, width) in [(1, 1), (3, 16), (2, 37), (150, 131)] {
            for cell in [Cell::Tanh, Cell::Gru, Cell::Lstm] {
                let projected = random_tracked([rows, cell.gates() * width], 3.0);
                let recurrent = random_tracked([rows, cell.gates() * width], 3.0);
                let state = random_tracked([rows, cell.states() * width], 3.0);
                let upstream = with_autodiff(&random([rows, cell.states() * width], 3.0));
                let kernel =
                    || recurrent_step(cell, projected.clone(), recurrent.clone(), state.clone());
                let values = |output: Tensor<2>| {
                    let gradients = (output.clone() * upstream.clone()).sum().backward();
                    // The state of a tanh network counts through the product alone.
                    [
                        elements(output),
                        gradient_or_zeros(&projected, &gradients),
                        gradient_or_zeros(&recurrent, &gradients),
                        gradient_or_zeros(&state, &gradients),
                    ]
                };
                let expected = values(kernel());
                let plain = values(plain(cell, &projected, &recurrent, &state));
                for (expected, plain) in expected.iter().zip(&plain) {
                    assert_near(expected, plain, 2e-6);
                }
                for threads in [1, 2, 5] {
                    assert!(
                        on_threads(threads, || values(kernel())) == expected,
                        "{threads} threads"
                    );
                }
                let [projected, recurrent, state] =
                    [projected, recurrent, state].map(Tensor::inner);
                assert_eq!(
                    elements(recurrent_step(cell, projected, recurrent, state)),
                    expected[0]
                );
            }
        }
    }
}
