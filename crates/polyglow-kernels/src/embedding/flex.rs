//! The kernel: rows are copied and scaled in one pass, and gradients are added up by rows of the
//! table, so that no two threads write to the same row.

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

/// Which row of the table is at each position.
#[derive(Clone, Debug)]
struct Positions {
    ids: Vec<u32>,
    vocab_size: usize,
    d_model: usize,
    scale: f32,
}

impl Positions {
    fn look_up(&self, weight: &[f32]) -> Vec<f32> {
        let Self { d_model, scale, .. } = *self;
        // Added to zeros, so that looking up and adding up share one kernel.
        let mut output = vec![0.0; self.ids.len() * d_model];
        let rows = rows_per_task(d_model);
        let copy = |(output, ids): (&mut [f32], &[u32])| {
            for (output, id) in output.chunks_exact_mut(d_model.max(1)).zip(ids) {
                let row = &weight[*id as usize * d_model..][..d_model];
                vectorized(AddScaled {
                    sums: output,
                    row,
                    scale,
                });
            }
        };
        if self.ids.len() <= rows {
            // Waking another thread would take longer.
            copy((&mut output, &self.ids));
        } else {
            output
                .par_chunks_mut((rows * d_model).max(1))
                .zip(self.ids.par_chunks(rows))
                .for_each(copy);
        }
        output
    }

    /// The gradient of the table: at each row the sum over the positions of its id, in their order.
    fn add_up(&self, gradient: &[f32]) -> Vec<f32> {
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
            .div_ceil(rayon::current_num_threads() * TASKS)
            .max(1);
        let add = |(block, sums): (usize, &mut [f32])| {
            let begin =
                order.partition_point(|position| (ids[*position as usize] as usize) < block * rows);
            for &position in &order[begin..] {
                let row = ids[position as usize] as usize - block * rows;
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
        };
        sums.par_chunks_mut((rows * d_model).max(1))
            .enumerate()
            .for_each(add);
        sums
    }
}

/// Blocks of the table per thread: vocabularies are sorted by frequency, so the first blocks have
/// most of the work.
const TASKS: usize = 16;

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
        self.sums
            .iter_mut()
            .zip(self.row)
            .for_each(|(sum, value)| *sum += self.scale * value);
    }
}

impl BackwardPass<1> for Positions {
    fn gradients(self, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let sums = self.add_up(Contiguous::new(gradient).slice());
        [Some(from_values(sums, [self.vocab_size, self.d_model]))]
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, TensorData, module};

    use super::*;
    use crate::flex::tests::{assert_near, elements};

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
                .map(|place| place * place % vocab_size)
                .collect();
            let ids = TensorData::new::<i32, _>(ids, [batch, len]);
            let run = |function: &dyn Fn(Tensor<2>, Tensor<2, Int>) -> Tensor<3>| {
                let weight =
                    Tensor::<2>::from_data(data.clone(), &device.clone().autodiff()).require_grad();
                let ids = Tensor::from_data(ids.clone(), &device.clone().autodiff());
                let output = function(weight.clone(), ids);
                let gradients = (output.clone() * upstream.clone()).sum().backward();
                (
                    elements(output),
                    elements(weight.grad(&gradients).expect("it is tracked")),
                )
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
