//! The dashboard: what it is told, what its keys do, and that it needs a terminal.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use burn::train::Interrupter;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::{MetricDefinition, MetricId};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation, MetricsRendererTraining,
};
use polyglow::dashboard::Dashboard;
use polyglow::progress::Progress;
use polyglow_train::predict::evaluation::{Scores, Signatures, TranslationScores};
use polyglow_train::run::RunDirectory;
use polyglow_train::run::records::Records;
use polyglow_train::train::{Interval, TrainReport};
use polyglow_train::{Observer, Wish};
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{DIGITS, Workplace};

/// What a renderer was told.
#[derive(Default)]
struct Heard {
    metrics: Vec<(MetricId, String)>,
    /// Split, name of the metric, and value.
    values: Vec<(&'static str, String, f64)>,
    texts: Vec<String>,
    /// Split, steps done, and steps to do.
    progress: Vec<(String, usize, usize)>,
    split: (String, usize),
    killed: bool,
}

/// A renderer without a terminal. As burn-train's, it panics, even in its destructor, once its user has killed it.
struct Listener(Arc<Mutex<Heard>>);

impl Listener {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        let heard = lock(&self.0);
        assert!(!heard.killed, "killed by the user");
        heard
    }

    fn update(&self, split: &'static str, state: &MetricState) {
        let mut heard = self.heard();
        match state {
            MetricState::Generic(entry) => heard.texts.push(entry.serialized_entry.formatted.clone()),
            MetricState::Numeric(entry, value) => {
                let metric = heard.metrics.iter().find(|(id, _)| *id == entry.metric_id);
                let name = metric.expect("the metric was registered").1.clone();
                heard.values.push((split, name, value.as_ref().expect("there is a value").current()));
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.heard());
    }
}

impl MetricsRendererTraining for Listener {
    fn update_train(&mut self, state: MetricState) {
        self.update("train", &state);
    }

    fn update_valid(&mut self, state: MetricState) {
        self.update("valid", &state);
    }
}

impl TrainingProgressLogger for Listener {
    fn start(&mut self, epochs: usize, epoch: usize, _: Option<usize>, label: Option<&str>) {
        // burn-train subtracts one from the number of the epoch.
        assert_eq!((epochs, epoch), (1, 1));
        assert!(label.is_some());
    }

    fn update_epoch(&mut self, _: usize) {}

    fn start_split(&mut self, split: &str, total: usize) {
        self.heard().split = (split.to_owned(), total);
    }

    fn update_split(&mut self, done: usize) {
        let mut heard = self.heard();
        let (split, total) = heard.split.clone();
        heard.progress.push((split, done, total));
    }

    fn end_split(&mut self) {}

    fn end(&mut self) {}

    fn log_event_training(&mut self, _: String) {}
}

impl MetricsRendererEvaluation for Listener {
    fn update_test(&mut self, _: EvaluationName, _: MetricState) {}
}

impl EvaluationProgressLogger for Listener {
    fn start_global_progress(&mut self, _: usize) {}

    fn start_test(&mut self, _: &str, _: usize) {}

    fn update_test_progress(&mut self, _: usize) {}

    fn end_test(&mut self) {}

    fn end_global_progress(&mut self) {}

    fn log_event_evaluation(&mut self, _: String) {}
}

impl MetricsRenderer for Listener {
    fn manual_close(&mut self) {}

    fn register_metric(&mut self, definition: MetricDefinition) {
        self.heard().metrics.push((definition.metric_id, definition.name.to_string()));
    }
}

/// A training of 30 steps, of which 10 are done, shown on a listener.
struct Fixture {
    directory: TempDir,
    heard: Arc<Mutex<Heard>>,
    interrupter: Interrupter,
    records: Records,
    progress: Progress,
}

impl Fixture {
    fn new(metrics: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        fs::write(directory.path().join("metrics.jsonl"), metrics).expect("a file can be written there");
        let (heard, interrupter) = (Arc::new(Mutex::new(Heard::default())), Interrupter::new());
        let listener = Box::new(Listener(Arc::clone(&heard)));
        let dashboard = Dashboard::new(listener, interrupter.clone(), "runs/test", 10, 30);
        let run = RunDirectory::new(directory.path().to_owned());
        let records = Records::open(&run.metrics_path(), 10).expect("the metrics can be opened");
        let progress = Progress::on_dashboard(&run, 10, 30, dashboard).expect("the metrics can be read");
        Self { directory, heard, interrupter, records, progress }
    }

