//! The forward and backward passes of a step, on every shard of its window.

use std::mem::take;
use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use polyglow_data::random::mix;
use polyglow_model::{computes_on_host, dropout};
use polyglow_predict::error::Result;
use polyglow_predict::parallel::each;

use crate::tasks::{BatchOf, BatchSize, Loss, MicroBatch, Task};
use crate::train::step::{OnPhase, Phase};
use crate::train::sums::{GradientSum, WindowSums};

/// The key of a step, which decides its dropout.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepKey {
    /// Seed of the run.
    pub(super) seed: u64,
    /// The step's number, from 1.
    pub(super) step: u64,
    /// [`StepArgs::first_micro_batch`](crate::train::StepArgs::first_micro_batch).
    pub(super) first_micro_batch: usize,
}

impl StepKey {
    /// Derives the key of a shard from its index and that of its micro-batch in the window.
    ///
    /// A micro-batch is numbered over all processes, so that dropout is the same however many of
    /// them share a step.
    fn shard(&self, micro_batch: usize, shard: usize) -> u64 {
        let micro_batch = (self.first_micro_batch + micro_batch) as u64;
        mix(&[self.seed, self.step, micro_batch, shard as u64])
    }
}

/// The task, the model and all else that the passes of a step share.
pub(super) struct StepContext<'a, T: Task> {
    pub(super) task: &'a T,
    pub(super) model: &'a T::Model,
    pub(super) device: &'a Device,
    pub(super) observe: &'a OnPhase<'a>,
}

/// A batch of a window, and its position there.
struct Shard<'w, T: Task> {
    batch: &'w BatchOf<T>,
    /// Index of its micro-batch in the window.
    micro_batch: usize,
    /// Index in its micro-batch.
    index: usize,
    is_last: bool,
}

impl<T: Task> StepContext<'_, T> {
    /// Makes the forward and the backward passes of a window, and adds up their gradients and
    /// losses. A loss is multiplied by `scale` before it is differentiated, so that small gradients
    /// do not become 0 in f16; the optimizer divides the gradients by it, and the losses that are
    /// returned are without it.
    ///
    /// Gradients are added in order, first those of each micro-batch and then those of the window,
    /// so that the result does not depend on the number of threads.
    pub(super) fn forward_backward_window(
        &self,
        window: &[MicroBatch<T>],
        key: StepKey,
        scale: Option<&Tensor<1>>,
    ) -> Result<WindowSums> {
        let shards: Vec<Shard<'_, T>> = shards(window);
        let threads = self.num_threads(window);
        let is_parallel = threads > 1;
        let mut window_sum = Sum::default();
        let mut micro_batch_sum = Sum::default();
        each(
            shards.len(),
            threads,
            |index| Ok(self.forward_backward_shard(&shards[index], key, scale, is_parallel)),
            |index, shard_sums| {
                micro_batch_sum.add(shard_sums);
                if shards[index].is_last {
                    window_sum.add(take(&mut micro_batch_sum).total(self.device));
                }
            },
        )?;
        let mut total = window_sum.total(self.device);
        // Other processes may have batches where this one has none; its gradients still need their
        // shapes, to be added to theirs.
        if shards.is_empty() {
            total.gradients.add_zeros(self.model);
        }
        let sizes: Vec<BatchSize> = shards
            .iter()
            .map(|shard| self.task.size(shard.batch))
            .collect();
        Ok(WindowSums {
            gradients: total.gradients,
            loss_sum: total.loss_sum,
            nll_sum: total.nll_sum,
            num_tokens: sizes.iter().map(|size| size.targets).sum(),
            num_positions: sizes.iter().map(|size| size.shape.positions()).sum(),
            num_real_positions: sizes.iter().map(|size| size.real_positions).sum(),
        })
    }

    /// Returns the number of threads that shards run on in parallel.
    fn num_threads(&self, window: &[MicroBatch<T>]) -> usize {
        if !computes_on_host(self.device) {
            // A GPU is one queue, which one thread fills.
            return 1;
        }
        // No more at once than a micro-batch has, so that activations take no more memory than
        // those of one.
        let most = window.iter().map(Vec::len).max().unwrap_or(1);
        rayon::current_num_threads().min(most)
    }

    /// Makes the forward and the backward pass of a shard; `is_parallel` says whether others run at
    /// the same time.
    fn forward_backward_shard(
        &self,
        shard: &Shard<'_, T>,
        key: StepKey,
        scale: Option<&Tensor<1>>,
        is_parallel: bool,
    ) -> ShardSums {
        let key = key.shard(shard.micro_batch, shard.index);
        if computes_on_host(self.device) {
            // On one of the pool's threads: from another, each small operation would wake one and
            // wait for it.
            return rayon::scope(|_| self.forward_backward(shard.batch, key, scale, is_parallel));
        }
        self.forward_backward(shard.batch, key, scale, is_parallel)
    }

    fn forward_backward(
        &self,
        batch: &BatchOf<T>,
        key: u64,
        scale: Option<&Tensor<1>>,
        is_parallel: bool,
    ) -> ShardSums {
        // Graphs of autodiff that share a parameter become one graph, whose backward passes block
        // each other.
        let fork = is_parallel.then(|| self.model.clone().fork(self.device));
        let model = fork.as_ref().unwrap_or(self.model);
        let loss = self.forward(model, batch, key);
        let minimized = match scale {
            Some(scale) => scaled(loss.minimized, scale),
            None => loss.minimized,
        };
        let begin = Instant::now();
        let mut gradients = GradientSum::default();
        gradients.add(model, minimized.backward());
        (self.observe)(Phase::Backward, begin);
        ShardSums {
            gradients,
            loss_sum: loss.loss_sum.inner(),
            nll_sum: loss.nll_sum.inner(),
        }
    }

    /// Computes the loss of one batch; `key` decides its dropout.
    pub(super) fn forward(&self, model: &T::Model, batch: &BatchOf<T>, key: u64) -> Loss {
        let begin = Instant::now();
        let inputs = self.task.upload(batch, self.device);
        (self.observe)(Phase::Upload, begin);
        let begin = Instant::now();
        let loss = dropout::keyed(key, || self.task.loss(model, inputs));
        (self.observe)(Phase::Forward, begin);
        loss
    }
}

