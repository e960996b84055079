//! Hidden tokens, as a trained model finds them.

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
use crate::runner::Runner;
use crate::teacher_forcing::{Forced, at_targets};

/// The row of this task.
pub const FACTS: TaskFacts = TaskFacts {
    kind: Task::Masked,
    name: "hidden tokens",
    content: Content::TEXT,
    reads: Reads::Source,
    writes: false,
    examples: "sentences",
    does: "finds hidden tokens",
    advice: "`polyglow evaluate` scores it, and `polyglow train CONFIG --run RUN --fork NEW_RUN` teaches it labels",
    command: "train CONFIG --run {run} --fork NEW_RUN",
    note: "to teach it labels",
    hub_tag: "fill-mask",
    description: "An encoder that finds hidden tokens",
};

/// Models that find hidden tokens.
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

/// Hides tokens of each text, the same in every call, and scores how they are found. A text that is
/// longer than the models is cut, with a warning.
///
/// # Errors
/// A text cannot be encoded.
pub(crate) fn evaluate(runner: &Runner, pairs: &[Pair]) -> Result<Evaluation> {
    let texts: Vec<&str> = pairs.iter().map(|pair| pair.tgt.as_str()).collect();
    let longest = runner.longest;
    let mut rows: Vec<(u64, Vec<u32>)> = (0..)
        .zip(
            runner
                .tgt
                .encode_batch(&texts)
                .context("encoding the text")?,
        )
        .collect();
    let truncated: Vec<bool> = rows.iter().map(|(_, ids)| ids.len() > longest).collect();
    LongLines::from_cut(truncated.iter().copied()).warn("text", longest, "scored");
    let (special, vocab_size) = (runner.tgt.special(), runner.tgt.vocab_size());
    for (_, ids) in &mut rows {
        ids.truncate(longest);
    }
    let mut forced = runner.shortest_first(
        &rows,
        |(_, ids)| ids.len() + 1,
        |rows| {
            let hide =
                |&&(key, ref ids): &&(u64, Vec<u32>)| Masked::new(ids, special, vocab_size, key);
            let texts: Vec<Masked> = rows.iter().map(hide).collect();
            let MaskedBatch { shown, asked, .. } =
                MaskedBatch::new(&texts, special, runner.pad_multiple);
            let ids = upload_rows(&shown, &runner.device);
            let log_probs = runner.log_probs(|_, member| {
                Predict::<Text>::predict(&member.model, Text { ids: ids.clone() }).logits()
            });
            let found = at_targets(&log_probs, asked, shown.len, Some(special.pad), &[]);
            Ok(found.iter().map(|row| Forced::new(row)).collect())
        },
    )?;
    forced
        .iter_mut()
        .zip(truncated)
        .for_each(|(forced, truncated)| forced.truncated = truncated);
    Ok(Evaluation::from_forced(forced))
}
