//! What a training shows while it runs: a bar, plain lines or a dashboard, and always `metrics.jsonl`.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::dashboard::{Dashboard, require_terminal};
use super::metrics::{self, Metrics};
use super::monitor::Interval;
use crate::activity::print_above;
use crate::evaluation::Scores;
use crate::logging::{self, Redirect};
use crate::run_directory::RunDirectory;

/// Where a training is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Screen {
    /// On stderr: a bar if that is a terminal, plain lines otherwise.
    #[default]
    Lines,
    /// In burn-train's dashboard, which takes the whole terminal.
    Dashboard,
}

impl Screen {
    /// The dashboard.
    ///
    /// # Errors
    /// There is no terminal for it (exit code 2).
    pub fn dashboard() -> anyhow::Result<Self> {
        require_terminal()?;
        Ok(Self::Dashboard)
    }
}

/// A report on the steps since the last one.
#[derive(Clone, Copy, Debug)]
pub struct TrainReport<'a> {
    /// Steps done.
    pub step: u64,
    /// Epoch of the next batch, from 0.
    pub epoch: u64,
    /// Learning rate of the last step.
    pub lr: f64,
    /// Sums over the steps.
    pub interval: &'a Interval,
    /// Time they took, without validation and checkpoints.
    pub elapsed: Duration,
    /// The tokens that were seen in that time; fewer than the interval's in the first report after a resume.
    pub timed_tokens: u64,
}

/// The display of one training.
pub struct Progress {
    metrics: Metrics,
    view: View,
    // After the view, so that it is gone before messages come to stderr again.
    _redirect: Option<Redirect>,
    words: String,
    last_step: u64,
    started: Instant,
    start_step: u64,
}

enum View {
    Lines,
    Bar(ProgressBar),
    Dashboard(Dashboard),
}

impl Progress {
    /// Starts to show a training that continues after `step` and ends with `last_step`.
    ///
    /// Records of later steps, from a part of the run that is done again, are removed from `metrics.jsonl`. While a
    /// dashboard is open, messages go to `train.log` only; its plots begin with the records of the run so far.
    ///
    /// # Errors
    /// `metrics.jsonl` cannot be written.
    pub fn start(run: &RunDirectory, step: u64, last_step: u64, screen: Screen) -> anyhow::Result<Self> {
        let (view, redirect) = match screen {
            Screen::Dashboard => {
                let redirect = logging::redirect(|_| {});
                let label = run.root().display().to_string();
                (View::Dashboard(Dashboard::open(&label, step, last_step)?), Some(redirect))
            }
            Screen::Lines if std::io::stderr().is_terminal() => {
                let bar = bar(step, last_step);
                let redirect = print_above(&bar);
                (View::Bar(bar), Some(redirect))
            }
            Screen::Lines => (View::Lines, None),
        };
        Self::with_view(run, step, last_step, view, redirect)
    }

