//! Given translations under a model (teacher forcing): one path for `score`, `evaluate` and validation.

use std::ops::Range;

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, Transaction};
use polyglow_data::batch::{Batch, Piece};
use polyglow_data::corpus::Pair;
use polyglow_data::example::Example;
use polyglow_data::framing::Framing;
use polyglow_data::skip_gram::{SkipGram, SkipGramSampler, SkipGrams};
use polyglow_data::tokenizer::Tokenizer;
use polyglow_data::window::pieces;
use polyglow_model::mean_of_probabilities;

use crate::device::upload;
use crate::error::{Context, Result, TrainError, bail};
use crate::predict::translate::{Member, Translator};

/// How probable a model finds a given translation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forced {
    /// Log-probability of each target token given those before it, in nats; the end mark's is the last.
    pub log_probs: Vec<f32>,
    /// How many of these tokens the model ranks first.
    pub num_correct: usize,
    /// What it ranks first in place of each.
    pub first: Vec<u32>,
}

/// What a model finds at a target position.
#[derive(Clone, Copy, Debug)]
struct Predicted {
    log_prob: f32,
    first: u32,
    /// Whether the token that stands there is ranked first.
    correct: bool,
}

impl Forced {
    /// Log-probability of the whole translation, in nats.
    pub fn log_prob(&self) -> f64 {
        self.log_probs.iter().copied().map(f64::from).sum()
    }

    fn extend(&mut self, predicted: &[Predicted]) {
        self.log_probs.extend(predicted.iter().map(|position| position.log_prob));
        self.first.extend(predicted.iter().map(|position| position.first));
        self.num_correct += predicted.iter().filter(|position| position.correct).count();
    }
}

/// A pair in ids, its source once for each member.
struct Ids {
    index: usize,
    src: Vec<Vec<u32>>,
    tgt: Vec<u32>,
}

impl Ids {
    fn width(&self) -> usize {
        self.src.iter().map(Vec::len).max().unwrap_or(0).max(self.tgt.len()) + 1
    }
}

