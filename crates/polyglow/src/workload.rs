//! What the device is busy with, for messages about a device that fails in the middle of it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The size of a padded batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Sentence pairs.
    pub rows: usize,
    /// Padded source positions of each.
    pub src_len: usize,
    /// Padded target positions of each.
    pub tgt_len: usize,
}

impl fmt::Display for Workload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, src_len, tgt_len } = self;
        write!(formatter, "{rows} pairs, padded to {src_len} source and {tgt_len} target positions")
    }
}

/// Rows, source and target positions. Not in a lock: it is also read where memory has run out, in any thread.
static CURRENT: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Notes the batch that the device is given.
pub fn begin(workload: Workload) {
    let Workload { rows, src_len, tgt_len } = workload;
    for (place, value) in CURRENT.iter().zip([rows, src_len, tgt_len]) {
        place.store(value, Ordering::Relaxed);
    }
}

/// The newest batch that the device was given; none before the first.
pub fn current() -> Option<Workload> {
    let [rows, src_len, tgt_len] = [0, 1, 2].map(|place: usize| CURRENT[place].load(Ordering::Relaxed));
    (rows > 0).then_some(Workload { rows, src_len, tgt_len })
}
