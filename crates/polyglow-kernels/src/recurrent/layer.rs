//! The kernel of a whole sequence: a task is a part of the batch, which goes through all positions by itself; and the
//! gradient of the weights is one product over all of them.

use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use super::row::{Rows, RowsMut, Step, StepBack};
use super::{Cell, Direction};
use crate::flex::{Numbers, close_plain, from_values, open, open_plain, record};
use crate::matrix::{Matrix, MatrixMut, Old, product, product_into};
use crate::row::{Part, sum_of_rows};
use crate::vector::vectorized;

/// So many parts of a batch at most: more cores than that gain nothing.
const MOST_PARTS: usize = 16;
/// So many rows has a part at least, or matrix products would be slow.
const FEWEST_ROWS: usize = 8;
/// Multiplications below which another thread would take longer to wake than to help.
const PARALLEL: usize = 1 << 17;

/// What goes into a layer: the products with the input, the weight and the bias of those with the state, and the state.
pub(super) struct Inputs {
    pub(super) projected: Tensor<3>,
    pub(super) weight: Tensor<2>,
    pub(super) bias: Tensor<1>,
    pub(super) start: Tensor<2>,
}

/// [`super::recurrent_layer`] on flex with autodiff.
pub(super) fn recurrent_layer(
    cell: Cell,
    direction: Direction,
    inputs: Inputs,
    padding: Option<&Tensor<2, Bool>>,
) -> Tensor<3> {
    let sizes = Sizes::new(cell, direction, &inputs);
    let padding = sizes.padding(padding);
    let (projected, projected_node) = open(inputs.projected).into_parts();
    let (weight, weight_node) = open(inputs.weight).into_parts();
    let (bias, bias_node) = open(inputs.bias).into_parts();
    let (start, start_node) = open(inputs.start).into_parts();
    let [projected, weight, bias, start] = [projected, weight, bias, start].map(Numbers::of);
    let Passed { output, before, recurrent } = sizes.forward([&projected, &weight, &bias, &start], &padding);
    let output = from_values(output, [sizes.batch, sizes.len, sizes.width]);
    let state = State { sizes, projected, weight, padding, before, recurrent };
    record(RecurrentLayer, [projected_node, weight_node, bias_node, start_node], state, output)
}

