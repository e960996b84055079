//! Counter-based random numbers: a number is a pure function of a key, so any position of any epoch
//! can be computed directly.
//!
//! A key begins with a [`Purpose`] and continues with whatever the number depends on, such as the
//! seed, the epoch and the example.

mod purpose;

pub use purpose::Purpose;

/// The increment of `SplitMix64`: 2^64 divided by the golden ratio.
pub(crate) const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// A sequence of random numbers that follows from a key: equal keys give equal sequences on every
/// machine.
#[derive(Clone, Debug)]
pub struct Random {
    key: u64,
    /// Numbers drawn so far.
    count: u64,
}

impl Random {
    /// Begins the sequence of a key, which is the result of [`Purpose::mix`] or [`mix`].
    pub fn new(key: u64) -> Self {
        Self { key, count: 0 }
    }

    /// Draws 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.count += 1;
        mix(&[self.key, self.count])
    }

    /// Draws a uniform number in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        unit(self.bits())
    }

    /// Draws a uniform integer in `0..bound`; `bound` must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        below(self.bits(), bound as u64) as usize
    }
}

/// Mixes the parts of a key, in their order, into 64 random bits.
///
/// The finalizer of `SplitMix64` absorbs one part after the other. Equal parts give equal bits on
/// every machine; there is no state. Inside this crate keys begin with a [`Purpose`] and are mixed
/// by [`Purpose::mix`].
pub fn mix(parts: &[u64]) -> u64 {
    parts
        .iter()
        .fold(GOLDEN_GAMMA, |state, &part| absorb(state, part))
}

/// Turns 64 random bits into a uniform number in `[0, 1)`.
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Turns 64 random bits into a uniform integer in `0..bound`; `bound` must not be 0.
pub fn below(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

/// Shuffles `items` by Fisher and Yates, the same way for the same `key`, which is the result of
/// [`Purpose::mix`] or [`mix`].
pub fn shuffle<T>(items: &mut [T], key: u64) {
    for last in (1..items.len()).rev() {
        items.swap(
            last,
            below(mix(&[key, last as u64]), last as u64 + 1) as usize,
        );
    }
}

/// Takes one more part of a key into the state. The part is finalized first, so that parts that
/// differ in few bits, such as neighboring examples, change all bits of the state.
const fn absorb(state: u64, part: u64) -> u64 {
    finalize(state.wrapping_mul(0xD134_2543_DE82_EF95) ^ finalize(part.wrapping_add(GOLDEN_GAMMA)))
}

/// The finalizer of `SplitMix64` (Steele, Lea and Flood, 2014, "Fast splittable pseudorandom number
/// generators").
pub(crate) const fn finalize(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_depends_on_every_part_and_on_their_order() {
        let all = [
            mix(&[]),
            mix(&[0]),
            mix(&[0, 0]),
            mix(&[1, 2]),
            mix(&[2, 1]),
            mix(&[1, 2, 0]),
        ];
        for (index, left) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|right| right != left));
        }
    }

    #[test]
    fn units_are_uniform() {
        let mean = (0..10_000)
            .map(|counter| unit(mix(&[7, counter])))
            .sum::<f64>()
            / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let low = (0..10_000)
            .filter(|&counter| unit(mix(&[counter, 7])) < 0.1)
            .count();
        assert!((900..1100).contains(&low), "{low}");
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_follows_its_key() {
        let shuffled = |key: u64| {
            let mut items: Vec<u32> = (0..100).collect();
            shuffle(&mut items, mix(&[key]));
            items
        };
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        let mut sorted = shuffled(1);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }
}
