//! A recurrent layer over a whole sequence on the CPU, forward and backward.
//!
//! For each position `u = h W + b`, then a step of [`super::row`]. Positions depend on each other,
//! rows of the batch do not: a task is a part of the batch and goes through all positions on one
//! core, without waiting for other tasks at each of them, as it would with parallel products.
//!
//! # Layout
//! Inputs and outputs are `[batch, len, ..]`, so the rows of one position lie `len` rows apart.
//! They are read and written there, as matrices and [`Rows`] with that stride; only the states of a
//! part, `[rows, states * width]`, are contiguous.
//!
//! # What is kept
//! The forward pass keeps the states before all positions and their products `u`. With both, the
//! gradient of `W` is one product over all rows and positions, `hᵀ du`, which is faster than a
//! small one at each position.

use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use super::row::{Rows, RowsMut, Step, StepBackward};
use crate::flex::matrix::{Matrix, MatrixMut, Store, product, product_into};
use crate::flex::row::sum_of_rows;
use crate::flex::vector::vectorized;
use crate::flex::{BackwardPass, Contiguous, FlexTensor, from_values, mode_of_both, read, record};
use crate::{Cell, Direction, Factors};

/// The most parts of a batch: more cores than this gain nothing.
const MAX_PARTS: usize = 16;
/// The fewest rows in a part: with fewer, the product of a position reads all weights for little
/// work.
const MIN_ROWS: usize = 8;
/// Multiplications below which another thread would take longer to wake than to help.
const PARALLEL: usize = 1 << 17;

/// [`super::recurrent_layer`] on flex.
pub(crate) fn recurrent_layer(
    cell: Cell,
    direction: Direction,
    projected: &Tensor<3>,
    weight: &Tensor<2>,
    bias: &Tensor<1>,
    start: &Tensor<2>,
    padding: Option<&Tensor<2, Bool>>,
) -> Option<Tensor<3>> {
    mode_of_both(projected, start)?;
    let [batch, len, gates_len] = projected.dims();
    let sizes = Sizes {
        cell,
        direction,
        batch,
        len,
        width: gates_len / cell.gates(),
    };
    sizes.check([weight.dims(), start.dims()], bias.dims());
    let padding = sizes.padding(padding);
    let (projected, projected_node) = read(projected.clone());
    let (weight, weight_node) = read(weight.clone());
    let (bias, bias_node) = read(bias.clone());
    let (start, start_node) = read(start.clone());
    let ForwardResult {
        output,
        states_before,
        recurrent,
    } = sizes.forward([&projected, &weight, &bias, &start], &padding);
    let output = from_values(output, [batch, len, sizes.width]);
    let state = State {
        sizes,
        projected,
        weight,
        padding,
        states_before,
        recurrent,
    };
    Some(record(
        state,
        [projected_node, weight_node, bias_node, start_node],
        output,
    ))
}

/// The sizes of a layer and of its batch.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    cell: Cell,
    direction: Direction,
    batch: usize,
    len: usize,
    /// Elements of a hidden state.
    width: usize,
}

/// The output of the forward pass, and what it keeps.
struct ForwardResult {
    /// `[batch, len, width]`.
    output: Vec<f32>,
    /// The states before the positions, `[batch, len, states * width]`.
    states_before: Vec<f32>,
    /// Their products with the weight plus the bias, `u`: `[batch, len, gates * width]`.
    recurrent: Vec<f32>,
}

impl Sizes {
    /// Panics if shapes do not fit each other, or if there is nothing to read.
    fn check(self, [weight, start]: [[usize; 2]; 2], bias: [usize; 1]) {
        let expected = (
            [self.width, self.gates_len()],
            [self.batch, self.state_len()],
            [self.gates_len()],
        );
        assert_eq!((weight, start, bias), expected, "a recurrent layer");
        // Chunks of length 0 panic.
        assert!(
            self.batch > 0 && self.len > 0 && self.width > 0,
            "a recurrent layer needs something to read"
        );
    }

    /// Elements in a row of `p` or `u`.
    fn gates_len(self) -> usize {
        self.cell.gates() * self.width
    }

    /// Elements in a state.
    fn state_len(self) -> usize {
        self.cell.states() * self.width
    }

    /// Returns the padding as `[len, batch]`, so that the rows of a part are neighbors at each
    /// position; empty without padding.
    fn padding(self, padding: Option<&Tensor<2, Bool>>) -> Vec<bool> {
        let Some(padding) = padding else {
            return Vec::new();
        };
        assert_eq!(
            padding.dims(),
            [self.batch, self.len],
            "the padding of a recurrent layer"
        );
        padding
            .clone()
            .transpose()
            .into_data()
            .iter::<bool>()
            .collect()
    }

