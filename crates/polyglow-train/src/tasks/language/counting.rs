//! An n-gram model of the text that a language model was trained on: the baseline that it is
//! compared with.

use polyglow_data::config::Split;
use polyglow_data::corpus::{Corpus, Part};
use polyglow_data::example::{Candidate, left_out};
use polyglow_data::ngram::NgramModel;
use polyglow_data::pair::Pair;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_predict::error::{Result, ensure};
use polyglow_predict::tasks::language::{bits_per_byte, encode, num_bytes};
use serde::Serialize;

use crate::plan::Plan;

/// Length of the longest n-grams.
const ORDER: usize = 5;
/// Lines that are encoded at a time.
const CHUNK: usize = 1 << 14;

/// The scores of an n-gram model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NgramScores {
    /// Length of its longest n-grams.
    pub order: usize,
    /// `exp` of the loss in nats per token, as of the language model.
    pub perplexity: f64,
    /// The loss in bits per byte, as of the language model.
    pub bits_per_byte: f64,
}

/// Counts the n-grams of the lines that `plan` trains on, and scores `pairs` by them, line by line;
/// the lines are those that the language model is scored on, too.
///
/// # Errors
/// A text cannot be read or encoded, or nothing of it is left.
pub fn ngram_scores(plan: &Plan, tokenizer: &Tokenizer, pairs: &[Pair]) -> Result<NgramScores> {
    let sequences = training_lines(plan, tokenizer)?;
    let repeated = sequences
        .iter()
        .flat_map(|(ids, times)| std::iter::repeat_n(ids, *times));
    let model = NgramModel::train(repeated, ORDER, tokenizer.vocab_size(), tokenizer.special())?;
    let has_blank = plan.config.data.context_len.is_some();
    // In windows, as in training, a blank line is a line of an end-of-sentence token.
    let mut nats = 0.0;
    let mut tokens = 0;
    let mut bytes = 0;
    for (pair, ids) in pairs.iter().zip(encode(tokenizer, pairs)?) {
        if has_blank || !ids.is_empty() {
            let (of_line, count) = model.score(&ids);
            nats += of_line;
            tokens += count;
            bytes += num_bytes(tokenizer, pair)?;
        }
    }
    ensure!(
        bytes > 0,
        "there is nothing to evaluate: all lines are blank"
    );
    Ok(NgramScores {
        order: ORDER,
        perplexity: (nats / tokens as f64).exp(),
        bits_per_byte: bits_per_byte(nats, bytes),
    })
}

/// The counts of the lines of a corpus: whole numbers whose mean is the weight of the corpus, spread
/// evenly.
struct Times {
    weight: f64,
    /// Lines so far.
    lines: f64,
}

impl Times {
    /// Returns how many times the next line counts.
    fn next(&mut self) -> usize {
        let before = (self.lines * self.weight).round();
        self.lines += 1.0;
        ((self.lines * self.weight).round() - before) as usize
    }
}

/// Returns the ids of every line that is trained on, and how many times it counts: the corpora of a
/// weighted list in proportion to their weights, the one with the smallest once. With the weights 1
/// and 1.4, two of five lines of the second count twice.
fn training_lines(plan: &Plan, tokenizer: &Tokenizer) -> Result<Vec<(Vec<u32>, usize)>> {
    let data = &plan.config.data;
    let corpus = Corpus::open(data, plan.content, Split::Train)?;
    let filter = plan.filter();
    let smallest = corpus
        .parts()
        .iter()
        .map(Part::weight)
        .fold(f64::INFINITY, f64::min);
    let max_examples = corpus.max_examples().unwrap_or(u64::MAX);
    let mut left = usize::try_from(max_examples).unwrap_or(usize::MAX);
    let mut lines = Vec::new();
    for part in corpus.parts() {
        let mut times = Times {
            weight: part.weight() / smallest,
            lines: 0.0,
        };
        let mut pairs = part.pairs()?;
        loop {
            let chunk: Vec<Pair> = pairs
                .by_ref()
                .take(left.min(CHUNK))
                .collect::<Result<_, _>>()?;
            if chunk.is_empty() {
                break;
            }
            left -= chunk.len();
            for (ids, pair) in encode(tokenizer, &chunk)?.into_iter().zip(&chunk) {
                let candidate = Candidate {
                    pair,
                    src_len: ids.len(),
                    tgt_len: ids.len(),
                };
                if left_out(filter.as_deref(), &candidate).is_none() {
                    lines.push((ids, times.next()));
                }
            }
        }
    }
    Ok(lines)
}
