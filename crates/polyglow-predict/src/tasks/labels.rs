//! Labels of texts: classification and its scores with a trained model.

pub mod confusion;

use burn::tensor::Tensor;
use polyglow_data::config::Content;
use polyglow_data::pair::Pair;
use polyglow_data::special::SpecialIds;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::{Predict, Task, Text};
use serde::{Deserialize, Serialize};

use super::{Examples, Reads, TaskFacts, TaskUse};
use crate::error::{Context, Result, failed, with_hint};
use crate::evaluation::{Evaluation, EvaluationOptions};
use crate::long_lines::LongLines;
use crate::measures::ACCURACY;
use crate::runner::Runner;
use crate::source::EncodedSource;
use crate::teacher_forcing::{Forced, at_targets};
use confusion::label_scores;

/// The number of labels that a message lists at most.
const SHOWN_LABELS: usize = 50;

/// The row of this task.
pub const FACTS: TaskFacts = TaskFacts {
    kind: Task::Labels,
    name: "labels of texts",
    content: Content::LABELED_TEXT,
    reads: Reads::Source,
    writes: false,
    scores: &[ACCURACY],
    examples: "examples",
    does: "gives labels",
    advice: "`polyglow classify` says what something is, `polyglow evaluate` scores it",
    command: "classify {run}",
    note: "then type sentences, one per line",
    hub_tag: "text-classification",
    description: "An encoder that labels texts",
};

/// Models that label texts.
#[derive(Clone, Copy, Debug)]
pub struct Labels;

impl TaskUse for Labels {
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

    fn check_held_out(&self, tgt: &Tokenizer, examples: &Examples) -> Result<()> {
        let pairs = examples.pairs()?;
        let names: Vec<&str> = pairs.iter().map(|pair| pair.tgt.as_str()).collect();
        check_labels(&names, tgt)
    }

    fn classify(&self, runner: &Runner, texts: &[&str]) -> Result<Vec<Guess>> {
        classify(runner, texts)
    }
}

/// The answer of a model that gives labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guess {
    /// The most probable label; where each word has a label, those of all words, with single spaces
    /// between.
    pub label: String,
    /// The probability of the label, 0 to 1.
    pub probability: f64,
    /// Whether the text was longer than the models, which have read only its beginning.
    #[serde(default)]
    pub truncated: bool,
}

/// Scores the labels of texts under the models. A text that is longer than the models is cut, with
/// a warning.
///
/// # Errors
/// The models do not know a label, or a text cannot be encoded.
pub(crate) fn evaluate(runner: &Runner, pairs: &[Pair]) -> Result<Evaluation> {
    let names: Vec<&str> = pairs.iter().map(|pair| pair.tgt.as_str()).collect();
    check_labels(&names, &runner.tgt)?;
    let texts: Vec<&str> = pairs.iter().map(|pair| pair.src.as_str()).collect();
    let rows = encode(runner, &texts)?;
    LongLines::from_cut(rows.iter().map(|row| row.truncated)).warn("text", runner.longest, "read");
    let rows: Vec<(Row, i32)> = rows
        .into_iter()
        .zip(label_ids(&names, &runner.tgt)?)
        .collect();
    let never = no_labels(runner.tgt.special());
    let forced = runner.shortest_first(
        &rows,
        |(row, _)| row.width().max(2),
        |rows| {
            let texts: Vec<&Row> = rows.iter().map(|(row, _)| row).collect();
            let labels = rows.iter().map(|(_, label)| *label).collect();
            let predicted = at_targets(&log_probs(runner, &texts), labels, 1, None, &never);
            let mut forced = Vec::with_capacity(texts.len());
            for (text, predicted) in texts.iter().zip(&predicted) {
                forced.push(Forced {
                    truncated: text.truncated,
                    ..Forced::new(predicted)
                });
            }
            Ok(forced)
        },
    )?;
    let evaluation = Evaluation::from_forced(forced).with_accuracy();
    let scores = label_scores(&runner.tgt, &names, evaluation.first.iter().flatten())?;
    Ok(evaluation.with_labels(scores))
}

