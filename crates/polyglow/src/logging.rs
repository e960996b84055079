//! Messages for people: to stderr, and to a run's `train.log` once there is one.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::{ArgAction, Args};
use fs_err::{File, OpenOptions};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterExt};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt as layers};

use polyglow_train::tasks::HELD_OUT;

use crate::ranks;

/// The function that lines go to while a progress bar or a dashboard owns the terminal.
type Printer = Arc<dyn Fn(&str) + Send + Sync>;

static LOG_FILE: Mutex<Option<File>> = Mutex::new(None);
static PRINTER: Mutex<Option<Printer>> = Mutex::new(None);

/// The options by which a user chooses how much is logged, of every command.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Verbosity {
    /// Increase verbosity; repeat for more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,

    /// Print warnings only; twice: errors only
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "verbose")]
    quiet: u8,
}

/// Starts logging to stderr; call it once.
///
/// Without options information is logged; `-q` leaves warnings, and `-qq` errors; `-v` adds debug
/// messages of polyglow, and `-vv` its traces and debug messages of other crates. `RUST_LOG`
/// overrides them. There is no color if stderr is not a terminal or `NO_COLOR` is set. Of several
/// processes the first logs for all, and the others only errors, without `-v`; or warnings, too,
/// where each `speaks` of its own lines.
pub(crate) fn init(verbosity: Verbosity, is_first: bool, speaks: bool) {
    let default = match i16::from(verbosity.verbose) - i16::from(verbosity.quiet) {
        ..=0 if !speaks => "error",
        -1..=0 if !is_first => "warn",
        ..=-2 => "error",
        -1 => "warn",
        0 => "warn,polyglow=info,polyglow_serve=info,polyglow_train=info,polyglow_view=info",
        1 => {
            "warn,polyglow=debug,polyglow_train=debug,polyglow_view=debug,polyglow_data=debug,polyglow_model=debug"
        }
        _ => {
            "debug,polyglow=trace,polyglow_train=trace,polyglow_view=trace,polyglow_data=trace,polyglow_model=trace"
        }
    };
    // Burn warns of an operation that fails, and the code that reads its result gets the error.
    let default = format!("{default},burn_fusion=error");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    // A second call, as in tests, keeps the first subscriber.
    let _ = subscriber(filter).try_init();
}

/// Makes what writes messages: those that `for_stderr` lets through to stderr, and its own choice to
/// the log of a run.
///
/// Every part gives a hint of its lowest level. Without one, the levels that are written nowhere would not
/// be turned off where they are written, and the tokenizers' library writes several traces a
/// character.
fn subscriber(for_stderr: EnvFilter) -> impl Subscriber + Send + Sync {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let stderr = layers::layer()
        .with_ansi(io::stderr().is_terminal() && !no_color)
        .event_format(Short)
        .with_writer(|| Terminal)
        .with_filter(for_stderr.and(OncePerText::default()));
    let for_file = EnvFilter::new(
        "warn,polyglow=info,polyglow_train=info,polyglow_view=info,polyglow::progress=debug",
    );
    let file = layers::layer()
        .compact()
        .with_ansi(false)
        .with_target(false)
        .with_writer(|| LogFile)
        .with_filter(for_file.and(OncePerText::default()));
    tracing_subscriber::registry()
        .with(RememberText)
        .with(stderr)
        .with(file)
}

/// Copies every message from now on, with its time, to the end of the file at `path`.
///
/// # Errors
/// The file cannot be opened for writing.
pub(crate) fn log_to_file(path: &Path) -> polyglow_train::Result<()> {
    *lock(&LOG_FILE) = Some(OpenOptions::new().create(true).append(true).open(path)?);
    Ok(())
}

/// Passes every line meant for stderr to `printer` until the returned guard is dropped.
///
/// A progress bar must be cleared before a line is printed, and a dashboard allows no output at
/// all.
#[must_use = "lines go back to stderr when the guard is dropped"]
pub(crate) fn redirect(printer: impl Fn(&str) + Send + Sync + 'static) -> Redirect {
    *lock(&PRINTER) = Some(Arc::new(printer));
    Redirect(())
}

/// While it lives, messages go where [`redirect`] sent them.
#[derive(Debug)]
pub(crate) struct Redirect(());

impl Drop for Redirect {
    fn drop(&mut self) {
        *lock(&PRINTER) = None;
    }
}

/// `warning: ...` and the like; plain information has no prefix.
struct Short;

