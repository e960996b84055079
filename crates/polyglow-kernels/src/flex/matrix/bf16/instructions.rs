//! The innermost loop of a product in bf16, for the instructions that are made for it.

#[cfg(target_arch = "x86_64")]
mod x86;

use std::marker::PhantomData;

use super::{STRIP, Sums, TILE, Tile};
use crate::flex::vector::{Kernel, vectorized};

/// Whether this CPU has instructions for products of bf16.
pub(crate) fn has_bf16_products() -> bool {
    Instructions::best() != Instructions::Imitated
}

/// What multiplies a strip of rows by a strip of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instructions {
    /// AMX: matrices of 16 x 32 by 32 x 16 in one instruction.
    #[cfg(target_arch = "x86_64")]
    Amx,
    /// AVX512-BF16: 16 sums of two products.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// Products of f32, for CPUs with neither.
    Imitated,
}

impl Instructions {
    /// The fastest here.
    pub(super) fn best() -> Self {
        Self::all().next().unwrap_or(Self::Imitated)
    }

    /// What there is here, the fastest first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let own = x86::all();
        #[cfg(not(target_arch = "x86_64"))]
        let own = std::iter::empty();
        own.chain([Self::Imitated])
    }

    /// Makes this thread ready for [`Session::multiply`].
    pub(super) fn begin(self) -> Session {
        #[cfg(target_arch = "x86_64")]
        if self == Self::Amx {
            x86::configure_tiles();
        }
        Session(self, PhantomData)
    }
}

/// A thread that is ready, and the pointer keeps it this thread. Two of a thread at a time would
/// end each other.
pub(super) struct Session(Instructions, PhantomData<*const ()>);

impl Session {
    /// Writes the sums of the products of two strips with as many terms.
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

struct Imitation<'a> {
    left: &'a [Tile],
    right: &'a [Tile],
    sums: &'a mut Sums,
}

impl Kernel for Imitation<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { left, right, sums } = self;
        *sums = Sums([[0.0; STRIP]; STRIP]);
        let lower = |pair: u32| f32::from_bits(pair << 16);
        let upper = |pair: u32| f32::from_bits(pair & 0xffff_0000);
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
