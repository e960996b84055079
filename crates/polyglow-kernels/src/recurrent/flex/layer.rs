//! The kernel of a whole sequence: a task is a part of the batch, which goes through all positions
//! without waiting for the others. The gradient of the weights is one product over all rows and
//! positions, which is faster than one at each.

use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use super::row::{Rows, RowsMut, Step, StepBackward};
use crate::flex::matrix::{Matrix, MatrixMut, Store, product, product_into};
use crate::flex::row::{Part, sum_of_rows};
use crate::flex::vector::vectorized;
use crate::flex::{BackwardPass, Contiguous, FlexTensor, from_values, mode_of_both, read, record};
use crate::{Cell, Direction, Factors};

/// The most parts of a batch: more cores than that gain nothing.
const MOST_PARTS: usize = 16;
/// The fewest rows of a part: with fewer, a position's product reads all weights for little work.
const FEWEST_ROWS: usize = 8;
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
    let [batch, len, sums] = projected.dims();
    let sizes = Sizes {
        cell,
        direction,
        batch,
        len,
        width: sums / cell.gates(),
    };
    sizes.check([weight.dims(), start.dims()], bias.dims());
    let padding = sizes.padding(padding);
    let (projected, projected_node) = read(projected.clone());
    let (weight, weight_node) = read(weight.clone());
    let (bias, bias_node) = read(bias.clone());
    let (start, start_node) = read(start.clone());
    let Passed {
        output,
        before,
        recurrent,
    } = sizes.forward([&projected, &weight, &bias, &start], &padding);
    let output = from_values(output, [batch, len, sizes.width]);
    let state = State {
        sizes,
        projected,
        weight,
        padding,
        before,
        recurrent,
    };
    Some(record(
        state,
        [projected_node, weight_node, bias_node, start_node],
        output,
    ))
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    cell: Cell,
    direction: Direction,
    batch: usize,
    len: usize,
    width: usize,
}

/// What is left of a forward pass.
struct Passed {
    /// `[batch, len, width]`.
    output: Vec<f32>,
    /// The states before the positions, `[batch, len, states * width]`.
    before: Vec<f32>,
    /// Their products with the weight, and the bias, `[batch, len, gates * width]`.
    recurrent: Vec<f32>,
}

impl Sizes {
    fn check(self, [weight, start]: [[usize; 2]; 2], bias: [usize; 1]) {
        let expected = (
            [self.width, self.sums()],
            [self.batch, self.state()],
            [self.sums()],
        );
        assert_eq!((weight, start, bias), expected, "a recurrent layer");
        // Chunks of length 0 panic.
        assert!(
            self.batch > 0 && self.len > 0 && self.width > 0,
            "a recurrent layer needs something to read"
        );
    }

    /// Elements in a row of sums.
    fn sums(self) -> usize {
        self.cell.gates() * self.width
    }

    /// Elements in a state.
    fn state(self) -> usize {
        self.cell.states() * self.width
    }

    /// By positions, `[len, batch]`, so that a part's rows lie together at each; empty without
    /// padding.
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

    /// Rows of the batch in a part, whatever the number of threads: the
    /// bits of a product may depend on its number of rows.
    fn rows_per_part(self) -> usize {
        let parts = (self.batch / FEWEST_ROWS).clamp(1, MOST_PARTS);
        // A power of two, so that machines with 2, 4 or 8 cores have equal shares for each.
        self.batch.div_ceil(1 << parts.ilog2())
    }

    fn is_small(self) -> bool {
        self.batch * self.len * self.width * self.sums() < PARALLEL
    }

    /// Which position comes at a step.
    fn position(self, step: usize) -> usize {
        match self.direction {
            Direction::Forward => step,
            Direction::Backward => self.len - 1 - step,
        }
    }

    /// Of the rows of a part from `first` on.
    fn padding_at(self, padding: &[bool], position: usize, first: usize) -> &[bool] {
        padding.get(position * self.batch + first..).unwrap_or(&[])
    }

