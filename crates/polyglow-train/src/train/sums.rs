//! What a step adds up before it moves the weights, and the place where several processes add theirs together.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData, Transaction};

use crate::error::Result;
use crate::group::Group;

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

/// Adds the sums of other processes to those of this one, once in each step, between the last backward pass and the
/// update.
///
/// It returns the sums over all processes, every field of them, and the same bits in every process: each divides by the
/// same number of tokens, clips by the same norm and skips the same steps, so that weights that begin equal stay equal.
/// Tensors keep their shapes, order and device. [`alone`] is that of a single process.
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
/// Losses are added as those of the micro-batches of one process are, so that with one micro-batch in each rank all bits are
/// those of one process.
///
/// # Errors
/// Another rank cannot be reached.
pub(super) fn among(group: &dyn Group, mut sums: WindowSums) -> Result<WindowSums> {
    let device = sums.loss_sum.device();
    let read =
        |tensors: Vec<Tensor<1>>| tensors.into_iter().fold(Transaction::default(), Transaction::register).execute();
    let mut bucket = Bucket::default();
    let parts = std::mem::take(&mut sums.gradients.parts);
    for part in read(parts) {
        bucket.push(part.iter::<f32>().collect());
        if bucket.values >= BUCKET {
            sums.gradients.parts.extend(bucket.sum(group, &device)?);
        }
    }
    sums.gradients.parts.extend(bucket.sum(group, &device)?);
    let losses: Vec<f32> = read(vec![sums.loss_sum, sums.nll_sum]).iter().flat_map(|data| data.iter::<f32>()).collect();
    let told = (losses, [sums.num_tokens, sums.num_positions, sums.num_real_positions]);
    let (losses, counts): (Vec<_>, Vec<_>) = group.gather(told)?.into_iter().unzip();
    let loss = |which: usize| -> Tensor<1> {
        let values: Vec<f32> = losses.iter().map(|losses| losses[which]).collect();
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

/// Values that are sent together: 32 MiB, or one parameter if that is larger.
const BUCKET: usize = 1 << 23;

/// Gradients of neighbors, one after the other.
#[derive(Default)]
struct Bucket {
    parts: Vec<Vec<f32>>,
    values: usize,
}

impl Bucket {
    fn push(&mut self, part: Vec<f32>) {
        self.values += part.len();
        self.parts.push(part);
    }

    /// Their sums over a group; empties the bucket.
    fn sum(&mut self, group: &dyn Group, device: &Device) -> Result<Vec<Tensor<1>>> {
        self.values = 0;
        let parts = std::mem::take(&mut self.parts);
        let lengths: Vec<usize> = parts.iter().map(Vec::len).collect();
        let mut all = parts.concat();
        group.sum(&mut all)?;
        let mut rest = &all[..];
        let cut = |len| {
            let (part, later) = rest.split_at(len);
            rest = later;
            Tensor::from_data(TensorData::new(part.to_vec(), [len]), device)
        };
        Ok(lengths.into_iter().map(cut).collect())
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
    /// A parameter without a gradient counts as zero; one that is frozen is a single zero, and never moves.
    pub fn add(&mut self, model: &impl Module, grads: Gradients) {
        let mut collector = Collector { sum: self, grads: Some(grads), index: 0 };
        model.visit(&mut collector);
    }

    /// Adds gradients that are zero.
    pub(super) fn add_nothing(&mut self, model: &impl Module) {
        model.visit(&mut Collector { sum: self, grads: None, index: 0 });
    }

    /// The sum of each parameter, flat, in the parameters' order, to be added to or replaced by one of the same length.
    pub fn parts_mut(&mut self) -> &mut [Tensor<1>] {
        &mut self.parts
    }

    /// The Euclidean norm over all parameters together, `[1]`.
    ///
    /// Rows are summed first and then their sums, in an order that does not depend on the number of threads.
    pub fn norm(&self) -> Tensor<1> {
        let squares = self.parts.iter().zip(&self.rows).map(|(part, &row)| square_sum(part.clone(), row)).collect();
        Tensor::cat(squares, 0).sum().sqrt()
    }

    pub(super) fn into_parts(self) -> Vec<Tensor<1>> {
        self.parts
    }
}

/// The sum of squares of a flat tensor, `[1]`, with rows of this length summed first.
pub(super) fn square_sum(values: Tensor<1>, row: usize) -> Tensor<1> {
    let square: Tensor<1> = values.clone() * values;
    square.reshape([-1, row as i32]).sum_dim(1).sum()
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
        let grad: Tensor<1> = match self.grads.as_mut().and_then(|grads| value.grad_remove(grads)) {
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
