use std::collections::BTreeMap;
use std::fs;

use polyglow_predict::evaluation::Scores;
use polyglow_predict::scoring::{Signatures, TranslationScores};
use polyglow_train::Observer;
use polyglow_train::run::RunDirectory;
use polyglow_train::train::{Interval, TrainReport};
use polyglow_train::workload::BatchShape;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::*;
use crate::progress::{Progress, Screen as Choice, View};

/// A screen of this size that a test can read.
fn on_paper(width: u16, height: u16) -> (Draw, Arc<Mutex<String>>) {
    let paper = Arc::new(Mutex::new(String::new()));
    let (page, mut terminal) = (
        Arc::clone(&paper),
        Terminal::new(TestBackend::new(width, height)).expect("it can"),
    );
    let draw = move |board: &Board| {
        terminal
            .draw(|frame| board.draw(frame))
            .expect("memory does not refuse");
        if width > 0 {
            *page.lock().expect("nobody panics") = terminal.backend().to_string();
        }
        true
    };
    (Box::new(draw), paper)
}

/// A training of 30 steps, of which 10 are done.
struct Fixture {
    paper: Arc<Mutex<String>>,
    progress: Progress,
    screen: Arc<Mutex<Screen>>,
}

impl Fixture {
    fn new(metrics: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        fs::write(directory.path().join("metrics.jsonl"), metrics)
            .expect("a file can be written there");
        let (draw, paper) = on_paper(120, 30);
        let dashboard = Dashboard::new(draw, "runs/test", 10, 30);
        let screen = Arc::clone(&dashboard.screen);
        let mut progress = Progress::new(Choice::Dashboard);
        let run = RunDirectory::new(directory.path().to_owned());
        progress
            .show_on(View::Dashboard(dashboard), &run, 10, 30)
            .expect("the metrics can be read");
        Self {
            paper,
            progress,
            screen,
        }
    }

    fn press(&self, keys: &[u8]) {
        lock(&self.screen).change_now(|board| board.press(keys));
    }

    /// Returns the text on the screen.
    fn seen(&self) -> String {
        lock(&self.screen).change_now(|_| {});
        self.paper.lock().expect("nobody panics").clone()
    }

    #[track_caller]
    fn assert_shows(&self, words: &str) {
        let seen = self.seen();
        assert!(seen.contains(words), "`{words}` in:\n{seen}");
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
        let (elapsed, timed_tokens) = (Duration::from_millis(500), interval.tokens);
        let report = TrainReport {
            step,
            epoch: 2,
            lr: 2e-3,
            timed_tokens,
            interval: &interval,
            elapsed,
            times: &[],
        };
        let record = report.record();
        self.progress.step(step);
        self.progress.report(&report, &record);
    }
}

#[test]
fn the_numbers_of_the_metrics_file_are_shown() {
    let mut fixture = Fixture::new("");
    fixture.progress.batch(None::<BatchShape>);
    fixture.assert_shows("the first report comes after `train.log_every` steps");
    fixture.report(12);
    fixture.assert_shows("step 12 of 30, epoch 2, left ");
    for (title, train) in [
        ("loss", "3.000"),
        ("perplexity", "7.389"),
        ("learning rate", "2.00e-3"),
        ("target tokens per second", "200.000"),
        ("gradient norm", "1.500"),
    ] {
        fixture.assert_shows(&format!("{title:<26}{train:>8}"));
    }
    let signatures = Signatures {
        bleu: "b".to_owned(),
        chrf: "c".to_owned(),
    };
    let translations = Some(TranslationScores {
        bleu: 31.5,
        chrf: 52.25,
        exact_match: 0.125,
        signatures,
    });
    let scores = Scores {
        translations,
        accuracy: None,
        token_accuracy: Some(0.75),
        loss: 1.0,
        perplexity: 2.7,
        bits_per_byte: None,
        others: BTreeMap::new(),
        truncated: None,
    };
    let record = json!({"kind": "valid", "step": 12, "loss": 1.0, "bleu": 31.5, "chrf": 52.25});
    fixture.progress.validating(12);
    fixture.assert_shows(", validating");
    fixture.progress.scores(12, &scores, &record);
    for (title, train, valid) in [
        ("loss", "3.000", "1.000"),
        ("BLEU", "", "31.500"),
        ("chrF", "", "52.250"),
    ] {
        fixture.assert_shows(&format!("{title:<26}{train:>8}  {valid:>8}"));
    }
    fixture.progress.step(13);
    assert!(!fixture.seen().contains("validating"));
}