/// Returns the most probable label of every text. A text that is longer than the models is cut, and
/// its label says so ([`Guess::truncated`]); [`LongLines`] warns of such texts.
///
/// # Errors
/// A text cannot be encoded.
pub fn classify(runner: &Runner, texts: &[&str]) -> Result<Vec<Guess>> {
    let rows = encode(runner, texts)?;
    let mut guesses = runner.shortest_first(&rows, Row::width, |rows| {
        guesses(log_probs(runner, rows), &runner.tgt)
    })?;
    for (guess, row) in guesses.iter_mut().zip(&rows) {
        guess.truncated = row.truncated;
    }
    Ok(guesses)
}

/// Makes sure that a model knows all of these labels.
///
/// # Errors
/// There is a label that it does not know: the message has the first one and its number in the set.
pub fn check_labels(names: &[&str], labels: &Tokenizer) -> Result<()> {
    let no_labels = no_labels(labels.special());
    for (number, name) in (1..).zip(names) {
        let id = labels.encode(name)?.first().copied();
        if id.is_some_and(|id| !no_labels.contains(&id)) {
            continue;
        }
        let error = failed!(
            "number {number} of the set has the label `{name}`, which the model does not know"
        );
        let ids = (0..labels.vocab_size() as u32).filter(|id| !no_labels.contains(id));
        let shown = ids.filter_map(|id| labels.token(id)).take(SHOWN_LABELS);
        let shown: Vec<String> = shown.map(|label| format!("`{label}`")).collect();
        let advice = format!("it was trained for {}", shown.join(", "));
        return Err(with_hint(error, advice));
    }
    Ok(())
}

/// Returns the ids of a vocabulary of labels that are no labels.
pub(crate) fn no_labels(special: SpecialIds) -> [u32; 4] {
    let SpecialIds { pad, bos, eos, unk } = special;
    [pad, bos, eos, unk]
}

/// Returns the ids of labels; an unknown label has the id of the unknown word.
///
/// # Errors
/// The tokenizer of another toolkit fails.
pub fn label_ids(names: &[&str], labels: &Tokenizer) -> Result<Vec<i32>> {
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        let id = labels.encode(name)?.first().copied();
        ids.push(id.unwrap_or(labels.special().unk) as i32);
    }
    Ok(ids)
}

/// Returns the most probable label of each row of log-probabilities, with its probability among the
/// labels: the special tokens of the vocabulary are none.
pub(crate) fn guesses(log_probs: Tensor<2>, labels: &Tokenizer) -> Result<Vec<Guess>> {
    let [_, size] = log_probs.dims();
    let log_probs: Vec<f32> = log_probs.into_data().iter().collect();
    let no_labels = no_labels(labels.special());
    let mut guesses = Vec::with_capacity(log_probs.len() / size);
    for row in log_probs.chunks(size) {
        let rated = (0..).zip(row).filter(|(id, _)| !no_labels.contains(id));
        let all: f64 = rated
            .clone()
            .map(|(_, log_prob)| f64::from(*log_prob).exp())
            .sum();
        let best = rated.max_by(|left, right| left.1.total_cmp(right.1));
        let (id, log_prob) = best.context("there is no label")?;
        guesses.push(Guess {
            label: labels.decode(&[id])?,
            probability: f64::from(*log_prob).exp() / all,
            truncated: false,
        });
    }
    Ok(guesses)
}

/// An encoded text, no longer than the models.
struct Row {
    source: EncodedSource,
    truncated: bool,
}

impl Row {
    /// Returns the number of its positions, EOS included.
    fn width(&self) -> usize {
        self.source.num_positions() + 1
    }
}

fn encode(runner: &Runner, texts: &[&str]) -> Result<Vec<Row>> {
    let encoded = runner.encode(texts);
    let mut rows = Vec::with_capacity(texts.len());
    for mut source in encoded.map_err(|error| error.context("encoding the text"))? {
        let truncated = source.truncate(runner.longest);
        rows.push(Row { source, truncated });
    }
    Ok(rows)
}

fn log_probs(runner: &Runner, rows: &[&Row]) -> Tensor<2> {
    let sources: Vec<&EncodedSource> = rows.iter().map(|row| &row.source).collect();
    runner.log_probs(|index, member| {
        let ids = runner.upload_sources(index, &sources).into_ids();
        Predict::<Text>::predict(&member.model, Text { ids }).logits()
    })
}
