//! A model's scores on parallel text: one path for `evaluate`, for validation and for the end of a training.

use polyglow_data::corpus::Pair;
use polyglow_metrics::{BleuOptions, ChrfOptions, Metric, corpus_score, exact_match};
use serde::Serialize;

use crate::forced::{Forced, force};
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
    let hypotheses = translator.best(&sources)?;
    let forced = force(translator, pairs)?;
    let num_tokens = forced.iter().map(|pair| pair.log_probs.len()).sum::<usize>() as f64;
    let num_correct = forced.iter().map(|pair| pair.num_correct).sum::<usize>() as f64;
    let loss = -forced.iter().map(Forced::log_prob).sum::<f64>() / num_tokens;

    let bleu = BleuOptions { tokenizer: tokenize.into(), ..BleuOptions::default() };
    let chrf = ChrfOptions::default();
    let streams = vec![references.clone()];
    let hypothesis_lines: Vec<&str> = hypotheses.iter().map(String::as_str).collect();
    let scores = Scores {
        bleu: corpus_score(&bleu, &hypothesis_lines, &streams)?.score,
        chrf: corpus_score(&chrf, &hypothesis_lines, &streams)?.score,
        exact_match: exact_match(&hypothesis_lines, &references)?,
        token_accuracy: num_correct / num_tokens,
        loss,
        perplexity: loss.exp(),
        signatures: Signatures { bleu: bleu.signature(1).to_string(), chrf: chrf.signature(1).to_string() },
    };
    Ok(Evaluation { scores, hypotheses })
}
