//! Language models: the probability of a text, token by token.

use std::num::NonZeroUsize;
use std::ops::Range;

use polyglow_data::batch::{Piece, TextBatch, pieces};
use polyglow_data::config::Content;
use polyglow_data::pair::Pair;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::{Predict, Task, Text};

use super::{Examples, Reads, TaskFacts, TaskUse};
use crate::device::upload_rows;
use crate::error::{Context, Result, TrainError, ensure};
use crate::evaluation::{Evaluation, EvaluationOptions};
use crate::measures::{BITS_PER_BYTE, TOKEN_ACCURACY};
use crate::runner::Runner;
use crate::teacher_forcing::{Forced, Predicted, at_targets};

/// The row of this task.
pub const FACTS: TaskFacts = TaskFacts {
    kind: Task::Language,
    name: "language model",
    content: Content::TEXT,
    reads: Reads::Target,
    writes: true,
    scores: &[TOKEN_ACCURACY, BITS_PER_BYTE],
    examples: "sentences",
    does: "has no source",
    advice: "`polyglow generate` writes text with it, `polyglow evaluate` scores it",
    command: "generate {run}",
    note: "",
    hub_tag: "text-generation",
    description: "A language model",
};

/// Language models.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    /// The number of positions of the windows in which the text is read as a stream; `None` if it is
    /// read line by line.
    pub context_len: Option<NonZeroUsize>,
}

impl TaskUse for Language {
    fn facts(&self) -> &'static TaskFacts {
        &FACTS
    }

    fn num_positions(&self) -> Option<usize> {
        self.context_len.map(NonZeroUsize::get)
    }

    fn evaluate(
        &self,
        runner: &Runner,
        examples: &Examples,
        _: &EvaluationOptions,
    ) -> Result<Evaluation> {
        evaluate(runner, examples.pairs()?, self.context_len)
    }

    fn teacher_forced(&self, runner: &Runner, pairs: &[Pair]) -> Result<Vec<Forced>> {
        teacher_forced(runner, pairs, self.context_len)
    }
}

/// Scores the targets under the models.
///
/// # Errors
/// A line cannot be encoded; there is nothing but blank lines.
pub(crate) fn evaluate(
    runner: &Runner,
    pairs: &[Pair],
    context_len: Option<NonZeroUsize>,
) -> Result<Evaluation> {
    let forced = teacher_forced(runner, pairs, context_len)?;
    let mut bytes = 0;
    for (pair, forced) in pairs.iter().zip(&forced) {
        if !forced.log_probs.is_empty() {
            bytes += num_bytes(&runner.tgt, pair)?;
        }
    }
    ensure!(
        bytes > 0,
        "there is nothing to evaluate: all lines are blank"
    );
    let nats = -forced.iter().map(Forced::log_prob).sum::<f64>();
    Ok(Evaluation::from_forced(forced).with_bits_per_byte(bits_per_byte(nats, bytes)))
}

/// Returns the probability of each target under the models, given the text before it. As in training,
/// a line without tokens is left out, and has no probabilities; but in windows it is a line like
/// others, of EOS alone.
pub(crate) fn teacher_forced(
    runner: &Runner,
    pairs: &[Pair],
    context_len: Option<NonZeroUsize>,
) -> Result<Vec<Forced>> {
    let lines = encode(&runner.tgt, pairs)?;
    let Some(context_len) = context_len else {
        return score_lines(runner, &lines);
    };
    let most = runner.longest + 1;
    if context_len.get() > most {
        tracing::warn!(
            "`data.context_len = {context_len}`: the model reads {most} positions, which limits the windows"
        );
    }
    score_windows(runner, &lines, context_len.get().min(most))
}

/// Returns the line that a language model reads. One that consists of spaces is blank, even if the
/// tokenizer has tokens for spaces.
fn line(pair: &Pair) -> &str {
    if pair.tgt.trim().is_empty() {
        ""
    } else {
        &pair.tgt
    }
}

/// Counts the bytes of a line as it is encoded, with its line break, for which its EOS stands.
///
/// # Errors
/// The tokenizer of another toolkit fails.
pub fn num_bytes(tokenizer: &Tokenizer, pair: &Pair) -> Result<usize> {
    Ok(tokenizer.normalized(line(pair))?.len() + 1)
}

/// Returns a loss in bits per byte, from that in nats over all bytes.
pub fn bits_per_byte(nats: f64, bytes: usize) -> f64 {
    nats / std::f64::consts::LN_2 / bytes as f64
}

/// Encodes the lines that a language model reads.
///
/// # Errors
/// A line cannot be encoded.
pub fn encode(tokenizer: &Tokenizer, pairs: &[Pair]) -> Result<Vec<Vec<u32>>> {
    let lines: Vec<&str> = pairs.iter().map(line).collect();
    tokenizer.encode_batch(&lines).context("encoding the text")
}

