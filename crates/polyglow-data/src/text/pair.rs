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

/// Returns each different source of some pairs, in the order in which they first occur, with the
/// indices of its targets: of captions each image with what describes it.
pub fn by_source(pairs: &[Pair]) -> Vec<(&str, Vec<usize>)> {
    let mut sources: Vec<(&str, Vec<usize>)> = Vec::new();
    let mut numbers = HashMap::new();
    for (index, pair) in pairs.iter().enumerate() {
        let number = *numbers.entry(pair.src.as_str()).or_insert(sources.len());
        if number == sources.len() {
            sources.push((&pair.src, Vec::new()));
        }
        sources[number].1.push(index);
    }
    sources
}
