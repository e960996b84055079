//! Embeddings on the CPU: rows of the table are copied and scaled, and in the backward pass
//! gradients of positions are added up by rows of the table.
//!
//! The table is `[vocab_size, d_model]`, the output `[positions, d_model]`, both contiguous rows.
//! In the forward pass a task is some positions. In the backward pass a task is some rows of the
//! table, so that no two threads write to the same row: positions are sorted by id first, and a
//! task visits those of its rows. The sort is stable, so the gradients of a row are added in the
//! order of positions, whatever the number of threads.

use burn::tensor::{Int, Tensor};
use rayon::prelude::*;

use crate::flex::row::rows_per_task;
use crate::flex::vector::{Kernel, vectorized};
use crate::flex::{BackwardPass, Contiguous, FlexTensor, from_values, read, record};

/// [`super::embedding`] on flex.
pub(super) fn embedding(weight: Tensor<2>, ids: Tensor<2, Int>, scale: f32) -> Tensor<3> {
    let [vocab_size, d_model] = weight.dims();
    let [batch, len] = ids.dims();
    let positions = Positions {
        ids: ids.into_data().iter::<u32>().collect(),
        vocab_size,
        d_model,
        scale,
    };
    let (weight, node) = read(weight);
    let output = from_values(positions.look_up(weight.slice()), [batch, len, d_model]);
    record(positions, [node], output)
}

/// The row of the table at each position; also the backward pass.
#[derive(Clone, Debug)]
struct Positions {
    /// `[batch * len]`.
    ids: Vec<u32>,
    vocab_size: usize,
    d_model: usize,
    /// The factor of every row that is looked up.
    scale: f32,
}

impl Positions {
    /// The output: the scaled row of the table for each position.
    fn look_up(&self, weight: &[f32]) -> Vec<f32> {
        let d_model = self.d_model;
        // Added to zeros, so that both passes share one kernel.
        let mut output = vec![0.0; self.ids.len() * d_model];
        let rows = rows_per_task(d_model);
        if self.ids.len() <= rows {
            // Waking another thread would take longer.
            self.look_up_some(weight, &self.ids, &mut output);
        } else {
            output
                .par_chunks_mut((rows * d_model).max(1))
                .zip(self.ids.par_chunks(rows))
                .for_each(|(output, ids)| self.look_up_some(weight, ids, output));
        }
        output
    }

    /// Adds the scaled rows of some ids to their positions in the output.
    fn look_up_some(&self, weight: &[f32], ids: &[u32], output: &mut [f32]) {
        let Self { d_model, scale, .. } = *self;
        for (sums, id) in output.chunks_exact_mut(d_model.max(1)).zip(ids) {
            let row = &weight[*id as usize * d_model..][..d_model];
            vectorized(AddScaled { sums, row, scale });
        }
    }

    /// The gradient of the table: for each row the sum over the positions of its id, in their
    /// order.
    fn table_gradient(&self, gradient: &[f32]) -> Vec<f32> {
        let Self {
            ref ids,
            vocab_size,
            d_model,
            scale,
        } = *self;
        let mut order: Vec<u32> = (0..ids.len() as u32).collect();
        // Stable, so the positions of an id stay in their order: the sum does not depend on the
        // number of threads, though the blocks below do.
        order.sort_by_key(|position| ids[*position as usize]);
        let mut sums = vec![0.0; vocab_size * d_model];
        let rows = vocab_size
            .div_ceil(rayon::current_num_threads() * TASKS_PER_THREAD)
            .max(1);
        sums.par_chunks_mut((rows * d_model).max(1))
            .enumerate()
            .for_each(|(block, sums)| {
                let first = block * rows;
                let begin =
                    order.partition_point(|position| (ids[*position as usize] as usize) < first);
                for &position in &order[begin..] {
                    let row = ids[position as usize] as usize - first;
                    // The first id of the next block lies outside of this one's rows.
                    let Some(sums) = sums.get_mut(row * d_model..(row + 1) * d_model) else {
                        break;
                    };
                    vectorized(AddScaled {
                        sums,
                        row: &gradient[position as usize * d_model..][..d_model],
                        scale,
                    });
                }
            });
        sums
    }
}

/// Blocks of the table per thread: many, because vocabularies are sorted by frequency, so that the
/// first blocks have most of the work.
const TASKS_PER_THREAD: usize = 16;

/// Adds `scale * row` to the sums.
struct AddScaled<'a> {
    sums: &'a mut [f32],
    row: &'a [f32],
    scale: f32,
}

impl Kernel for AddScaled<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (sum, value) in self.sums.iter_mut().zip(self.row) {
            *sum += self.scale * value;
        }
    }
}

impl BackwardPass<1> for Positions {
    fn gradients(self, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let sums = self.table_gradient(Contiguous::new(gradient).slice());
        [Some(from_values(sums, [self.vocab_size, self.d_model]))]
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, TensorData, module};

    use super::*;
    use crate::flex::tests::{assert_near, elements, gradient_of};

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        let device = Device::flex();
        for (vocab_size, d_model, batch, len) in [(1, 1, 1, 1), (7, 3, 2, 5), (900, 33, 20, 31)] {
            let data = Tensor::<2>::random([vocab_size, d_model], Distribution::Default, &device)
                .into_data();
            let upstream = Tensor::<3>::random(
                [batch, len, d_model],
                Distribution::Default,
                &device.clone().autodiff(),
            );
            // Common and rare tokens, and some that do not occur.
            let ids = (0..batch * len)
                .map(|index| index * index % vocab_size)
                .collect();
            let ids = TensorData::new::<i32, _>(ids, [batch, len]);
            let run = |function: &dyn Fn(Tensor<2>, Tensor<2, Int>) -> Tensor<3>| {
                let weight =
                    Tensor::<2>::from_data(data.clone(), &device.clone().autodiff()).require_grad();
                let ids = Tensor::from_data(ids.clone(), &device.clone().autodiff());
                let output = function(weight.clone(), ids);
                let gradients = (output.clone() * upstream.clone()).sum().backward();
                (elements(output), gradient_of(&weight, &gradients))
            };
            let kernel = run(&|weight, ids| embedding(weight, ids, 1.5));
            let plain = run(&|weight, ids| module::embedding(weight, ids) * 1.5);
            assert_eq!(kernel.0, plain.0);
            assert_near(&kernel.1, &plain.1, 1e-6);
            let weight = Tensor::from_data(data, &device);
            let ids = Tensor::from_data(ids, &device);
            assert_eq!(elements(embedding(weight, ids, 1.5)), plain.0);
        }
    }
}
