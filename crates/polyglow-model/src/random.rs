//! Counter-based random numbers: functions of a key, without a state to save.

/// A random sequence that follows from a key: `SplitMix64` (Steele, Lea and Flood, 2014), a counter
/// and a bijection.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence of `key`; each key has its own.
    pub fn new(key: &[u64]) -> Self {
        let mut state = 0;
        for part in key {
            state = scramble(state ^ scramble(part.wrapping_add(INCREMENT)));
        }
        Self { state }
    }

    /// Draws 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(INCREMENT);
        scramble(self.state)
    }

    /// Draws a uniform number in `[0, 1)` of 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws from the standard normal distribution by the method of Box and Muller (1958).
    pub fn normal(&mut self) -> f64 {
        // `1 - uniform` is never 0, so its logarithm is finite.
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.uniform()).cos()
    }
}

/// The odd number nearest to 2^64 over the golden ratio.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64 bits that depends on every bit of its input.
fn scramble(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
