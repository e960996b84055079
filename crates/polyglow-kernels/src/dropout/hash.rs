//! The hash of 32 bits that dropout masks are made from.

/// Returns the hash of `bits`: Wellons's `lowbias32` (2018), a bijection of 32 bits without visible
/// structure. Its shifts and factors come from a search for the lowest bias, in which flipping one
/// bit of the input flips every bit of the output half of the time.
#[inline(always)]
pub(super) fn hash(mut bits: u32) -> u32 {
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x7feb_352d);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x846c_a68b);
    bits ^ (bits >> 16)
}
