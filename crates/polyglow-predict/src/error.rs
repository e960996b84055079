//! The error of the crate: a message, what it means for the caller, and a hint for the user.

use std::error::Error;
use std::fmt::{self, Display};
use std::io;

use polyglow_data::error::DataError;
use polyglow_metrics::MetricError;
use polyglow_model::ModelError;
use serde::{Deserialize, Serialize};

/// The result of everything here that can fail.
pub type Result<T, E = TrainError> = std::result::Result<T, E>;

/// The kind of an error, by which a caller decides what to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The config or the request is wrong: the user can correct it.
    Usage,
    /// Another process trains in the run directory.
    InUse,
    /// A checkpoint is damaged; another may be whole.
    Damaged,
    /// A loss, a gradient or a weight is NaN or infinite.
    NotFinite,
    /// The device failed, mostly for lack of memory.
    Device,
    /// The observer requested the end at once, without a last checkpoint.
    Aborted,
    /// Anything else: files, disks, data.
    #[default]
    Other,
}

/// An error, in one line with all its causes when it is displayed.
///
/// It is one type with a kind, as that of [`std::io`], instead of an enum: there are some 150 ways in
/// which a run can fail, and a caller who needs more than the message has its [`kind`](Self::kind) and
/// its [`hint`](Self::hint).
///
/// [`Debug`](fmt::Debug) displays it as well, with its hint on a second line, so that a program whose
/// `main` returns it prints a readable message:
///
/// ```
/// use polyglow_predict::error::{TrainError, with_hint};
///
/// let error = with_hint(TrainError::new("there is no model"), "train one");
/// assert_eq!(error.to_string(), "there is no model");
/// assert_eq!(format!("{error:?}"), "there is no model\nhint: train one");
/// ```
pub struct TrainError(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    hint: Option<String>,
    /// The actions that failed because of the cause, the outermost last.
    context: Vec<String>,
    cause: Cause,
}

enum Cause {
    Message(String),
    Error(Box<dyn Error + Send + Sync>),
}

impl TrainError {
    /// Makes an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self::from_cause(Cause::Message(message.into()))
    }

    /// Sets the kind.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// Puts the action that failed in front of the message.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.0.context.push(context.into());
        self
    }

    /// Returns what the error means for the caller. An error of another crate about the config is
    /// [`ErrorKind::Usage`], unless it was given another kind.
    pub fn kind(&self) -> ErrorKind {
        if self.0.kind == ErrorKind::Other && self.causes().any(is_config) {
            ErrorKind::Usage
        } else {
            self.0.kind
        }
    }

    /// Returns what the user can do about the error: the hint that was set, or else that of a cause.
    pub fn hint(&self) -> Option<String> {
        let given = self.0.hint.clone();
        given
            .or_else(|| self.causes().find_map(data_hint))
            .or_else(|| self.causes().find_map(system_hint))
    }

    /// Returns the errors of other crates that caused it, the outermost first.
    pub fn causes(&self) -> impl Iterator<Item = &(dyn Error + 'static)> {
        let first = match &self.0.cause {
            Cause::Message(_) => None,
            Cause::Error(error) => Some(&**error as &(dyn Error + 'static)),
        };
        std::iter::successors(first, |error: &&(dyn Error + 'static)| (*error).source())
    }

    fn from_cause(cause: Cause) -> Self {
        Self(Box::new(Inner {
            kind: ErrorKind::Other,
            hint: None,
            context: Vec::new(),
            cause,
        }))
    }

    /// Wraps any error; one of this type stays as it is.
    pub fn from_any(error: impl Error + Send + Sync + 'static) -> Self {
        let error: Box<dyn Error + Send + Sync> = Box::new(error);
        error
            .downcast()
            .map_or_else(|other| Self::from_cause(Cause::Error(other)), |own| *own)
    }
}

/// Returns whether an error of another crate is about a wrong config.
fn is_config(cause: &(dyn Error + 'static)) -> bool {
    if let Some(error) = cause.downcast_ref() {
        return matches!(error, DataError::Config { .. });
    }
    let error = cause.downcast_ref();
    matches!(
        error,
        Some(ModelError::Config { .. } | ModelError::Foreign { .. })
    )
}

fn data_hint(cause: &(dyn Error + 'static)) -> Option<String> {
    cause.downcast_ref().and_then(DataError::hint)
}

fn system_hint(cause: &(dyn Error + 'static)) -> Option<String> {
    let error = cause.downcast_ref()?;
    Some(hint_of_system(error).to_owned())
}

impl Display for TrainError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for context in self.0.context.iter().rev() {
            write!(formatter, "{context}: ")?;
        }
        match &self.0.cause {
            Cause::Message(message) => formatter.write_str(message),
            Cause::Error(error) => {
                error.fmt(formatter)?;
                self.causes()
                    .skip(1)
                    .try_for_each(|cause| write!(formatter, ": {cause}"))
            }
        }
    }
}

/// Displays the error, with its hint on a line of its own.
impl fmt::Debug for TrainError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")?;
        match self.hint() {
            Some(hint) => write!(formatter, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// It has no source: the message names all causes, and [`TrainError::causes`] lists them.
impl Error for TrainError {}

macro_rules! from_errors {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for TrainError {
            fn from(error: $error) -> Self {
                Self::from_any(error)
            }
        })*
    };
}

from_errors!(
    DataError,
    ModelError,
    MetricError,
    io::Error,
    postcard::Error,
    serde_json::Error,
    safetensors::SafeTensorError,
    burn::tensor::ExecutionError,
);

/// Marks an error as the user's to correct in the request or the config.
pub fn usage(error: impl Into<TrainError>) -> TrainError {
    error.into().with_kind(ErrorKind::Usage)
}

/// Sets the hint of an error, replacing an earlier one.
pub fn with_hint(error: impl Into<TrainError>, hint: impl Into<String>) -> TrainError {
    let mut error = error.into();
    error.0.hint = Some(hint.into());
    error
}

/// Adds the action that failed to an error, or makes an error of a `None`.
pub trait Context<T> {
    /// Returns the value, or an error that begins with `context`.
    ///
    /// # Errors
    /// There is no value.
    fn context(self, context: impl Into<String>) -> Result<T>;

    /// As [`Self::context`], with a function that is only called where something failed.
    ///
    /// # Errors
    /// There is no value.
    fn with_context<C: Into<String>>(self, context: impl FnOnce() -> C) -> Result<T>;
}

impl<T, E: Error + Send + Sync + 'static> Context<T> for Result<T, E> {
    fn context(self, context: impl Into<String>) -> Result<T> {
        self.map_err(|error| TrainError::from_any(error).context(context))
    }

    fn with_context<C: Into<String>>(self, context: impl FnOnce() -> C) -> Result<T> {
        self.map_err(|error| TrainError::from_any(error).context(context()))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, context: impl Into<String>) -> Result<T> {
        self.ok_or_else(|| TrainError::new(context))
    }

    fn with_context<C: Into<String>>(self, context: impl FnOnce() -> C) -> Result<T> {
        self.ok_or_else(|| TrainError::new(context()))
    }
}

/// Makes a [`TrainError`](crate::error::TrainError) with a formatted message.
#[macro_export]
macro_rules! failed {
    ($($message:tt)*) => { $crate::error::TrainError::new(format!($($message)*)) };
}

/// Returns early with an error with a formatted message.
#[macro_export]
macro_rules! bail {
    ($($message:tt)*) => { return Err($crate::failed!($($message)*)) };
}

/// Returns early with an error with a formatted message unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err($crate::failed!($($message)*));
        }
    };
}

