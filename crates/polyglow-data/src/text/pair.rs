//! A sentence and its translation.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// A sentence and its translation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// Source sentence; empty in text that has one side only.
    pub src: String,
    /// Target sentence.
    pub tgt: String,
}

impl Pair {
    /// Makes a pair of two sentences.
    pub fn new(src: impl Into<String>, tgt: impl Into<String>) -> Self {
        Self {
            src: src.into(),
            tgt: tgt.into(),
        }
    }
}

/// Returns each different source of some pairs, in the order in which they first occur, with the
/// indices of its targets. For captions these are the images, each with all its captions.
pub fn by_source(pairs: &[Pair]) -> Vec<(&str, Vec<usize>)> {
    let mut sources: Vec<(&str, Vec<usize>)> = Vec::new();
    let mut source_indices = HashMap::new();
    for (index, pair) in pairs.iter().enumerate() {
        let next = sources.len();
        let source = *source_indices.entry(pair.src.as_str()).or_insert(next);
        if source == next {
            sources.push((&pair.src, Vec::new()));
        }
        sources[source].1.push(index);
    }
    sources
}