/// Scores each line on its own. A line that is longer than the models is read in windows.
fn score_lines(runner: &Runner, lines: &[Vec<u32>]) -> Result<Vec<Forced>> {
    let longest = runner.longest;
    let numbers = (0..lines.len()).filter(|&line| !lines[line].is_empty());
    let (short, long): (Vec<usize>, Vec<usize>) =
        numbers.partition(|&line| lines[line].len() <= longest);
    if let Some(first) = long.first() {
        tracing::info!(
            "{} lines are longer than the model's {longest} tokens, the first on line {}: windows of them are scored",
            long.len(),
            first + 1
        );
    }
    let special = runner.tgt.special();
    let width = |&line: &usize| lines[line].len() + 1;
    let forced_short = runner.shortest_first(&short, width, |numbers| {
        let lines: Vec<&[u32]> = numbers.iter().map(|&&line| &*lines[line]).collect();
        let batch = TextBatch::of_lines(&lines, special, runner.pad_multiple);
        let predicted = predict(runner, batch);
        Ok(predicted.iter().map(|row| Forced::new(row)).collect())
    })?;
    let mut forced = vec![Forced::default(); lines.len()];
    for (line, forced_line) in short.into_iter().zip(forced_short) {
        forced[line] = forced_line;
    }
    for line in long {
        // With room for EOS.
        forced[line] = score_windows(runner, &lines[line..=line], longest + 1)?.swap_remove(0);
    }
    Ok(forced)
}

/// Scores all lines as one text, in windows that overlap by half: except at the beginning, each token
/// is predicted from at least half a window of the text before it. No window is longer than a model.
fn score_windows(runner: &Runner, lines: &[Vec<u32>], context_len: usize) -> Result<Vec<Forced>> {
    // The position in the text at which each line begins, and the number of positions.
    let mut starts = vec![0];
    let mut num_positions = 0;
    for ids in lines {
        num_positions += ids.len() as u64 + 1;
        starts.push(num_positions);
    }
    let special = runner.tgt.special();
    let windows = overlapping(num_positions, context_len as u64);
    let windows_in_batch = (runner.max_tokens / context_len).max(1);
    let batches: Vec<_> = windows.chunks(windows_in_batch).collect();
    let predicted = runner.deal(&batches, |windows| {
        let mut rows: Vec<Vec<Piece>> = Vec::with_capacity(windows.len());
        for (window, _) in *windows {
            let first = line_at(&starts, window.start) as u32;
            rows.push(pieces(window.clone(), first, |line| {
                let line = line as usize;
                Ok::<_, TrainError>((starts[line], lines[line].clone()))
            })?);
        }
        let batch = TextBatch::of_windows(&rows, special, runner.pad_multiple);
        Ok(predict(runner, batch))
    })?;
    let mut forced = vec![Forced::default(); lines.len()];
    for ((window, scored), predicted) in windows.iter().zip(predicted.iter().flatten()) {
        for position in scored.clone() {
            let index = (position - window.start) as usize;
            forced[line_at(&starts, position)].extend(&predicted[index..=index]);
        }
    }
    Ok(forced)
}

/// Returns the index of the line that has a position of the text, given the positions at which lines
/// begin.
fn line_at(starts: &[u64], position: u64) -> usize {
    starts.partition_point(|&start| start <= position) - 1
}

fn predict(runner: &Runner, batch: TextBatch) -> Vec<Vec<Predicted>> {
    let TextBatch { inputs, targets } = batch;
    let ids = upload_rows(&inputs, &runner.device);
    let log_probs = runner.log_probs(|_, member| {
        Predict::<Text>::predict(&member.model, Text { ids: ids.clone() }).logits()
    });
    let pad = runner.tgt.special().pad;
    at_targets(&log_probs, targets.ids, targets.len, Some(pad), &[])
}

/// Returns windows of `context_len` over a text of `num_positions`, each with those of its positions
/// that no window before it has: all of the first window's, and about the second half of every
/// other's.
fn overlapping(num_positions: u64, context_len: u64) -> Vec<(Range<u64>, Range<u64>)> {
    let stride = context_len.div_ceil(2);
    let mut windows = Vec::new();
    let mut start = 0;
    let mut scored = 0;
    while scored < num_positions {
        let end = (start + context_len).min(num_positions);
        windows.push((start..end, scored..end));
        start += stride;
        scored = end;
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
                let scored: Vec<u64> = windows
                    .iter()
                    .flat_map(|(_, scored)| scored.clone())
                    .collect();
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
