//! The sums of a step, from which the weights are updated, and their exchange between processes.

use std::mem::take;
use std::panic::resume_unwind;
use std::sync::mpsc::{channel, sync_channel};
use std::{thread, vec};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData, Transaction};
use polyglow_kernels::square_sums;
use polyglow_model::Precision;
use polyglow_predict::error::{Result, TrainError};
use polyglow_predict::group::Group;
use serde::{Deserialize, Serialize};

/// The sums over the micro-batches of a window: all that the update of a step is made from.
///
/// Everything in it is a sum, so that sums of several processes can be added field by field.
#[derive(Debug)]
pub struct WindowSums {
    /// The gradients of the loss, summed over target tokens.
    pub gradients: GradientSum,
    /// Smoothed cross-entropy in nats, without that of guided alignment, `[1]`.
    pub loss_sum: Tensor<1>,
    /// Cross-entropy without smoothing in nats, `[1]`.
    pub nll_sum: Tensor<1>,
    /// Target tokens, without padding.
    pub num_tokens: usize,
    /// Positions, source and target, with padding.
    pub num_positions: usize,
    /// Source and target tokens, without padding.
    pub num_real_positions: usize,
}

/// Adds the sums of other processes to those of this one, once in each step, between the last
/// backward pass and the update.
///
/// It returns the sums over all processes, every field of them, and the same bits in every process:
/// each divides by the same number of tokens, clips by the same norm and skips the same steps, so
/// that weights that begin equal stay equal. Tensors keep their shapes, order and device. [`single_process`]
/// is that of a single process.
///
/// # Errors
/// The other processes cannot be reached: the step is not made.
pub type AllReduce<'a> = dyn FnMut(WindowSums) -> Result<WindowSums> + Send + 'a;

/// The [`AllReduce`] of a training in a single process, whose sums are complete as they are.
///
/// # Errors
/// None.
pub fn single_process(sums: WindowSums) -> Result<WindowSums> {
    Ok(sums)
}

/// The [`AllReduce`] of a group: adds in the order of the ranks.
///
/// Losses are added as those of the micro-batches of one process are, so that with one micro-batch
/// in each rank all bits are those of one process. Gradients go in buckets: while one is sent and
/// added, the next is read from the device.
///
/// # Errors
/// Another rank cannot be reached.
pub(super) fn all_reduce_among(
    group: &dyn Group,
    precision: Precision,
    mut sums: WindowSums,
) -> Result<WindowSums> {
    let parts = std::mem::take(&mut sums.gradients.parts);
    sums.gradients.parts = exchange(group, precision, parts, &sums.loss_sum.device())?;
    sum_scalars(group, sums)
}

/// Adds gradients over the ranks of a group, in a thread of its own, so that it sends one bucket
/// while this thread reads the next from the device.
///
/// All ranks cut the same parameters into the same buckets, so that theirs meet.
fn exchange(
    group: &dyn Group,
    precision: Precision,
    parts: Vec<Tensor<1>>,
    device: &Device,
) -> Result<Vec<Tensor<1>>> {
    thread::scope(|scope| {
        // One bucket waits at most: what is read far ahead would fill the memory.
        let (sender, read) = sync_channel::<Bucket>(1);
        let (done, summed) = channel();
        let exchange = scope.spawn(move || {
            for mut bucket in read {
                group.sum(&mut bucket.values, precision)?;
                if done.send(bucket).is_err() {
                    break;
                }
            }
            Ok::<_, TrainError>(())
        });
        let mut tensors = Vec::with_capacity(parts.len());
        let buckets = Buckets {
            parts: parts.into_iter(),
            ranks: group.size(),
        };
        for bucket in buckets {
            // Without a receiver, the exchange has failed; `join` returns its error below.
            if sender.send(bucket?).is_err() {
                break;
            }
            for bucket in summed.try_iter() {
                tensors.extend(bucket.into_tensors(device));
            }
        }
        // Ends the thread's loop, and with it the loop below.
        drop(sender);
        for bucket in summed {
            tensors.extend(bucket.into_tensors(device));
        }
        exchange
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok(tensors)
    })
}

/// The losses and counts of one rank.
#[derive(Serialize, Deserialize)]
struct Scalars {
    losses: Vec<f32>,
    num_tokens: usize,
    num_positions: usize,
    num_real_positions: usize,
}

impl Scalars {
    /// Returns whether the rank had a batch, which at the end of an epoch it may not.
    fn has_batch(&self) -> bool {
        self.num_tokens > 0
    }
}

/// Adds losses and counts over the ranks of a group.
fn sum_scalars(group: &dyn Group, sums: WindowSums) -> Result<WindowSums> {
    let device = sums.loss_sum.device();
    let read = Transaction::default()
        .register(sums.loss_sum)
        .register(sums.nll_sum)
        .execute();
    let all = group.gather(Scalars {
        losses: read.iter().flat_map(|data| data.iter::<f32>()).collect(),
        num_tokens: sums.num_tokens,
        num_positions: sums.num_positions,
        num_real_positions: sums.num_real_positions,
    })?;
    Ok(WindowSums {
        gradients: sums.gradients,
        loss_sum: sum_losses(&all, 0, &device),
        nll_sum: sum_losses(&all, 1, &device),
        num_tokens: all.iter().map(|rank| rank.num_tokens).sum(),
        num_positions: all.iter().map(|rank| rank.num_positions).sum(),
        num_real_positions: all.iter().map(|rank| rank.num_real_positions).sum(),
    })
}

