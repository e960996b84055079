//! Language models: the next token of a text.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor};
use polyglow_data::corpus::Pair;
use polyglow_data::sources::{BatchSource, TextBatch};
use polyglow_data::window::{Piece, pieces};
use polyglow_model::{Model, Predict, Text};

use super::{BatchSize, ID_BYTES, Loss, Setting, Task, Validation};
use crate::device::upload_rows;
use crate::error::{Context, Result, TrainError};
use crate::predict::evaluation::{Evaluation, bits_per_byte};
use crate::predict::runner::Runner;
use crate::predict::teacher_forcing::{Forced, Predicted, at_targets};
use crate::workload::BatchShape;

/// Learning what comes next in a text, line by line or in windows, as its source of batches has it.
pub struct Language<S> {
    source: Arc<S>,
    setting: Setting,
    pad_id: u32,
}

impl<S> Language<S> {
    /// Learns from the batches of `source`.
    pub fn new(setting: Setting, source: S) -> Self {
        let pad_id = setting.tokenizers.tgt.special().pad;
        Self { source: Arc::new(source), setting, pad_id }
    }
}

impl<S: BatchSource<Batch = TextBatch, Error: Into<TrainError>>> Task for Language<S> {
    type Model = Model;
    type Source = S;
    type Inputs = (Text, Tensor<1, Int>);

    fn source(&self) -> &Arc<S> {
        &self.source
    }

    fn size(&self, batch: &TextBatch) -> BatchSize {
        let targets = batch.targets.num_real();
        let shape = BatchShape { rows: batch.inputs.num_rows(), src_len: 0, tgt_len: batch.inputs.len };
        let bytes = ID_BYTES * (batch.inputs.ids.len() + batch.targets.ids.len());
        BatchSize { shape, real_positions: targets, targets, bytes }
    }

    fn upload(&self, batch: &TextBatch, device: &Device) -> Self::Inputs {
        let ids = upload_rows(&batch.inputs, device);
        (Text { ids }, upload_rows(&batch.targets, device).flatten(0, 1))
    }

    fn loss(&self, model: &Model, (text, targets): Self::Inputs) -> Loss {
        let smoothing = self.setting.plan.config.train.label_smoothing;
        Predict::<Text>::predict(model, text).loss(targets, smoothing, self.pad_id).into()
    }

    fn validate(&self, model: Model) -> Result<Option<Validation>> {
        self.setting.validate(model)
    }
}

/// Scores the targets under the models.
///
/// # Errors
/// A line cannot be encoded.
pub(super) fn evaluate(runner: &Runner, pairs: &[Pair], context_len: Option<NonZeroUsize>) -> Result<Evaluation> {
    let forced = teacher_forced(runner, pairs, context_len)?;
    let nats = -forced.iter().map(Forced::log_prob).sum::<f64>();
    Ok(Evaluation::of_forced(forced).with_bits_per_byte(bits_per_byte(nats, pairs)))
}

/// How probable the models find each target, given what stands before it.
pub(super) fn teacher_forced(
    runner: &Runner,
    pairs: &[Pair],
    context_len: Option<NonZeroUsize>,
) -> Result<Vec<Forced>> {
    match context_len {
        Some(context_len) => of_windows(runner, pairs, context_len),
        None => of_lines(runner, pairs),
    }
}

fn encode(runner: &Runner, pairs: &[Pair]) -> Result<Vec<Vec<u32>>> {
    let texts: Vec<&str> = pairs.iter().map(|pair| pair.tgt.as_str()).collect();
    runner.tgt.encode_batch(&texts).context("encoding the text")
}

