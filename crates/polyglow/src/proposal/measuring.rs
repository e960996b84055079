//! Sizes of models, timed on the text of a training.

use anyhow::{Context, anyhow};
use polyglow_data::id_cache::IdCache;
use polyglow_model::Norm;
use polyglow_train::Observer;
use polyglow_train::config::{Config, MaxTokens, ScheduleKind};
use polyglow_train::train::Training;

use super::{Budget, Corpus, Course, Measured, Proposal, SIZES, max_tokens, propose, vocab_size};
use crate::failure::usage;
use crate::inspection::{Inspection, measure};

/// Seconds of so many hours.
///
/// # Errors
/// That is no time for a training (exit code 2).
pub(crate) fn seconds(hours: f64) -> anyhow::Result<f64> {
    let seconds = hours * 3600.0;
    if seconds.is_finite() && seconds >= 60.0 {
        return Ok(seconds);
    }
    Err(usage(anyhow!(
        "`--hours {hours}` is no time for a training: give at least 0.02, a little more than a minute"
    )))
}

/// Sets what is known of a proposal before anything is measured.
pub(crate) fn prepare(config: &mut Config, pairs: u64, seconds: f64) {
    config.tokenizer.vocab_size = vocab_size(pairs);
    config.model.norm = Norm::Pre;
    config.train.max_tokens = MaxTokens::Tokens(max_tokens(seconds));
    // Nothing is trained with these.
    (config.train.max_steps, config.train.warmup_steps) = (Some(1), 0);
    config.train.schedule = ScheduleKind::Constant;
    SIZES[0].set(config);
}

/// Measures sizes on the text of a training, from the smallest on until one is too large for the
/// time, and proposes settings.
///
/// # Errors
/// A trial step fails; what is trained on is no text.
pub(crate) fn propose_for(
    training: &Training,
    inspection: &Inspection,
    budget: Budget,
    observer: &mut dyn Observer,
) -> anyhow::Result<Proposal> {
    let cache = training.data.text()?;
    let splits = &inspection.splits;
    let pairs = |wanted: fn(&str) -> bool| -> f64 {
        splits
            .iter()
            .filter(|split| wanted(&split.name))
            .map(|split| split.pairs as f64)
            .sum()
    };
    let corpus = Corpus {
        pairs: splits[0].pairs,
        tgt_tokens: cache.report().tgt.tokens,
        longest: longest(cache),
        tests: pairs(|name| !["train", "valid"].contains(&name))
            / pairs(|name| name == "valid").max(1.0),
        kind: training.plan.config.tokenizer.kind,
    };
    let mut measured = Vec::new();
    for size in SIZES {
        let (name, layers) = (size.name(), size.num_layers);
        observer.activity(&format!(
            "trying the size {name} with {layers}+{layers} layers"
        ));
        let mut config = training.plan.config.clone();
        size.set(&mut config);
        let (parameters, time) = measure(training, config)?;
        let next = Measured {
            size,
            parameters,
            tokens_per_second: time.target_tokens_per_second,
            step_seconds: time.step_seconds,
            validation_seconds: time.validation_seconds,
        };
        measured.push(next);
        // Larger ones see less.
        if Course::new(next, &corpus, budget).tokens < size.least_tokens {
            break;
        }
    }
    observer.idle();
    propose(&corpus, &measured, budget).context("no size was measured")
}

/// The length that 999 of 1000 pairs do not exceed on either side, in tokens.
fn longest(cache: &IdCache) -> usize {
    let mut longest: Vec<usize> = (0..cache.len() as u32)
        .map(|pair| cache.lengths(pair))
        .map(|(src, tgt)| src.max(tgt))
        .collect();
    longest.sort_unstable();
    longest
        .get(longest.len().saturating_sub(1 + longest.len() / 1000))
        .copied()
        .unwrap_or(1)
}
