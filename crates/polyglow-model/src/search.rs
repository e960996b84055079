//! IDS -> HYPOTHESES: greedy and beam search over anything that can say what comes next.

mod config;

pub use config::{LengthPenalty, SearchConfig};