/// Lists the batches of a window, in the order in which their sums are added.
fn shards<T: Task>(window: &[MicroBatch<T>]) -> Vec<Shard<'_, T>> {
    let mut shards = Vec::new();
    for (micro_batch, batches) in window.iter().enumerate() {
        for (index, batch) in batches.iter().enumerate() {
            shards.push(Shard {
                batch,
                micro_batch,
                index,
                is_last: index + 1 == batches.len(),
            });
        }
    }
    shards
}

/// Multiplies a loss by `scale`, so that small gradients do not become 0 in f16.
fn scaled(loss: Tensor<1>, scale: &Tensor<1>) -> Tensor<1> {
    let scale = Tensor::from_inner(scale.clone());
    // Both factors must have the same strategy: to keep activations, or to compute them again.
    let scale = match loss.gradient_checkpointing_strategy() {
        Some(strategy) => scale.with_gradient_checkpointing_strategy(strategy),
        None => scale,
    };
    loss * scale
}

/// Gradients and losses of one shard, or of several that are added up.
struct ShardSums {
    gradients: GradientSum,
    loss_sum: Tensor<1>,
    nll_sum: Tensor<1>,
}

/// A sum in progress. Losses are kept one by one, and need a single operation at the end.
#[derive(Default)]
struct Sum {
    gradients: GradientSum,
    losses: Vec<Tensor<1>>,
    nlls: Vec<Tensor<1>>,
}

impl Sum {
    fn add(&mut self, shard_sums: ShardSums) {
        self.gradients.merge(shard_sums.gradients);
        self.losses.push(shard_sums.loss_sum);
        self.nlls.push(shard_sums.nll_sum);
    }

    fn total(self, device: &Device) -> ShardSums {
        ShardSums {
            gradients: self.gradients,
            loss_sum: total(self.losses, device),
            nll_sum: total(self.nlls, device),
        }
    }
}

/// Adds tensors of one value; the sum of none is 0.
fn total(mut sums: Vec<Tensor<1>>, device: &Device) -> Tensor<1> {
    match sums[..] {
        [] => Tensor::zeros([1], &device.clone().inner()),
        [_] => sums.remove(0),
        [..] => Tensor::cat(sums, 0).sum(),
    }
}
