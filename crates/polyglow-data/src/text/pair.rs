//! A sentence and its translation.

use serde::{Deserialize, Serialize};

/// A sentence and its translation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// Source sentence; empty in text that has one side only.
    pub src: String,
    /// Target sentence.
    pub tgt: String,
}
