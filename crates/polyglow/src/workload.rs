//! What the device is busy with, for messages about a device that fails in the middle of it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

/// A batch, with its padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchShape {
    /// Sentence pairs.
    pub rows: usize,
    /// Padded source length, in tokens.
    pub src_len: usize,
    /// Padded target length, in tokens.
    pub tgt_len: usize,
}

impl BatchShape {
    /// All positions of source and target together.
    pub fn positions(&self) -> usize {
        self.rows * (self.src_len + self.tgt_len)
    }
}

impl fmt::Display for BatchShape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, src_len, tgt_len } = self;
        write!(formatter, "{rows} pairs, padded to {src_len} source and {tgt_len} target tokens")
    }
}

/// Rows, source and target positions. Not in a lock: it is also read where memory has run out, in any thread.
static CURRENT: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Notes the batch that the device is given.
pub fn begin(batch: BatchShape) {
    let BatchShape { rows, src_len, tgt_len } = batch;
    for (place, value) in CURRENT.iter().zip([rows, src_len, tgt_len]) {
        place.store(value, Ordering::Relaxed);
    }
}

/// Notes that the device is done with it.
pub fn end() {
    begin(BatchShape::default());
}

/// The newest batch that the device was given; none before the first and after [`end`].
pub fn current() -> Option<BatchShape> {
    let [rows, src_len, tgt_len] = [0, 1, 2].map(|place: usize| CURRENT[place].load(Ordering::Relaxed));
    (rows > 0).then_some(BatchShape { rows, src_len, tgt_len })
}
