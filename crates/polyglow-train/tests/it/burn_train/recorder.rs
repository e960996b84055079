//! A renderer of Burn's that writes down what it is shown.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use burn::train::Interrupter;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::{MetricAttributes, MetricDefinition, MetricId};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};

/// Writes down the calls of a training, and may stop it at an item.
#[derive(Clone, Default)]
pub(crate) struct Recorder {
    events: Arc<Mutex<Vec<String>>>,
    names: HashMap<MetricId, String>,
    stop: Option<(usize, Interrupter)>,
}

impl Recorder {
    pub(crate) fn stopping_at(item: usize, interrupter: Interrupter) -> Self {
        Self {
            stop: Some((item, interrupter)),
            ..Self::default()
        }
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.events.lock().expect("no one panicked").clone()
    }

    fn push(&self, event: impl Into<String>) {
        let mut events = self.events.lock().expect("no one panicked");
        events.push(event.into());
    }

    /// The name of a metric, which must be known, with its value shown.
    fn name(&self, state: &MetricState) -> &str {
        let (MetricState::Generic(entry) | MetricState::Numeric(entry, _)) = state;
        &self.names[&entry.metric_id]
    }
}

impl MetricsRendererTraining for Recorder {
    fn update_train(&mut self, state: MetricState) {
        self.push(format!("train {}", self.name(&state)));
    }

    fn update_valid(&mut self, state: MetricState) {
        self.push(format!("valid {}", self.name(&state)));
    }

    fn on_train_end(
        &mut self,
        _summary: Option<burn::train::LearnerSummary>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        self.push("train ended");
        Ok(())
    }
}

impl TrainingProgressLogger for Recorder {
    fn start(
        &mut self,
        total_epochs: usize,
        starting_epoch: usize,
        total_items: Option<usize>,
        _label: Option<&str>,
    ) {
        let items = total_items.unwrap_or_default();
        self.push(format!(
            "start {starting_epoch} of {total_epochs}, {items} items"
        ));
    }

    fn update_epoch(&mut self, epoch: usize) {
        self.push(format!("epoch {epoch}"));
    }

    fn start_split(&mut self, split: &str, total_items: usize) {
        self.push(format!("split {split} of {total_items}"));
    }

    fn update_split(&mut self, items_processed: usize) {
        self.push(format!("at {items_processed}"));
        if let Some((item, interrupter)) = &self.stop
            && *item == items_processed
        {
            interrupter.stop(Some("it is enough"));
        }
    }

    fn end_split(&mut self) {
        self.push("split ended");
    }

    fn end(&mut self) {
        self.push("end");
    }

    fn log_event_training(&mut self, _event: String) {}
}

impl EvaluationProgressLogger for Recorder {
    fn start_global_progress(&mut self, _total_tests: usize) {}

    fn start_test(&mut self, _name: &str, _total_items: usize) {}

    fn update_test_progress(&mut self, _items_processed: usize) {}

    fn end_test(&mut self) {}

    fn end_global_progress(&mut self) {}

    fn log_event_evaluation(&mut self, _event: String) {}
}

impl MetricsRendererEvaluation for Recorder {
    fn update_test(&mut self, _name: EvaluationName, _state: MetricState) {}
}

impl MetricsRenderer for Recorder {
    fn manual_close(&mut self) {}

    fn register_metric(&mut self, definition: MetricDefinition) {
        let MetricAttributes::Numeric(numeric) = &definition.attributes else {
            panic!("{} is no number", definition.name);
        };
        let better = if numeric.higher_is_better {
            "higher"
        } else {
            "lower"
        };
        self.push(format!("metric {}, {better} is better", definition.name));
        self.names
            .insert(definition.metric_id, definition.name.to_string());
    }
}
