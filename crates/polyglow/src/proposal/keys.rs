//! The keys of a proposal, each with its value and the reason for it.

use std::fmt::Display;

use polyglow_data::tokenizer::Kind;
use polyglow_predict::wording::counted;

use super::{
    Budget, Corpus, Course, Key, LONGEST_WARM_UP, Measured, WARM_UP, dropout, max_tokens,
    vocab_size,
};
use crate::inspection::duration;

/// Makes a key of the proposal.
fn key(
    table: &'static str,
    name: &'static str,
    value: &impl Display,
    reason: impl Into<String>,
) -> Key {
    Key {
        table,
        name,
        value: value.to_string(),
        reason: reason.into(),
    }
}

/// Quotes a string of TOML that needs no escapes.
fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Gives the reason for a kind of tokens.
fn why_tokens(kind: Kind) -> &'static str {
    match kind {
        Kind::Unigram => "SentencePiece's kind, for programs that read its models",
        _ => "down to bytes: no text is unknown",
    }
}

/// Proposes the keys that depend on the text alone.
pub(super) fn for_text(corpus: &Corpus) -> Vec<Key> {
    let max_len = corpus.longest.next_multiple_of(16).max(32);
    let size = vocab_size(corpus.pairs);
    vec![
        key(
            "data",
            "max_len",
            &max_len,
            "tokens; 99.9 % of the pairs are shorter",
        ),
        key(
            "tokenizer",
            "kind",
            &quoted(corpus.kind.name()),
            why_tokens(corpus.kind),
        ),
        key(
            "tokenizer",
            "vocab_size",
            &size,
            format!("for {} pairs", corpus.pairs),
        ),
    ]
}

/// Proposes the keys of the model: its size, and dropout by how often it reads the text.
pub(super) fn for_model(course: &Course, corpus: &Corpus) -> Vec<Key> {
    let size = course.measured.size;
    let epochs = course.tokens / corpus.tgt_tokens.max(1) as f64;
    let seen = format!(
        "{:.1} million target tokens in the time",
        course.tokens / 1e6
    );
    vec![
        key("model", "preset", &quoted(size.name()), seen),
        key("model", "num_encoder_layers", &size.num_layers, ""),
        key("model", "num_decoder_layers", &size.num_layers, ""),
        key(
            "model",
            "dropout",
            &dropout(epochs),
            format!("the text is read {epochs:.1} times"),
        ),
        key(
            "model",
            "norm",
            &quoted("pre"),
            "trains with few steps of warm-up",
        ),
    ]
}

/// Proposes the keys of the training: how long it is, and how often it validates.
pub(super) fn for_training(course: &Course, budget: Budget) -> Vec<Key> {
    let &Course {
        measured:
            Measured {
                size,
                step_seconds,
                validation_seconds,
                ..
            },
        steps,
        validations,
        ..
    } = course;
    let every = (steps / validations).ceil();
    let warm_up = (WARM_UP * steps).min(LONGEST_WARM_UP).ceil().max(1.0);
    let each = format!(
        "{} of {}",
        counted(validations, "validation"),
        duration(validation_seconds)
    );
    vec![
        key(
            "train",
            "max_tokens",
            &max_tokens(budget.seconds),
            "small batches: many steps in the time",
        ),
        key(
            "train",
            "max_steps",
            &steps,
            format!("{step_seconds:.3} s each, measured"),
        ),
        key(
            "train",
            "lr",
            &format!("{:?}", size.lr),
            "the peak, for this width",
        ),
        key("train", "warmup_steps", &warm_up, "a tenth of the steps"),
        key(
            "train",
            "schedule",
            &quoted("cosine"),
            "falls to 0 at the last step",
        ),
        key("train", "validate_every", &every, each),
        key("train", "save_every", &every, ""),
        key("train", "log_every", &(steps / 40.0).ceil(), ""),
    ]
}
