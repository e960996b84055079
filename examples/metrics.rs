//! Scores the translations of two systems, and asks whether one is better by more than chance:
//!
//! ```text
//! cargo run --release -p polyglow-examples --example metrics
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it finds")]

use polyglow_metrics::significance::{DEFAULT_BOOTSTRAP_SAMPLES, DEFAULT_SEED, paired_bootstrap};
use polyglow_metrics::{
    BleuOptions, ChrfOptions, Metric, MetricError, TerOptions, corpus_score, segment_statistics,
};

const BASELINE: [&str; 3] = [
    "The dog bites the man.",
    "It was not surprising.",
    "The man had bit him.",
];
const SYSTEM: [&str; 3] = [
    "The dog bit the man.",
    "It wasn't surprising.",
    "The man had just bitten him.",
];
/// Two references for each line.
const REFERENCES: [[&str; 3]; 2] = [
    [
        "The dog bit the man.",
        "It was not unexpected.",
        "The man bit him first.",
    ],
    [
        "The dog had bit the man.",
        "No one was surprised.",
        "The man had bitten the dog.",
    ],
];

/// A score says little without its signature: the variant of the metric that others must use to
/// compare.
fn show<M: Metric>(metric: &M) -> Result<(), MetricError> {
    let references = REFERENCES.map(Vec::from);
    let score = corpus_score(metric, &SYSTEM, &references)?;
    println!("{score}\n  {}", metric.signature(references.len()));
    Ok(())
}

fn main() -> Result<(), MetricError> {
    show(&BleuOptions::default())?;
    show(&ChrfOptions::default())?;
    show(&TerOptions::default())?;

    let (bleu, references) = (BleuOptions::default(), REFERENCES.map(Vec::from));
    let baseline = segment_statistics(&bleu, &BASELINE, &references)?;
    let system = segment_statistics(&bleu, &SYSTEM, &references)?;
    let found = paired_bootstrap(
        &bleu,
        &baseline,
        &system,
        DEFAULT_BOOTSTRAP_SAMPLES,
        DEFAULT_SEED,
    )?;
    // Three sentences are far too few: if the systems were equal, such a difference would be no
    // surprise.
    println!("BLEU {:.2}, p = {:.4}", found.score, found.p_value);
    Ok(())
}