pub use crate::{bail, ensure, failed};

/// Returns a hint for an error of the operating system.
pub fn hint_of_system(error: &io::Error) -> &'static str {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::NotFound => {
            "relative paths start at the current directory; is the name spelled right?"
        }
        Kind::PermissionDenied => "`ls -l` shows who may read and write it",
        Kind::IsADirectory => "this must be a file, not a directory",
        Kind::NotADirectory => "one part of the path is a file, not a directory",
        Kind::AlreadyExists => "give another name, or remove what is there",
        Kind::StorageFull | Kind::QuotaExceeded => "make room on the disk",
        Kind::FileTooLarge => "the size of files is limited here; `ulimit -f` shows the limit",
        Kind::ReadOnlyFilesystem => "choose a place that can be written to",
        Kind::InvalidFilename => "the name is too long, or not valid for a file",
        Kind::UnexpectedEof | Kind::InvalidData | Kind::InvalidInput => {
            "the file is cut off, damaged, or of another kind"
        }
        _ => "this is the message of the operating system; try another path or device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_every_cause_once_and_the_hint_survives_context() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let error = Err::<(), _>(missing)
            .context("cannot read `a.toml`")
            .context("in the config");
        let error = error.expect_err("it is one");
        assert_eq!(
            error.to_string(),
            "in the config: cannot read `a.toml`: entity not found"
        );
        assert!(
            error
                .hint()
                .is_some_and(|hint| hint.starts_with("relative paths"))
        );
        let error =
            Err::<(), _>(with_hint(usage(failed!("no key")), "try another")).context("reading");
        let error = error.expect_err("it is one");
        assert_eq!(
            (error.kind(), error.hint().as_deref()),
            (ErrorKind::Usage, Some("try another"))
        );
    }

    #[test]
    fn a_main_that_returns_an_error_prints_its_message_and_its_hint() {
        let error = with_hint(
            usage(failed!("no key").context("in `a.toml`")),
            "try another",
        );
        let error: Box<dyn Error> = Box::new(error);
        assert_eq!(
            format!("{error:?}"),
            "in `a.toml`: no key\nhint: try another"
        );
        assert_eq!(format!("{:?}", failed!("no key")), "no key");
    }

    #[test]
    fn a_wrong_config_of_another_crate_is_the_users_to_correct() {
        let wrong = DataError::Config {
            key: "data.src",
            problem: "is missing".to_owned(),
        };
        assert_eq!(TrainError::from(wrong).kind(), ErrorKind::Usage);
        assert_eq!(failed!("the disk is full").kind(), ErrorKind::Other);
    }
}
