//! The limits of a server, and the checks of requests against them.

use std::time::Duration;

use crate::failure::Failure;

/// Translations of an answer, at most: sentences, times the translations of each. One takes some
/// hundred bytes besides its text.
const MAX_TRANSLATIONS: usize = 100_000;

/// The limits that a server sets to its clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Characters of a text; `None` for any number.
    pub characters: Option<usize>,
    /// Texts of a request; `None` for any number.
    pub texts: Option<usize>,
    /// Bytes of a request.
    pub body: usize,
    /// The time within which the head of a request must arrive, then its body; within which its
    /// answer must be computed, or the next sentences of a stream; and within which a client must
    /// take some of its answer.
    pub time: Duration,
    /// Other translations of a text, besides the best.
    pub alternatives: usize,
    /// Requests that are translated or wait at a time; more are turned away.
    pub queue: usize,
    /// Connections at a time; more wait to be accepted.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            characters: Some(10_000),
            texts: Some(200),
            body: 1 << 20,
            time: Duration::from_mins(1),
            alternatives: 3,
            queue: 256,
            // Twice the queue, so that a client whose request is turned away gets the answer that
            // says so; and half of the files that a process may usually open.
            connections: 512,
        }
    }
}

impl Limits {
    /// Checks that there are not too many texts, and that none is too long.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub(crate) fn check_texts(&self, texts: &[String]) -> Result<(), Failure> {
        check_limit(texts.len(), self.texts)?;
        for text in texts {
            check_limit(text.chars().count(), self.characters)?;
        }
        Ok(())
    }
}

fn check_limit(size: usize, limit: Option<usize>) -> Result<(), Failure> {
    match limit {
        Some(limit) if size > limit => Err(Failure::bad_request(format!(
            "Invalid request: request ({size}) exceeds text limit ({limit})"
        ))),
        _ => Ok(()),
    }
}

/// Checks that there is memory for `n_best` translations of each sentence.
///
/// # Errors
/// There may not be enough.
pub(crate) fn check_translations(num_sentences: usize, n_best: usize) -> Result<(), Failure> {
    let translations = num_sentences.saturating_mul(n_best);
    if translations > MAX_TRANSLATIONS {
        return Err(Failure::bad_request(format!(
            "Invalid request: {translations} translations exceed the limit ({MAX_TRANSLATIONS})"
        )));
    }
    Ok(())
}
