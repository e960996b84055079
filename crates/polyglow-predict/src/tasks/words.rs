//! Word vectors and their scores.

use burn::tensor::Device;
use polyglow_data::batch::SkipGramBatch;
use polyglow_data::config::{Content, DataConfig};
use polyglow_data::pair::Pair;
use polyglow_data::skip_gram::{SkipGram, SkipGramSampler, SkipGrams};
use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::{Predict, Task, Words};

use super::{Examples, Reads, TaskFacts, TaskUse};
use crate::device::upload;
use crate::error::{Context, Result, TrainError, bail};
use crate::evaluation::{Evaluation, EvaluationOptions};
use crate::measures::ACCURACY;
use crate::runner::Runner;
use crate::teacher_forcing::{Forced, Predicted, at_targets};

/// The row of this task.
pub const FACTS: TaskFacts = TaskFacts {
    kind: Task::Words,
    name: "word vectors",
    content: Content::TEXT,
    reads: Reads::Target,
    writes: false,
    scores: &[ACCURACY],
    examples: "sentences",
    does: "has no source",
    advice: "`polyglow embeddings` explores its vectors, `polyglow evaluate` scores it",
    command: "embeddings {run} plot --out words.html",
    note: "",
    hub_tag: "feature-extraction",
    description: "Word vectors",
};

/// Word vectors.
#[derive(Clone, Copy, Debug)]
pub struct WordVectors {
    /// The window around a word and the number of drawn words, as in training.
    pub skip_grams: SkipGrams,
}

impl TaskUse for WordVectors {
    fn facts(&self) -> &'static TaskFacts {
        &FACTS
    }

    fn fill_in(&self, data: &mut DataConfig) {
        data.words = Some(self.skip_grams);
    }

    fn check_held_out(&self, tgt: &Tokenizer, examples: &Examples) -> Result<()> {
        check_words(examples.pairs()?, tgt)
    }

    fn evaluate(
        &self,
        runner: &Runner,
        examples: &Examples,
        _: &EvaluationOptions,
    ) -> Result<Evaluation> {
        evaluate(runner, examples.pairs()?, self.skip_grams)
    }
}

/// Brings words and their candidates to a device.
pub fn upload_words(batch: &SkipGramBatch, device: &Device) -> Words {
    Words {
        centers: upload(batch.centers.clone(), 1, device),
        candidates: upload(batch.candidates.clone(), batch.count, device),
    }
}

/// Makes sure that a text has neighboring words, by which word vectors are scored.
///
/// # Errors
/// No line has two known words.
pub fn check_words(pairs: &[Pair], words: &Tokenizer) -> Result<()> {
    for pair in pairs {
        let ids = words.encode(&pair.tgt)?;
        if ids.iter().filter(|id| **id != words.special().unk).count() > 1 {
            return Ok(());
        }
    }
    bail!("no line has two words of the vocabulary")
}

/// Scores how well the models tell the neighbors of each word from drawn words. Words are drawn by the
/// frequencies of these texts, the same ones at each call. No word is left out for being frequent, so
/// that short texts are scored, too. The words of a row count as correct if the real one scores above
/// all drawn ones.
///
/// # Errors
/// A line cannot be encoded, or none has two known words.
pub(crate) fn evaluate(runner: &Runner, pairs: &[Pair], config: SkipGrams) -> Result<Evaluation> {
    let tgt = &runner.tgt;
    check_words(pairs, tgt)?;
    let texts: Vec<&str> = pairs.iter().map(|pair| pair.tgt.as_str()).collect();
    let ids = tgt.encode_batch(&texts).context("encoding the text")?;
    let lines = ids.iter().map(|ids| Ok::<_, TrainError>(ids.clone()));
    let config = SkipGrams {
        subsample: 0.0,
        ..config
    };
    let sampler = SkipGramSampler::count(config, tgt.special(), tgt.vocab_size(), lines)?;
    let mut rows: Vec<SkipGram> = Vec::new();
    let mut lines: Vec<usize> = Vec::new();
    for (line, ids) in ids.iter().enumerate() {
        // The line is the key of its draws, so that other lines do not change them.
        rows.extend(sampler.rows(ids, &[line as u64]));
        lines.resize(rows.len(), line);
    }
    let rows_in_batch = (runner.max_tokens / config.candidates()).max(1);
    let batches: Vec<&[SkipGram]> = rows.chunks(rows_in_batch).collect();
    let predicted = runner.deal(&batches, |rows| {
        let batch = SkipGramBatch::new(rows);
        let inputs = upload_words(&batch, &runner.device);
        let log_probs = runner.log_probs(|_, member| {
            Predict::<Words>::predict(&member.model, inputs.clone()).logits()
        });
        let is_real = batch.is_real();
        Ok(at_targets(&log_probs, is_real, batch.count, None, &[]))
    })?;
    let mut forced = vec![Forced::default(); pairs.len()];
    for (line, mut predicted) in lines.into_iter().zip(predicted.into_iter().flatten()) {
        let correct = is_first(&predicted);
        for position in &mut predicted {
            position.correct = correct;
        }
        forced[line].extend(&predicted);
    }
    Ok(Evaluation::from_forced(forced).with_accuracy())
}

/// Returns whether the first candidate of a row, the real one, scores above all others. The others
/// have the probability of not being real, so their scores have the other sign.
fn is_first(predicted: &[Predicted]) -> bool {
    let Some((real, drawn)) = predicted.split_first() else {
        return false;
    };
    let drawn = drawn.iter().map(|drawn| -score(drawn));
    score(real) > drawn.fold(f64::NEG_INFINITY, f64::max)
}

/// Returns the score whose sigmoid is the probability of a position. Computed from the logarithm, as
/// the probability of a large score rounds to 1.
fn score(position: &Predicted) -> f64 {
    -f64::from(-position.log_prob).exp_m1().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_word_is_first_where_its_probability_is_largest() {
        let row = |probabilities: [f32; 3]| {
            probabilities.map(|probability| Predicted {
                log_prob: probability.ln(),
                first: 0,
                correct: false,
            })
        };
        // The drawn words are real with probabilities of 0.1 and 0.3.
        assert!(is_first(&row([0.4, 0.9, 0.7])) && !is_first(&row([0.2, 0.9, 0.7])));
    }
}
