//! Counts the n-grams that two sequences share, of words or of characters.
//!
//! Symbols are numbers, and so are n-grams: an n-gram is a pair of the number of its first n - 1
//! symbols and its last symbol. So the work for an n-gram does not grow with the order.

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::error::MetricError;

/// The highest order accepted, far above any in use, so that a mistyped one does not exhaust the
/// memory.
const MAX_ORDER: usize = 100;

/// The number of an n-gram that no reference contains. Longer n-grams that begin with it are not
/// looked up.
const UNSEEN: u32 = u32::MAX;

/// The words for which a vocabulary has room before it grows: most segments have fewer.
const USUAL_VOCABULARY: usize = 56;

/// Numbers for words: equal words get equal numbers.
pub(crate) struct Vocabulary<'text> {
    numbers: FxHashMap<&'text str, u32>,
}

impl Default for Vocabulary<'_> {
    fn default() -> Self {
        Self {
            numbers: FxHashMap::with_capacity_and_hasher(USUAL_VOCABULARY, FxBuildHasher),
        }
    }
}

impl<'text> Vocabulary<'text> {
    /// Returns the numbers of words, and gives new ones to those that it has not seen.
    pub(crate) fn number(&mut self, words: impl Iterator<Item = &'text str>) -> Vec<u32> {
        let mut numbers = Vec::new();
        for word in words {
            let next = self.numbers.len() as u32;
            numbers.push(*self.numbers.entry(word).or_insert(next));
        }
        numbers
    }
}

/// Checks that there is an order to count and that none is too high.
pub(crate) fn check_orders(orders: &[usize]) -> Result<(), MetricError> {
    match orders.iter().max() {
        None | Some(0) => Err(MetricError::NoNgramOrder),
        Some(&order) if order > MAX_ORDER => Err(MetricError::NgramOrderTooHigh {
            order,
            limit: MAX_ORDER,
        }),
        Some(_) => Ok(()),
    }
}

/// The number of n-grams of an order in a sequence of this length.
pub(crate) fn num_ngrams(len: usize, order: usize) -> usize {
    (len + 1).saturating_sub(order)
}

/// Counts, for each order from 1 on, the n-grams of the hypothesis that the references contain too.
///
/// An n-gram counts at most as often as in the one reference that has it most often (Papineni et
/// al., 2002, section 2.1).
pub(crate) fn clipped_matches(
    hypothesis: &[u32],
    references: &[&[u32]],
    max_order: usize,
) -> Vec<usize> {
    // The number of the n-gram that begins at each position, of the order before.
    let mut hypothesis_prefixes = vec![0; hypothesis.len()];
    let mut reference_prefixes: Vec<_> = references.iter().map(|r| vec![0; r.len()]).collect();
    let num_symbols = references.iter().map(|reference| reference.len()).sum();
    let mut numbers = FxHashMap::with_capacity_and_hasher(num_symbols, FxBuildHasher);
    let mut matches = vec![0; max_order];
    for (order, matched) in (1..).zip(&mut matches) {
        numbers.clear();
        // How often each n-gram of the references may still match.
        let mut limits: Vec<u32> = Vec::new();
        for (reference, prefixes) in references.iter().zip(&mut reference_prefixes) {
            raise_limits(&mut limits, reference, prefixes, order, &mut numbers);
        }
        let last_symbols = hypothesis.iter().skip(order - 1);
        for (prefix, &symbol) in hypothesis_prefixes.iter_mut().zip(last_symbols) {
            if *prefix == UNSEEN {
                continue;
            }
            *prefix = numbers
                .get(&key(*prefix, symbol))
                .copied()
                .unwrap_or(UNSEEN);
            if let Some(limit @ 1..) = limits.get_mut(*prefix as usize) {
                *limit -= 1;
                *matched += 1;
            }
        }
        // Without a match of this order there is none of a longer one.
        if *matched == 0 {
            break;
        }
    }
    matches
}

/// Numbers a reference's n-grams of this order, and raises the limit of each to its count.
fn raise_limits(
    limits: &mut Vec<u32>,
    reference: &[u32],
    prefixes: &mut [u32],
    order: usize,
    numbers: &mut FxHashMap<u64, u32>,
) {
    let mut counts = vec![0; limits.len()];
    for (prefix, &symbol) in prefixes.iter_mut().zip(reference.iter().skip(order - 1)) {
        let next = numbers.len() as u32;
        *prefix = *numbers.entry(key(*prefix, symbol)).or_insert(next);
        if *prefix == next {
            counts.push(0);
        }
        counts[*prefix as usize] += 1;
    }
    limits.resize(counts.len(), 0);
    for (limit, count) in limits.iter_mut().zip(counts) {
        *limit = (*limit).max(count);
    }
}

fn key(prefix: u32, symbol: u32) -> u64 {
    u64::from(prefix) << 32 | u64::from(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_is_clipped_by_the_reference_that_has_it_most() {
        let hypothesis = [1, 1, 1, 2];
        assert_eq!(clipped_matches(&hypothesis, &[&[1, 1]], 3), [2, 1, 0]);
        assert_eq!(
            clipped_matches(&hypothesis, &[&[1], &[1, 1, 3, 1, 2]], 3),
            [4, 2, 0]
        );
    }

    #[test]
    fn longer_ngrams_match_only_as_a_whole() {
        assert_eq!(
            clipped_matches(&[1, 2, 3], &[&[2, 3, 1, 2, 4]], 4),
            [3, 2, 0, 0]
        );
        assert_eq!(clipped_matches(&[], &[&[1]], 2), [0, 0]);
    }
}