#[test]
fn the_plots_of_a_resumed_run_begin_with_its_records() {
    let metrics = "{\"kind\": \"train\", \"step\": 5, \"loss\": 4.5, \"perplexity\": null}\n\
                   {\"kind\": \"valid\", \"step\": 10, \"bleu\": 2.5}\n";
    let fixture = Fixture::new(metrics);
    fixture.assert_shows(&format!("{:<26}{:>8}", "loss", "4.500"));
    fixture.assert_shows(&format!("{:<26}{:>8}  {:>8}", "BLEU", "", "2.500"));
    assert!(!fixture.seen().contains("perplexity"), "it was not finite");
}

#[test]
fn the_quit_key_says_what_it_does_and_does_it() {
    let fixture = Fixture::new("");
    fixture.assert_shows("q: save and stop");
    assert_eq!(fixture.progress.stop_request(), StopRequest::None);
    fixture.press(b"x");
    assert_eq!(fixture.progress.stop_request(), StopRequest::None);
    // However long the key is held down.
    fixture.press(b"qqq");
    assert_eq!(fixture.progress.stop_request(), StopRequest::Stop);
    fixture.assert_shows("saving and stopping; Ctrl-C: end now, without saving");
    fixture.press(b"q\x03q");
    assert_eq!(fixture.progress.stop_request(), StopRequest::Abort);
    fixture.assert_shows("ending without saving");
}

#[test]
fn ctrl_c_saves_and_stops_as_outside_the_dashboard() {
    let fixture = Fixture::new("");
    fixture.press(b"\x03");
    assert_eq!(fixture.progress.stop_request(), StopRequest::Stop);
    fixture.press(b"\x03");
    assert_eq!(fixture.progress.stop_request(), StopRequest::Abort);
}

#[test]
fn keys_choose_among_the_curves_that_have_points() {
    let mut fixture = Fixture::new("");
    fixture.press(b"\t");
    fixture.report(12);
    fixture.report(14);
    let plotted = |fixture: &Fixture| {
        let seen = fixture.seen();
        // The title of the plot's frame, below the tabs.
        let titles = [
            "loss",
            "perplexity",
            "learning rate",
            "target tokens per second",
            "gradient norm",
        ];
        titles
            .into_iter()
            .find(|title| seen.contains(&format!("┌{title}─")))
            .map(str::to_owned)
    };
    assert_eq!(plotted(&fixture).as_deref(), Some("loss"));
    for (key, title) in [
        (&b"\t"[..], "perplexity"),
        (b"\x1b[C", "learning rate"),
        (b"\x1b[D", "perplexity"),
        (b"\x1b[D\x1b[D", "perplexity"),
        (b"\x1b[Z", "loss"),
        (b"\x1b[Z", "gradient norm"),
        (b"\t", "loss"),
    ] {
        fixture.press(key);
        assert_eq!(plotted(&fixture).as_deref(), Some(title), "{key:?}");
    }
}

#[test]
fn no_size_of_a_screen_is_too_small() {
    let (mut board, text) = (Board::new("runs/test", 0, 30), "a long run".repeat(20));
    for step in 1..2000 {
        board.show(&json!({"kind": "train", "step": step, "loss": 5.0, "lr": 1e-9, "epoch": 1}));
    }
    let mut labeled = Board::new(&text, 0, 30);
    labeled.show(&json!({"kind": "valid", "step": 1, "loss": -5.0}));
    for (width, height) in [(0, 0), (1, 1), (7, 3), (20, 5), (80, 24), (300, 100)] {
        let (mut draw, _) = on_paper(width, height);
        assert!(draw(&board) && draw(&labeled), "{width} x {height}");
    }
}

#[test]
fn a_terminal_that_is_gone_is_given_up_and_the_training_goes_on() {
    let drawn = Arc::new(Mutex::new(0));
    let count = Arc::clone(&drawn);
    let fail = move |_: &Board| {
        *count.lock().expect("nobody panics") += 1;
        false
    };
    let dashboard = Dashboard::new(Box::new(fail), "runs/test", 0, 30);
    dashboard.advance(1);
    dashboard.validating();
    dashboard.advance(2);
    assert_eq!(
        (
            *drawn.lock().expect("nobody panics"),
            dashboard.stop_request()
        ),
        (1, StopRequest::None)
    );
}
