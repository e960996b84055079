//! The arguments and the result of a training step.

use std::time::Instant;

use burn::tensor::{Tensor, Transaction};

/// The arguments of a step, apart from its batches.
#[derive(Clone, Copy, Debug)]
pub struct StepArgs {
    /// The step's number, from 1; with the seed of the run it decides the dropout.
    pub step: u64,
    /// The learning rate of this step.
    pub lr: f64,
    /// The index, within the step, of the first micro-batch of this process. The micro-batches of a
    /// process follow each other; those before them belong to the processes of lower ranks.
    pub first_micro_batch: usize,
}

impl StepArgs {
    /// Makes the arguments of a step whose micro-batches are all in this process.
    pub fn new(step: u64, lr: f64) -> Self {
        Self {
            step,
            lr,
            first_micro_batch: 0,
        }
    }
}

/// The result of a step, over all processes that share it. Its tensors are still on the device.
///
/// The step was skipped, and changed no weight, if one of the three tensors is not finite.
#[derive(Clone, Debug)]
pub struct StepRecord {
    /// The step's number, from 1.
    pub step: u64,
    /// The learning rate it was made with.
    pub lr: f64,
    /// Smoothed cross-entropy in nats, summed over the targets of the step, without that of guided alignment, `[1]`.
    pub loss_sum: Tensor<1>,
    /// Cross-entropy without smoothing in nats, `[1]`.
    pub nll_sum: Tensor<1>,
    /// Norm of the mean gradient before clipping, `[1]`.
    pub grad_norm: Tensor<1>,
    /// Target tokens in the step, without padding.
    pub num_tokens: usize,
    /// Positions in the step, source and target, with padding.
    pub num_positions: usize,
    /// Source and target tokens in the step, without padding.
    pub num_real_positions: usize,
}

impl StepRecord {
    /// Waits for the end of the step, and reads its values from the device.
    pub fn read(&self) -> StepValues {
        let transaction = self.register(Transaction::default());
        let rows = StepValues::from_transaction(transaction);
        rows[0]
    }

    /// Reads the values of many steps in a single transfer, in their order.
    pub fn read_all<'a>(records: impl IntoIterator<Item = &'a Self>) -> Vec<StepValues> {
        let mut transaction = Transaction::default();
        for record in records {
            transaction = record.register(transaction);
        }
        StepValues::from_transaction(transaction)
    }

    fn register(&self, transaction: Transaction) -> Transaction {
        transaction
            .register(self.loss_sum.clone())
            .register(self.nll_sum.clone())
            .register(self.grad_norm.clone())
    }
}

/// The values that a step leaves on the device, once they are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepValues {
    /// See [`StepRecord::loss_sum`].
    pub loss_sum: f64,
    /// See [`StepRecord::nll_sum`].
    pub nll_sum: f64,
    /// See [`StepRecord::grad_norm`].
    pub grad_norm: f64,
}

impl StepValues {
    /// Returns `false` for a step that was skipped.
    pub fn is_finite(&self) -> bool {
        self.loss_sum.is_finite() && self.nll_sum.is_finite() && self.grad_norm.is_finite()
    }

    /// Runs a transaction to which only [`StepRecord::register`] has added tensors.
    fn from_transaction(transaction: Transaction) -> Vec<Self> {
        let tensors = transaction.execute();
        let values: Vec<f64> = tensors.iter().flat_map(|data| data.iter::<f64>()).collect();
        values.chunks_exact(3).map(Self::from_row).collect()
    }

    fn from_row(row: &[f64]) -> Self {
        Self {
            loss_sum: row[0],
            nll_sum: row[1],
            grad_norm: row[2],
        }
    }
}

/// A phase of a step. All but the update come once for each shard. The exchange between processes
/// belongs to none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The upload of the batch to the device.
    Upload,
    /// The forward pass, with the loss; with kernels also with the gradients of the projection to
    /// the vocabulary.
    Forward,
    /// The backward pass.
    Backward,
    /// The update of the weights.
    Update,
}

impl Phase {
    /// All phases, in their order within a step.
    pub const ALL: [Self; 4] = [Self::Upload, Self::Forward, Self::Backward, Self::Update];

    /// Returns its index in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns its name in reports, as in `forward`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Update => "update",
        }
    }
}

/// A function that is called after each phase of a step, on any thread, with the time at which the
/// phase began. On a GPU that is when its work is queued, unless the function waits for the device.
pub type OnPhase<'a> = dyn Fn(Phase, Instant) + Sync + 'a;
