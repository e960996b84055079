//! A program with a schedule, an optimizer, a metric, an augmentation, a filter and a format of its
//! own, and with every command of `polyglow`:
//!
//! ```text
//! cargo run --release -p polyglow-examples --example custom_parts -- train examples/custom_parts.toml
//! ```

use std::path::Path;
use std::process::ExitCode;

use burn::tensor::Tensor;
use polyglow::Registry;
use polyglow_data::example::{Candidate, Example, Filter, Reason};
use polyglow_data::random::Random;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_formats::{Format, Portable, Writing, write_file};
use polyglow_metrics::Measure;
use polyglow_model::registry::Named;
use polyglow_predict::error::Result;
use polyglow_predict::tasks::TaskFacts;
use polyglow_train::train::{ParameterStep, ScheduleSetting, UpdateRule};

fn main() -> ExitCode {
    let registry = Registry::new()
        .schedule("wsd", warm_up_stay_decay)
        .optimizer("sign", |_| Box::new(SignDescent))
        .metric(ENDS_RIGHT, ends_right)
        .augmentation("word-dropout", word_dropout)
        .filter("no-zero", NoZero)
        .format(Listing);
    polyglow::run_with(registry)
}

/// Warms up, stays at the peak, and falls to 0 over the last fifth of the training.
fn warm_up_stay_decay(setting: &ScheduleSetting, step: u64) -> f64 {
    let warm_up = step as f64 / setting.warmup_steps.max(1) as f64;
    let left = (setting.last_step + 1).saturating_sub(step) as f64;
    let decay = left / (0.2 * setting.last_step as f64);
    setting.lr * warm_up.min(decay).min(1.0)
}

/// Moves each weight by the learning rate, against the sign of its gradient.
#[derive(Debug)]
struct SignDescent;

impl UpdateRule for SignDescent {
    fn state(&self, _: &str, _: &[usize]) -> Vec<(&'static str, usize)> {
        Vec::new()
    }

    fn update(
        &self,
        weight: Tensor<1>,
        state: Vec<Tensor<1>>,
        gradient: Tensor<1>,
        step: &ParameterStep<'_>,
    ) -> (Tensor<1>, Vec<Tensor<1>>) {
        (weight - gradient.sign() * step.lr, state)
    }
}

const ENDS_RIGHT: Measure = Measure {
    key: "ends_right",
    title: "last word right",
    higher_is_better: true,
    decimals: 3,
};

/// The share of outputs whose last word is that of a reference.
fn ends_right(outputs: &[&str], references: &[Vec<&str>]) -> f64 {
    let last = |text: &&str| text.split_whitespace().last().map(str::to_owned);
    let mut num_right = 0;
    for (output, references) in outputs.iter().zip(references) {
        num_right += usize::from(
            references
                .iter()
                .any(|reference| last(reference) == last(output)),
        );
    }
    num_right as f64 / outputs.len() as f64
}

/// Replaces every tenth token of the source by the unknown one.
fn word_dropout(example: &mut Example, random: &mut Random, tokenizers: &Tokenizers) {
    for id in &mut example.src {
        if random.uniform() < 0.1 {
            *id = tokenizers.src.special().unk;
        }
    }
}

/// Leaves out pairs that begin with a zero.
struct NoZero;

impl Filter for NoZero {
    fn reject(&self, candidate: &Candidate) -> Option<Reason> {
        let zero = Reason {
            key: "zero",
            title: "with a zero at the start",
        };
        candidate.pair.src.starts_with('0').then_some(zero)
    }

    fn settings(&self) -> String {
        "source".to_owned()
    }
}

/// The weights as a text with a line for each array.
#[derive(Debug)]
struct Listing;

impl Named for Listing {
    fn name(&self) -> &'static str {
        "listing"
    }
}

impl Format for Listing {
    fn title(&self) -> &'static str {
        "people who read numbers"
    }

    fn usage(&self, _: &TaskFacts, _: bool) -> &'static str {
        "`weights.txt` has a line for each array: its name, its shape, and its values."
    }

    fn check(&self, _: &Portable) -> Result<()> {
        Ok(())
    }

    fn write(&self, writing: &Writing, dir: &Path) -> Result<()> {
        let mut lines = Vec::new();
        for (name, array) in &writing.model.arrays.0 {
            lines.push(format!("{name} {:?} {:?}\n", array.shape, array.values));
        }
        write_file(dir, "weights.txt", lines.concat().as_bytes())
    }
}