/// [`super::recurrent_layer`] on flex without autodiff.
pub(super) fn apply(cell: Cell, direction: Direction, inputs: Inputs, padding: Option<&Tensor<2, Bool>>) -> Tensor<3> {
    let sizes = Sizes::new(cell, direction, &inputs);
    let padding = sizes.padding(padding);
    let Inputs { projected, weight, bias, start } = inputs;
    let inputs = [open_plain(projected), open_plain(weight), open_plain(bias), open_plain(start)].map(Numbers::of);
    let output = sizes.forward(inputs.each_ref(), &padding).output;
    close_plain(from_values(output, [sizes.batch, sizes.len, sizes.width]))
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
    fn new(cell: Cell, direction: Direction, inputs: &Inputs) -> Self {
        let [batch, len, sums] = inputs.projected.dims();
        let sizes = Self { cell, direction, batch, len, width: sums / cell.gates() };
        let expected = ([sizes.width, sums], [sums], [batch, sizes.state()]);
        assert_eq!((inputs.weight.dims(), inputs.bias.dims(), inputs.start.dims()), expected, "a recurrent layer");
        assert!(batch > 0 && len > 0 && sizes.width > 0, "a recurrent layer needs something to read");
        sizes
    }

    /// Numbers in a row of sums.
    fn sums(self) -> usize {
        self.cell.gates() * self.width
    }

    /// Numbers in a state.
    fn state(self) -> usize {
        self.cell.states() * self.width
    }

    /// By positions, `[len, batch]`; nothing where there is no padding.
    fn padding(self, padding: Option<&Tensor<2, Bool>>) -> Vec<bool> {
        let Some(padding) = padding else { return Vec::new() };
        assert_eq!(padding.dims(), [self.batch, self.len], "the padding of a recurrent layer");
        padding.clone().transpose().into_data().iter::<bool>().collect()
    }

    /// Rows of the batch in a part, whatever the number of threads.
    fn rows_per_part(self) -> usize {
        let parts = (self.batch / FEWEST_ROWS).clamp(1, MOST_PARTS);
        // A power of two, so that cores have equal shares.
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

    fn forward(self, inputs: [&Numbers; 4], padding: &[bool]) -> Passed {
        let (len, width, sums, state) = (self.len, self.width, self.sums(), self.state());
        let mut output = vec![0.0; self.batch * len * width];
        let mut before = vec![0.0; self.batch * len * state];
        let mut recurrent = inputs[2].slice().repeat(self.batch * len);
        let rows = self.rows_per_part() * len;
        let run = |(part, ((output, before), recurrent)): Part<'_>| {
            self.forward_part(inputs, padding, part * self.rows_per_part(), [output, before, recurrent]);
        };
        if self.is_small() {
            let parts = output.chunks_mut(rows * width).zip(before.chunks_mut(rows * state));
            parts.zip(recurrent.chunks_mut(rows * sums)).enumerate().for_each(run);
        } else {
            let parts = output.par_chunks_mut(rows * width).zip(before.par_chunks_mut(rows * state));
            parts.zip(recurrent.par_chunks_mut(rows * sums)).enumerate().for_each(run);
        }
        Passed { output, before, recurrent }
    }

    fn forward_part(self, inputs: [&Numbers; 4], padding: &[bool], first: usize, results: [&mut [f32]; 3]) {
        let [projected, weight, _, start] = inputs.map(Numbers::slice);
        let [output, before, recurrent] = results;
        let Self { cell, len, width, .. } = self;
        let (sums, state) = (self.sums(), self.state());
        let rows = output.len() / (len * width);
        let mut states = start[first * state..][..rows * state].to_vec();
        for position in (0..len).map(|step| self.position(step)) {
            let products = MatrixMut::strided(&mut recurrent[position * sums..], rows, sums, len * sums);
            let hidden = Matrix::strided(&states, rows, width, state);
            product_into(products, hidden, Matrix::new(weight, width, sums), 1.0, Old::Added);
            for (row, state) in states.chunks_exact(state).enumerate() {
                before[(row * len + position) * state.len()..][..state.len()].copy_from_slice(state);
            }
            vectorized(Step {
                cell,
                width,
                projected: Rows { values: &projected[(first * len + position) * sums..], stride: len * sums },
                recurrent: Rows { values: &recurrent[position * sums..], stride: len * sums },
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
    projected: Numbers,
    weight: Numbers,
    padding: Vec<bool>,
    before: Vec<f32>,
    recurrent: Vec<f32>,
}

impl State {
    /// From the gradient of the output to those of the sums, which are 0 before, and to that of the state at the start.
    fn backward_part(&self, gradient: &[f32], first: usize, results: [&mut [f32]; 3]) {
        let [of_projected, of_recurrent, of_start] = results;
        let Self { sizes, padding, .. } = self;
        let Sizes { cell, len, width, .. } = *sizes;
        let (sums, state) = (sizes.sums(), sizes.state());
        let rows = of_start.len() / state;
        let weight = Matrix::new(self.weight.slice(), width, sums).transposed();
        for position in (0..len).rev().map(|step| sizes.position(step)) {
            for (row, slopes) in of_start.chunks_exact_mut(state).enumerate() {
                let gradient = &gradient[((first + row) * len + position) * width..][..width];
                slopes.iter_mut().zip(gradient).for_each(|(slope, gradient)| *slope += gradient);
            }
            let place = first * len + position;
            vectorized(StepBack {
                cell,
                width,
                projected: Rows { values: &self.projected.slice()[place * sums..], stride: len * sums },
                recurrent: Rows { values: &self.recurrent[place * sums..], stride: len * sums },
                states: Rows { values: &self.before[place * state..], stride: len * state },
                slopes: of_start,
                padding: sizes.padding_at(padding, position, first),
                of_projected: RowsMut { values: &mut of_projected[position * sums..], stride: len * sums },
                of_recurrent: RowsMut { values: &mut of_recurrent[position * sums..], stride: len * sums },
            });
            let of_hidden = MatrixMut::strided(of_start, rows, width, state);
            let of_products = Matrix::strided(&of_recurrent[position * sums..], rows, sums, len * sums);
            product_into(of_hidden, of_products, weight, 1.0, Old::Added);
        }
    }
}

#[derive(Debug)]
struct RecurrentLayer;

impl Backward<Flex, 4> for RecurrentLayer {
    type State = State;

    fn backward(self, ops: Ops<State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let state = ops.state;
        let Sizes { batch, len, width, .. } = state.sizes;
        let (sums, kept) = (state.sizes.sums(), state.sizes.state());
        let gradient = Numbers::of(grads.consume::<Flex>(&ops.node));
        let (mut of_projected, mut of_recurrent) = (vec![0.0; batch * len * sums], vec![0.0; batch * len * sums]);
        let mut of_start = vec![0.0; batch * kept];
        let rows = state.sizes.rows_per_part();
        let run = |(part, ((of_projected, of_recurrent), of_start)): Part<'_>| {
            state.backward_part(gradient.slice(), part * rows, [of_projected, of_recurrent, of_start]);
        };
        let block = rows * len * sums;
        if state.sizes.is_small() {
            let parts = of_projected.chunks_mut(block).zip(of_recurrent.chunks_mut(block));
            parts.zip(of_start.chunks_mut(rows * kept)).enumerate().for_each(run);
        } else {
            let parts = of_projected.par_chunks_mut(block).zip(of_recurrent.par_chunks_mut(block));
            parts.zip(of_start.par_chunks_mut(rows * kept)).enumerate().for_each(run);
        }
        let [projected_node, weight_node, bias_node, start_node] = ops.parents;
        if let Some(node) = projected_node {
            grads.register::<Flex>(node.id, from_values(of_projected, [batch, len, sums]));
        }
        if let Some(node) = weight_node {
            let before = Matrix::strided(&state.before, batch * len, width, kept);
            let of_weight = product(before.transposed(), Matrix::new(&of_recurrent, batch * len, sums));
            grads.register::<Flex>(node.id, from_values(of_weight, [width, sums]));
        }
        if let Some(node) = bias_node {
            grads.register::<Flex>(node.id, from_values(sum_of_rows(&of_recurrent, sums), [sums]));
        }
        if let Some(node) = start_node {
            grads.register::<Flex>(node.id, from_values(of_start, [batch, kept]));
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, TensorData};

    use super::super::{plain, recurrent_layer};
    use super::*;
    use crate::flex::tests::{assert_near, numbers, on_threads};

    fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        let data = Tensor::<D>::random(shape, Distribution::Uniform(-1.0, 1.0), &Device::flex()).into_data();
        Tensor::<D>::from_data(data, &Device::flex().autodiff()).require_grad()
    }

    /// Position by position.
    fn by_steps(cell: Cell, direction: Direction, inputs: &Inputs, padding: Option<&Tensor<2, Bool>>) -> Tensor<3> {
        let [_, len, _] = inputs.projected.dims();
        let mut state = inputs.start.clone();
        let mut outputs = vec![None; len];
        for step in 0..len {
            let position = if direction == Direction::Forward { step } else { len - 1 - step };
            let projected = inputs.projected.clone().narrow(1, position, 1).squeeze_dim(1);
            let hidden = state.clone().narrow(1, 0, inputs.weight.dims()[0]);
            let recurrent = hidden.clone().matmul(inputs.weight.clone()) + inputs.bias.clone().unsqueeze();
            let new = plain(cell, &projected, &recurrent, &state);
            state = match padding {
                Some(padding) => new.mask_where(padding.clone().narrow(1, position, 1).expand(state.dims()), state),
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
                let padding: Vec<bool> = (0..batch * len).map(|place| place % len > place / len % len).collect();
                let padding = TensorData::new(padding, [batch, len]);
                let padding = Tensor::<2, Bool>::from_data(padding, &Device::flex().autodiff());
                for padding in [None, Some(&padding)] {
                    check(cell, direction, &inputs(), padding);
                }
            }
        }
    }

    fn check(cell: Cell, direction: Direction, inputs: &Inputs, padding: Option<&Tensor<2, Bool>>) {
        let Inputs { projected, weight, bias, start } = inputs;
        let [batch, len, _] = projected.dims();
        let slopes = random([batch, len, weight.dims()[0]]).detach();
        let kernel =
            || recurrent_layer(cell, direction, projected, weight, bias, start, padding).expect("the kernel is there");
        let values = |output: Tensor<3>| {
            let gradients = (output.clone() * slopes.clone()).sum().backward();
            [
                numbers(output),
                numbers(projected.grad(&gradients).expect("it is tracked")),
                numbers(weight.grad(&gradients).expect("it is tracked")),
                numbers(bias.grad(&gradients).expect("it is tracked")),
                numbers(start.grad(&gradients).expect("it is tracked")),
            ]
        };
        let steps = values(by_steps(cell, direction, inputs, padding));
        let expected = values(kernel());
        for (expected, steps) in expected.iter().zip(&steps) {
            assert_near(expected, steps, 2e-5);
        }
        for threads in [1, 2, 5] {
            assert!(on_threads(threads, || values(kernel())) == expected, "{threads} threads");
        }
        let (projected, weight, bias) = (projected.clone().inner(), weight.clone().inner(), bias.clone().inner());
        let (start, padding) = (start.clone().inner(), padding.map(|padding| padding.clone().inner()));
        let applied = recurrent_layer(cell, direction, &projected, &weight, &bias, &start, padding.as_ref());
        assert_eq!(numbers(applied.expect("the kernel is there")), expected[0]);
    }
}
