//! Loops that compile to SIMD instructions, and the mathematical functions that such loops need.
//!
//! # Loops
//! A [`Kernel`] is a plain loop over slices, written without intrinsics. [`vectorized`] runs the
//! copy of it that was compiled for the widest instructions of this CPU (AVX-512, AVX2, NEON, or
//! none); the compiler vectorizes each copy by itself. That works only if everything in the loop is
//! inlined into it, hence `#[inline(always)]` on every function here.
//!
//! # Functions
//! `exp`, `tanh` and their like in the standard library are calls of one routine per element, which
//! stops vectorization: a step of a recurrent network spent almost half of its time in them
//! (docs/notes/performance.md). The versions here have no calls and no branches, only selects, are
//! as exact as `f32` needs, and give the same bits on every machine.
//!
//! # Sums
//! A sum over a slice goes into [`LANES`] partial sums, element `i` into sum `i % LANES`, which are
//! added up by halves at the end. A single sum could not be vectorized, because the order of
//! floating-point additions changes the result.

use pulp::{Arch, Simd, WithSimd};

/// Partial sums of a sum over a slice: as many as the widest vector (AVX-512) has elements.
/// Narrower machines keep as many, in several vectors, so every machine adds in the same order and
/// gives the same bits.
pub(crate) const LANES: usize = 16;

/// A loop without calls, to be compiled for each instruction set. Its inputs and outputs are the
/// fields of the implementing type.
pub(crate) trait Kernel {
    type Output;

    /// Runs the loop. Implementations are `#[inline(always)]`; otherwise they are compiled for the
    /// smallest instruction set alone.
    fn run(self) -> Self::Output;
}

/// Runs a kernel with the widest vectors that this CPU has, on this core.
pub(crate) fn vectorized<K: Kernel>(kernel: K) -> K::Output {
    struct Widest<K>(K);
    impl<K: Kernel> WithSimd for Widest<K> {
        type Output = K::Output;

        // `dispatch` compiles this function for each instruction set, and what is inlined into it.
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> Self::Output {
            self.0.run()
        }
    }
    Arch::new().dispatch(Widest(kernel))
}

/// The name of the widest instructions that this CPU and this build have.
pub(crate) fn instruction_set() -> &'static str {
    match Arch::new() {
        #[cfg(all(target_arch = "x86_64", feature = "avx512"))]
        Arch::V4(_) => "AVX-512",
        #[cfg(target_arch = "x86_64")]
        Arch::V3(_) => "AVX2",
        #[cfg(target_arch = "aarch64")]
        Arch::Neon(_) => "NEON",
        _ => "no SIMD instructions",
    }
}

/// `e^x` for `x <= 88`, to two units in the last place; 0 below about -87.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Further down the result would be subnormal, and the exponent of `2^n` would wrap around.
    // Written so that NaN propagates: `f32::max` would return the limit.
    let clamped = if x < -87.0 { -87.0 } else { x };
    let (power, r, polynomial) = exp_parts(clamped);
    if x < -87.0 {
        0.0
    } else {
        (polynomial * r + 1.0) * power
    }
}

/// Returns `2^n`, `r` and `(e^r - 1) / r` with `e^x = 2^n e^r`, a whole `n` and `|r| <= ln(2) / 2`,
/// for `|x| <= 88`.
///
/// The last is computed by its Taylor polynomial of degree 6, whose remainder, `r^7 / 8!`, is below
/// 2e-8.
#[inline(always)]
fn exp_parts(x: f32) -> (f32, f32, f32) {
    /// 1.5 * 2^23: adding it leaves no bits for a fraction, so the sum is rounded, and its lowest
    /// bits are the integer.
    const ROUND: f32 = 12_582_912.0;
    /// ln(2) in two parts (Cody and Waite, 1980), of which the first has few enough bits for exact
    /// products with `n`.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    // `as i32` would saturate and check for NaN; this is one addition.
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = x - n * LN_2[0] - n * LN_2[1];
    // Horner's scheme.
    let mut polynomial = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0] {
        polynomial = polynomial * r + coefficient;
    }
    // 2^n is made of its bits: the lowest bits of `rounded` are `n` in two's complement, the shift
    // moves them to the exponent and everything else out, and the exponent's bias is 127.
    (
        f32::from_bits((rounded.to_bits() << 23).wrapping_add(127 << 23)),
        r,
        polynomial,
    )
}

