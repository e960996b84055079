//! Random numbers as pure functions of counters, so that any position of any epoch can be reached directly.

/// Mixes `parts`, in their order, into 64 bits that look random.
///
/// The finalizer of `SplitMix64` (Steele, Lea and Flood, 2014) absorbs one part after the other. Equal parts give equal
/// results on every machine; there is no state.
pub fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9E37_79B9_7F4A_7C15, |state, &part| {
        finalize(state.wrapping_mul(0xD134_2543_DE82_EF95) ^ finalize(part.wrapping_add(0x9E37_79B9_7F4A_7C15)))
    })
}

/// Turns 64 random bits into a number in `[0, 1)`.
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Turns 64 random bits into a whole number in `0..bound`; `bound` must not be 0.
pub fn below(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

/// Shuffles `items` by Fisher and Yates, the same way for the same `key`.
pub fn shuffle<T>(items: &mut [T], key: &[u64]) {
    let key = mix(key);
    for last in (1..items.len()).rev() {
        items.swap(last, below(mix(&[key, last as u64]), last as u64 + 1) as usize);
    }
}

fn finalize(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_depends_on_every_part_and_on_their_order() {
        let all = [mix(&[]), mix(&[0]), mix(&[0, 0]), mix(&[1, 2]), mix(&[2, 1]), mix(&[1, 2, 0])];
        for (index, left) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|right| right != left));
        }
    }

    #[test]
    fn units_are_uniform() {
        let mean = (0..10_000).map(|counter| unit(mix(&[7, counter]))).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let low = (0..10_000).filter(|&counter| unit(mix(&[counter, 7])) < 0.1).count();
        assert!((900..1100).contains(&low), "{low}");
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_follows_its_key() {
        let shuffled = |key: u64| {
            let mut items: Vec<u32> = (0..100).collect();
            shuffle(&mut items, &[key]);
            items
        };
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        let mut sorted = shuffled(1);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }
}
