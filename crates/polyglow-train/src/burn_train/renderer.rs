//! Our loop in a renderer of Burn's.

use std::collections::BTreeSet;
use std::sync::Arc;

use burn::train::Interrupter;
use burn::train::metric::{
    MetricDefinition, MetricEntry, MetricId, NumericAttributes, NumericEntry, SerializedEntry,
};
use burn::train::renderer::{MetricState, MetricsRenderer};
use polyglow_metrics::Measure;
use polyglow_predict::error::Result;
use polyglow_predict::evaluation::Scores;
use polyglow_predict::measures::{LOSS, PERPLEXITY, recorded};
use serde_json::Value;

use crate::observer::{Observer, StopRequest};
use crate::run::RunDirectory;
use crate::train::TrainReport;

/// The values of a report that a renderer shows: their keys in records and their titles.
const REPORTED: [Measure; 5] = [
    LOSS,
    PERPLEXITY,
    measure("lr", "learning rate", 8),
    measure("grad_norm", "gradient norm", 3),
    Measure {
        higher_is_better: true,
        ..measure("tokens_per_second", "tokens per second", 0)
    },
];

const fn measure(key: &'static str, title: &'static str, decimals: usize) -> Measure {
    Measure {
        key,
        title,
        higher_is_better: false,
        decimals,
    }
}

/// An observer that shows a training of our loop in any renderer of Burn's, such as its dashboard:
/// the steps, the values of each report, and the scores of each validation.
///
/// The loop counts steps and not epochs, so that the renderer is shown one epoch with as many items
/// as there are steps.
pub struct RendererObserver {
    renderer: Box<dyn MetricsRenderer>,
    interrupter: Interrupter,
    /// The keys of the metrics that the renderer knows.
    registered: BTreeSet<&'static str>,
    last_step: usize,
    step: usize,
}

impl RendererObserver {
    /// Makes an observer that shows trainings in `renderer`. The training stops, with a checkpoint,
    /// once `interrupter` is stopped: Burn's dashboard, which is made with the same one, does so on
    /// its key to quit.
    pub fn new(renderer: Box<dyn MetricsRenderer>, interrupter: Interrupter) -> Self {
        Self {
            renderer,
            interrupter,
            registered: BTreeSet::new(),
            last_step: 0,
            step: 0,
        }
    }

    /// Returns the renderer, for a further training or evaluation.
    pub fn into_renderer(self) -> Box<dyn MetricsRenderer> {
        self.renderer
    }

    /// Starts a split of the steps, at the last one that was made.
    fn start_steps(&mut self) {
        self.renderer.start_split("train", self.last_step);
        self.renderer.update_split(self.step);
    }

    /// Makes the state of a metric from a record that holds it, and makes it known to the renderer.
    fn state(&mut self, measure: Measure, record: &Value) -> Option<MetricState> {
        let value = record[measure.key].as_f64()?;
        let id = MetricId::new(Arc::new(measure.key.to_owned()));
        if self.registered.insert(measure.key) {
            let attributes = NumericAttributes {
                unit: None,
                higher_is_better: measure.higher_is_better,
            };
            self.renderer.register_metric(MetricDefinition {
                metric_id: id.clone(),
                name: Arc::new(measure.title.to_owned()),
                description: None,
                attributes: attributes.into(),
            });
        }
        let numeric = NumericEntry::Value(value);
        let shown = format!("{value:.*}", measure.decimals);
        let entry = SerializedEntry::new(shown, numeric.serialize());
        Some(MetricState::Numeric(
            MetricEntry::new(id, entry),
            Some(numeric),
        ))
    }
}

impl Observer for RendererObserver {
    fn begin(&mut self, run: &RunDirectory, step: u64, last_step: u64) -> Result<()> {
        self.step = step as usize;
        self.last_step = last_step as usize;
        let label = run.root().display().to_string();
        self.renderer
            .start(1, 1, Some(self.last_step), Some(&label));
        self.start_steps();
        Ok(())
    }

    fn step(&mut self, step: u64) {
        self.step = step as usize;
        self.renderer.update_split(self.step);
        // The name under which Burn's trainer counts steps.
        self.renderer.log_event_training("Iteration".to_owned());
    }

    fn report(&mut self, _report: &TrainReport<'_>, record: &Value) {
        for measure in REPORTED {
            if let Some(state) = self.state(measure, record) {
                self.renderer.update_train(state);
            }
        }
    }

    fn scores(&mut self, _step: u64, _scores: &Scores, record: &Value) {
        self.renderer.end_split();
        self.renderer.start_split("valid", 1);
        for measure in recorded([record]) {
            if let Some(state) = self.state(measure, record) {
                self.renderer.update_valid(state);
            }
        }
        self.renderer.update_split(1);
        self.renderer.end_split();
        self.start_steps();
    }

    fn end(&mut self) {
        self.renderer.end_split();
        self.renderer.update_epoch(1);
        self.renderer.end();
        if let Err(error) = self.renderer.on_train_end(None) {
            tracing::warn!("the renderer did not end: {error}");
        }
    }

    fn stop_request(&self) -> StopRequest {
        if self.interrupter.should_stop() {
            StopRequest::Stop
        } else {
            StopRequest::None
        }
    }
}
