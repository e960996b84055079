//! Sizes of models, timed on the text of a training.

use anyhow::{Context, anyhow};
use polyglow_data::id_cache::IdCache;
use polyglow_model::Norm;
use polyglow_train::Observer;
use polyglow_train::config::{Config, MaxTokens, ScheduleKind};
use polyglow_train::train::Training;

use super::{Budget, Corpus, Course, Measured, Proposal, SIZES, max_tokens, propose, vocab_size};
use crate::cpu_time::CpuTime;
use crate::failure::usage;
use crate::inspection::{Inspection, measure};

/// Share of the CPU's time from which other programs slow the measured steps down.
const BUSY: f64 = 0.2;

/// Converts the hours of `--hours` to seconds.
///
/// # Errors
/// They are less than a minute, or no number (exit code 2).
pub(crate) fn seconds(hours: f64) -> anyhow::Result<f64> {
    let seconds = hours * 3600.0;
    if seconds.is_finite() && seconds >= 60.0 {
        return Ok(seconds);
    }
    Err(usage(anyhow!(
        "`--hours {hours}` is no time for a training: give at least 0.02, a little more than a minute"
    )))
}

/// Sets the keys of a config that a proposal decides before it measures: by the number of pairs
/// and by the seconds of the training.
pub(crate) fn prepare(config: &mut Config, pairs: u64, seconds: f64) {
    config.tokenizer.vocab_size = vocab_size(pairs);
    config.model.norm = Norm::Pre;
    config.train.max_tokens = MaxTokens::Tokens(max_tokens(seconds));
    // The loader demands a length and a schedule that fit each other; no training has these.
    config.train.max_steps = Some(1);
    config.train.warmup_steps = 0;
    config.train.schedule = ScheduleKind::named("constant").expect("it is built in");
    SIZES[0].set(config);
}

/// Measures sizes on the text of a training, from the smallest on until one is too large for the
/// budget, and proposes settings. Warns if other programs had the CPU while sizes were measured.
///
/// # Errors
/// A trial step fails; the training is on images.
pub(crate) fn propose_for(
    training: &Training,
    inspection: &Inspection,
    budget: Budget,
    observer: &mut dyn Observer,
) -> anyhow::Result<Proposal> {
    let cache = training.data.text()?;
    let splits = &inspection.splits;
    let mut valid_pairs = 0.0;
    let mut test_pairs = 0.0;
    for split in splits {
        match split.name.as_str() {
            "train" => {}
            "valid" => valid_pairs += split.pairs as f64,
            _ => test_pairs += split.pairs as f64,
        }
    }
    let corpus = Corpus {
        pairs: splits[0].pairs,
        tgt_tokens: cache.report().tgt.tokens,
        longest: longest(cache),
        tests: test_pairs / f64::max(valid_pairs, 1.0),
        kind: training.plan.config.tokenizer.kind,
    };
    let began = CpuTime::now();
    let mut measured = Vec::new();
    for size in SIZES {
        let name = size.name();
        let layers = size.num_layers;
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
        // A larger size makes fewer steps in the same time, so none after this one can be chosen.
        if Course::new(next, &corpus, budget).tokens < size.least_tokens {
            break;
        }
    }
    observer.idle();
    let passed = CpuTime::passed_since(began).filter(|_| training.plan.on_host);
    if let Some(warning) = passed.and_then(busy_warning) {
        tracing::warn!("{warning}");
    }
    propose(&corpus, &measured, budget).context("no size was measured")
}

/// Warns of other programs that had the CPU while sizes were measured, given the time that passed;
/// `None` if they had little of it, or less than was left idle, which this program could have used.
fn busy_warning(passed: CpuTime) -> Option<String> {
    let busy = passed.others() + passed.stolen();
    (busy > BUSY && busy > passed.idle()).then(|| {
        format!(
            "other programs had {:.0} % of the CPU while steps were timed: on a free machine more \
             steps fit into the time, and a larger model may; end them and measure again",
            100.0 * busy
        )
    })
}

/// Returns the length that 999 of 1000 pairs do not exceed on either side, in tokens.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_other_programs_keep_busy_is_warned_of() {
        // Of 100 ticks others had 60 and this process 30.
        let busy = busy_warning(CpuTime::of_ticks(100, 10, 0, 30)).unwrap_or_default();
        assert!(
            busy.contains("other programs had 60 % of the CPU"),
            "{busy}"
        );
        let stolen = busy_warning(CpuTime::of_ticks(100, 10, 40, 50)).unwrap_or_default();
        assert!(stolen.contains("had 40 % of the CPU"), "{stolen}");
        assert_eq!(busy_warning(CpuTime::of_ticks(100, 10, 0, 80)), None);
        // There is room for both.
        assert_eq!(busy_warning(CpuTime::of_ticks(100, 50, 0, 20)), None);
    }
}
