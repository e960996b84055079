//! The choice of examples of a set to show: different ones, from all over it.

use std::collections::HashSet;

use polyglow_data::pair::Pair;

/// Returns the indices of up to `count` pairs with different sources, evenly spread over a set.
/// Pairs without a source differ by their target, and blank ones are left out.
///
/// ```
/// use polyglow_data::pair::Pair;
/// use polyglow_predict::samples::spread;
///
/// let pair = |text: &str| Pair { src: text.to_owned(), tgt: text.to_owned() };
/// let pairs: Vec<Pair> = ["a", "a", " ", "b", "c", "d", "a", "e", "f"].map(pair).into();
/// assert_eq!(spread(&pairs, 3), [3, 5, 8]);
/// assert_eq!(spread(&pairs, 9), [0, 3, 4, 5, 7, 8]);
/// ```
pub fn spread(pairs: &[Pair], count: usize) -> Vec<usize> {
    let mut seen = HashSet::new();
    let mut different = Vec::new();
    for (index, pair) in pairs.iter().enumerate() {
        let text = shown_text(pair);
        if !text.is_empty() && seen.insert(text) {
            different.push(index);
        }
    }
    let count = count.min(different.len());
    (0..count)
        .map(|index| different[(2 * index + 1) * different.len() / (2 * count)])
        .collect()
}

/// The source, or the target of text that has one side only.
fn shown_text(pair: &Pair) -> &str {
    let src = pair.src.trim();
    if src.is_empty() { pair.tgt.trim() } else { src }
}
