//! The boundary to the `tokenizers` library, where its panics become errors.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

use crate::error::DataError;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a call of the `tokenizers` library. A panic there becomes an
/// error, so a panic hook should not report it.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// Calls the library. It panics on some unusual text and files; these panics are turned into
/// errors.
pub(super) fn guarded<T>(
    name: &str,
    work: impl FnOnce() -> tokenizers::Result<T>,
) -> Result<T, DataError> {
    // A call may be inside of another, whose flag is restored.
    let before = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    match result {
        Ok(result) => result.map_err(failed(name)),
        Err(payload) => {
            let message = payload.downcast_ref::<String>().map(String::as_str);
            let message = message
                .or(payload.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            let problem = format!("the tokenizers library stopped with `{message}`");
            Err(tokenizer_error(name, problem))
        }
    }
}

/// Makes the error about the tokenizer called `name`.
pub(super) fn tokenizer_error(name: &str, problem: impl Into<String>) -> DataError {
    DataError::Tokenizer {
        name: name.to_owned(),
        problem: problem.into(),
    }
}

/// Returns a function that converts an error of the library, about the tokenizer called `name`.
pub(super) fn failed(name: &str) -> impl Fn(tokenizers::Error) -> DataError {
    move |error| tokenizer_error(name, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_library_is_an_error_that_says_what_it_said() {
        let error = guarded("a.json", || -> tokenizers::Result<()> {
            assert!(is_guarded());
            panic!("index {} is out of bounds", 7)
        });
        let text = error.expect_err("it panicked").to_string();
        assert_eq!(
            text,
            "tokenizer `a.json`: the tokenizers library stopped with `index 7 is out of bounds`"
        );
        assert!(!is_guarded());
        assert_eq!(guarded("a.json", || Ok(3)).expect("it did not"), 3);
    }
}