/// `1 / (1 + e^-x)`, to a relative error of 3e-7 down to -80.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    // Below -88 the exponential would be infinite; at -80 the result is 2e-35, as good as 0.
    let limited = if x < -80.0 { -80.0 } else { x };
    1.0 / (1.0 + exp(-limited))
}

/// `tanh(x)`, to a relative error of 4e-7.
///
/// `m / (m + 2)` with `m = e^2|x| - 1 = 2^n (e^r - 1) + (2^n - 1)`, which does not cancel near 0 as
/// `e^2|x| - 1` would.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    // From 10 on the result is 1 in `f32`, and the exponential must not overflow.
    let limited = if magnitude > 10.0 { 10.0 } else { magnitude };
    let (power, r, polynomial) = exp_parts(2.0 * limited);
    let m = polynomial * r * power + (power - 1.0);
    (m / (m + 2.0)).copysign(x)
}

/// The error function, to an absolute error of 2e-7 (Abramowitz and Stegun, 1964, formula 7.1.26).
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let magnitude = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * magnitude);
    let mut polynomial = 1.061_405_4;
    for coefficient in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        polynomial = polynomial * t + coefficient;
    }
    // The formula is for positive arguments; erf is odd. Far out the exponential is 0.
    let rest = polynomial * t * exp(-magnitude * magnitude);
    if x < 0.0 { rest - 1.0 } else { 1.0 - rest }
}

/// The largest value; minus infinity if there is none.
#[inline(always)]
pub(crate) fn max(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut largest = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (largest, value) in largest.iter_mut().zip(chunk) {
            // One instruction, where `f32::max` has two more for NaN. A NaN shows in the sum of
            // exponentials anyway.
            *largest = if *value > *largest { *value } else { *largest };
        }
    }
    for (largest, value) in largest.iter_mut().zip(rest) {
        *largest = if *value > *largest { *value } else { *largest };
    }
    for half in [8, 4, 2, 1] {
        let (left, right) = largest.split_at_mut(half);
        left.iter_mut()
            .zip(right)
            .for_each(|(left, right)| *left = if *right > *left { *right } else { *left });
    }
    largest[0]
}

/// The sum of all lanes, by halves: the last addition waits for three others and not for fourteen.
#[inline(always)]
pub(crate) fn sum(mut lanes: [f32; LANES]) -> f32 {
    for half in [8, 4, 2, 1] {
        let (left, right) = lanes.split_at_mut(half);
        left.iter_mut()
            .zip(right)
            .for_each(|(left, right)| *left += *right);
    }
    lanes[0]
}

/// The sum of all values, in [`LANES`] partial sums.
#[inline(always)]
pub(crate) fn total(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += value;
        }
    }
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum += value;
    }
    sum(sums)
}