    fn forward(self, inputs: [&Contiguous; 4], padding: &[bool]) -> Passed {
        let len = self.len;
        let width = self.width;
        let sums = self.sums();
        let state = self.state();
        let mut output = vec![0.0; self.batch * len * width];
        let mut before = vec![0.0; self.batch * len * state];
        // The bias in every row, to which products are added.
        let mut recurrent = inputs[2].slice().repeat(self.batch * len);
        let rows = self.rows_per_part() * len;
        let run = |(part, ((output, before), recurrent)): Part<'_>| {
            self.forward_part(
                inputs,
                padding,
                part * self.rows_per_part(),
                [output, before, recurrent],
            );
        };
        if self.is_small() {
            let parts = output
                .chunks_mut(rows * width)
                .zip(before.chunks_mut(rows * state));
            parts
                .zip(recurrent.chunks_mut(rows * sums))
                .enumerate()
                .for_each(run);
        } else {
            let parts = output
                .par_chunks_mut(rows * width)
                .zip(before.par_chunks_mut(rows * state));
            parts
                .zip(recurrent.par_chunks_mut(rows * sums))
                .enumerate()
                .for_each(run);
        }
        Passed {
            output,
            before,
            recurrent,
        }
    }

    fn forward_part(
        self,
        inputs: [&Contiguous; 4],
        padding: &[bool],
        first: usize,
        results: [&mut [f32]; 3],
    ) {
        let [projected, weight, _, start] = inputs.map(Contiguous::slice);
        let [output, before, recurrent] = results;
        let Self {
            cell, len, width, ..
        } = self;
        let sums = self.sums();
        let state = self.state();
        let rows = output.len() / (len * width);
        let mut states = start[first * state..][..rows * state].to_vec();
        for position in (0..len).map(|step| self.position(step)) {
            // Rows of one position lie `len` rows apart; strides save copying them together.
            let products =
                MatrixMut::strided(&mut recurrent[position * sums..], rows, sums, len * sums);
            let hidden = Matrix::strided(&states, rows, width, state);
            // On this core: a product of few rows is too small to divide, and other parts have the
            // other cores.
            product_into(
                products,
                hidden,
                Matrix::new(weight, width, sums),
                1.0,
                Store::Accumulate,
            );
            for (row, state) in states.chunks_exact(state).enumerate() {
                // Kept for the gradient of the weights, which is one product with all of them.
                before[(row * len + position) * state.len()..][..state.len()]
                    .copy_from_slice(state);
            }
            vectorized(Step {
                cell,
                width,
                projected: Rows {
                    values: &projected[(first * len + position) * sums..],
                    stride: len * sums,
                },
                recurrent: Rows {
                    values: &recurrent[position * sums..],
                    stride: len * sums,
                },
                states: &mut states,
                padding: self.padding_at(padding, position, first),
            });
            for (row, state) in states.chunks_exact(state).enumerate() {
                output[(row * len + position) * width..][..width].copy_from_slice(&state[..width]);
            }
        }
    }
}

/// What the gradients are made from.
#[derive(Clone, Debug)]
struct State {
    sizes: Sizes,
    projected: Contiguous,
    weight: Contiguous,
    padding: Vec<bool>,
    /// As in [`Passed`]. Kept, because computing them again would be the whole forward pass.
    before: Vec<f32>,
    recurrent: Vec<f32>,
}

impl State {
    /// From the gradient of the output to those of the sums, which are 0 before, and to that of the
    /// state at the start.
    fn backward_part(&self, gradient: &[f32], first: usize, results: [&mut [f32]; 3]) {
        let [grad_projected, grad_recurrent, grad_start] = results;
        let Self { sizes, padding, .. } = self;
        let Sizes {
            cell, len, width, ..
        } = *sizes;
        let sums = sizes.sums();
        let state = sizes.state();
        let rows = grad_start.len() / state;
        let weight = Matrix::new(self.weight.slice(), width, sums).transposed();
        for position in (0..len).rev().map(|step| sizes.position(step)) {
            for (row, grads) in grad_start.chunks_exact_mut(state).enumerate() {
                let gradient = &gradient[((first + row) * len + position) * width..][..width];
                // A hidden state is an output and enters the next position, so its gradient has two
                // parts. The gradient of an LSTM's memory, behind it in `slopes`, has only the
                // second.
                grads
                    .iter_mut()
                    .zip(gradient)
                    .for_each(|(grad, gradient)| *grad += gradient);
            }
            let place = first * len + position;
            vectorized(StepBackward {
                cell,
                width,
                projected: Rows {
                    values: &self.projected.slice()[place * sums..],
                    stride: len * sums,
                },
                recurrent: Rows {
                    values: &self.recurrent[place * sums..],
                    stride: len * sums,
                },
                states: Rows {
                    values: &self.before[place * state..],
                    stride: len * state,
                },
                grads: grad_start,
                padding: sizes.padding_at(padding, position, first),
                grad_projected: RowsMut {
                    values: &mut grad_projected[position * sums..],
                    stride: len * sums,
                },
                grad_recurrent: RowsMut {
                    values: &mut grad_recurrent[position * sums..],
                    stride: len * sums,
                },
            });
            // What the state before did to this position's sums; 0 at padding, whose rows of
            // `of_recurrent` are 0.
            let grad_hidden = MatrixMut::strided(grad_start, rows, width, state);
            let grad_products =
                Matrix::strided(&grad_recurrent[position * sums..], rows, sums, len * sums);
            product_into(grad_hidden, grad_products, weight, 1.0, Store::Accumulate);
        }
    }
}

