//! The random numbers of numpy's `default_rng`, since a p-value is reproduced only with the same
//! draws.

/// The multiplier of PCG's 128-bit congruential generator (O'Neill, 2014).
const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;

/// The number of words of entropy that numpy's `SeedSequence` mixes.
const POOL_SIZE: usize = 4;

/// PCG-XSL-RR-128/64, which numpy calls PCG64, with the half of a 64-bit number that a 32-bit draw
/// leaves over.
#[derive(Debug, Clone)]
pub(crate) struct Pcg64 {
    state: u128,
    increment: u128,
    /// The upper half of the last 64-bit number, for the next 32-bit draw.
    upper_half: Option<u32>,
}

impl Pcg64 {
    /// Makes the generator that `numpy.random.default_rng(seed)` returns.
    pub(crate) fn new(seed: u64) -> Self {
        let [a, b, c, d] = seed_words(seed);
        let state = u128::from(a) << 64 | u128::from(b);
        let stream = u128::from(c) << 64 | u128::from(d);
        let mut generator = Self {
            state: 0,
            increment: stream << 1 | 1,
            upper_half: None,
        };
        generator.step();
        generator.state = generator.state.wrapping_add(state);
        generator.step();
        generator
    }

    /// Draws a number below `bound`, without bias (Lemire, 2019), as `integers` and `choice` draw it.
    ///
    /// `bound` must be at least 1.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        if bound == 1 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u64::from(self.next_u32()) * u64::from(bound);
            if product as u32 >= threshold {
                return (product >> 32) as u32;
            }
        }
    }

    /// Draws coin flips as `integers(2, dtype=bool)` does: 32 of each number, the lowest bit first.
    pub(crate) fn flips(&mut self) -> impl Iterator<Item = bool> {
        (0..).map(|index: usize| index % 32).scan(0, |bits, index| {
            *bits = if index == 0 {
                self.next_u32()
            } else {
                *bits >> 1
            };
            Some(*bits & 1 == 1)
        })
    }

    fn next_u32(&mut self) -> u32 {
        self.upper_half.take().unwrap_or_else(|| {
            let number = self.next_u64();
            self.upper_half = Some((number >> 32) as u32);
            number as u32
        })
    }

    fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    fn step(&mut self) {
        self.state = self
            .state
            .wrapping_mul(MULTIPLIER)
            .wrapping_add(self.increment);
    }
}

/// The four words that numpy's `SeedSequence(seed)` generates, a hash of the seed's 32-bit halves.
fn seed_words(seed: u64) -> [u64; 4] {
    let mut hash = Hash {
        constant: 0x43b0_d7e5,
        multiplier: 0x931e_8875,
    };
    let mut pool = [seed as u32, (seed >> 32) as u32, 0, 0].map(|word| hash.mix_in(word));
    for source in 0..POOL_SIZE {
        for target in (0..POOL_SIZE).filter(|&target| target != source) {
            let hashed = hash.mix_in(pool[source]);
            let mixed = pool[target]
                .wrapping_mul(0xca01_f9dd)
                .wrapping_sub(hashed.wrapping_mul(0x4973_f715));
            pool[target] = mixed ^ mixed >> 16;
        }
    }
    let mut hash = Hash {
        constant: 0x8b51_f9dd,
        multiplier: 0x58f3_8ded,
    };
    // Eight words of output from the four of the pool, each taken twice.
    let words = pool.into_iter().cycle().take(8);
    let halves: Vec<u32> = words.map(|word| hash.mix_in(word)).collect();
    [0, 2, 4, 6].map(|low| u64::from(halves[low + 1]) << 32 | u64::from(halves[low]))
}

/// The multiplicative hash of `SeedSequence`, whose constant changes with each word.
struct Hash {
    constant: u32,
    multiplier: u32,
}

impl Hash {
    fn mix_in(&mut self, word: u32) -> u32 {
        let mixed = word ^ self.constant;
        self.constant = self.constant.wrapping_mul(self.multiplier);
        let mixed = mixed.wrapping_mul(self.constant);
        mixed ^ mixed >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The numbers are those of numpy 2.4.

    #[test]
    fn draws_are_those_of_numpy() {
        let mut generator = Pcg64::new(12345);
        let mut draw =
            |bound, number| -> Vec<u32> { (0..number).map(|_| generator.below(bound)).collect() };
        assert_eq!(draw(10, 6), [6, 2, 7, 3, 2, 7]);
        let many = [
            2_028_764_011,
            2_518_275_128,
            1_794_926_260,
            639_429_039,
            560_202_556,
        ];
        assert_eq!(draw(3_000_000_000, 5), many);

        let flips: String = generator
            .flips()
            .take(40)
            .map(|flip| if flip { '1' } else { '0' })
            .collect();
        assert_eq!(flips, "1011010001111001000101010101110011101110");
        assert_eq!(generator.below(1), 0);
    }

    #[test]
    fn seeds_of_any_length_are_those_of_numpy() {
        let draw = |seed| {
            let mut generator = Pcg64::new(seed);
            [0; 5].map(|_| generator.below(1000))
        };
        assert_eq!(draw(0), [850, 636, 511, 269, 307]);
        assert_eq!(draw((1 << 40) + 7), [206, 829, 609, 255, 17]);
    }
}