    fn report(&mut self, step: u64) {
        let interval = Interval {
            steps: 2,
            skipped: 0,
            loss_sum: 300.0,
            nll_sum: 200.0,
            grad_norm_sum: 3.0,
            tokens: 100,
            positions: 250,
            real_positions: 200,
        };
        let elapsed = Duration::from_millis(500);
        let timed_tokens = interval.tokens;
        let report = TrainReport { step, epoch: 2, lr: 2e-3, timed_tokens, interval: &interval, elapsed };
        let record = report.record();
        self.progress.report(&report, &record);
        self.records.write(&record).expect("it can be written");
    }

    fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.directory.path().join("metrics.jsonl")).expect("the file is there");
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }

    /// The values heard since the last call, as `split name value`.
    fn values(&self) -> Vec<String> {
        let values = std::mem::take(&mut lock(&self.heard).values);
        values.into_iter().map(|(split, name, value)| format!("{split} {name} {value}")).collect()
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

fn scores() -> Scores {
    let signatures = Signatures { bleu: "b".to_owned(), chrf: "c".to_owned() };
    let (bleu, chrf, exact_match, token_accuracy) = (31.5, 52.25, 0.125, 0.75);
    let translations = Some(TranslationScores { bleu, chrf, exact_match, signatures });
    Scores { translations, accuracy: None, token_accuracy, loss: 0.0, perplexity: 1.0, bits_per_byte: None }
}

#[test]
fn the_dashboard_plots_the_numbers_of_the_metrics_file() {
    let mut fixture = Fixture::new("");
    fixture.report(12);
    let perplexity = 2.0_f64.exp();
    let expected = [
        "train Loss 3".to_owned(),
        format!("train Perplexity {perplexity}"),
        "train Learning rate 0.002".to_owned(),
        "train Target tokens per second 200".to_owned(),
        "train Gradient norm 1.5".to_owned(),
    ];
    assert_eq!(fixture.values(), expected);

    let record = fixture.records.write_scores("valid", "valid", 12, &scores()).expect("they can be written");
    fixture.progress.scores(12, &scores(), &record);
    let expected = ["Loss 0", "Perplexity 1", "BLEU 31.5", "chrF 52.25", "Exact match 0.125", "Token accuracy 0.75"];
    assert_eq!(fixture.values(), expected.map(|value| format!("valid {value}")));
    assert_eq!(lock(&fixture.heard).texts, ["12 of 30, epoch 2", "12 of 30"]);

    let kinds: Vec<Value> = fixture.records().iter().map(|record| record["kind"].clone()).collect();
    assert_eq!(kinds, ["train", "valid"]);
    assert_eq!(fixture.records()[0]["perplexity"], perplexity);
}

#[test]
fn the_plots_of_a_resumed_run_begin_with_its_records() {
    let metrics = "{\"kind\": \"train\", \"step\": 5, \"loss\": 4.5, \"perplexity\": null}\n\
                   {\"kind\": \"valid\", \"step\": 10, \"bleu\": 2.5}\n\
                   {\"kind\": \"train\", \"step\": 15, \"loss\": 3.5}\n";
    let fixture = Fixture::new(metrics);
    assert_eq!(fixture.values(), ["train Loss 4.5", "valid BLEU 2.5"], "step 15 will be done again");
    assert_eq!(fixture.records().len(), 2);
}

#[test]
fn progress_counts_the_steps_that_are_still_to_do() {
    let mut fixture = Fixture::new("");
    fixture.progress.step(11);
    fixture.progress.validating(11);
    fixture.progress.step(12);
    let split = |name: &str, done: usize| (name.to_owned(), done, 20);
    assert_eq!(lock(&fixture.heard).progress, [split("train", 1), split("valid", 1), split("train", 2)]);
}

#[test]
fn the_quit_key_asks_for_the_end() {
    let mut fixture = Fixture::new("");
    fixture.progress.step(11);
    assert_eq!(fixture.progress.wish(), Wish::GoOn);
    fixture.interrupter.stop(Some("as burn-train's quit key does"));
    assert_eq!(fixture.progress.wish(), Wish::Stop);
    // The step after it, and the checkpoint, are still shown.
    fixture.progress.step(12);
    assert_eq!(lock(&fixture.heard).progress.len(), 2);
}

#[test]
fn a_dashboard_killed_by_its_user_wants_the_end_and_does_not_panic() {
    let mut fixture = Fixture::new("");
    lock(&fixture.heard).killed = true;
    fixture.progress.step(11);
    assert_eq!(fixture.progress.wish(), Wish::Abort);
    // Nobody listens any more.
    fixture.progress.step(12);
}

#[test]
fn a_dashboard_without_a_terminal_is_wrong_usage_and_makes_no_run() {
    let place = Workplace::with(DIGITS);
    let message = place.fail(2, &["train", "tiny.toml", "--tui"]);
    assert!(message.contains("`--tui` needs a terminal"), "{message}");
    assert!(message.contains("hint: leave out `--tui`"), "{message}");
    assert!(!place.path().join("runs").exists());
}
