//! Hidden tokens, predicted by a trained model.

use polyglow_data::batch::MaskedBatch;
use polyglow_data::config::Content;
use polyglow_data::masking::Masked;
use polyglow_data::pair::Pair;
use polyglow_model::{Predict, Task, Text};

use super::{Examples, Reads, TaskFacts, TaskUse};
use crate::device::upload_rows;
use crate::error::{Context, Result};
use crate::evaluation::{Evaluation, EvaluationOptions};
use crate::long_lines::LongLines;
use crate::measures::TOKEN_ACCURACY;
use crate::runner::Runner;
use crate::teacher_forcing::{Forced, at_targets};

/// The row of this task.
pub const FACTS: TaskFacts = TaskFacts {
    kind: Task::Masked,
    name: "hidden tokens",
    content: Content::TEXT,
    reads: Reads::Source,
    writes: false,
    scores: &[TOKEN_ACCURACY],
    examples: "sentences",
    does: "finds hidden tokens",
    advice: "`polyglow evaluate` scores it, and `polyglow train CONFIG --run RUN --fork NEW_RUN` teaches it labels",
    command: "train CONFIG --run {run} --fork NEW_RUN",
    note: "to teach it labels",
    hub_tag: "fill-mask",
    description: "An encoder that finds hidden tokens",
};

/// Models that predict hidden tokens.
#[derive(Clone, Copy, Debug)]
pub struct HiddenTokens;

impl TaskUse for HiddenTokens {
    fn facts(&self) -> &'static TaskFacts {
        &FACTS
    }

    fn evaluate(
        &self,
        runner: &Runner,
        examples: &Examples,
        _: &EvaluationOptions,
    ) -> Result<Evaluation> {
        evaluate(runner, examples.pairs()?)
    }
}

/// Hides tokens of each text, the same ones in every call, and scores their predictions. A text that
/// is longer than the models is cut, with a warning.
///
/// # Errors
/// A text cannot be encoded.
pub(crate) fn evaluate(runner: &Runner, pairs: &[Pair]) -> Result<Evaluation> {
    let rows = encode(runner, pairs)?;
    let truncated = rows.iter().map(|row| row.truncated);
    LongLines::from_cut(truncated).warn("text", runner.longest, "scored");
    let special = runner.tgt.special();
    let vocab_size = runner.tgt.vocab_size();
    let width = |row: &Row| row.ids.len() + 1;
    let mut forced = runner.shortest_first(&rows, width, |rows| {
        let mut texts = Vec::with_capacity(rows.len());
        for row in rows {
            texts.push(Masked::new(&row.ids, special, vocab_size, row.key));
        }
        let batch = MaskedBatch::new(&texts, special, runner.pad_multiple);
        let MaskedBatch { shown, asked, .. } = batch;
        let ids = upload_rows(&shown, &runner.device);
        let log_probs = runner.log_probs(|_, member| {
            Predict::<Text>::predict(&member.model, Text { ids: ids.clone() }).logits()
        });
        let predicted = at_targets(&log_probs, asked, shown.len, Some(special.pad), &[]);
        Ok(predicted.iter().map(|row| Forced::new(row)).collect())
    })?;
    for (forced, row) in forced.iter_mut().zip(&rows) {
        forced.truncated = row.truncated;
    }
    Ok(Evaluation::from_forced(forced))
}

/// An encoded text, no longer than the models.
struct Row {
    ids: Vec<u32>,
    /// The index of the text, which decides the tokens that are hidden in it.
    key: u64,
    truncated: bool,
}

fn encode(runner: &Runner, pairs: &[Pair]) -> Result<Vec<Row>> {
    let texts: Vec<&str> = pairs.iter().map(|pair| pair.tgt.as_str()).collect();
    let encoded = runner.tgt.encode_batch(&texts);
    let mut rows = Vec::with_capacity(texts.len());
    for (key, mut ids) in (0..).zip(encoded.context("encoding the text")?) {
        let truncated = ids.len() > runner.longest;
        ids.truncate(runner.longest);
        rows.push(Row {
            ids,
            key,
            truncated,
        });
    }
    Ok(rows)
}
