//! A program with a schedule, an optimizer and a metric of its own, and with every command of
//! `polyglow`:
//!
//! ```text
//! cargo run --release -p polyglow-examples --example custom_parts -- train examples/custom_parts.toml
//! ```

use std::process::ExitCode;

use burn::tensor::Tensor;
use polyglow::Registry;
use polyglow_metrics::Measure;
use polyglow_train::train::{ParameterStep, ScheduleSetting, UpdateRule};

fn main() -> ExitCode {
    let registry = Registry::new()
        .schedule("wsd", warm_up_stay_decay)
        .optimizer("sign", |_| Box::new(SignDescent))
        .metric(ENDS_RIGHT, ends_right);
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
