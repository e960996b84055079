//! The progress of a training: a bar, plain lines or a dashboard.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use polyglow_predict::evaluation::Scores;
use polyglow_train::run::{RunDirectory, records};
use polyglow_train::train::TrainReport;
use polyglow_train::workload::BatchShape;
use polyglow_train::{Observer, Result, StopRequest};
use serde_json::Value;

use crate::activity::{Activity, Pace, print_above};
use crate::allocator;
use crate::dashboard::{Dashboard, require_terminal};
use crate::logging::{self, Redirect};

/// The place where a training is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Screen {
    /// On stderr: a bar if that is a terminal, plain lines otherwise.
    #[default]
    Lines,
    /// In a dashboard, which takes the whole terminal.
    Dashboard,
}

impl Screen {
    /// The dashboard.
    ///
    /// # Errors
    /// Stdin or stdout is not a terminal (exit code 2).
    pub(crate) fn dashboard() -> anyhow::Result<Self> {
        require_terminal()?;
        Ok(Self::Dashboard)
    }
}

/// The display of one training.
pub(crate) struct Progress {
    screen: Screen,
    activity: Option<Activity>,
    view: View,
    // Declared after the view, so that the view is dropped before messages go to stderr again.
    redirect: Option<Redirect>,
    /// The text of the newest report, which a bar shows again after a validation.
    words: String,
    pace: Pace,
    last_step: u64,
}

/// The view on the screen.
pub(crate) enum View {
    Lines,
    Bar(ProgressBar),
    Dashboard(Dashboard),
}

impl Progress {
    /// A display that shows nothing yet.
    pub(crate) fn new(screen: Screen) -> Self {
        Self {
            screen,
            activity: None,
            view: View::Lines,
            redirect: None,
            words: String::new(),
            pace: Pace::from(0),
            last_step: 0,
        }
    }

    /// Shows the records of a run so far and those to come.
    ///
    /// # Errors
    /// The records cannot be read.
    pub(crate) fn show_on(
        &mut self,
        view: View,
        run: &RunDirectory,
        step: u64,
        last_step: u64,
    ) -> Result<()> {
        if let View::Dashboard(dashboard) = &view {
            for record in records::read(&run.metrics_path())? {
                dashboard.show(&record);
            }
        }
        self.view = view;
        self.pace = Pace::from(step);
        self.last_step = last_step;
        Ok(())
    }
}

impl Observer for Progress {
    fn opened(&mut self, run: &RunDirectory) -> Result<()> {
        logging::log_to_file(&run.log_path())?;
        tracing::info!("run directory: {}", run.root().display());
        Ok(())
    }

    fn activity(&mut self, what: &str) {
        self.activity
            .get_or_insert_with(Activity::new)
            .show(what.to_owned());
    }

    fn idle(&mut self) {
        self.activity = None;
    }

    /// While a dashboard is open, messages go to `train.log` only; its plots begin with the records
    /// of the run so far.
    fn begin(&mut self, run: &RunDirectory, step: u64, last_step: u64) -> Result<()> {
        self.activity = None;
        let view = match self.screen {
            Screen::Dashboard => {
                self.redirect = Some(logging::redirect(|_| {}));
                View::Dashboard(Dashboard::open(
                    &run.root().display().to_string(),
                    step,
                    last_step,
                )?)
            }
            Screen::Lines if std::io::stderr().is_terminal() => {
                let bar = bar(step, last_step);
                self.redirect = Some(print_above(&bar));
                View::Bar(bar)
            }
            Screen::Lines => View::Lines,
        };
        self.show_on(view, run, step, last_step)
    }

    fn batch(&mut self, shape: Option<BatchShape>) {
        allocator::note_batch(shape);
    }

    fn step(&mut self, step: u64) {
        match &mut self.view {
            View::Lines => {}
            View::Bar(bar) => bar.set_position(step),
            View::Dashboard(dashboard) => dashboard.advance(step),
        }
    }

    fn report(&mut self, report: &TrainReport<'_>, record: &Value) {
        let TrainReport {
            step,
            epoch,
            lr,
            interval,
            ..
        } = report;
        let loss = interval.loss();
        let perplexity = interval.perplexity();
        let rate = report.tokens_per_second();
        let skipped = if interval.skipped > 0 {
            format!("  skipped {}", interval.skipped)
        } else {
            String::new()
        };
        self.words =
            format!("loss {loss:.3}  ppl {perplexity:.2}  lr {lr:.2e}  {rate:.0} tok/s{skipped}");
        let words = &self.words;
        let last = self.last_step;
        let left = self.pace.time_left(*step, last);
        let line = format!("step {step}/{last}  epoch {epoch}  {words}  left {left}");
        match &mut self.view {
            View::Lines => tracing::info!("{line}"),
            // The terminal shows it in the bar; `train.log` gets the line.
            View::Bar(bar) => {
                tracing::debug!("{line}");
                bar.set_message(words.clone());
            }
            View::Dashboard(dashboard) => {
                tracing::debug!("{line}");
                dashboard.show(record);
            }
        }
    }

    fn validating(&mut self, step: u64) {
        tracing::debug!("validating after step {step}");
        match &mut self.view {
            View::Lines => {}
            View::Bar(bar) => bar.set_message("validating"),
            View::Dashboard(dashboard) => dashboard.validating(),
        }
    }

    fn scores(&mut self, step: u64, scores: &Scores, record: &Value) {
        let search = if scores.translations.is_some() {
            "  (greedy search)"
        } else {
            ""
        };
        tracing::info!("valid after step {step}: {scores}{search}");
        match &mut self.view {
            View::Lines => {}
            View::Bar(bar) => bar.set_message(self.words.clone()),
            View::Dashboard(dashboard) => dashboard.show(record),
        }
    }

    fn end(&mut self) {
        if let View::Bar(bar) = &self.view {
            bar.finish_and_clear();
        }
        self.view = View::Lines;
        self.redirect = None;
    }

    fn stop_request(&self) -> StopRequest {
        match &self.view {
            View::Dashboard(dashboard) => dashboard.stop_request(),
            View::Lines | View::Bar(_) => StopRequest::None,
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

fn bar(step: u64, last_step: u64) -> ProgressBar {
    let template = "{wide_bar:.cyan/dim} {pos}/{len}  {msg}  left {eta}";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(last_step), ProgressDrawTarget::stderr());
    bar.set_style(style);
    bar.set_position(step);
    bar.reset_eta();
    bar
}