    /// Starts to show a training, as [`Self::start`], on a dashboard that is already open.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn on_dashboard(run: &RunDirectory, step: u64, last_step: u64, dashboard: Dashboard) -> anyhow::Result<Self> {
        Self::with_view(run, step, last_step, View::Dashboard(dashboard), None)
    }

    fn with_view(
        run: &RunDirectory,
        start_step: u64,
        last_step: u64,
        mut view: View,
        redirect: Option<Redirect>,
    ) -> anyhow::Result<Self> {
        let metrics = Metrics::open(&run.metrics_path(), start_step)?;
        if let View::Dashboard(dashboard) = &mut view {
            for record in metrics::read(&run.metrics_path())? {
                dashboard.show(&record)?;
            }
        }
        let (words, started) = (String::new(), Instant::now());
        Ok(Self { metrics, view, _redirect: redirect, words, last_step, started, start_step })
    }

    /// Shows that a step is done.
    ///
    /// # Errors
    /// The user has chosen in the dashboard to end the process at once.
    pub fn advance(&mut self, step: u64) -> anyhow::Result<()> {
        match &mut self.view {
            View::Lines => {}
            View::Bar(bar) => bar.set_position(step),
            View::Dashboard(dashboard) => dashboard.advance(step)?,
        }
        Ok(())
    }

    /// Shows that validation after `step` has begun.
    ///
    /// # Errors
    /// As [`Self::advance`].
    pub fn validating(&mut self, step: u64) -> anyhow::Result<()> {
        tracing::debug!("validating after step {step}");
        match &mut self.view {
            View::Lines => {}
            View::Bar(bar) => bar.set_message("validating"),
            View::Dashboard(dashboard) => dashboard.validating(step)?,
        }
        Ok(())
    }

    /// Whether the user has asked for the end with the dashboard's quit key.
    pub fn asks_to_stop(&self) -> bool {
        matches!(&self.view, View::Dashboard(dashboard) if dashboard.asks_to_stop())
    }

    /// Shows and records what the last steps gave.
    ///
    /// # Errors
    /// As [`Self::advance`].
    pub fn train(&mut self, report: TrainReport<'_>) -> anyhow::Result<()> {
        let TrainReport { step, epoch, lr, interval, elapsed, timed_tokens } = report;
        let (loss, perplexity) = (interval.loss(), interval.perplexity());
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let tokens_per_second = timed_tokens as f64 / seconds;
        let record = json!({
            "kind": "train", "step": step, "epoch": epoch, "loss": loss, "perplexity": perplexity, "lr": lr,
            "grad_norm": interval.grad_norm(), "tokens": interval.tokens, "padding": interval.padding(),
            "seconds": seconds, "tokens_per_second": tokens_per_second,
        });
        self.words = format!("loss {loss:.3}  ppl {perplexity:.2}  lr {lr:.2e}  {tokens_per_second:.0} tok/s");
        let (words, last, left) = (&self.words, self.last_step, self.time_left(step));
        let line = format!("step {step}/{last}  epoch {epoch}  {words}  left {left}");
        match &mut self.view {
            View::Lines => tracing::info!("{line}"),
            // What the terminal shows in another way, `train.log` still gets.
            View::Bar(bar) => {
                tracing::debug!("{line}");
                bar.set_message(words.clone());
            }
            View::Dashboard(dashboard) => {
                tracing::debug!("{line}");
                dashboard.show(&record)?;
            }
        }
        self.metrics.write(&record)
    }

    /// Shows and records the scores of the validation set.
    ///
    /// # Errors
    /// As [`Self::advance`].
    pub fn scores(&mut self, step: u64, scores: &Scores) -> anyhow::Result<()> {
        tracing::info!("valid after step {step}: {scores}");
        let record = self.metrics.write_scores("valid", "valid", step, scores)?;
        match &mut self.view {
            View::Lines => {}
            View::Bar(bar) => bar.set_message(self.words.clone()),
            View::Dashboard(dashboard) => dashboard.show(&record)?,
        }
        Ok(())
    }

    /// Has the disk confirm all records, so that no checkpoint is ahead of them; warns where it refuses.
    pub fn settle(&mut self) {
        self.metrics.settle();
    }

    /// Writes the records that the disk has refused so far.
    ///
    /// # Errors
    /// It still refuses them.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        self.metrics.flush()
    }

    /// Says how long the steps to come will take at the pace so far: `4m10s`.
    fn time_left(&self, step: u64) -> String {
        let done = (step - self.start_step).max(1) as f64;
        let left = self.started.elapsed().as_secs_f64() / done * (self.last_step.saturating_sub(step)) as f64;
        let seconds = left.round() as u64;
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, 0, seconds) => format!("{seconds}s"),
            (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
            (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let View::Bar(bar) = &self.view {
            bar.finish_and_clear();
        }
    }
}

fn bar(step: u64, last_step: u64) -> ProgressBar {
    let template = "{wide_bar:.cyan/dim} {pos}/{len}  {msg}  left {eta}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(last_step), ProgressDrawTarget::stderr());
    bar.set_style(style);
    bar.set_position(step);
    bar.reset_eta();
    bar
}
