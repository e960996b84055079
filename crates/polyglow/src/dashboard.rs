//! burn-train's dashboard in the terminal, fed with the records that go to `metrics.jsonl`.
//!
//! burn-train counts epochs of items. We show the whole training as one epoch with one item per remaining step, so that
//! its bars and its estimate of the time left are also right for a resumed training; the step itself and the epoch of
//! the data are shown as text.

use std::io::{self, IsTerminal};
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;

use anyhow::anyhow;
use burn::train::Interrupter;
use burn::train::metric::{
    MetricAttributes, MetricDefinition, MetricEntry, MetricId, NumericAttributes, NumericEntry, SerializedEntry,
};
use burn::train::renderer::tui::TuiMetricsRendererWrapper;
use burn::train::renderer::{MetricState, MetricsRenderer};
use polyglow_metrics::Measure;
use polyglow_train::Wish;
use polyglow_train::predict::measures::{LOSS, PERPLEXITY, SCORES};
use serde_json::Value;

use crate::failure::{take_panic, usage, with_hint};

/// Numbers of a training that are plotted beside its scores.
const TRAINING: [Measure; 3] = [
    Measure { key: "lr", title: "learning rate", higher_is_better: true, decimals: 6 },
    Measure { key: "tokens_per_second", title: "target tokens per second", higher_is_better: true, decimals: 0 },
    Measure { key: "grad_norm", title: "gradient norm", higher_is_better: false, decimals: 3 },
];

/// Everything that is plotted, in the order of the tabs: what every model has first.
fn plots() -> impl Iterator<Item = (Measure, String)> {
    let first = [LOSS, PERPLEXITY];
    let rest = SCORES.into_iter().filter(move |measure| !first.contains(measure));
    first.into_iter().chain(rest).chain(TRAINING).map(|measure| (measure, capitalized(measure.title)))
}

/// `Learning rate`, of `learning rate`.
fn capitalized(title: &str) -> String {
    let mut letters = title.chars();
    // chrF is written so wherever it stands.
    let first = letters.next().filter(|_| title != Measure::CHRF.title);
    first.map_or_else(|| title.to_owned(), |first| first.to_uppercase().chain(letters).collect())
}

/// Name of the text with the step and the epoch.
const STEP: &str = "Step";

/// A dashboard that is open until it is dropped.
pub struct Dashboard {
    renderer: Option<Box<dyn MetricsRenderer>>,
    interrupter: Interrupter,
    start_step: u64,
    last_step: u64,
}

impl Dashboard {
    /// Opens the dashboard on stdout, under the name `label`, for a training that continues after `step`.
    pub(crate) fn open(label: &str, step: u64, last_step: u64) -> Self {
        let interrupter = Interrupter::new();
        let renderer = Box::new(TuiMetricsRendererWrapper::new(interrupter.clone(), None));
        Self::new(renderer, interrupter, label, step, last_step)
    }

    /// Shows a training on `renderer`, whose user asks for its end through `interrupter`.
    pub fn new(
        renderer: Box<dyn MetricsRenderer>,
        interrupter: Interrupter,
        label: &str,
        step: u64,
        last_step: u64,
    ) -> Self {
        let mut dashboard = Self { renderer: Some(renderer), interrupter, start_step: step, last_step };
        let items = dashboard.items();
        dashboard.tell(|renderer| {
            renderer.register_metric(definition(STEP, MetricAttributes::None));
            for (Measure { higher_is_better, .. }, name) in plots() {
                let attributes = NumericAttributes { unit: None, higher_is_better };
                renderer.register_metric(definition(&name, attributes.into()));
            }
            renderer.start(1, 1, Some(items), Some(label));
            renderer.start_split("train", items);
        });
        dashboard
    }

    /// Shows that a step is done.
    pub(crate) fn advance(&mut self, step: u64) {
        self.split("train", step);
    }

    /// Shows that validation has begun; the next step ends it.
    pub(crate) fn validating(&mut self, step: u64) {
        self.split("valid", step);
    }

