//! How an error reaches the user: one `error:` line, a `hint:` where one helps, and an exit code.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::panic;
#[cfg(unix)]
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use polyglow_data::error::DataError;
use polyglow_model::ModelError;
use polyglow_predict::error::hint_of_system;
use polyglow_train::{ErrorKind, TrainError};

use crate::program::with_own_commands;
use crate::ranks;
use crate::reference::named_in;

/// Exit code of a command that was understood and failed.
const FAILED: u8 = 1;
/// Exit code for wrong usage or a wrong configuration.
const USAGE: u8 = 2;
/// Exit code of a training that was stopped and saved before its end: `EX_TEMPFAIL` of
/// `sysexits.h`, by which batch systems and loops know that the same command has to be started
/// again.
pub(crate) const STOPPED: u8 = 75;

/// The first panic that has not been reported, as `message at file:line:column`.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// An error with an exit code and advice; anywhere in a chain of causes.
#[derive(Debug)]
struct Failure {
    error: anyhow::Error,
    exit_code: u8,
    hint: Option<String>,
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#}", self.error)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// Takes an error that already carries advice apart, so that advice is never nested.
    fn from(error: anyhow::Error) -> Self {
        error.downcast().unwrap_or_else(|error| Self {
            error,
            exit_code: FAILED,
            hint: None,
        })
    }
}

/// Marks an error as one in the command or the configuration: exit code 2.
pub fn usage(error: impl Into<anyhow::Error>) -> anyhow::Error {
    Failure {
        exit_code: USAGE,
        ..Failure::from(error.into())
    }
    .into()
}

/// Adds a hint, printed on a line of its own after the error.
pub fn with_hint(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> anyhow::Error {
    Failure {
        hint: Some(hint.into()),
        ..Failure::from(error.into())
    }
    .into()
}

/// Prints an error with its hint to stderr and returns the exit code it stands for.
///
/// A reader of our output that stops reading (`polyglow translate RUN | head`) has what it wants:
/// that is not an error.
pub(crate) fn report(error: &anyhow::Error) -> u8 {
    if is_closed_pipe(error) {
        return 0;
    }
    ranks::waits_to_tell();
    let Advice { exit_code, hint } = advice(error);
    print(&format!(
        "error: {}{}",
        ranks::prefix(),
        format!("{error:#}").trim_end()
    ));
    if let Some(hint) = hint {
        print(&format!("hint: {}", with_own_commands(&hint)));
    }
    // A panic whose message is part of the error, as when a device is out of memory, is not
    // repeated.
    if let Some(panic) = take_panic().filter(|panic| !tells_of(error, panic)) {
        print(&format!(
            "hint: another thread stopped before that with an internal error: {panic}"
        ));
    }
    exit_code
}

/// Whether an error's message has that of a panic, which is recorded with its place.
fn tells_of(error: &anyhow::Error, panic: &str) -> bool {
    let message = panic
        .rsplit_once(" at ")
        .map_or(panic, |(message, _)| message);
    format!("{error:#}").contains(message)
}

/// Reports a panic that reached the outermost boundary as the internal error it is.
pub(crate) fn report_panic() -> u8 {
    let panic = take_panic().unwrap_or_else(|| "a panic without a message".to_owned());
    ranks::waits_to_tell();
    print(&format!(
        "error: {}internal error: {panic}",
        ranks::prefix()
    ));
    if panic.to_lowercase().contains("memory") {
        print(
            "hint: if the device ran out of memory, lower `train.max_tokens`; otherwise please report this message",
        );
    } else {
        print(
            "hint: this is a bug in polyglow; please report it with the command, the configuration and this message",
        );
    }
    FAILED
}

/// Keeps panics for [`report`] and [`report_panic`] instead of printing the default message to
/// stderr.
///
/// With `RUST_BACKTRACE` set the default message and its stack trace are printed as well.
pub(crate) fn record_panics() {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if polyglow_data::tokenizer::is_guarded() {
            return;
        }
        let message = info.payload_as_str().unwrap_or("no message");
        let place = info
            .location()
            .map(|location| format!(" at {location}"))
            .unwrap_or_default();
        PANIC
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| format!("{message}{place}"));
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
            default(info);
        }
    }));
}