/// Adds the loss `index` of all ranks on the device, as the losses of micro-batches are added.
fn sum_losses(all: &[Scalars], index: usize, device: &Device) -> Tensor<1> {
    // A rank without a batch does not even add a zero, with which the sum may have another order.
    let values: Vec<f32> = all
        .iter()
        .filter(|rank| rank.has_batch())
        .map(|rank| rank.losses[index])
        .collect();
    Tensor::<1>::from_floats(&values[..], device).sum()
}

/// Returns the number of values that `ranks` ranks send together, unless one parameter has more: 16
/// MiB, and 64 KiB for each rank if that is more, so that messages stay large.
pub fn bucket_len(ranks: usize) -> usize {
    (1 << 22).max(ranks << 14)
}

/// Gradients of successive parameters, one after the other.
struct Bucket {
    values: Vec<f32>,
    lengths: Vec<usize>,
}

impl Bucket {
    fn into_tensors(self, device: &Device) -> Vec<Tensor<1>> {
        let mut tensors = Vec::with_capacity(self.lengths.len());
        let mut rest = &self.values[..];
        for len in self.lengths {
            let (part, later) = rest.split_at(len);
            rest = later;
            tensors.push(Tensor::from_data(
                TensorData::new(part.to_vec(), [len]),
                device,
            ));
        }
        tensors
    }
}

/// Reads gradients from the device, a bucket at a time.
struct Buckets {
    parts: vec::IntoIter<Tensor<1>>,
    /// The number of values is filled up to a multiple of it, with zeros: each rank adds as many.
    ranks: usize,
}

impl Iterator for Buckets {
    type Item = Result<Bucket>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut read = Transaction::default();
        let mut lengths = Vec::new();
        while lengths.iter().sum::<usize>() < bucket_len(self.ranks) {
            let Some(part) = self.parts.next() else { break };
            lengths.push(part.dims()[0]);
            read = read.register(part);
        }
        if lengths.is_empty() {
            return None;
        }
        let mut values =
            Vec::with_capacity(lengths.iter().sum::<usize>().next_multiple_of(self.ranks));
        for data in read.execute() {
            match data.convert::<f32>().as_slice() {
                Ok(part) => values.extend_from_slice(part),
                Err(error) => {
                    return Some(Err(TrainError::new(format!(
                        "a gradient cannot be read: {error:?}"
                    ))));
                }
            }
        }
        values.resize(values.len().next_multiple_of(self.ranks), 0.0);
        Some(Ok(Bucket { values, lengths }))
    }
}

/// The gradients of a whole accumulation window, in the parameters' order, each flat.
#[derive(Debug, Default)]
pub struct GradientSum {
    parts: Vec<Tensor<1>>,
    /// Length of the last axis, by which sums are grouped.
    rows: Vec<usize>,
}

impl GradientSum {
    /// Adds the gradients of one backward pass through `model`.
    ///
    /// A parameter without a gradient counts as zero; the gradient of one that is frozen is a
    /// single zero, and is not used.
    pub fn add(&mut self, model: &impl Module, grads: Gradients) {
        let mut collector = Collector {
            sum: self,
            grads: Some(grads),
            index: 0,
        };
        model.visit(&mut collector);
    }

    /// Adds those of another sum for the same model.
    pub(super) fn merge(&mut self, other: Self) {
        if self.parts.is_empty() {
            *self = other;
            return;
        }
        // Moved out: a sum with one owner is added to in place.
        self.parts = take(&mut self.parts)
            .into_iter()
            .zip(other.parts)
            .map(|(sum, part)| sum + part)
            .collect();
    }

    /// Adds gradients that are zero.
    pub(super) fn add_zeros(&mut self, model: &impl Module) {
        model.visit(&mut Collector {
            sum: self,
            grads: None,
            index: 0,
        });
    }

    /// Returns the sum of each parameter, flat, in the parameters' order, to be added to or
    /// replaced by one of the same length.
    pub fn parts_mut(&mut self) -> &mut [Tensor<1>] {
        &mut self.parts
    }

    /// Returns the sum of each parameter, and the length of the rows by which its squares are
    /// summed.
    pub(super) fn into_parts(self) -> Vec<(Tensor<1>, usize)> {
        self.parts.into_iter().zip(self.rows).collect()
    }
}

/// Computes the Euclidean norm over flat tensors together, `[1]`, each with the length of its rows.
///
/// Rows are summed first and then their sums, in an order that does not depend on the number of
/// threads.
pub(super) fn norm(parts: &[(Tensor<1>, usize)]) -> Tensor<1> {
    let squares = parts
        .iter()
        .map(|(part, row)| square_sums(part, *row))
        .collect();
    Tensor::cat(squares, 0).sum().sqrt()
}

struct Collector<'a> {
    sum: &'a mut GradientSum,
    grads: Option<Gradients>,
    index: usize,
}

impl ModuleVisitor for Collector<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        let is_frozen = !value.is_require_grad();
        let row = if is_frozen { 1 } else { value.dims()[D - 1] };
        let grad = self
            .grads
            .as_mut()
            .and_then(|grads| value.grad_remove(grads));
        let grad: Tensor<1> = match grad {
            Some(grad) => grad.reshape([-1]),
            None if is_frozen => Tensor::zeros([1], &value.inner().device()),
            None => value.inner().zeros_like().reshape([-1]),
        };
        if self.index < self.sum.parts.len() {
            let sum = &mut self.sum.parts[self.index];
            *sum = sum.clone() + grad;
        } else {
            self.sum.parts.push(grad);
            self.sum.rows.push(row);
        }
        self.index += 1;
    }
}