    /// The number of rows in a part. It does not depend on the number of threads, because the bits
    /// of a product may depend on its number of rows.
    fn rows_per_part(self) -> usize {
        let parts = (self.batch / MIN_ROWS).clamp(1, MAX_PARTS);
        // A power of two, so that machines with 2, 4 or 8 cores have equal shares for each.
        self.batch.div_ceil(1 << parts.ilog2())
    }

    /// Whether the layer is too little work for several threads.
    fn is_small(self) -> bool {
        self.batch * self.len * self.width * self.gates_len() < PARALLEL
    }

    /// The position that is read at a step.
    fn position(self, step: usize) -> usize {
        match self.direction {
            Direction::Forward => step,
            Direction::Backward => self.len - 1 - step,
        }
    }

    /// The padding at a position, of the rows from `first` on; empty without padding.
    fn padding_at(self, padding: &[bool], position: usize, first: usize) -> &[bool] {
        padding.get(position * self.batch + first..).unwrap_or(&[])
    }

    /// The forward pass, given `p`, `W`, `b` and the first states.
    fn forward(self, inputs: [&Contiguous; 4], padding: &[bool]) -> ForwardResult {
        let len = self.len;
        let width = self.width;
        let gates_len = self.gates_len();
        let state_len = self.state_len();
        let mut output = vec![0.0; self.batch * len * width];
        let mut states_before = vec![0.0; self.batch * len * state_len];
        // Begins as the bias in every row; products are added to it.
        let mut recurrent = inputs[2].slice().repeat(self.batch * len);
        let rows = self.rows_per_part();
        let parts = [
            rows * len * width,
            rows * len * state_len,
            rows * len * gates_len,
        ];
        // The same parts in order or in parallel; a task writes its part of all three.
        if self.is_small() {
            output
                .chunks_mut(parts[0])
                .zip(states_before.chunks_mut(parts[1]))
                .zip(recurrent.chunks_mut(parts[2]))
                .enumerate()
                .for_each(|(part, ((output, states_before), recurrent))| {
                    let results = [output, states_before, recurrent];
                    self.forward_part(inputs, padding, part * rows, results);
                });
        } else {
            output
                .par_chunks_mut(parts[0])
                .zip(states_before.par_chunks_mut(parts[1]))
                .zip(recurrent.par_chunks_mut(parts[2]))
                .enumerate()
                .for_each(|(part, ((output, states_before), recurrent))| {
                    let results = [output, states_before, recurrent];
                    self.forward_part(inputs, padding, part * rows, results);
                });
        }
        ForwardResult {
            output,
            states_before,
            recurrent,
        }
    }

    /// Takes the rows of a part, from `first` on, through all positions; `results` are their parts
    /// of the output, the states before, and the products.
    fn forward_part(
        self,
        inputs: [&Contiguous; 4],
        padding: &[bool],
        first: usize,
        results: [&mut [f32]; 3],
    ) {
        let [projected, weight, _, start] = inputs.map(Contiguous::slice);
        let [output, states_before, recurrent] = results;
        let Self {
            cell, len, width, ..
        } = self;
        let gates_len = self.gates_len();
        let state_len = self.state_len();
        let rows = output.len() / (len * width);
        // Contiguous, and overwritten at each position.
        let mut states = start[first * state_len..][..rows * state_len].to_vec();
        for position in (0..len).map(|step| self.position(step)) {
            // u = h W + b, for the rows of the part at this position.
            let products = MatrixMut::strided(
                &mut recurrent[position * gates_len..],
                rows,
                gates_len,
                len * gates_len,
            );
            let hidden = Matrix::strided(&states, rows, width, state_len);
            // On this core: a product of few rows is too small to divide, and other parts have the
            // other cores.
            product_into(
                products,
                hidden,
                Matrix::new(weight, width, gates_len),
                1.0,
                Store::Accumulate,
            );
            for (row, state) in states.chunks_exact(state_len).enumerate() {
                // Kept for the gradient of the weight.
                states_before[(row * len + position) * state.len()..][..state.len()]
                    .copy_from_slice(state);
            }
            vectorized(Step {
                cell,
                width,
                projected: Rows {
                    values: &projected[(first * len + position) * gates_len..],
                    stride: len * gates_len,
                },
                recurrent: Rows {
                    values: &recurrent[position * gates_len..],
                    stride: len * gates_len,
                },
                states: &mut states,
                padding: self.padding_at(padding, position, first),
            });
            for (row, state) in states.chunks_exact(state_len).enumerate() {
                output[(row * len + position) * width..][..width].copy_from_slice(&state[..width]);
            }
        }
    }
}

/// The data that the forward pass keeps for the gradients.
#[derive(Clone, Debug)]
struct State {
    sizes: Sizes,
    /// `p`, `[batch, len, gates * width]`.
    projected: Contiguous,
    /// `W`, `[width, gates * width]`.
    weight: Contiguous,
    /// `[len, batch]`, or empty.
    padding: Vec<bool>,
    /// The states before, as in [`ForwardResult`]; computing them again would be the forward pass.
    states_before: Vec<f32>,
    /// The products, as in [`ForwardResult`].
    recurrent: Vec<f32>,
}

