//! A model's scores on parallel text: one path for `evaluate`, for validation and for the end of a training.

use anyhow::Context;
use burn::tensor::{Int, Tensor, TensorData, Transaction};
use polyglow_data::batch::Batch;
use polyglow_data::corpus::Pair;
use polyglow_data::example::Example;
use polyglow_metrics::{BleuOptions, ChrfOptions, Metric, corpus_score, exact_match};
use polyglow_model::{count_correct, cross_entropy};
use serde::Serialize;

use crate::train::BleuTokenizer;
use crate::translate::Translator;

/// Scores on one set. Metrics of text compare the best hypotheses with the references; the others are teacher-forced.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// Corpus BLEU, 0 to 100.
    pub bleu: f64,
    /// Corpus chrF, 0 to 100.
    pub chrf: f64,
    /// Share of lines equal to their reference, 0 to 1.
    pub exact_match: f64,
    /// Share of target tokens that the model ranks first given those before them, 0 to 1.
    pub token_accuracy: f64,
    /// Cross-entropy without smoothing, in nats per target token.
    pub loss: f64,
    /// `exp(loss)`.
    pub perplexity: f64,
    /// How BLEU and chrF were computed, in sacreBLEU's notation.
    pub signatures: Signatures,
}

/// The exact variants of the metrics.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Signatures {
    /// BLEU's.
    pub bleu: String,
    /// chrF's.
    pub chrf: String,
}

/// Scores and the translations that they are of.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The scores.
    pub scores: Scores,
    /// One translation a pair, in order.
    pub hypotheses: Vec<String>,
}

/// Translates the source side of `pairs` and scores the result, and scores the target side under the model.
///
/// # Errors
/// A line cannot be encoded or decoded; there are no pairs.
pub fn evaluate(translator: &Translator<'_>, pairs: &[Pair], tokenize: BleuTokenizer) -> anyhow::Result<Evaluation> {
    anyhow::ensure!(!pairs.is_empty(), "there is nothing to evaluate: the set is empty");
    let sources: Vec<&str> = pairs.iter().map(|pair| pair.src.as_str()).collect();
    let references: Vec<&str> = pairs.iter().map(|pair| pair.tgt.as_str()).collect();
    let hypotheses = translator.translate(&sources, 1)?;
    let forced = teacher_forced(translator, pairs)?;

    let bleu = BleuOptions { tokenizer: tokenize.into(), ..BleuOptions::default() };
    let chrf = ChrfOptions::default();
    let streams = vec![references.clone()];
    let hypothesis_lines: Vec<&str> = hypotheses.iter().map(String::as_str).collect();
    let loss = forced.nll_sum / forced.num_tokens as f64;
    let scores = Scores {
        bleu: corpus_score(&bleu, &hypothesis_lines, &streams)?.score,
        chrf: corpus_score(&chrf, &hypothesis_lines, &streams)?.score,
        exact_match: exact_match(&hypothesis_lines, &references)?,
        token_accuracy: forced.num_correct as f64 / forced.num_tokens as f64,
        loss,
        perplexity: loss.exp(),
        signatures: Signatures { bleu: bleu.signature(1).to_string(), chrf: chrf.signature(1).to_string() },
    };
    Ok(Evaluation { scores, hypotheses })
}

/// Sums over the target tokens of a set.
struct Forced {
    nll_sum: f64,
    num_correct: i64,
    num_tokens: usize,
}

/// Runs the model over the references, batched by length, and reads the sums back once at the end.
fn teacher_forced(translator: &Translator<'_>, pairs: &[Pair]) -> anyhow::Result<Forced> {
    let Translator { model, tokenizers, device, max_tokens, pad_multiple, .. } = translator;
    let encode = |side: fn(&Pair) -> &str| pairs.iter().map(side).collect::<Vec<_>>();
    let src = tokenizers.src.encode_batch(&encode(|pair| &pair.src)).context("encoding the source")?;
    let tgt = tokenizers.tgt.encode_batch(&encode(|pair| &pair.tgt)).context("encoding the target")?;
    let longest = model.config().max_len - 1;
    let cut = |mut ids: Vec<u32>| {
        ids.truncate(longest);
        ids
    };
    let mut examples: Vec<Example> =
        src.into_iter().zip(tgt).map(|(src, tgt)| Example { src: cut(src), tgt: cut(tgt) }).collect();
    examples.sort_by_key(|example| example.tgt.len().max(example.src.len()));

    let (mut sums, mut num_tokens) = (Vec::new(), 0);
    let mut rest = &examples[..];
    while !rest.is_empty() {
        // Rows grow longer from here on, so the last one that fits decides the width of all.
        let width = |example: &Example| example.tgt.len().max(example.src.len()) + 1;
        let fits = |rows: &usize| rows * width(&rest[rows - 1]) <= *max_tokens;
        let rows = (2..=rest.len()).take_while(fits).last().unwrap_or(1);
        let batch = Batch::new(&rest[..rows], tokenizers.src.special(), tokenizers.tgt.special(), *pad_multiple);
        num_tokens += batch.num_target_tokens();
        let ids = |values: Vec<i32>, len: usize| {
            Tensor::<2, Int>::from_data(TensorData::new(values, [batch.batch_size, len]), *device)
        };
        let logits = model.forward(ids(batch.src, batch.src_len), ids(batch.tgt_in, batch.tgt_len));
        let targets: Tensor<1, Int> = ids(batch.tgt_out, batch.tgt_len).flatten(0, 1);
        let pad_id = model.config().tgt_pad_id;
        let num_correct = count_correct(logits.clone(), targets.clone(), pad_id);
        sums.push((cross_entropy(logits, targets, 0.0, pad_id).nll_sum, num_correct));
        rest = &rest[rows..];
    }
    let transaction = sums.into_iter().fold(Transaction::default(), |transaction, (nll_sum, num_correct)| {
        transaction.register(nll_sum).register(num_correct)
    });
    let read = transaction.execute();
    let nll_sum = read.iter().step_by(2).flat_map(|data| data.iter::<f64>()).sum();
    let num_correct = read.iter().skip(1).step_by(2).flat_map(|data| data.iter::<i64>()).sum();
    Ok(Forced { nll_sum, num_correct, num_tokens })
}
