//! The innermost loop of a product in bf16: a strip of 32 rows by a strip of 32 columns.
//!
//! With the tiles of [`super`] and f32 sums,
//!
//! ```text
//! sums[i][j] = Σ over pairs p of  row_i[p].lower * column_j[p].lower
//!                               + row_i[p].upper * column_j[p].upper
//! ```
//!
//! There are three versions: by AMX, by AVX512-BF16 (in `x86`), and imitated by products of f32 for
//! CPUs with neither. Their sums differ in the order of terms, so in the last bits.

#[cfg(target_arch = "x86_64")]
mod x86;

use std::marker::PhantomData;

use super::{STRIP, Sums, TILE, Tile};
use crate::flex::vector::{Kernel, vectorized};

/// Whether this CPU has instructions for products of bf16; otherwise they are imitated.
pub(crate) fn has_bf16_products() -> bool {
    Instructions::best() != Instructions::Imitated
}

/// The instructions that multiply a strip of rows by a strip of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instructions {
    /// AMX: matrices of 16 x 32 by 32 x 16 in one instruction.
    #[cfg(target_arch = "x86_64")]
    Amx,
    /// AVX512-BF16: 16 sums of two products each in one instruction.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// Products of f32, for CPUs with neither.
    Imitated,
}

impl Instructions {
    /// The fastest instructions that this CPU has.
    pub(super) fn best() -> Self {
        Self::all().next().unwrap_or(Self::Imitated)
    }

    /// All instructions that this CPU has, the fastest first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let own = x86::all();
        #[cfg(not(target_arch = "x86_64"))]
        let own = std::iter::empty();
        own.chain([Self::Imitated])
    }

    /// Prepares this thread for [`Session::multiply`]: AMX has to be configured per thread.
    pub(super) fn begin(self) -> Session {
        #[cfg(target_arch = "x86_64")]
        if self == Self::Amx {
            x86::configure_tiles();
        }
        Session(self, PhantomData)
    }
}

/// A thread that is prepared. The pointer makes it neither `Send` nor `Sync`, so that it stays on
/// its thread. There must be one at a time: dropping one releases the tiles of the thread.
pub(super) struct Session(Instructions, PhantomData<*const ()>);

impl Session {
    /// Writes the product of two strips, which have the same number of tiles.
    pub(super) fn multiply(&self, left: &[Tile], right: &[Tile], sums: &mut Sums) {
        assert_eq!(left.len(), right.len(), "strips of a product");
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Instructions::Amx => x86::amx(left, right, sums),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => x86::avx512(left, right, sums),
            Instructions::Imitated => vectorized(Imitation { left, right, sums }),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if self.0 == Instructions::Amx {
            x86::release_tiles();
        }
    }
}

/// The product of two strips with f32 instructions.
struct Imitation<'a> {
    left: &'a [Tile],
    right: &'a [Tile],
    /// Overwritten.
    sums: &'a mut Sums,
}

impl Kernel for Imitation<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { left, right, sums } = self;
        *sums = Sums([[0.0; STRIP]; STRIP]);
        for (left, right) in left.as_chunks::<2>().0.iter().zip(right.as_chunks::<2>().0) {
            for (row, sums) in sums.0.iter_mut().enumerate() {
                let pairs = &left[row / TILE].0[row % TILE];
                for (half, sums) in sums.as_chunks_mut::<TILE>().0.iter_mut().enumerate() {
                    for (pair, columns) in pairs.iter().zip(&right[half].0) {
                        for (sum, column) in sums.iter_mut().zip(columns) {
                            *sum += lower(*pair) * lower(*column);
                            *sum += upper(*pair) * upper(*column);
                        }
                    }
                }
            }
        }
    }
}

/// The first term of a pair as f32: bf16 is the upper half of its bits.
#[inline(always)]
fn lower(pair: u32) -> f32 {
    f32::from_bits(pair << 16)
}

/// The second term of a pair as f32.
#[inline(always)]
fn upper(pair: u32) -> f32 {
    f32::from_bits(pair & 0xffff_0000)
}
