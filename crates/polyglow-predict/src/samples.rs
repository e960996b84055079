//! Which examples of a set are shown: different ones, from all over it.

use std::collections::HashSet;

use polyglow_data::pair::Pair;

/// Places of up to `count` pairs with different sources, evenly spread over a set. Pairs without a
/// source differ by their target, and blank ones are not shown.
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
    let text = |pair: &Pair| -> String {
        let text = if pair.src.trim().is_empty() {
            &pair.tgt
        } else {
            &pair.src
        };
        text.trim().to_owned()
    };
    let differs = |(place, pair): (usize, &Pair)| {
        let text = text(pair);
        (!text.is_empty() && seen.insert(text)).then_some(place)
    };
    let different: Vec<usize> = pairs.iter().enumerate().filter_map(differs).collect();
    let count = count.min(different.len());
    (0..count)
        .map(|index| different[(2 * index + 1) * different.len() / (2 * count)])
        .collect()
}
