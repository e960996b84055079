//! The n-grams of one length, and the ids that follow each of them.

use std::ops::Range;

use super::count::{Counted, Packing, count_of};

/// The discounts when the counts of counts do not give usable ones.
const FALLBACK: [f64; 3] = [0.5, 1.0, 1.5];

/// The discounts that are subtracted from the counts 1, 2, and 3 or more.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Discounts([f64; 3]);

/// The n-grams of one length, sorted, so that all that extend the same shorter n-gram are
/// neighbors.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Level {
    last_ids: Vec<u32>,
    counts: Vec<u32>,
    /// For each n-gram, the index of the first longer n-gram that extends it, and once more the
    /// number of all of them. This and the fields below are empty for the longest n-grams.
    starts: Vec<u32>,
    /// For each n-gram, the sum of the counts of the n-grams that extend it.
    totals: Vec<u32>,
    /// For each n-gram, the share of its total that the discounts take away.
    left_over: Vec<f64>,
}

impl Discounts {
    /// `D(c) = c - (c + 1) Y n(c + 1) / n(c)` with `Y = n(1) / (n(1) + 2 n(2))`, where `n(c)`
    /// n-grams have the count c.
    pub(super) fn new(ngrams: &[Counted]) -> Self {
        let mut with_count = [0.0; 5];
        for &ngram in ngrams {
            if let Some(number) = with_count.get_mut(count_of(ngram) as usize) {
                *number += 1.0;
            }
        }
        let [_, once, twice, ..] = with_count;
        let discounts = [1, 2, 3].map(|count| {
            let ratio = once / (once + 2.0 * twice) * with_count[count + 1] / with_count[count];
            count as f64 - (count + 1) as f64 * ratio
        });
        // A zero count makes the discount undefined (NaN). A discount of 0 would leave no mass for
        // unseen ids after a context that has only such counts, and a discount above its count
        // would make a probability negative.
        let are_fit = discounts
            .iter()
            .zip(1..)
            .all(|(&discount, count)| discount > 0.0 && discount <= f64::from(count));
        Self(if are_fit { discounts } else { FALLBACK })
    }

    /// The discount of a count.
    fn for_count(&self, count: u32) -> f64 {
        if count == 0 {
            0.0
        } else {
            self.0[count.min(3) as usize - 1]
        }
    }
}

impl Level {
    /// Makes the level of these n-grams. `longer` are the n-grams with one more id and their
    /// discounts; `None` for the longest n-grams.
    pub(super) fn new(
        ngrams: &[Counted],
        longer: Option<(&[Counted], Discounts)>,
        packing: &Packing,
    ) -> Self {
        let mut level = Self {
            last_ids: ngrams.iter().map(|&ngram| packing.last_id(ngram)).collect(),
            counts: ngrams.iter().map(|&ngram| count_of(ngram)).collect(),
            starts: Vec::new(),
            totals: Vec::new(),
            left_over: Vec::new(),
        };
        let Some((mut rest, discounts)) = longer else {
            return level;
        };
        level.starts.reserve_exact(ngrams.len() + 1);
        level.starts.push(0);
        level.totals.reserve_exact(ngrams.len());
        level.left_over.reserve_exact(ngrams.len());
        for &ngram in ngrams {
            let num_children = rest
                .iter()
                .take_while(|&&longer| packing.extends(longer, ngram))
                .count();
            let (children, others) = rest.split_at(num_children);
            level.add_children(children, &discounts);
            rest = others;
        }
        level
    }

    /// Adds the range and the sums of the n-grams that extend the next n-gram of this level.
    fn add_children(&mut self, children: &[Counted], discounts: &Discounts) {
        // Numbers of children are multiplied instead of adding discounts, so that long sums lose no
        // precision.
        let mut total = 0;
        let mut with_count = [0.0; 4];
        for &child in children {
            total += count_of(child);
            with_count[count_of(child).min(3) as usize] += 1.0;
        }
        let taken: f64 = (1..4)
            .map(|count| discounts.for_count(count) * with_count[count as usize])
            .sum();
        let start = self.starts.last().copied();
        self.starts
            .push(start.map_or(0, |start| start + children.len() as u32));
        self.totals.push(total);
        self.left_over.push(if total == 0 {
            1.0
        } else {
            taken / f64::from(total)
        });
    }

    pub(super) fn len(&self) -> usize {
        self.last_ids.len()
    }

    pub(super) fn count(&self, index: usize) -> u32 {
        self.counts[index]
    }

    /// The indices of the longer n-grams that extend the one at `index`.
    pub(super) fn children(&self, index: usize) -> Range<usize> {
        self.starts[index] as usize..self.starts[index + 1] as usize
    }

    /// The index of the n-gram that ends in `id`, among those at `indices`, which extend the same
    /// shorter one.
    pub(super) fn find(&self, indices: Range<usize>, id: u32) -> Option<usize> {
        self.last_ids[indices.clone()]
            .binary_search(&id)
            .ok()
            .map(|offset| indices.start + offset)
    }

    /// The probability of an id with `count` after the n-gram at `index`; `shorter` is its
    /// probability in the shorter context.
    pub(super) fn interpolate(
        &self,
        index: usize,
        count: u32,
        discounts: &Discounts,
        shorter: f64,
    ) -> f64 {
        let left_over = self.left_over[index] * shorter;
        match self.totals[index] {
            0 => left_over,
            total => (f64::from(count) - discounts.for_count(count)) / f64::from(total) + left_over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The discounts if `numbers[n]` n-grams have the count `n + 1`.
    fn discounts(numbers: [usize; 4]) -> Discounts {
        let counts = numbers
            .iter()
            .zip(1..)
            .flat_map(|(&number, count)| vec![count; number]);
        Discounts::new(&counts.collect::<Vec<Counted>>())
    }

    #[test]
    fn discounts_follow_from_counts_of_counts() {
        // Y = 6/10.
        let Discounts([one, two, more]) = discounts([6, 2, 1, 1]);
        assert!((one - (1.0 - 2.0 * 0.6 * 2.0 / 6.0)).abs() < 1e-12, "{one}");
        assert!((two - (2.0 - 3.0 * 0.6 / 2.0)).abs() < 1e-12, "{two}");
        assert!((more - (3.0 - 4.0 * 0.6)).abs() < 1e-12, "{more}");
        assert_eq!(
            discounts([6, 2, 1, 1]).for_count(7).to_bits(),
            more.to_bits()
        );
    }

    #[test]
    fn numbers_that_give_no_discounts_fall_back() {
        // No n-gram with one of the counts; a negative discount of 2; and a discount of exactly 0
        // for 3 and more.
        for numbers in [
            [0, 2, 1, 1],
            [6, 0, 1, 1],
            [6, 2, 0, 1],
            [6, 1, 1, 1],
            [12, 2, 1, 1],
            [0; 4],
        ] {
            assert_eq!(discounts(numbers), Discounts(FALLBACK), "{numbers:?}");
        }
        assert_ne!(discounts([6, 2, 1, 0]), Discounts(FALLBACK));
    }
}
