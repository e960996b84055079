//! Dropout masks as counter-based random numbers: a hash of (key, part, index).
//!
//! `mask[index] = 1 / keep` if `hash(hash(index ^ low) + high) <= keep * (2^32 - 1)`, otherwise 0,
//! where `low` is the lower half of the key, and `high` is made from the upper half and the part.
//!
//! A generator with a state would draw one element after the other, on one core, and the mask would
//! have to be kept for the backward pass. The hash has no state, so any thread computes any element
//! at any time and gets the same bits. It works on 32 bits, as vector units do: the `SplitMix64`
//! that draws elsewhere in the project needs products of 64 bits, which AVX2 does not have, and
//! would compute 8 elements at a time instead of 16 with AVX-512.

use super::Dropped;
use super::hash::hash;

/// A mask, or a part of one, ready for use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mask {
    /// The lower half of the key.
    low: u32,
    /// The upper half of the key, mixed with the indices of the parts around this one.
    high: u32,
    /// An element is kept if its hash is at most this.
    threshold: u32,
    /// `1 / keep`.
    scale: f32,
}

impl Mask {
    /// The mask of this key.
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

    /// The factor of the element at `index` of the part: 0 or `1 / keep`.
    ///
    /// A loop that zips slices with an open range of indices must have the range last: with the
    /// range first it is compiled without vectors.
    #[inline(always)]
    pub(crate) fn at(self, index: u32) -> f32 {
        // Two rounds: in a single one `high` would only shift a mask along its indices, so that
        // parts would share elements.
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
                let kept: Vec<bool> = (0..COUNT).map(|index| mask.at(index) > 0.0).collect();
                let count = kept.iter().filter(|kept| **kept).count();
                let actual = count as f64 / f64::from(COUNT);
                // Four standard deviations of a binomial share.
                assert!(
                    (actual - 0.7).abs() < 4.0 * (0.21 / f64::from(COUNT)).sqrt(),
                    "{key} {part}: {actual}"
                );
                for distance in [1, 2, 16, 64] {
                    let pairs = kept.iter().zip(&kept[distance..]);
                    let count = pairs.filter(|(left, right)| **left && **right).count();
                    let both = count as f64 / f64::from(COUNT);
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
        for (key, part) in [(6, 0), (5, 1), (5 + (1 << 32), 0), (5, 2)] {
            assert!((equal_share(&kept(5, &[0]), &kept(key, &[part])) - 0.5).abs() < 0.02);
        }
        // Batch rows and their heads.
        let nested: [&[usize]; 7] = [&[], &[0], &[0, 0], &[1, 1], &[1, 2], &[2, 1], &[2, 2]];
        let nested = nested.map(|parts| kept(5, parts));
        for (index, left) in nested.iter().enumerate() {
            for right in &nested[..index] {
                assert!((equal_share(left, right) - 0.5).abs() < 0.02);
            }
        }
        assert_eq!(kept(5, &[3]), kept(5, &[3]));
    }

    const ELEMENTS: u32 = 20_000;

    /// The elements that the mask of nested parts keeps, as `true`.
    fn kept(key: u64, parts: &[usize]) -> Vec<bool> {
        let whole = Mask::new(Dropped { keep: 0.5, key });
        let mask = parts.iter().fold(whole, |mask, part| mask.part(*part));
        (0..ELEMENTS).map(|index| mask.at(index) > 0.0).collect()
    }

    /// The share of elements that are equal.
    fn equal_share(left: &[bool], right: &[bool]) -> f64 {
        let equal = left.iter().zip(right).filter(|(a, b)| a == b).count();
        equal as f64 / f64::from(ELEMENTS)
    }
}