/// Makes a file that exceeds `ulimit -f` an error of the write instead of the end of the process.
pub(crate) fn survive_file_size_limit() {
    #[cfg(unix)]
    {
        // Any handler makes `write` return EFBIG instead of ending the process. If registering
        // fails, we only lose that.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    }
}

/// The first panic since the last call, for code that catches a panic of a library.
pub(crate) fn take_panic() -> Option<String> {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The exit code for an error, and what can be done about it.
struct Advice {
    exit_code: u8,
    hint: Option<String>,
}

/// The advice given where the error arose, completed by what the libraries' own errors know about
/// themselves.
fn advice(error: &anyhow::Error) -> Advice {
    let mut advice = Advice {
        exit_code: FAILED,
        hint: None,
    };
    let mut causes = error;
    if let Some(failure) = error.downcast_ref::<Failure>() {
        advice = Advice {
            exit_code: failure.exit_code,
            hint: failure.hint.clone(),
        };
        causes = &failure.error;
    }
    for cause in causes.chain() {
        if let Some(cause) = cause.downcast_ref::<TrainError>() {
            advice.hint = advice.hint.or_else(|| cause.hint());
            if cause.kind() == ErrorKind::Usage {
                advice.exit_code = USAGE;
            }
        }
        if let Some(cause) = cause.downcast_ref::<DataError>() {
            advice.hint = advice.hint.or_else(|| cause.hint());
            if matches!(cause, DataError::Config { .. }) {
                advice.exit_code = USAGE;
            }
        }
        if let Some(ModelError::Config { .. }) = cause.downcast_ref::<ModelError>() {
            advice.exit_code = USAGE;
        }
    }
    // The libraries know more about the cause than the system does, so its hint comes last.
    if advice.hint.is_none() {
        let of_system = causes
            .chain()
            .find_map(|cause| cause.downcast_ref::<io::Error>().map(hint_of_system));
        advice.hint = of_system.map(str::to_owned);
    }
    if advice.exit_code == USAGE {
        advice.hint.get_or_insert_with(|| match named_in(&format!("{error:#}")) {
            Some(key) => format!("`polyglow help config {key}` explains it"),
            None => "`polyglow help config` explains every key, `polyglow help COMMAND` every option".to_owned(),
        });
    }
    advice
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let of_train = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<TrainError>())
        .flat_map(TrainError::causes);
    error.chain().chain(of_train).any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// Writes a line to stderr. If that fails, there is no other place to report it.
fn print(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn advice_is_kept_in_any_order_and_below_context() {
        let error = usage(with_hint(anyhow!("no such key"), "try another"));
        let error = Err::<(), _>(error)
            .context("reading the config")
            .expect_err("it is an error");
        assert_eq!(format!("{error:#}"), "reading the config: no such key");
        let Advice { exit_code, hint } = advice(&error);
        assert_eq!((exit_code, hint.as_deref()), (USAGE, Some("try another")));

        let error = with_hint(usage(anyhow!("no such key")), "try another");
        let Advice { exit_code, hint } = advice(&error);
        assert_eq!((exit_code, hint.as_deref()), (USAGE, Some("try another")));
    }

    #[test]
    fn the_causes_of_a_marked_error_are_printed_once() {
        let error = usage(anyhow!("no such file").context("cannot read `a.toml`"));
        assert_eq!(format!("{error:#}"), "cannot read `a.toml`: no such file");
    }

    #[test]
    fn a_library_error_keeps_its_hint_and_its_exit_code() {
        let missing = || DataError::MissingFile {
            key: "data.train".to_owned(),
            path: "a.en".into(),
        };
        let Advice { exit_code, hint } = advice(&anyhow::Error::from(missing()).context("reading"));
        assert_eq!(
            (exit_code, hint.as_deref()),
            (FAILED, missing().hint().as_deref())
        );
        let Advice { exit_code, hint } = advice(&usage(missing()));
        assert_eq!(
            (exit_code, hint.as_deref()),
            (USAGE, missing().hint().as_deref())
        );
        let wrong = DataError::Config {
            key: "data.src",
            problem: "is missing".to_owned(),
        };
        assert_eq!(advice(&wrong.into()).exit_code, USAGE);
    }

    #[test]
    fn a_closed_pipe_is_found_below_context() {
        let error =
            anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("cannot write");
        assert!(is_closed_pipe(&error));
    }
}
