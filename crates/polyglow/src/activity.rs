//! The progress of long work other than training, on stderr: a spinner in a terminal, otherwise an
//! occasional line; and how long any work will take.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::logging::{self, Redirect};

/// Time between frames of the spinner.
const TICK: Duration = Duration::from_millis(120);
/// Time between lines if stderr is not a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Work under way; nothing is shown before there is something to say, and the spinner goes when
/// this is dropped.
pub(crate) struct Activity {
    spinner: Option<(ProgressBar, Redirect)>,
    spoken: Instant,
}

impl Activity {
    /// Work that begins now.
    pub(crate) fn new() -> Self {
        Self {
            spinner: None,
            spoken: Instant::now(),
        }
    }

    /// Shows what is being done, and how far it has come.
    pub(crate) fn show(&mut self, words: String) {
        if io::stderr().is_terminal() {
            self.spinner
                .get_or_insert_with(spinner)
                .0
                .set_message(words);
        } else if self.spoken.elapsed() >= BETWEEN_LINES {
            self.spoken = Instant::now();
            tracing::info!("{words}");
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        if let Some((spinner, _)) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}

/// The pace of counted work.
pub(crate) struct Pace {
    started: Instant,
    done_before: u64,
}

impl Pace {
    /// Starts the clock of work of which `done_before` was done earlier.
    pub(crate) fn from(done_before: u64) -> Self {
        Self {
            started: Instant::now(),
            done_before,
        }
    }

    /// Returns the rate so far, per second.
    pub(crate) fn per_second(&self, done: u64) -> f64 {
        (done - self.done_before) as f64 / self.started.elapsed().as_secs_f64().max(1e-3)
    }

    /// Predicts the time of the rest at the pace so far: `4m10s`.
    pub(crate) fn time_left(&self, done: u64, all: u64) -> String {
        let each = self.started.elapsed().as_secs_f64() / (done - self.done_before).max(1) as f64;
        let seconds = (each * all.saturating_sub(done) as f64).round() as u64;
        match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
            (0, 0, seconds) => format!("{seconds}s"),
            (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
            (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
        }
    }
}

/// Prints messages above `bar` until the guard is dropped.
pub(crate) fn print_above(bar: &ProgressBar) -> Redirect {
    let bar = bar.clone();
    logging::redirect(move |line| bar.suspend(|| drop(writeln!(io::stderr(), "{line}"))))
}

fn spinner() -> (ProgressBar, Redirect) {
    let style = ProgressStyle::with_template("{spinner:.cyan} {msg}  {elapsed}");
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    spinner.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    spinner.enable_steady_tick(TICK);
    let redirect = print_above(&spinner);
    (spinner, redirect)
}