/// The sum of products of two slices of the same length, in [`LANES`] partial sums.
#[inline(always)]
pub(crate) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (left_chunks, left_rest) = left.as_chunks::<LANES>();
    let (right_chunks, right_rest) = right.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (left, right) in left_chunks.iter().zip(right_chunks) {
        for lane in 0..LANES {
            sums[lane] += left[lane] * right[lane];
        }
    }
    for (sum, (left, right)) in sums.iter_mut().zip(left_rest.iter().zip(right_rest)) {
        *sum += left * right;
    }
    sum(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Exp<'a>(&'a mut [f32]);

    impl Kernel for Exp<'_> {
        type Output = ();

        #[inline(always)]
        fn run(self) {
            self.0.iter_mut().for_each(|value| *value = exp(*value));
        }
    }

    struct Sigmoid<'a>(&'a mut [f32]);

    impl Kernel for Sigmoid<'_> {
        type Output = ();

        #[inline(always)]
        fn run(self) {
            self.0.iter_mut().for_each(|value| *value = sigmoid(*value));
        }
    }

    struct Tanh<'a>(&'a mut [f32]);

    impl Kernel for Tanh<'_> {
        type Output = ();

        #[inline(always)]
        fn run(self) {
            self.0.iter_mut().for_each(|value| *value = tanh(*value));
        }
    }

    /// The largest error of `outputs` relative to what is expected of `inputs`.
    fn largest_error(inputs: &[f32], outputs: &[f32], expected: impl Fn(f64) -> f64) -> f64 {
        let mut largest = 0.0f64;
        for (input, output) in inputs.iter().zip(outputs) {
            let expected = expected(f64::from(*input));
            let error = (f64::from(*output) - expected).abs() / expected.abs();
            largest = largest.max(error);
        }
        largest
    }

    #[test]
    fn the_sigmoid_is_right_to_the_stated_digits() {
        let inputs: Vec<f32> = (-80_000..100_000)
            .map(|index| index as f32 * 1e-3)
            .collect();
        let mut outputs = inputs.clone();
        vectorized(Sigmoid(&mut outputs));
        let error = largest_error(&inputs, &outputs, |x| 1.0 / (1.0 + (-x).exp()));
        assert!(error < 3e-7, "{error}");
        let mut extremes = [f32::NEG_INFINITY, -1000.0, 0.0, f32::INFINITY, f32::NAN];
        vectorized(Sigmoid(&mut extremes));
        assert!(
            extremes[..2]
                .iter()
                .all(|value| (0.0..1e-34).contains(value)),
            "{extremes:?}"
        );
        assert!(
            extremes[2..4] == [0.5, 1.0] && extremes[4].is_nan(),
            "{extremes:?}"
        );
    }

    #[test]
    fn the_hyperbolic_tangent_is_right_to_the_stated_digits() {
        let mut inputs: Vec<f32> = (-12_000..12_000)
            .map(|index| (index as f32 + 0.5) * 1e-3)
            .collect();
        // Down to the smallest values that are not subnormal, so have all their digits.
        inputs.extend(
            (0..400).flat_map(|index| [1.0, -1.0].map(|sign| sign * 0.8f32.powi(index).max(1e-37))),
        );
        let mut outputs = inputs.clone();
        vectorized(Tanh(&mut outputs));
        let error = largest_error(&inputs, &outputs, f64::tanh);
        assert!(error < 4e-7, "{error}");
        let mut extremes = [f32::NEG_INFINITY, -0.0, 0.0, f32::INFINITY, f32::NAN];
        vectorized(Tanh(&mut extremes));
        assert_eq!(
            extremes[..4]
                .iter()
                .map(|value| value.to_bits())
                .collect::<Vec<_>>(),
            [-1.0f32, -0.0, 0.0, 1.0].map(f32::to_bits)
        );
        assert!(extremes[4].is_nan());
    }

    #[test]
    fn the_exponential_is_right_to_two_units_in_the_last_place() {
        let inputs: Vec<f32> = (-86_999..88_000).map(|index| index as f32 * 1e-3).collect();
        let mut outputs = inputs.clone();
        vectorized(Exp(&mut outputs));
        for (input, output) in inputs.iter().zip(outputs) {
            let expected = f64::from(*input).exp();
            let error = (f64::from(output) - expected).abs() / expected;
            assert!(error < 2.4e-7, "exp({input}) = {output}, not {expected}");
        }
        let mut extremes = [-87.1, -1000.0, f32::NEG_INFINITY, 0.0];
        vectorized(Exp(&mut extremes));
        assert_eq!(
            extremes.map(f32::to_bits),
            [0.0f32, 0.0, 0.0, 1.0].map(f32::to_bits)
        );
    }

    #[test]
    fn the_largest_value_may_be_in_any_lane_or_in_the_rest() {
        for len in [1, 15, 16, 17, 40] {
            for index in 0..len {
                let mut values = vec![-2.0; len];
                values[index] = -1.0;
                assert!(
                    (max(&values) + 1.0).abs() < f32::EPSILON,
                    "{index} of {len}"
                );
            }
        }
    }
}
