//! Word vectors, as they are scored.

use burn::tensor::Device;
use polyglow_data::batch::SkipGramBatch;
use polyglow_data::config::Content;
use polyglow_data::pair::Pair;
use polyglow_data::skip_gram::{SkipGram, SkipGramSampler, SkipGrams};
use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::{Predict, Task, Words};

use super::{Examples, Reads, TaskFacts, TaskUse};
use crate::device::upload;
use crate::error::{Context, Result, TrainError, bail};
use crate::evaluation::{Evaluation, EvaluationOptions};
use crate::runner::Runner;
use crate::teacher_forcing::{Forced, Predicted, at_targets};

/// The row of this task.
pub const FACTS: TaskFacts = TaskFacts {
    kind: Task::Words,
    name: "word vectors",
    content: Content::TEXT,
    reads: Reads::Target,
    writes: false,
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
    /// How words beside a word are drawn.
    pub skip_grams: SkipGrams,
}

impl TaskUse for WordVectors {
    fn facts(&self) -> &'static TaskFacts {
        &FACTS
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

/// Brings words and candidates to a device.
pub fn words(batch: &SkipGramBatch, device: &Device) -> Words {
    Words {
        centers: upload(batch.centers.clone(), 1, device),
        candidates: upload(batch.candidates.clone(), batch.count, device),
    }
}

/// Makes sure that a text has words beside words, by which word vectors are scored.
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

/// Tells the words beside each word from others, which are drawn by the frequencies of these texts,
/// alike at each call. No word is left out for being frequent, so that short texts are scored, too.
/// The words of a row count as correct where the real one scores above all that are drawn.
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
    let rows = (0..).zip(&ids).flat_map(|(line, ids)| {
        sampler
            .rows(ids, &[line])
            .into_iter()
            .map(move |row| (line, row))
    });
    let rows: Vec<(u64, SkipGram)> = rows.collect();
    let mut found = vec![Forced::default(); pairs.len()];
    let batches: Vec<_> = rows
        .chunks((runner.max_tokens / config.candidates()).max(1))
        .collect();
    let read = runner.deal(&batches, |rows| {
        let rows: Vec<SkipGram> = rows.iter().map(|(_, row)| row.clone()).collect();
        let batch = SkipGramBatch::new(&rows);
        let inputs = words(&batch, &runner.device);
        let log_probs = runner.log_probs(|_, member| {
            Predict::<Words>::predict(&member.model, inputs.clone()).logits()
        });
        Ok(at_targets(
            &log_probs,
            batch.is_real(),
            batch.count,
            None,
            &[],
        ))
    })?;
    for ((line, _), predicted) in rows.iter().zip(read.into_iter().flatten()) {
        let correct = is_first(&predicted);
        let predicted: Vec<Predicted> = predicted
            .iter()
            .map(|&position| Predicted {
                correct,
                ..position
            })
            .collect();
        found[*line as usize].extend(&predicted);
    }
    Ok(Evaluation::from_forced(found).with_accuracy())
}

/// Whether the first candidate of a row, the real one, scores above all others, each of which has
/// the probability of not being real.
fn is_first(predicted: &[Predicted]) -> bool {
    // The score of which this is the logarithm of the sigmoid; of large ones too, where a
    // probability would be 1.
    let score = |position: &Predicted| -f64::from(-position.log_prob).exp_m1().ln();
    let drawn = predicted
        .iter()
        .skip(1)
        .map(|position| -score(position))
        .fold(f64::NEG_INFINITY, f64::max);
    predicted.first().is_some_and(|real| score(real) > drawn)
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
        // Those that are drawn are real with 0.1 and 0.3.
        assert!(is_first(&row([0.4, 0.9, 0.7])) && !is_first(&row([0.2, 0.9, 0.7])));
    }
}