impl<S, N> FormatEvent<S, N> for Short
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (color, word) = match *event.metadata().level() {
            Level::ERROR => ("31", "error: "),
            Level::WARN => ("33", "warning: "),
            Level::INFO => ("", ""),
            Level::DEBUG => ("34", "debug: "),
            Level::TRACE => ("35", "trace: "),
        };
        write!(writer, "{}", ranks::prefix())?;
        match (word, writer.has_ansi_escapes()) {
            ("", _) => {}
            (word, true) => write!(writer, "\x1b[{color}m{word}\x1b[0m")?,
            (word, false) => write!(writer, "{word}")?,
        }
        for span in context.event_scope().into_iter().flatten() {
            if let Some(HeldOutText(name)) = span.extensions().get() {
                write!(writer, "in `{name}`: ")?;
            }
        }
        context
            .field_format()
            .format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// The names of the files of a held-out text, kept with its span.
struct HeldOutText(String);

/// Keeps the names of held-out texts with their spans. The formatters' own copy of a span's fields
/// may hold colors.
struct RememberText;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for RememberText {
    fn max_level_hint(&self) -> Option<LevelFilter> {
        // The level of the span of held-out texts.
        Some(LevelFilter::WARN)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().name() != HELD_OUT {
            return;
        }
        let mut text = FieldText {
            name: "text",
            value: String::new(),
        };
        attributes.record(&mut text);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(HeldOutText(text.value));
        }
    }
}

/// Lets a warning about a held-out text through once: every validation reads the same lines.
#[derive(Default)]
struct OncePerText {
    /// Names of texts, each with a message.
    seen: Mutex<HashSet<(String, String)>>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Filter<S> for OncePerText {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn callsite_enabled(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::always()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // It refuses no level.
        Some(LevelFilter::TRACE)
    }

    fn event_enabled(&self, event: &Event<'_>, context: &Context<'_, S>) -> bool {
        let text = context
            .event_scope(event)
            .into_iter()
            .flatten()
            .find_map(|span| {
                span.extensions()
                    .get()
                    .map(|HeldOutText(name)| name.clone())
            });
        let Some(text) = text.filter(|_| *event.metadata().level() == Level::WARN) else {
            return true;
        };
        let mut message = FieldText {
            name: "message",
            value: String::new(),
        };
        event.record(&mut message);
        lock(&self.seen).insert((text, message.value))
    }
}

/// Picks one field of an event or a span, as text.
struct FieldText {
    name: &'static str,
    value: String,
}

impl Visit for FieldText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == self.name {
            self.value = format!("{value:?}");
        }
    }
}

/// Stderr, or what replaces it. The formatter writes one whole line at a time.
struct Terminal;

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let printer = lock(&PRINTER).clone();
        match printer {
            Some(printer) => printer(String::from_utf8_lossy(bytes).trim_end_matches('\n')),
            None => {
                // If that fails, as after the terminal was closed, there is no other place to say
                // so.
                let _ = io::stderr().write_all(bytes);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The file given to [`log_to_file`], or nothing.
struct LogFile;

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match lock(&LOG_FILE).as_mut() {
            Some(file) => file.write(bytes),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ignores poisoning: a log line is not damaged by a panic in another thread.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_are_shown_nowhere_are_turned_off() {
        for (filter, lowest) in [
            // The log of a run has debug messages of the progress.
            ("warn", LevelFilter::DEBUG),
            ("warn,polyglow=trace", LevelFilter::TRACE),
        ] {
            let hint = subscriber(EnvFilter::new(filter)).max_level_hint();
            assert_eq!(hint, Some(lowest), "{filter}");
        }
    }

    #[test]
    fn a_message_reaches_the_replacement_of_stderr_and_the_file_of_the_run() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let path = directory.path().join("train.log");
        let lines = Arc::new(Mutex::new(Vec::new()));
        init(Verbosity::default(), true, true);
        log_to_file(&path).expect("the file can be made");
        let seen = Arc::clone(&lines);
        let guard = redirect(move |line| lock(&seen).push(line.to_owned()));
        tracing::info!(step = 3, "saved a checkpoint");
        tracing::warn!("the loss is high");
        tracing::debug!("only with -v");
        for name in ["data/valid.en", "data/test.en", "data/valid.en"] {
            let _text = tracing::warn_span!(HELD_OUT, text = %name).entered();
            tracing::warn!("line 4 is too long");
        }
        drop(guard);
        let expected = [
            "saved a checkpoint step=3",
            "warning: the loss is high",
            "warning: in `data/valid.en`: line 4 is too long",
            "warning: in `data/test.en`: line 4 is too long",
        ];
        assert_eq!(*lock(&lines), expected);
        let text = std::fs::read_to_string(&path).expect("the file was written");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(
            lines[0].contains(" INFO saved a checkpoint step=3"),
            "{text}"
        );
        assert!(lines[1].contains(" WARN the loss is high"), "{text}");
    }
}
