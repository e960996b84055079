//! Given translations under a model (teacher forcing): one path for `score`, `evaluate` and validation.

use anyhow::Context;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, Transaction};
use polyglow_data::batch::Batch;
use polyglow_data::corpus::Pair;
use polyglow_data::example::Example;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::mean_of_probabilities;

use crate::device::upload;
use crate::translate::{Member, Translator};

/// How probable a model finds a given translation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forced {
    /// Log-probability of each target token given those before it, in nats; the end mark's is the last.
    pub log_probs: Vec<f32>,
    /// How many of these tokens the model ranks first.
    pub num_correct: usize,
}

impl Forced {
    /// Log-probability of the whole translation, in nats.
    pub fn log_prob(&self) -> f64 {
        self.log_probs.iter().copied().map(f64::from).sum()
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
/// A side that is longer than the model is cut, with a warning.
///
/// # Errors
/// A line cannot be encoded.
pub fn force(translator: &Translator<'_>, pairs: &[Pair]) -> anyhow::Result<Vec<Forced>> {
    let mut ids = encode(translator, pairs)?;
    ids.sort_by_key(Ids::width);
    let mut found = vec![Forced::default(); pairs.len()];
    for rows in translator.forced_batches(&ids, Ids::width) {
        let (log_probs, correct) = forward(translator, rows);
        let read = Transaction::default().register(log_probs).register(correct).execute();
        let (log_probs, correct): (Vec<f32>, Vec<i64>) = (read[0].iter().collect(), read[1].iter().collect());
        let tgt_len = log_probs.len() / rows.len();
        for (row, (log_probs, correct)) in rows.iter().zip(log_probs.chunks(tgt_len).zip(correct.chunks(tgt_len))) {
            let len = row.tgt.len() + 1;
            let num_correct = correct[..len].iter().sum::<i64>() as usize;
            found[row.index] = Forced { log_probs: log_probs[..len].to_vec(), num_correct };
        }
    }
    Ok(found)
}

fn encode(translator: &Translator<'_>, pairs: &[Pair]) -> anyhow::Result<Vec<Ids>> {
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

/// For every target position, the log-probability of the token that stands there and whether it is ranked first.
///
/// # Shapes
/// - output: `[rows * tgt_len]` each
fn forward(translator: &Translator<'_>, rows: &[Ids]) -> (Tensor<1>, Tensor<1, Int>) {
    let Translator { members, tgt, device, pad_multiple, .. } = translator;
    let batch = |index: usize, src: &Tokenizer| {
        let example = |row: &Ids| Example { src: row.src[index].clone(), tgt: row.tgt.clone() };
        let examples: Vec<Example> = rows.iter().map(example).collect();
        Batch::new(&examples, src.special(), tgt.special(), *pad_multiple)
    };
    let log_probs = mean_of_probabilities(members.iter().enumerate().map(|(index, Member { model, src })| {
        let batch = batch(index, src);
        let src = upload(batch.src, batch.src_len, device);
        log_softmax(model.forward(src, upload(batch.tgt_in, batch.tgt_len, device)), 1)
    }));
    let first = batch(0, members[0].src);
    let targets: Tensor<2, Int> = upload(first.tgt_out, first.tgt_len, device).reshape([-1, 1]);
    let correct = log_probs.clone().argmax(1).equal(targets.clone()).int();
    (log_probs.gather(1, targets).squeeze_dim(1), correct.squeeze_dim(1))
}
