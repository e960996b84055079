//! The dashboard in the terminal: a training on the whole screen, fed with the records that go to
//! `metrics.jsonl`, and the keys that end it.
//!
//! burn-train has such a screen, but what its quit key says and does cannot be chosen, and it never
//! gives up reading a terminal that was closed.

mod board;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Read, Stdout};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use polyglow_train::StopRequest;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use serde_json::Value;

use crate::failure::{usage, with_hint};
use board::Board;

/// The shortest time between two drawings of the screen: steps may be much shorter, and a slow
/// terminal would hold them up.
const BETWEEN_FRAMES: Duration = Duration::from_millis(100);

/// Draws a board; false where it cannot be drawn any more, as after the terminal was closed.
type Draw = Box<dyn FnMut(&Board) -> bool + Send>;

/// A dashboard that is open until it is dropped.
pub(crate) struct Dashboard {
    screen: Arc<Mutex<Screen>>,
    /// Whether the terminal is in raw mode, which the end of the dashboard has to undo.
    in_terminal: bool,
}

/// A terminal of the size that it had when it was last looked at.
///
/// ratatui would notice another size itself, but then asks the terminal where the cursor is, and
/// our thread that reads keys would get the answer.
struct SizedTerminal {
    size: (u16, u16),
    /// Never dropped: its destructor shows the cursor, and panics if the terminal was closed. The
    /// dashboard's shows it, too.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
}

/// The content of the dashboard, and the function that draws it.
struct Screen {
    board: Board,
    draw: Option<Draw>,
    drawn: Option<Instant>,
}

impl Dashboard {
    /// Opens the dashboard on stdout, under the name `label`, for a training that continues after
    /// `step`.
    ///
    /// # Errors
    /// The terminal refuses.
    pub(crate) fn open(label: &str, step: u64, last_step: u64) -> io::Result<Self> {
        enable_raw_mode()?;
        let mut dashboard = Self::new(Box::new(|_| true), label, step, last_step);
        dashboard.in_terminal = true;
        execute!(io::stdout(), EnterAlternateScreen)?;
        let mut terminal = SizedTerminal::new()?;
        dashboard.screen().draw = Some(Box::new(move |board| terminal.draw(board).is_ok()));
        let screen = Arc::downgrade(&dashboard.screen);
        thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || read_keys(&screen))?;
        Ok(dashboard)
    }

    /// A dashboard that is drawn by `draw`.
    fn new(draw: Draw, label: &str, step: u64, last_step: u64) -> Self {
        let screen = Screen {
            board: Board::new(label, step, last_step),
            draw: Some(draw),
            drawn: None,
        };
        Self {
            screen: Arc::new(Mutex::new(screen)),
            in_terminal: false,
        }
    }

    /// Shows that a step is done.
    pub(crate) fn advance(&self, step: u64) {
        self.screen().change(|board| board.advance(step));
    }

    /// Shows that validation has begun; the next step ends it.
    pub(crate) fn validating(&self) {
        self.screen().change_now(Board::validating);
    }

    /// Plots a record of `metrics.jsonl` of the kind `train` or `valid`; others are not shown.
    pub(crate) fn show(&self, record: &Value) {
        self.screen().change(|board| board.show(record));
    }

    /// Returns what the user has requested with keys.
    pub(crate) fn stop_request(&self) -> StopRequest {
        self.screen().board.stop_request()
    }

    fn screen(&self) -> MutexGuard<'_, Screen> {
        lock(&self.screen)
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.screen().draw = None;
        if self.in_terminal {
            // If the terminal is gone, there is nothing to give back.
            let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
            let _ = disable_raw_mode();
        }
    }
}

impl SizedTerminal {
    fn new() -> io::Result<Self> {
        let (width, height) = size()?;
        execute!(io::stdout(), Clear(ClearType::All))?;
        let viewport = Viewport::Fixed(Rect::new(0, 0, width, height));
        let terminal = Terminal::with_options(
            CrosstermBackend::new(io::stdout()),
            TerminalOptions { viewport },
        )?;
        Ok(Self {
            size: (width, height),
            terminal: ManuallyDrop::new(terminal),
        })
    }

    fn draw(&mut self, board: &Board) -> io::Result<()> {
        if size()? != self.size {
            *self = Self::new()?;
        }
        self.terminal.draw(|frame| board.draw(frame)).map(drop)
    }
}

impl Screen {
    /// Changes the board, and draws it unless that was done a moment ago.
    fn change(&mut self, change: impl FnOnce(&mut Board)) {
        change(&mut self.board);
        if self
            .drawn
            .is_none_or(|drawn| drawn.elapsed() >= BETWEEN_FRAMES)
        {
            self.draw();
        }
    }

    /// Changes the board, and draws it.
    fn change_now(&mut self, change: impl FnOnce(&mut Board)) {
        change(&mut self.board);
        self.draw();
    }

    fn draw(&mut self) {
        self.drawn = Some(Instant::now());
        if self.draw.as_mut().is_some_and(|draw| !draw(&self.board)) {
            self.draw = None;
        }
    }
}

/// Hands keys to the board until the dashboard or the terminal is closed.
///
/// They are read from stdin as bytes: crossterm's reader never returns from a terminal that was
/// closed.
fn read_keys(screen: &Weak<Mutex<Screen>>) {
    let mut keys = [0; 64];
    while let Ok(count @ 1..) = io::stdin().read(&mut keys) {
        let Some(screen) = screen.upgrade() else {
            return;
        };
        lock(&screen).change_now(|board| board.press(&keys[..count]));
    }
}

/// Ignores poisoning: what is shown is not damaged by a panic in another thread.
fn lock(screen: &Mutex<Screen>) -> MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
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
    Err(with_hint(
        usage(error),
        "leave out `--tui` to have progress written to stderr in plain lines",
    ))
}