/// Runs the models over lines. One that is longer than the models is cut, with a warning.
fn of_lines(runner: &Runner, pairs: &[Pair]) -> Result<Vec<Forced>> {
    let mut lines = encode(runner, pairs)?;
    let longest = runner.longest;
    let too_long = lines.iter().filter(|ids| ids.len() > longest).count();
    if too_long > 0 {
        tracing::warn!(
            "{too_long} lines are longer than the model's {longest} tokens: only their first {longest} tokens are scored"
        );
    }
    for ids in &mut lines {
        ids.truncate(longest);
    }
    let special = runner.tgt.special();
    runner.shortest_first(
        &lines,
        |ids| ids.len() + 1,
        |lines| {
            let batch = TextBatch::of_lines(lines, special, runner.pad_multiple);
            Ok(forward(runner, batch).iter().map(|row| Forced::new(row)).collect())
        },
    )
}

/// Reads all lines as one text, in windows that overlap by half: but for the beginning, each token is predicted from at
/// least half a window of what stands before it. No window is longer than a model.
fn of_windows(runner: &Runner, pairs: &[Pair], context_len: NonZeroUsize) -> Result<Vec<Forced>> {
    let most = runner.longest + 1;
    if context_len.get() > most {
        tracing::warn!(
            "`data.context_len = {context_len}`: the model reads {most} positions, which limits the windows"
        );
    }
    let context_len = context_len.get().min(most);
    let ids = encode(runner, pairs)?;
    // Where each line begins in the text, and where the text ends.
    let mut starts = vec![0];
    starts.extend(ids.iter().scan(0, |end, ids| {
        *end += ids.len() as u64 + 1;
        Some(*end)
    }));
    let line_at = |position: u64| starts.partition_point(|&start| start <= position) - 1;
    let mut found = vec![Forced::default(); pairs.len()];
    let special = runner.tgt.special();
    let windows = overlapping(starts[pairs.len()], context_len as u64);
    for windows in windows.chunks((runner.max_tokens / context_len).max(1)) {
        let rows = windows.iter().map(|(window, _)| {
            let first = line_at(window.start) as u32;
            let text = |line: u32| Ok::<_, TrainError>((starts[line as usize], ids[line as usize].clone()));
            pieces(window.clone(), first, text)
        });
        let rows: Vec<Vec<Piece>> = rows.collect::<Result<_, _>>()?;
        let read = forward(runner, TextBatch::of_windows(&rows, special, runner.pad_multiple));
        for ((window, scored), predicted) in windows.iter().zip(read) {
            for position in scored.clone() {
                found[line_at(position)].extend(&predicted[(position - window.start) as usize..][..1]);
            }
        }
    }
    Ok(found)
}

fn forward(runner: &Runner, batch: TextBatch) -> Vec<Vec<Predicted>> {
    let TextBatch { inputs, targets } = batch;
    let ids = upload_rows(&inputs, &runner.device);
    let log_probs =
        runner.log_probs(|_, member| Predict::<Text>::predict(&member.model, Text { ids: ids.clone() }).logits());
    at_targets(&log_probs, targets.ids, targets.len, Some(runner.tgt.special().pad))
}

/// Windows of `context_len` over a text of this many positions, each with those of its positions that no window before it
/// has: all of the first window's, and about the second half of every other's.
fn overlapping(num_positions: u64, context_len: u64) -> Vec<(Range<u64>, Range<u64>)> {
    let stride = context_len.div_ceil(2);
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 0);
    while scored < num_positions {
        let end = (start + context_len).min(num_positions);
        windows.push((start..end, scored..end));
        (start, scored) = (start + stride, end);
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_position_is_scored_once_with_half_a_window_before_it() {
        for num_positions in 0..40 {
            for context_len in 1..12 {
                let windows = overlapping(num_positions, context_len);
                let scored: Vec<u64> = windows.iter().flat_map(|(_, scored)| scored.clone()).collect();
                assert_eq!(scored, (0..num_positions).collect::<Vec<_>>());
                for (window, scored) in &windows {
                    assert!(window.end - window.start <= context_len && window.end == scored.end);
                    assert!(
                        window.start == 0 || scored.start - window.start >= context_len / 2,
                        "{window:?} {scored:?}"
                    );
                }
            }
        }
    }
}
