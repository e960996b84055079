//! The results of steps, which stay on the device until they are read together, with the skipped
//! ones counted.

use std::path::Path;
use std::time::Duration;

use polyglow_predict::error::{ErrorKind, Result, TrainError, failed, with_hint};
use polyglow_predict::group::Times;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::step::{StepRecord, StepValues};
use crate::run::TrainState;

/// Lines that a message about a batch names at most.
const NAMED_LINES: usize = 5;

/// Sums over the steps since the last report, without those that were skipped. Part of a
/// checkpoint, so that a resumed run reports what a straight one does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Steps that updated the weights.
    pub steps: u64,
    /// Steps that were skipped, as their loss or gradient was not finite; the first checkpoints did
    /// not have it.
    #[serde(default)]
    pub skipped: u64,
    /// Smoothed cross-entropy, in nats.
    pub loss_sum: f64,
    /// Cross-entropy without smoothing, in nats.
    pub nll_sum: f64,
    /// Norms of the steps' gradients, added up.
    pub grad_norm_sum: f64,
    /// Target tokens, without padding.
    pub tokens: u64,
    /// Positions of source and target, with padding.
    pub positions: u64,
    /// Source and target tokens, without padding.
    pub real_positions: u64,
}

impl Interval {
    /// Returns the mean smoothed cross-entropy, in nats per target token, which is minimized. It is
    /// NaN, as the other means, where all steps were skipped.
    pub fn loss(&self) -> f64 {
        self.loss_sum / self.tokens as f64
    }

    /// Returns `exp` of the mean cross-entropy without smoothing.
    pub fn perplexity(&self) -> f64 {
        (self.nll_sum / self.tokens as f64).exp()
    }

    /// Returns the mean norm of the gradients before clipping.
    pub fn grad_norm(&self) -> f64 {
        self.grad_norm_sum / self.steps as f64
    }

    /// Returns the share of the positions that are padding, 0 to 1.
    pub fn padding(&self) -> f64 {
        1.0 - self.real_positions as f64 / self.positions as f64
    }
}

/// A report on the steps since the last one.
#[derive(Clone, Copy, Debug)]
pub struct TrainReport<'a> {
    /// Steps done.
    pub step: u64,
    /// Epoch of the last step, counted from 1.
    pub epoch: u64,
    /// Learning rate of the last step.
    pub lr: f64,
    /// Sums over the steps.
    pub interval: &'a Interval,
    /// Time they took, without validation and checkpoints.
    pub elapsed: Duration,
    /// The tokens that were seen in that time; fewer than the interval's in the first report after
    /// a resume.
    pub timed_tokens: u64,
    /// The time of each rank of a group for exchanges; empty for a single process.
    pub times: &'a [Times],
}

impl TrainReport<'_> {
    /// Returns the target tokens per second, without padding.
    pub fn tokens_per_second(&self) -> f64 {
        self.timed_tokens as f64 / self.seconds()
    }

    /// Makes the record for `metrics.jsonl`: `skipped` is there where steps were skipped, and means
    /// are null where all were. For a group it has the number of ranks, and the means over them of
    /// the seconds in which they waited and exchanged.
    pub fn record(&self) -> Value {
        let Self {
            step,
            epoch,
            lr,
            interval,
            times,
            ..
        } = self;
        let mut record = json!({
            "kind": "train", "step": step, "epoch": epoch, "loss": interval.loss(), "perplexity": interval.perplexity(),
            "lr": lr, "grad_norm": interval.grad_norm(), "tokens": interval.tokens, "padding": interval.padding(),
            "seconds": self.seconds(), "tokens_per_second": self.tokens_per_second(),
        });
        if interval.skipped > 0 {
            record["skipped"] = interval.skipped.into();
        }
        if !times.is_empty() {
            let waiting = times.iter().map(|times| times.waiting);
            let exchanging = times.iter().map(|times| times.exchanging);
            record["ranks"] = times.len().into();
            record["wait_seconds"] = mean_seconds(waiting).into();
            record["exchange_seconds"] = mean_seconds(exchanging).into();
        }
        record
    }

    fn seconds(&self) -> f64 {
        self.elapsed.as_secs_f64().max(1e-9)
    }
}

