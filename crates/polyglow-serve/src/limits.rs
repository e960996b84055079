//! The limits of a server.

use std::time::Duration;

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