impl State {
    /// Takes the gradients of a part's rows, from `first` on, back through all positions. `results`
    /// are the gradients of `p` and `u`, which must be zeros, and of the first states.
    fn backward_part(&self, gradient: &[f32], first: usize, results: [&mut [f32]; 3]) {
        let [grad_projected, grad_recurrent, grad_start] = results;
        let Self { sizes, padding, .. } = self;
        let Sizes {
            cell, len, width, ..
        } = *sizes;
        let gates_len = sizes.gates_len();
        let state_len = sizes.state_len();
        let rows = grad_start.len() / state_len;
        let weight = Matrix::new(self.weight.slice(), width, gates_len).transposed();
        // From the last position that was read to the first; `grad_start` is the gradient of the
        // states behind the position, and in the end of the first ones.
        for position in (0..len).rev().map(|step| sizes.position(step)) {
            for (row, grads) in grad_start.chunks_exact_mut(state_len).enumerate() {
                let gradient = &gradient[((first + row) * len + position) * width..][..width];
                // A hidden state is an output and enters the next position, so its gradient has two
                // addends. The gradient of an LSTM's memory, behind it in `grads`, has only the
                // second.
                for (grad, gradient) in grads.iter_mut().zip(gradient) {
                    *grad += gradient;
                }
            }
            let index = first * len + position;
            vectorized(StepBackward {
                cell,
                width,
                projected: Rows {
                    values: &self.projected.slice()[index * gates_len..],
                    stride: len * gates_len,
                },
                recurrent: Rows {
                    values: &self.recurrent[index * gates_len..],
                    stride: len * gates_len,
                },
                states: Rows {
                    values: &self.states_before[index * state_len..],
                    stride: len * state_len,
                },
                grads: grad_start,
                padding: sizes.padding_at(padding, position, first),
                grad_projected: RowsMut {
                    values: &mut grad_projected[position * gates_len..],
                    stride: len * gates_len,
                },
                grad_recurrent: RowsMut {
                    values: &mut grad_recurrent[position * gates_len..],
                    stride: len * gates_len,
                },
            });
            // The gradient of the hidden state before through the product `u`: `du Wᵀ`. At padding
            // it is 0, because `du` is.
            let grad_hidden = MatrixMut::strided(grad_start, rows, width, state_len);
            let grad_products = Matrix::strided(
                &grad_recurrent[position * gates_len..],
                rows,
                gates_len,
                len * gates_len,
            );
            product_into(grad_hidden, grad_products, weight, 1.0, Store::Accumulate);
        }
    }
}