impl BackwardPass<4> for State {
    fn gradients(
        self,
        gradient: FlexTensor,
        [_, grad_weight, grad_bias, _]: [bool; 4],
    ) -> [Option<FlexTensor>; 4] {
        let Sizes {
            batch, len, width, ..
        } = self.sizes;
        let sums = self.sizes.sums();
        let kept = self.sizes.state();
        let gradient = Contiguous::new(gradient);
        let mut grad_projected = vec![0.0; batch * len * sums];
        let mut grad_recurrent = vec![0.0; batch * len * sums];
        let mut grad_start = vec![0.0; batch * kept];
        let rows = self.sizes.rows_per_part();
        let run = |(part, ((grad_projected, grad_recurrent), grad_start)): Part<'_>| {
            self.backward_part(
                gradient.slice(),
                part * rows,
                [grad_projected, grad_recurrent, grad_start],
            );
        };
        let block = rows * len * sums;
        if self.sizes.is_small() {
            let parts = grad_projected
                .chunks_mut(block)
                .zip(grad_recurrent.chunks_mut(block));
            parts
                .zip(grad_start.chunks_mut(rows * kept))
                .enumerate()
                .for_each(run);
        } else {
            let parts = grad_projected
                .par_chunks_mut(block)
                .zip(grad_recurrent.par_chunks_mut(block));
            parts
                .zip(grad_start.par_chunks_mut(rows * kept))
                .enumerate()
                .for_each(run);
        }
        // Over all rows and positions at once. Sums at padding are 0 in `of_recurrent`, so it adds
        // nothing.
        let grad_weight = grad_weight.then(|| {
            let before = Matrix::strided(&self.before, batch * len, width, kept);
            let grad_weight = product(
                before.transposed(),
                Matrix::new(&grad_recurrent, batch * len, sums),
                Factors::F32,
            );
            from_values(grad_weight, [width, sums])
        });
        let grad_bias = grad_bias.then(|| from_values(sum_of_rows(&grad_recurrent, sums), [sums]));
        let grad_projected = from_values(grad_projected, [batch, len, sums]);
        [
            Some(grad_projected),
            grad_weight,
            grad_bias,
            Some(from_values(grad_start, [batch, kept])),
        ]
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, TensorData};

    use super::*;
    use crate::flex::tests::{assert_near, elements, on_threads};
    use crate::recurrent::{plain, recurrent_layer};

    fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        let data = Tensor::<D>::random(shape, Distribution::Uniform(-1.0, 1.0), &Device::flex())
            .into_data();
        Tensor::<D>::from_data(data, &Device::flex().autodiff()).require_grad()
    }

    struct Inputs {
        projected: Tensor<3>,
        weight: Tensor<2>,
        bias: Tensor<1>,
        start: Tensor<2>,
    }

    /// Position by position.
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
                let sums = cell.gates() * width;
                let inputs = || Inputs {
                    projected: random([batch, len, sums]),
                    weight: random([width, sums]),
                    bias: random([sums]),
                    start: random([batch, cell.states() * width]),
                };
                let padding: Vec<bool> = (0..batch * len)
                    .map(|place| place % len > place / len % len)
                    .collect();
                let padding = TensorData::new(padding, [batch, len]);
                let padding = Tensor::<2, Bool>::from_data(padding, &Device::flex().autodiff());
                for padding in [None, Some(&padding)] {
                    check(cell, direction, &inputs(), padding);
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
        let upstream = random([batch, len, weight.dims()[0]]).detach();
        let kernel = || {
            recurrent_layer(cell, direction, projected, weight, bias, start, padding)
                .expect("the kernel is there")
        };
        let values = |output: Tensor<3>| {
            let gradients = (output.clone() * upstream.clone()).sum().backward();
            [
                elements(output),
                elements(projected.grad(&gradients).expect("it is tracked")),
                elements(weight.grad(&gradients).expect("it is tracked")),
                elements(bias.grad(&gradients).expect("it is tracked")),
                elements(start.grad(&gradients).expect("it is tracked")),
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
