//! The random numbers of the toy corpora: `SplitMix64`, which is the same on every machine and in
//! every version.

use crate::random::{GOLDEN_GAMMA, finalize};

/// The `SplitMix64` generator (Steele, Lea and Flood, 2014, "Fast splittable pseudorandom number
/// generators").
pub(super) struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub(super) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub(super) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        finalize(self.state)
    }

    /// An integer in `0..bound`. The bias of the remainder is below `bound / 2^64`, negligible for
    /// such small bounds.
    pub(super) const fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True with a probability of `percent` / 100.
    pub(super) const fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of the items, which must not be empty.
    pub(super) const fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of the algorithm's published C code for the seed 1234567.
    #[test]
    fn numbers_equal_the_published_ones() {
        let mut random = SplitMix64::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }
}
