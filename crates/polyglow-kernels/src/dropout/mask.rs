//! Dropout masks as counter-based random numbers: a hash of (key, part, index).
//!
//! A generator with a state would draw one number after the other, on one core, and the mask would
//! have to be kept for the backward pass. The hash has no state, so any thread computes any element
//! at any time and gets the same bits. It works on 32 bits, as vector units do: the `SplitMix64`
//! that draws elsewhere in the project needs products of 64 bits, which AVX2 does not have, and
//! would compute 8 elements at a time instead of 16 with AVX-512.

use super::Dropped;
use super::hash::hash;

/// A mask, ready for use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mask {
    low: u32,
    high: u32,
    /// An element is kept if its hash is at most this.
    threshold: u32,
    scale: f32,
}

impl Mask {
    pub(crate) fn new(dropped: Dropped) -> Self {
        let threshold = (dropped.keep * f64::from(u32::MAX)) as u32;
        Self {
            low: dropped.key as u32,
            high: (dropped.key >> 32) as u32,
            threshold,
            scale: (1.0 / dropped.keep) as f32,
        }
    }

    /// The mask of the part with this index. Parts nest: a batch row, and a head within it.
    pub(crate) fn part(self, part: usize) -> Self {
        let part = part as u64;
        // Hashed after each part, so that (1, 2), (2, 1) and (1, 1) have masks of their own.
        let mixed = hash(self.high ^ hash(part as u32))
            .wrapping_add((part >> 32) as u32)
            .wrapping_add(1);
        Self {
            high: hash(mixed),
            ..self
        }
    }

    /// What to multiply an element by: 0 or `1 / keep`.
    #[inline(always)]
    pub(crate) fn at(self, index: u32) -> f32 {
        // Two rounds: in a single one `high` would only shift a mask along its indices, so parts
        // would share draws.
        let bits = hash(hash(index ^ self.low).wrapping_add(self.high));
        if bits <= self.threshold {
            self.scale
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configured_share_is_kept_and_neighbors_are_independent() {
        const COUNT: u32 = 200_000;
        for key in [0, 1, u64::MAX / 3] {
            for part in [0, 1, 77] {
                let mask = Mask::new(Dropped { keep: 0.7, key }).part(part);
                let kept: Vec<bool> = (0..COUNT).map(|place| mask.at(place) > 0.0).collect();
                let share = |count: usize| count as f64 / f64::from(COUNT);
                let actual = share(kept.iter().filter(|kept| **kept).count());
                // Four standard deviations of a binomial share.
                assert!(
                    (actual - 0.7).abs() < 4.0 * (0.21 / f64::from(COUNT)).sqrt(),
                    "{key} {part}: {actual}"
                );
                for distance in [1, 2, 16, 64] {
                    let both = share(
                        kept.iter()
                            .zip(&kept[distance..])
                            .filter(|(left, right)| **left && **right)
                            .count(),
                    );
                    assert!(
                        (both - 0.49).abs() < 0.006,
                        "{key} {part} {distance}: {both}"
                    );
                }
            }
        }
    }

    #[test]
    fn keys_and_parts_give_masks_of_their_own() {
        let mask = |key, part| -> Vec<bool> {
            let mask = Mask::new(Dropped { keep: 0.5, key }).part(part);
            (0..20_000).map(|place| mask.at(place) > 0.0).collect()
        };
        let equal = |left: &[bool], right: &[bool]| {
            left.iter().zip(right).filter(|(a, b)| a == b).count() as f64 / 20_000.0
        };
        for other in [mask(6, 0), mask(5, 1), mask(5 + (1 << 32), 0), mask(5, 2)] {
            assert!((equal(&mask(5, 0), &other) - 0.5).abs() < 0.02);
        }
        // Batch rows and their heads.
        let nested = |parts: &[usize]| -> Vec<bool> {
            let whole = Mask::new(Dropped { keep: 0.5, key: 5 });
            let mask = parts.iter().fold(whole, |mask, part| mask.part(*part));
            (0..20_000).map(|place| mask.at(place) > 0.0).collect()
        };
        let nests = [&[][..], &[0], &[0, 0], &[1, 1], &[1, 2], &[2, 1], &[2, 2]].map(nested);
        for (index, left) in nests.iter().enumerate() {
            for right in &nests[..index] {
                assert!((equal(left, right) - 0.5).abs() < 0.02);
            }
        }
        assert_eq!(mask(5, 3), mask(5, 3));
    }
}