fn mean_seconds(durations: impl ExactSizeIterator<Item = Duration>) -> f64 {
    let count = durations.len() as f64;
    durations.map(|time| time.as_secs_f64()).sum::<f64>() / count
}

/// A step that has not been read, and the examples it was made from.
#[derive(Debug)]
struct Pending {
    record: StepRecord,
    examples: Vec<u32>,
}

/// Steps whose results are still on the device.
#[derive(Debug, Default)]
pub(super) struct Monitor {
    pending: Vec<Pending>,
}

impl Monitor {
    /// Keeps a step until the next [`Self::check`].
    pub(super) fn push(&mut self, record: StepRecord, examples: Vec<u32>) {
        self.pending.push(Pending { record, examples });
    }

    /// Reads everything that is pending in one transfer, and adds it to the interval of `state`. A
    /// skipped step is reported and counted; its sums are left out. `origin` returns the file and
    /// line of an example.
    ///
    /// # Errors
    /// More than `max_skipped` steps in a row were skipped: names the last of them, where its text
    /// is, the checkpoint `saved` before it, and what can be done.
    pub(super) fn check(
        &mut self,
        state: &mut TrainState,
        max_skipped: u64,
        origin: &dyn Fn(u32) -> String,
        saved: Option<&Path>,
    ) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let records = pending.iter().map(|pending| &pending.record);
        let interval = &mut state.interval;
        for (Pending { record, examples }, values) in
            pending.iter().zip(StepRecord::read_all(records))
        {
            if !values.is_finite() {
                interval.skipped += 1;
                state.skipped_in_a_row += 1;
                let what = describe(record, values, examples, origin);
                if state.skipped_in_a_row > max_skipped {
                    return Err(not_finite(
                        &what,
                        state.skipped_in_a_row,
                        max_skipped,
                        saved,
                    ));
                }
                tracing::warn!("{what}; the step is skipped, and no weight changes");
                continue;
            }
            state.skipped_in_a_row = 0;
            interval.steps += 1;
            interval.loss_sum += values.loss_sum;
            interval.nll_sum += values.nll_sum;
            interval.grad_norm_sum += values.grad_norm;
            interval.tokens += record.num_tokens as u64;
            interval.positions += record.num_positions as u64;
            interval.real_positions += record.num_real_positions as u64;
        }
        Ok(())
    }
}

/// Describes what is not finite in a step, and the lines that it was made from.
fn describe(
    record: &StepRecord,
    values: StepValues,
    examples: &[u32],
    origin: &dyn Fn(u32) -> String,
) -> String {
    let mut lines: Vec<String> = examples
        .iter()
        .take(NAMED_LINES)
        .map(|&example| origin(example))
        .collect();
    if examples.len() > NAMED_LINES {
        lines.push(format!("and {} more", examples.len() - NAMED_LINES));
    }
    let loss = values.loss_sum / record.num_tokens as f64;
    format!(
        "step {} is not finite: loss {loss}, gradient norm {}, learning rate {:e}; its batch: {}",
        record.step,
        values.grad_norm,
        record.lr,
        lines.join(", ")
    )
}

fn not_finite(what: &str, in_a_row: u64, max_skipped: u64, saved: Option<&Path>) -> TrainError {
    let before = match in_a_row {
        1 => String::new(),
        _ => {
            format!(
                "; it is the last of {in_a_row} such steps in a row, and `train.max_skipped_steps = {max_skipped}`"
            )
        }
    };
    let error = failed!("{what}{before}").with_kind(ErrorKind::NotFinite);
    let saved = match saved {
        Some(path) => format!("the last checkpoint is `{}`", path.display()),
        None => "no checkpoint was saved".to_owned(),
    };
    let advice = "try a lower `train.lr`, more `train.warmup_steps`, or `train.clip_norm = 1.0`";
    with_hint(error, format!("{advice}; {saved}"))
}
