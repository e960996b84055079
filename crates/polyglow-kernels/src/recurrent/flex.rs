//! The kernel of one position: it keeps what it was given, and computes gates again for the gradients.

use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::Cell;
use super::row::{Rows, RowsMut, Step, StepBack};
use crate::flex::{Numbers, close_plain, from_values, open, open_plain, record, values_of};
use crate::row::Part;
use crate::vector::vectorized;

/// Numbers of a state that are worth a task.
const PART: usize = 1 << 13;

/// [`super::recurrent_step`] on flex with autodiff.
pub(super) fn recurrent_step(cell: Cell, projected: Tensor<2>, recurrent: Tensor<2>, state: Tensor<2>) -> Tensor<2> {
    let sizes = Sizes::new(cell, &projected, &recurrent, &state);
    let (projected, projected_node) = open(projected).into_parts();
    let (recurrent, recurrent_node) = open(recurrent).into_parts();
    let (state, state_node) = open(state).into_parts();
    let [projected, recurrent, before] = [projected, recurrent, state].map(Numbers::of);
    let mut states = before.slice().to_vec();
    sizes.step(projected.slice(), recurrent.slice(), &mut states);
    let output = from_values(states, [sizes.rows, sizes.state()]);
    let state = State { sizes, projected, recurrent, before };
    record(RecurrentStep, [projected_node, recurrent_node, state_node], state, output)
}

/// [`super::recurrent_step`] on flex without autodiff.
pub(super) fn apply(cell: Cell, projected: Tensor<2>, recurrent: Tensor<2>, state: Tensor<2>) -> Tensor<2> {
    let sizes = Sizes::new(cell, &projected, &recurrent, &state);
    let [projected, recurrent] = [projected, recurrent].map(|tensor| Numbers::of(open_plain(tensor)));
    let mut states = values_of(open_plain(state));
    sizes.step(projected.slice(), recurrent.slice(), &mut states);
    close_plain(from_values(states, [sizes.rows, sizes.state()]))
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    cell: Cell,
    rows: usize,
    width: usize,
}

impl Sizes {
    fn new(cell: Cell, projected: &Tensor<2>, recurrent: &Tensor<2>, state: &Tensor<2>) -> Self {
        let [rows, kept] = state.dims();
        let sizes = Self { cell, rows, width: kept / cell.states() };
        let sums = [rows, sizes.sums()];
        assert_eq!(
            (kept, projected.dims(), recurrent.dims()),
            (sizes.state(), sums, sums),
            "the sums of a recurrent cell"
        );
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

    /// Rows in a task.
    fn rows_per_task(self) -> usize {
        (PART / self.state().max(1)).max(1)
    }

    fn step(self, projected: &[f32], recurrent: &[f32], states: &mut [f32]) {
        let Self { cell, width, .. } = self;
        let (block, stride) = (self.rows_per_task(), self.sums());
        let run = |((states, projected), recurrent): ((&mut [f32], &[f32]), &[f32])| {
            let (projected, recurrent) = (Rows { values: projected, stride }, Rows { values: recurrent, stride });
            vectorized(Step { cell, width, projected, recurrent, states, padding: &[] });
        };
        if self.rows <= block {
            // Waking another thread would take longer.
            run(((states, projected), recurrent));
        } else {
            let parts = states.par_chunks_mut(block * self.state()).zip(projected.par_chunks(block * stride));
            parts.zip(recurrent.par_chunks(block * stride)).for_each(run);
        }
    }
}

/// What the gradients are made from.
#[derive(Clone, Debug)]
struct State {
    sizes: Sizes,
    projected: Numbers,
    recurrent: Numbers,
    before: Numbers,
}

#[derive(Debug)]
struct RecurrentStep;

impl Backward<Flex, 3> for RecurrentStep {
    type State = State;

    fn backward(self, ops: Ops<State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let State { sizes, projected, recurrent, before } = ops.state;
        let (Sizes { cell, rows, width }, sums, kept) = (sizes, sizes.sums(), sizes.state());
        let mut slopes = values_of(grads.consume::<Flex>(&ops.node));
        let (mut of_projected, mut of_recurrent) = (vec![0.0; rows * sums], vec![0.0; rows * sums]);
        let block = sizes.rows_per_task();
        let run = |(part, ((slopes, of_projected), of_recurrent)): Part<'_>| {
            let first = part * block;
            vectorized(StepBack {
                cell,
                width,
                projected: Rows::from(projected.slice(), first, sums),
                recurrent: Rows::from(recurrent.slice(), first, sums),
                states: Rows::from(before.slice(), first, kept),
                slopes,
                padding: &[],
                of_projected: RowsMut { values: of_projected, stride: sums },
                of_recurrent: RowsMut { values: of_recurrent, stride: sums },
            });
        };
        if rows <= block {
            run((0, ((&mut slopes, &mut of_projected), &mut of_recurrent)));
        } else {
            let parts = slopes.par_chunks_mut(block * kept).zip(of_projected.par_chunks_mut(block * sums));
            parts.zip(of_recurrent.par_chunks_mut(block * sums)).enumerate().for_each(run);
        }
        let [projected_node, recurrent_node, state_node] = ops.parents;
        if let Some(node) = projected_node {
            grads.register::<Flex>(node.id, from_values(of_projected, [rows, sums]));
        }
        if let Some(node) = recurrent_node {
            grads.register::<Flex>(node.id, from_values(of_recurrent, [rows, sums]));
        }
        if let Some(node) = state_node {
            grads.register::<Flex>(node.id, from_values(slopes, [rows, kept]));
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution};

    use super::super::{plain, recurrent_step};
    use super::*;
    use crate::flex::tests::{assert_near, numbers, on_threads};

    fn random(shape: [usize; 2]) -> Tensor<2> {
        let data = Tensor::<2>::random(shape, Distribution::Uniform(-3.0, 3.0), &Device::flex()).into_data();
        Tensor::<2>::from_data(data, &Device::flex().autodiff()).require_grad()
    }

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        // The last is large enough for several threads.
        for (rows, width) in [(1, 1), (3, 16), (2, 37), (150, 131)] {
            for cell in [Cell::Gru, Cell::Lstm] {
                let sums = || random([rows, cell.gates() * width]);
                let (projected, recurrent, state) = (sums(), sums(), random([rows, cell.states() * width]));
                let slopes = random([rows, cell.states() * width]).detach();
                let kernel = || recurrent_step(cell, projected.clone(), recurrent.clone(), state.clone());
                let values = |output: Tensor<2>| {
                    let gradients = (output.clone() * slopes.clone()).sum().backward();
                    let of = |tensor: &Tensor<2>| numbers(tensor.grad(&gradients).expect("it is tracked"));
                    [numbers(output), of(&projected), of(&recurrent), of(&state)]
                };
                let (expected, plain) = (values(kernel()), values(plain(cell, &projected, &recurrent, &state)));
                for (expected, plain) in expected.iter().zip(&plain) {
                    assert_near(expected, plain, 2e-6);
                }
                for threads in [1, 2, 5] {
                    assert!(on_threads(threads, || values(kernel())) == expected, "{threads} threads");
                }
                let [projected, recurrent, state] = [projected, recurrent, state].map(Tensor::inner);
                assert_eq!(numbers(recurrent_step(cell, projected, recurrent, state)), expected[0]);
            }
        }
    }
}
