//! The kernel: rows are copied and scaled in one pass, and gradients are added by rows of the table, so that no two
//! threads write to the same.

use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::tensor::{Int, Tensor};
use rayon::prelude::*;

use crate::flex::{Numbers, close_plain, from_values, open, open_plain, record};
use crate::row::rows_per_task;
use crate::vector::{Kernel, vectorized};

/// [`super::embedding`] on flex with autodiff.
pub(super) fn embedding(weight: Tensor<2>, ids: Tensor<2, Int>, scale: f32) -> Tensor<3> {
    let [vocab_size, d_model] = weight.dims();
    let [batch, len] = ids.dims();
    let places = Places { ids: ids_of(ids), vocab_size, d_model, scale };
    let (weight, node) = open(weight).into_parts();
    let output = from_values(places.look_up(Numbers::of(weight).slice()), [batch, len, d_model]);
    record(Embedding, [node], places, output)
}

/// [`super::embedding`] on flex without autodiff.
pub(super) fn apply(weight: Tensor<2>, ids: Tensor<2, Int>, scale: f32) -> Tensor<3> {
    let [vocab_size, d_model] = weight.dims();
    let [batch, len] = ids.dims();
    let places = Places { ids: ids_of(ids), vocab_size, d_model, scale };
    close_plain(from_values(places.look_up(Numbers::of(open_plain(weight)).slice()), [batch, len, d_model]))
}

fn ids_of(ids: Tensor<2, Int>) -> Vec<u32> {
    ids.into_data().iter::<u32>().collect()
}

/// Which rows of the table are where.
#[derive(Clone, Debug)]
struct Places {
    ids: Vec<u32>,
    vocab_size: usize,
    d_model: usize,
    scale: f32,
}

impl Places {
    fn look_up(&self, weight: &[f32]) -> Vec<f32> {
        let Self { d_model, scale, .. } = *self;
        let mut output = vec![0.0; self.ids.len() * d_model];
        let rows = rows_per_task(d_model);
        let copy = |(output, ids): (&mut [f32], &[u32])| {
            for (output, id) in output.chunks_exact_mut(d_model.max(1)).zip(ids) {
                let row = &weight[*id as usize * d_model..][..d_model];
                vectorized(AddScaled { sums: output, row, scale });
            }
        };
        if self.ids.len() <= rows {
            // Waking another thread would take longer.
            copy((&mut output, &self.ids));
        } else {
            output.par_chunks_mut((rows * d_model).max(1)).zip(self.ids.par_chunks(rows)).for_each(copy);
        }
        output
    }

    /// The gradient of the table: at each row the sum over the places of its token, in their order.
    fn add_up(&self, gradient: &[f32]) -> Vec<f32> {
        let Self { ref ids, vocab_size, d_model, scale } = *self;
        let mut places: Vec<u32> = (0..ids.len() as u32).collect();
        places.sort_by_key(|place| ids[*place as usize]);
        let mut sums = vec![0.0; vocab_size * d_model];
        let rows = vocab_size.div_ceil(rayon::current_num_threads() * TASKS).max(1);
        let add = |(block, sums): (usize, &mut [f32])| {
            let begin = places.partition_point(|place| (ids[*place as usize] as usize) < block * rows);
            for &place in &places[begin..] {
                let row = ids[place as usize] as usize - block * rows;
                let Some(sums) = sums.get_mut(row * d_model..(row + 1) * d_model) else { break };
                vectorized(AddScaled { sums, row: &gradient[place as usize * d_model..][..d_model], scale });
            }
        };
        sums.par_chunks_mut((rows * d_model).max(1)).enumerate().for_each(add);
        sums
    }
}

/// Parts of the table for each thread: common tokens stand together at its beginning.
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
        self.sums.iter_mut().zip(self.row).for_each(|(sum, value)| *sum += self.scale * value);
    }
}

#[derive(Debug)]
struct Embedding;

impl Backward<Flex, 1> for Embedding {
    type State = Places;

    fn backward(self, ops: Ops<Places, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = Numbers::of(grads.consume::<Flex>(&ops.node));
        let [Some(node)] = ops.parents else { return };
        let places = ops.state;
        let sums = places.add_up(gradient.slice());
        grads.register::<Flex>(node.id, from_values(sums, [places.vocab_size, places.d_model]));
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, TensorData, module};

    use super::*;
    use crate::flex::tests::{assert_near, numbers};

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        let device = Device::flex();
        for (vocab_size, d_model, batch, len) in [(1, 1, 1, 1), (7, 3, 2, 5), (900, 33, 20, 31)] {
            let data = Tensor::<2>::random([vocab_size, d_model], Distribution::Default, &device).into_data();
            let slopes = Tensor::<3>::random([batch, len, d_model], Distribution::Default, &device.clone().autodiff());
            // Common and rare tokens, and some that do not occur.
            let ids = (0..batch * len).map(|place| place * place % vocab_size).collect();
            let ids = TensorData::new::<i32, _>(ids, [batch, len]);
            let run = |function: &dyn Fn(Tensor<2>, Tensor<2, Int>) -> Tensor<3>| {
                let weight = Tensor::<2>::from_data(data.clone(), &device.clone().autodiff()).require_grad();
                let ids = Tensor::from_data(ids.clone(), &device.clone().autodiff());
                let output = function(weight.clone(), ids);
                let gradients = (output.clone() * slopes.clone()).sum().backward();
                (numbers(output), numbers(weight.grad(&gradients).expect("it is tracked")))
            };
            let kernel = run(&|weight, ids| embedding(weight, ids, 1.5));
            let plain = run(&|weight, ids| module::embedding(weight, ids) * 1.5);
            assert_eq!(kernel.0, plain.0);
            assert_near(&kernel.1, &plain.1, 1e-6);
            let (weight, ids) = (Tensor::from_data(data, &device), Tensor::from_data(ids, &device));
            assert_eq!(numbers(apply(weight, ids, 1.5)), plain.0);
        }
    }
}