    /// Plots a record of `metrics.jsonl` of the kind `train` or `valid`; others are not shown.
    pub(crate) fn show(&mut self, record: &Value) {
        let last_step = self.last_step;
        self.tell(|renderer| {
            let update: &mut dyn FnMut(MetricState) = match record["kind"].as_str() {
                Some("train") => &mut |state| renderer.update_train(state),
                Some("valid") => &mut |state| renderer.update_valid(state),
                _ => return,
            };
            update(MetricState::Generic(entry(STEP, position(record, last_step))));
            for (Measure { key, .. }, name) in plots() {
                // JSON has no infinity, and the plot could not show it.
                if let Some(value) = record[key].as_f64() {
                    update(MetricState::Numeric(entry(&name, words(value)), Some(NumericEntry::Value(value))));
                }
            }
        });
    }

    /// What the user has asked for: to stop after this step (the quit key), or to abort immediately.
    pub(crate) fn wish(&self) -> Wish {
        match &self.renderer {
            None => Wish::Abort,
            Some(_) if self.interrupter.should_stop() => Wish::Stop,
            Some(_) => Wish::GoOn,
        }
    }

    /// Shows the position. Validation gets as many items as training, because burn-train scales plots by their ratio.
    fn split(&mut self, name: &str, step: u64) {
        let (items, done) = (self.items(), step.saturating_sub(self.start_step) as usize);
        self.tell(|renderer| {
            renderer.start_split(name, items);
            renderer.update_split(done);
        });
    }

    /// The number of remaining steps, at least 1.
    fn items(&self) -> usize {
        self.last_step.saturating_sub(self.start_step).max(1) as usize
    }

    /// Calls the renderer, which panics after the user has chosen to kill the training.
    fn tell(&mut self, say: impl FnOnce(&mut dyn MetricsRenderer)) {
        let Some(renderer) = &mut self.renderer else { return };
        if panic::catch_unwind(AssertUnwindSafe(|| say(renderer.as_mut()))).is_err() {
            // Its destructor calls the closed dashboard, and would panic again.
            mem::forget(self.renderer.take());
            take_panic();
        }
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        if thread::panicking() {
            // The renderer's destructor does nothing during a panic, so its thread would draw over the message.
            self.interrupter.stop(None);
            self.tell(|renderer| renderer.manual_close());
        }
        let renderer = self.renderer.take();
        let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(renderer)));
    }
}

/// Checks that there is a terminal for a dashboard.
///
/// # Errors
/// Stdin, from which it reads keys, or stdout, on which it draws, is not a terminal (exit code 2).
pub(crate) fn require_terminal() -> anyhow::Result<()> {
    let missing = match (io::stdin().is_terminal(), io::stdout().is_terminal()) {
        (true, true) => return Ok(()),
        (_, false) => "stdout",
        (false, true) => "stdin",
    };
    let error = anyhow!("`--tui` needs a terminal, but {missing} is not one");
    Err(with_hint(usage(error), "leave out `--tui` to have progress written to stderr in plain lines"))
}

fn definition(name: &str, attributes: MetricAttributes) -> MetricDefinition {
    let name = Arc::new(name.to_owned());
    MetricDefinition { metric_id: MetricId::new(Arc::clone(&name)), name, description: None, attributes }
}

fn entry(name: &str, words: String) -> MetricEntry {
    MetricEntry::new(MetricId::new(Arc::new(name.to_owned())), SerializedEntry::new(words.clone(), words))
}

/// The position of a record: `150 of 2000, epoch 3`.
fn position(record: &Value, last_step: u64) -> String {
    let step = &record["step"];
    match record["epoch"].as_u64() {
        Some(epoch) => format!("{step} of {last_step}, epoch {epoch}"),
        None => format!("{step} of {last_step}"),
    }
}

/// A number with about four digits.
fn words(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 0.01 || size == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}
