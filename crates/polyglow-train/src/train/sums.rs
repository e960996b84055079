//! What a step adds up before it moves the weights, and the place where several processes add
//! theirs together.

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

/// What the micro-batches of a window add up to: all that the update of a step is made from.
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
/// that weights that begin equal stay equal. Tensors keep their shapes, order and device. [`alone`]
/// is that of a single process.
///
/// # Errors
/// The other processes cannot be reached: the step is not made.
pub type SumAcross<'a> = dyn FnMut(WindowSums) -> Result<WindowSums> + Send + 'a;

/// The [`SumAcross`] of a training in a single process, whose sums are complete as they are.
///
/// # Errors
/// None.
pub fn alone(sums: WindowSums) -> Result<WindowSums> {
    Ok(sums)
}

/// The [`SumAcross`] of a group: adds in the order of the ranks.
///
/// Losses are added as those of the micro-batches of one process are, so that with one micro-batch
/// in each rank all bits are those of one process. Gradients go in buckets: while one is sent and
/// added, the next is read from the device.
///
/// # Errors
/// Another rank cannot be reached.
pub(super) fn among(
    group: &dyn Group,
    precision: Precision,
    mut sums: WindowSums,
) -> Result<WindowSums> {
    let device = sums.loss_sum.device();
    let parts = std::mem::take(&mut sums.gradients.parts);
    sums.gradients.parts = thread::scope(|scope| {
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
            // If nobody takes it, the exchange has failed, and says why below.
            if sender.send(bucket?).is_err() {
                break;
            }
            tensors.extend(
                summed
                    .try_iter()
                    .flat_map(|bucket| bucket.into_tensors(&device)),
            );
        }
        drop(sender);
        tensors.extend(
            summed
                .iter()
                .flat_map(|bucket| bucket.into_tensors(&device)),
        );
        exchange
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok::<_, TrainError>(tensors)
    })?;
    let mut read = Transaction::default()
        .register(sums.loss_sum)
        .register(sums.nll_sum)
        .execute()
        .into_iter();
    let losses: Vec<f32> = read
        .by_ref()
        .flat_map(|data| data.iter::<f32>().collect::<Vec<_>>())
        .collect();
    let told = (
        losses,
        [sums.num_tokens, sums.num_positions, sums.num_real_positions],
    );
    let (losses, counts): (Vec<_>, Vec<_>) = group.gather(told)?.into_iter().unzip();
    // A rank without a batch, where the epoch ends, has nothing to add: not even a zero, which may
    // change the order.
    let has_batch = |counts: &[usize; 3]| counts[0] > 0;
    let loss = |which: usize| -> Tensor<1> {
        let own = losses
            .iter()
            .zip(&counts)
            .filter(|(_, counts)| has_batch(counts));
        let values: Vec<f32> = own.map(|(losses, _)| losses[which]).collect();
        Tensor::<1>::from_floats(&values[..], &device).sum()
    };
    let count = |which: usize| counts.iter().map(|counts| counts[which]).sum();
    Ok(WindowSums {
        gradients: sums.gradients,
        loss_sum: loss(0),
        nll_sum: loss(1),
        num_tokens: count(0),
        num_positions: count(1),
        num_real_positions: count(2),
    })
}

/// Values that are sent together among so many ranks, or one parameter if that is larger: 16 MiB,
/// and 64 KiB for each rank if that is more, so that messages stay large.
pub fn bucket_len(ranks: usize) -> usize {
    (1 << 22).max(ranks << 14)
}

/// Gradients of neighbors, one after the other.
struct Bucket {
    values: Vec<f32>,
    lengths: Vec<usize>,
}

impl Bucket {
    fn into_tensors(self, device: &Device) -> Vec<Tensor<1>> {
        let mut rest = &self.values[..];
        let cut = |len| {
            let (part, later) = rest.split_at(len);
            rest = later;
            Tensor::from_data(TensorData::new(part.to_vec(), [len]), device)
        };
        self.lengths.into_iter().map(cut).collect()
    }
}

/// Reads gradients from the device, so many at a time that they fill a bucket.
struct Buckets {
    parts: vec::IntoIter<Tensor<1>>,
    /// The number of values is filled up to a multiple of it, with zeros: each rank adds as many.
    ranks: usize,
}

impl Iterator for Buckets {
    type Item = Result<Bucket>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut read, mut lengths) = (Transaction::default(), Vec::new());
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

/// The gradients of a whole accumulation window, by the parameters' order, each flat.
#[derive(Debug, Default)]
pub struct GradientSum {
    parts: Vec<Tensor<1>>,
    /// Length of the last axis, by which sums are grouped.
    rows: Vec<usize>,
}

impl GradientSum {
    /// Adds the gradients that one backward pass left for `model`.
    ///
    /// A parameter without a gradient counts as zero; one that is frozen is a single zero, and
    /// never moves.
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
        // Each is given away, so that it is added to where it lies.
        self.parts = take(&mut self.parts)
            .into_iter()
            .zip(other.parts)
            .map(|(sum, part)| sum + part)
            .collect();
    }

    /// Adds gradients that are zero.
    pub(super) fn add_nothing(&mut self, model: &impl Module) {
        model.visit(&mut Collector {
            sum: self,
            grads: None,
            index: 0,
        });
    }

    /// The sum of each parameter, flat, in the parameters' order, to be added to or replaced by one
    /// of the same length.
    pub fn parts_mut(&mut self) -> &mut [Tensor<1>] {
        &mut self.parts
    }

    /// The sum of each parameter, and the length of the rows by which its squares are summed.
    pub(super) fn into_parts(self) -> Vec<(Tensor<1>, usize)> {
        self.parts.into_iter().zip(self.rows).collect()
    }
}

/// The Euclidean norm over flat tensors together, `[1]`, each with the length of its rows.
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
        let grad: Tensor<1> = match self
            .grads
            .as_mut()
            .and_then(|grads| value.grad_remove(grads))
        {
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