/// Runs the models over the target sides, batched by length.
///
/// A side that is longer than the model is cut, with a warning. Models of windows of a text read all pairs as one text,
/// in windows that overlap by half: but for the beginning, each token is predicted from at least half a window of what
/// stands before it. No window is longer than a model.
///
/// # Errors
/// A line cannot be encoded.
pub fn force(translator: &Translator<'_>, pairs: &[Pair]) -> Result<Vec<Forced>> {
    match translator.framing {
        Framing::Windows { context_len } => {
            let most = translator.longest() + 1;
            if context_len.get() > most {
                tracing::warn!(
                    "`data.context_len = {context_len}`: the model reads {most} positions, and so do windows"
                );
            }
            force_text(translator, pairs, context_len.get().min(most))
        }
        Framing::Pairs | Framing::Labels | Framing::Images { .. } | Framing::Masked => force_pairs(translator, pairs),
        Framing::SkipGrams(skip_grams) => force_words(translator, pairs, skip_grams),
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
    bail!("no line has two words that the vocabulary knows")
}

/// Tells the words beside each word from others, which are drawn by the frequencies of these texts, alike at each call.
/// No word is left out for being frequent, so that short texts are scored, too. The words of a row count as correct where
/// the real one scores above all that are drawn.
fn force_words(translator: &Translator<'_>, pairs: &[Pair], config: SkipGrams) -> Result<Vec<Forced>> {
    let Translator { tgt, max_tokens, .. } = translator;
    check_words(pairs, tgt)?;
    let texts: Vec<&str> = pairs.iter().map(|pair| pair.tgt.as_str()).collect();
    let ids = tgt.encode_batch(&texts).context("encoding the text")?;
    let lines = ids.iter().map(|ids| Ok::<_, TrainError>(ids.clone()));
    let config = SkipGrams { subsample: 0.0, ..config };
    let sampler = SkipGramSampler::count(config, tgt.special(), tgt.vocab_size(), lines)?;
    let rows =
        (0..).zip(&ids).flat_map(|(line, ids)| sampler.rows(ids, &[line]).into_iter().map(move |row| (line, row)));
    let rows: Vec<(u64, SkipGram)> = rows.collect();
    let mut found = vec![Forced::default(); pairs.len()];
    for rows in rows.chunks((max_tokens / config.candidates()).max(1)) {
        let (lines, rows): (Vec<u64>, Vec<SkipGram>) = rows.iter().cloned().unzip();
        let read = forward(translator, |_, _| Batch::of_skip_grams(&rows));
        for (line, predicted) in lines.into_iter().zip(read) {
            let correct = is_first(&predicted);
            found[line as usize]
                .extend(&predicted.iter().map(|&position| Predicted { correct, ..position }).collect::<Vec<_>>());
        }
    }
    Ok(found)
}

/// Whether the first candidate of a row, the real one, scores above all others, each of which has the probability of not
/// being real.
fn is_first(predicted: &[Predicted]) -> bool {
    // The score of which this is the logarithm of the sigmoid; of large ones too, where a probability would be 1.
    let score = |position: &Predicted| -f64::from(-position.log_prob).exp_m1().ln();
    let drawn = predicted.iter().skip(1).map(|position| -score(position)).fold(f64::NEG_INFINITY, f64::max);
    predicted.first().is_some_and(|real| score(real) > drawn)
}

fn force_pairs(translator: &Translator<'_>, pairs: &[Pair]) -> Result<Vec<Forced>> {
    let mut ids = encode(translator, pairs)?;
    ids.sort_by_key(Ids::width);
    let mut found = vec![Forced::default(); pairs.len()];
    for rows in translator.forced_batches(&ids, Ids::width) {
        let read = forward(translator, |member, src| {
            let example = |row: &Ids| Example { src: row.src[member].clone(), tgt: row.tgt.clone() };
            let examples: Vec<Example> = rows.iter().map(example).collect();
            // What is hidden in a text is the same in every validation.
            let key = |row: usize| rows[row].index as u64;
            translator.framing.batch(&examples, key, (src, translator.tgt), translator.pad_multiple)
        });
        for (row, predicted) in rows.iter().zip(read) {
            found[row.index].extend(&predicted);
        }
    }
    Ok(found)
}

fn force_text(translator: &Translator<'_>, pairs: &[Pair], context_len: usize) -> Result<Vec<Forced>> {
    let texts: Vec<&str> = pairs.iter().map(|pair| pair.tgt.as_str()).collect();
    let ids = translator.tgt.encode_batch(&texts).context("encoding the text")?;
    // Where each line begins in the text, and where the text ends.
    let mut starts = vec![0];
    starts.extend(ids.iter().scan(0, |end, ids| {
        *end += ids.len() as u64 + 1;
        Some(*end)
    }));
    let line_at = |position: u64| starts.partition_point(|&start| start <= position) - 1;
    let mut found = vec![Forced::default(); pairs.len()];
    let special = translator.tgt.special();
    let windows = overlapping(starts[pairs.len()], context_len as u64);
    for windows in windows.chunks((translator.max_tokens / context_len).max(1)) {
        let rows = windows.iter().map(|(window, _)| {
            let first = line_at(window.start) as u32;
            pieces(window.clone(), first, |line| {
                Ok::<_, TrainError>((starts[line as usize], ids[line as usize].clone()))
            })
        });
        let rows: Vec<Vec<Piece>> = rows.collect::<Result<_, _>>()?;
        let read = forward(translator, |_, _| Batch::of_windows(&rows, special, translator.pad_multiple));
        for ((window, scored), predicted) in windows.iter().zip(read) {
            for position in scored.clone() {
                found[line_at(position)].extend(&predicted[(position - window.start) as usize..][..1]);
            }
        }
    }
    Ok(found)
}

/// Windows of `context_len` over a text of so many positions, each with those of its positions that no window before it
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

fn encode(translator: &Translator<'_>, pairs: &[Pair]) -> Result<Vec<Ids>> {
    let longest = translator.longest();
    let texts = |side: fn(&Pair) -> &str| pairs.iter().map(side).collect::<Vec<_>>();
    let tgt = translator.tgt.encode_batch(&texts(|pair| &pair.tgt)).context("encoding the target")?;
    let mut ids: Vec<Ids> =
        tgt.into_iter().enumerate().map(|(index, tgt)| Ids { index, src: Vec::new(), tgt }).collect();
    for Member { src, .. } in &translator.members {
        let src = src.encode_batch(&texts(|pair| &pair.src)).context("encoding the source")?;
        ids.iter_mut().zip(src).for_each(|(ids, src)| ids.src.push(src));
    }
    let too_long = ids.iter().filter(|ids| ids.width() > longest + 1).count();
    if too_long > 0 {
        tracing::warn!("{too_long} pairs are longer than the model's {longest} tokens: only their beginning is scored");
    }
    for Ids { src, tgt, .. } in &mut ids {
        src.iter_mut().chain([tgt]).for_each(|side| side.truncate(longest));
    }
    Ok(ids)
}

/// What is found at every target position of each row, padding left out. `batch` makes the rows for a member, by its number
/// and its source tokenizer.
fn forward(translator: &Translator<'_>, batch: impl Fn(usize, &Tokenizer) -> Batch) -> Vec<Vec<Predicted>> {
    let Translator { members, device, .. } = translator;
    let log_probs = mean_of_probabilities(members.iter().enumerate().map(|(index, Member { model, src })| {
        let batch = batch(index, src);
        let src = upload(batch.src, batch.src_len, device);
        log_softmax(model.forward(src, upload(batch.tgt_in, batch.tgt_len, device)), 1)
    }));
    let first = batch(0, members[0].src);
    let targets: Tensor<2, Int> = upload(first.tgt_out.clone(), first.tgt_len, device).reshape([-1, 1]);
    let ranked_first = log_probs.clone().argmax(1);
    let read = Transaction::default().register(log_probs.gather(1, targets)).register(ranked_first).execute();
    let found = read[0].iter::<f32>().zip(read[1].iter::<i64>()).zip(first.tgt_out);
    let pad = i64::from(members[0].model.vocabulary().tgt_pad_id);
    let predicted: Vec<Option<Predicted>> = found
        .map(|((log_prob, first), target)| {
            let target = i64::from(target);
            (target != pad).then_some(Predicted { log_prob, first: first as u32, correct: first == target })
        })
        .collect();
    predicted.chunks(first.tgt_len).map(|row| row.iter().copied().flatten().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_word_is_first_where_its_probability_is_largest() {
        let row = |probabilities: [f32; 3]| {
            probabilities.map(|probability| Predicted { log_prob: probability.ln(), first: 0, correct: false })
        };
        // Those that are drawn are real with 0.1 and 0.3.
        assert!(is_first(&row([0.4, 0.9, 0.7])) && !is_first(&row([0.2, 0.9, 0.7])));
    }

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