impl BackwardPass<4> for State {
    fn gradients(
        self,
        gradient: FlexTensor,
        [_, tracks_weight, tracks_bias, _]: [bool; 4],
    ) -> [Option<FlexTensor>; 4] {
        let Sizes {
            batch, len, width, ..
        } = self.sizes;
        let gates_len = self.sizes.gates_len();
        let state_len = self.sizes.state_len();
        let gradient = Contiguous::new(gradient);
        // Zeros: at padding nothing is written to the first two, and the last is added to.
        let mut grad_projected = vec![0.0; batch * len * gates_len];
        let mut grad_recurrent = vec![0.0; batch * len * gates_len];
        let mut grad_start = vec![0.0; batch * state_len];
        let rows = self.sizes.rows_per_part();
        let block = rows * len * gates_len;
        if self.sizes.is_small() {
            grad_projected
                .chunks_mut(block)
                .zip(grad_recurrent.chunks_mut(block))
                .zip(grad_start.chunks_mut(rows * state_len))
                .enumerate()
                .for_each(|(part, ((projected, recurrent), start))| {
                    let results = [projected, recurrent, start];
                    self.backward_part(gradient.slice(), part * rows, results);
                });
        } else {
            grad_projected
                .par_chunks_mut(block)
                .zip(grad_recurrent.par_chunks_mut(block))
                .zip(grad_start.par_chunks_mut(rows * state_len))
                .enumerate()
                .for_each(|(part, ((projected, recurrent), start))| {
                    let results = [projected, recurrent, start];
                    self.backward_part(gradient.slice(), part * rows, results);
                });
        }
        // `hᵀ du` over all rows and positions at once. Padding adds nothing: there `du` is 0.
        let grad_weight = tracks_weight.then(|| {
            let states_before = Matrix::strided(&self.states_before, batch * len, width, state_len);
            let grad_weight = product(
                states_before.transposed(),
                Matrix::new(&grad_recurrent, batch * len, gates_len),
                Factors::F32,
            );
            from_values(grad_weight, [width, gates_len])
        });
        let grad_bias =
            tracks_bias.then(|| from_values(sum_of_rows(&grad_recurrent, gates_len), [gates_len]));
        let grad_projected = from_values(grad_projected, [batch, len, gates_len]);
        [
            Some(grad_projected),
            grad_weight,
            grad_bias,
            Some(from_values(grad_start, [batch, state_len])),
        ]
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::flex::tests::{
        assert_near, elements, gradient_of, on_threads, random, random_tracked, with_autodiff,
    };
    use crate::recurrent::{plain, recurrent_layer};

    struct Inputs {
        projected: Tensor<3>,
        weight: Tensor<2>,
        bias: Tensor<1>,
        start: Tensor<2>,
    }

    /// The layer position by position, in terms of Burn's operations.
    fn by_steps(
        cell: Cell,
        direction: Direction,
        inputs: &Inputs,
        padding: Option<&Tensor<2, Bool>>,
    ) -> Tensor<3> {
        let [_, len, _] = inputs.projected.dims();
        let mut state = inputs.start.clone();
        let mut outputs = vec![None; len];
        for step in 0..len {
            let position = if direction == Direction::Forward {
                step
            } else {
                len - 1 - step
            };
            let projected = inputs
                .projected
                .clone()
                .narrow(1, position, 1)
                .squeeze_dim(1);
            let hidden = state.clone().narrow(1, 0, inputs.weight.dims()[0]);
            let recurrent =
                hidden.clone().matmul(inputs.weight.clone()) + inputs.bias.clone().unsqueeze();
            let new = plain(cell, &projected, &recurrent, &state);
            state = match padding {
                Some(padding) => new.mask_where(
                    padding.clone().narrow(1, position, 1).expand(state.dims()),
                    state,
                ),
                None => new,
            };
            outputs[position] = Some(state.clone().narrow(1, 0, hidden.dims()[1]));
        }
        Tensor::stack(outputs.into_iter().flatten().collect(), 1)
    }

    #[test]
    fn the_kernel_gives_what_steps_give() {
        // The last has several parts and is large enough for several threads.
        for (batch, len, width) in [(1, 1, 1), (2, 3, 5), (3, 4, 16), (37, 6, 19)] {
            for (cell, direction) in [
                (Cell::Gru, Direction::Forward),
                (Cell::Gru, Direction::Backward),
                (Cell::Lstm, Direction::Forward),
                (Cell::Lstm, Direction::Backward),
            ] {
                let gates_len = cell.gates() * width;
                let inputs = Inputs {
                    projected: random_tracked([batch, len, gates_len], 1.0),
                    weight: random_tracked([width, gates_len], 1.0),
                    bias: random_tracked([gates_len], 1.0),
                    start: random_tracked([batch, cell.states() * width], 1.0),
                };
                let padding: Vec<bool> = (0..batch * len)
                    .map(|index| index % len > index / len % len)
                    .collect();
                let padding = TensorData::new(padding, [batch, len]);
                let padding = Tensor::<2, Bool>::from_data(padding, &Device::flex().autodiff());
                for padding in [None, Some(&padding)] {
                    check(cell, direction, &inputs, padding);
                }
            }
        }
    }

    fn check(cell: Cell, direction: Direction, inputs: &Inputs, padding: Option<&Tensor<2, Bool>>) {
        let Inputs {
            projected,
            weight,
            bias,
            start,
        } = inputs;
        let [batch, len, _] = projected.dims();
        let upstream = with_autodiff(&random([batch, len, weight.dims()[0]], 1.0));
        let kernel = || {
            recurrent_layer(cell, direction, projected, weight, bias, start, padding)
                .expect("the kernel is there")
        };
        let values = |output: Tensor<3>| {
            let gradients = (output.clone() * upstream.clone()).sum().backward();
            [
                elements(output),
                gradient_of(projected, &gradients),
                gradient_of(weight, &gradients),
                gradient_of(bias, &gradients),
                gradient_of(start, &gradients),
            ]
        };
        let steps = values(by_steps(cell, direction, inputs, padding));
        let expected = values(kernel());
        for (expected, steps) in expected.iter().zip(&steps) {
            assert_near(expected, steps, 2e-5);
        }
        for threads in [1, 2, 5] {
            assert!(
                on_threads(threads, || values(kernel())) == expected,
                "{threads} threads"
            );
        }
        let projected = projected.clone().inner();
        let weight = weight.clone().inner();
        let bias = bias.clone().inner();
        let start = start.clone().inner();
        let padding = padding.map(|padding| padding.clone().inner());
        let applied = recurrent_layer(
            cell,
            direction,
            &projected,
            &weight,
            &bias,
            &start,
            padding.as_ref(),
        );
        assert_eq!(elements(applied.expect("the kernel is there")), expected[0]);
    }
}
