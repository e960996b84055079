//! A model's scores on held-out text: one path for `evaluate`, for validation and for the end of a training.

use std::fmt::{self, Display, Formatter};

use polyglow_data::corpus::Pair;
use polyglow_data::tokenizer::Tokenizer;
use polyglow_metrics::{BleuOptions, ChrfOptions, Metric, corpus_score, exact_match};
use polyglow_model::Task;
use serde::Serialize;

use crate::error::{Result, ensure, failed, with_hint};
use crate::predict::forced::{Forced, force};
use crate::predict::translate::Translator;

/// Labels that are listed in a message.
const SHOWN_LABELS: usize = 50;

/// Scores on one set, teacher-forced but for those of translations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// The best hypotheses against the references; none of a language model, which translates nothing.
    #[serde(flatten)]
    pub translations: Option<TranslationScores>,
    /// Share of answers that are right, 0 to 1: of texts or images whose label is ranked first, or of words of a context
    /// that score above all words drawn beside them. None of models that write or find tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Share of tokens that the model ranks first, 0 to 1: of a target given those before them, or of those that are hidden
    /// in a text. Of models with an accuracy the same as that.
    pub token_accuracy: f64,
    /// Cross-entropy without smoothing, in nats per target token.
    pub loss: f64,
    /// `exp(loss)`.
    pub perplexity: f64,
    /// Cross-entropy of a language model in bits per byte of the text, its line breaks included, which is the same
    /// measure whatever the tokens are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_byte: Option<f64>,
}

/// Scores of translations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TranslationScores {
    /// Corpus BLEU, 0 to 100.
    pub bleu: f64,
    /// Corpus chrF, 0 to 100.
    pub chrf: f64,
    /// Share of lines equal to their reference, 0 to 1.
    pub exact_match: f64,
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
    /// One translation a pair, in order; none of a language model.
    pub hypotheses: Vec<String>,
    /// What each target position was taken for, pair by pair.
    pub first: Vec<Vec<u32>>,
}

/// Translates the source side of `pairs` and scores the result, unless the model is a language model, and scores the
/// target side under the model.
///
/// # Errors
/// A line cannot be encoded or decoded; there are no pairs.
pub fn evaluate(
    translator: &Translator<'_>,
    pairs: &[Pair],
    tokenize: polyglow_metrics::Tokenizer,
) -> Result<Evaluation> {
    ensure!(!pairs.is_empty(), "there is nothing to evaluate: the set is empty");
    if translator.task().is_classification() {
        check_labels(pairs, translator.tgt)?;
    }
    let (mut translations, mut hypotheses) = (None, Vec::new());
    let task = translator.task();
    if task == Task::Translation {
        let sources: Vec<&str> = pairs.iter().map(|pair| pair.src.as_str()).collect();
        hypotheses = translator.best(&sources)?;
        translations = Some(score(&hypotheses, pairs, tokenize)?);
    }
    let forced = force(translator, pairs)?;
    let num_tokens = forced.iter().map(|pair| pair.log_probs.len()).sum::<usize>() as f64;
    let num_correct = forced.iter().map(|pair| pair.num_correct).sum::<usize>() as f64;
    let nats = -forced.iter().map(Forced::log_prob).sum::<f64>();
    let loss = nats / num_tokens;
    let token_accuracy = num_correct / num_tokens;
    let scores = Scores {
        translations,
        accuracy: (task.is_classification() || task == Task::Words).then_some(token_accuracy),
        token_accuracy,
        loss,
        perplexity: loss.exp(),
        bits_per_byte: (task == Task::Language).then(|| bits_per_byte(nats, pairs)),
    };
    Ok(Evaluation { scores, hypotheses, first: forced.into_iter().map(|pair| pair.first).collect() })
}

/// Makes sure that a model knows the label of every pair.
///
/// # Errors
/// The first one that it does not, with its number in the set.
pub fn check_labels(pairs: &[Pair], labels: &Tokenizer) -> Result<()> {
    let special = labels.special();
    let is_label = |id: &u32| !special.is_silent(*id) && *id != special.unk;
    for (number, Pair { tgt: label, .. }) in (1..).zip(pairs) {
        if !labels.encode(label)?.first().is_some_and(is_label) {
            let known = (0..labels.vocab_size() as u32).filter(is_label).filter_map(|id| labels.token(id));
            let known: Vec<String> = known.take(SHOWN_LABELS).map(|label| format!("`{label}`")).collect();
            let error = failed!("number {number} of the set has the label `{label}`, which the model does not know");
            return Err(with_hint(error, format!("it was trained for {}", known.join(", "))));
        }
    }
    Ok(())
}

/// What so many nats for all target sides are, in bits per byte of them; the end mark of each stands for its line break.
pub fn bits_per_byte(nats: f64, pairs: &[Pair]) -> f64 {
    let bytes: usize = pairs.iter().map(|pair| pair.tgt.len() + 1).sum();
    nats / std::f64::consts::LN_2 / bytes as f64
}

fn score(hypotheses: &[String], pairs: &[Pair], tokenize: polyglow_metrics::Tokenizer) -> Result<TranslationScores> {
    let references: Vec<&str> = pairs.iter().map(|pair| pair.tgt.as_str()).collect();
    let hypotheses: Vec<&str> = hypotheses.iter().map(String::as_str).collect();
    let bleu = BleuOptions { tokenizer: tokenize, ..BleuOptions::default() };
    let chrf = ChrfOptions::default();
    let streams = vec![references.clone()];
    Ok(TranslationScores {
        bleu: corpus_score(&bleu, &hypotheses, &streams)?.score,
        chrf: corpus_score(&chrf, &hypotheses, &streams)?.score,
        exact_match: exact_match(&hypotheses, &references)?,
        signatures: Signatures { bleu: bleu.signature(1).to_string(), chrf: chrf.signature(1).to_string() },
    })
}

/// On one line, for people.
impl Display for Scores {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { translations, accuracy, token_accuracy, loss, perplexity, bits_per_byte } = self;
        if let Some(accuracy) = accuracy {
            return write!(formatter, "accuracy {accuracy:.4}  loss {loss:.4}");
        }
        if let Some(TranslationScores { bleu, chrf, exact_match, .. }) = translations {
            write!(formatter, "BLEU {bleu:.2}  chrF {chrf:.2}  exact match {exact_match:.3}  ")?;
        }
        write!(formatter, "token accuracy {token_accuracy:.3}  loss {loss:.3}  perplexity {perplexity:.2}")?;
        match bits_per_byte {
            Some(bits) => write!(formatter, "  bits per byte {bits:.3}"),
            None => Ok(()),
        }
    }
}
