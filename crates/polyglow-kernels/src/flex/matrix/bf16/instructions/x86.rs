//! AMX and AVX512-BF16.
//!
//! AMX has eight registers of 1 KiB. `tdpbf16ps c, a, b` adds the product of a tile of the left
//! factor, `[16 rows][16 pairs]`, and one of the right, `[16 pairs][16 columns]`, to 16 x 16 sums.
//! Four registers hold the 32 x 32 sums of two strips, and two and two hold tiles of the factors.
//!
//! AVX512-BF16 has `vdpbf16ps`, which adds the two products of a pair to each of 16 sums. A pair of
//! a row is broadcast and multiplied by the same pair of 16 columns.

use std::arch::asm;
use std::arch::is_x86_feature_detected as has;
use std::arch::x86_64::{__cpuid_count, __m512, __m512bh, _mm512_dpbf16_ps, _mm512_setzero_ps};
use std::sync::LazyLock;

use pulp::cast;

use super::super::{STRIP, Sums, TILE, Tile};
use super::Instructions;

/// Rows whose sums stay in registers together with AVX-512: 8 x 2 vectors of sums, 2 of columns and
/// the broadcast pair of a row take 19 of 32.
const ROWS: usize = 8;

/// Whether this process may use AMX. Linux saves the large registers only for processes that have
/// asked for them, and others are killed at the first instruction.
static HAS_AMX: LazyLock<bool> = LazyLock::new(|| {
    /// Bits of `edx` of `cpuid` leaf 7.
    const AMX_BF16: u32 = 1 << 22;
    const AMX_TILE: u32 = 1 << 24;
    // Every CPU with AMX has AVX-512, and a CPU with AVX-512 has leaf 7.
    if !cfg!(feature = "avx512") || !has!("avx512f") {
        return false;
    }
    let features = __cpuid_count(7, 0).edx;
    features & AMX_BF16 != 0 && features & AMX_TILE != 0 && may_use_tiles()
});

/// Asks Linux (5.16 and newer) for the registers of AMX, and returns whether it agrees; `false` on
/// other systems.
fn may_use_tiles() -> bool {
    #[cfg(target_os = "linux")]
    {
        // `arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`.
        const ARCH_PRCTL: usize = 158;
        const REQUEST_PERMISSION: usize = 0x1023;
        const TILE_DATA: usize = 18;
        let answer: isize;
        #[expect(unsafe_code, reason = "the standard library has no such call")]
        // SAFETY: This call reads and writes no memory of the process.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") ARCH_PRCTL => answer,
                in("rdi") REQUEST_PERMISSION,
                in("rsi") TILE_DATA,
                out("rcx") _,
                out("r11") _,
                options(nostack),
            );
        }
        answer == 0
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// The instructions that this CPU has, the fastest first.
pub(super) fn all() -> impl Iterator<Item = Instructions> {
    let avx512 = cfg!(feature = "avx512") && has!("avx512f") && has!("avx512bf16");
    [
        (*HAS_AMX, Instructions::Amx),
        (avx512, Instructions::Avx512),
    ]
    .into_iter()
    .filter_map(|(here, instructions)| here.then_some(instructions))
}

/// The argument of `ldtilecfg`: a palette, and for each of 8 tiles the bytes in a row and the
/// number of rows.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    zeros: [u8; 15],
    bytes: [u16; 16],
    rows: [u8; 16],
}

/// Eight tiles of 16 rows of 64 bytes: 16 pairs of bf16, or 16 sums.
static CONFIG: TileConfig = {
    let mut config = TileConfig {
        // Palette 1 has eight tiles of at most 16 rows of 64 bytes.
        palette: 1,
        zeros: [0; 15],
        bytes: [0; 16],
        rows: [0; 16],
    };
    let mut tile = 0;
    while tile < 8 {
        config.bytes[tile] = 4 * TILE as u16;
        config.rows[tile] = TILE as u8;
        tile += 1;
    }
    config
};

/// Gives all tiles of this thread 16 rows of 64 bytes.
pub(super) fn configure_tiles() {
    #[expect(
        unsafe_code,
        reason = "the standard library has AMX in nightly compilers alone"
    )]
    // SAFETY: `Instructions::Amx` is made only where AMX is. It reads 64 bytes.
    unsafe {
        asm!(
            "ldtilecfg [{}]",
            in(reg) &raw const CONFIG,
            out("tmm0") _,
            out("tmm1") _,
            out("tmm2") _,
            out("tmm3") _,
            out("tmm4") _,
            out("tmm5") _,
            out("tmm6") _,
            out("tmm7") _,
            options(nostack, readonly),
        );
    }
}

/// Ends the use of tiles on this thread, so that the system need not save them when it switches
/// threads.
pub(super) fn release_tiles() {
    #[expect(
        unsafe_code,
        reason = "the standard library has AMX in nightly compilers alone"
    )]
    // SAFETY: As above.
    unsafe {
        asm!(
            "tilerelease",
            out("tmm0") _,
            out("tmm1") _,
            out("tmm2") _,
            out("tmm3") _,
            out("tmm4") _,
            out("tmm5") _,
            out("tmm6") _,
            out("tmm7") _,
            options(nostack, nomem),
        );
    }
}

/// Writes the product of two strips with AMX. Four tiles hold the sums; each round loads two tiles
/// of each strip and multiplies each of them twice.
pub(super) fn amx(left: &[Tile], right: &[Tile], sums: &mut Sums) {
    assert!(left.len().is_multiple_of(2), "strips of a product");
    // The loop of instructions below runs at least once.
    if left.is_empty() {
        *sums = Sums([[0.0; STRIP]; STRIP]);
        return;
    }
    #[expect(
        unsafe_code,
        reason = "the standard library has AMX in nightly compilers alone"
    )]
    // SAFETY: `Instructions::Amx` is made only where AMX is, and `Instructions::begin` has
    // configured the tiles. It reads `left.len() / 2` pairs of tiles of 1 024 bytes from each
    // strip, and writes 4 tiles: all 32 rows of the sums, of 128 bytes.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "tileloadd tmm4, [{left} + {line}]",
            "tileloadd tmm6, [{right} + {line}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{right} + {line} + 1024]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{left} + {line} + 1024]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {left}, 2048",
            "add {right}, 2048",
            "dec {rounds}",
            "jnz 2b",
            "tilestored [{sums} + {row}], tmm0",
            "tilestored [{sums} + {row} + 64], tmm1",
            "tilestored [{sums} + {row} + 2048], tmm2",
            "tilestored [{sums} + {row} + 2112], tmm3",
            left = inout(reg) left.as_ptr() => _,
            right = inout(reg) right.as_ptr() => _,
            rounds = inout(reg) left.len() / 2 => _,
            line = in(reg) size_of::<[u32; TILE]>(),
            sums = in(reg) sums.0.as_mut_ptr(),
            row = in(reg) size_of::<[f32; STRIP]>(),
            out("tmm0") _,
            out("tmm1") _,
            out("tmm2") _,
            out("tmm3") _,
            out("tmm4") _,
            out("tmm5") _,
            out("tmm6") _,
            out("tmm7") _,
            options(nostack),
        );
    }
}

/// Writes the product of two strips with AVX512-BF16.
pub(super) fn avx512(left: &[Tile], right: &[Tile], sums: &mut Sums) {
    #[expect(unsafe_code, reason = "only here is it known what the CPU can do")]
    // SAFETY: `Instructions::Avx512` is made only where the CPU has these features.
    unsafe {
        rows_by_columns(left, right, sums);
    }
}

/// The loop of [`avx512`]: [`ROWS`] rows at a time by all 32 columns.
#[expect(
    clippy::needless_range_loop,
    reason = "iterators with closures would not be compiled for the same features"
)]
#[target_feature(enable = "avx512f,avx512bf16")]
fn rows_by_columns(left: &[Tile], right: &[Tile], sums: &mut Sums) {
    for (part, output) in sums.0.as_chunks_mut::<ROWS>().0.iter_mut().enumerate() {
        let first = part * ROWS;
        let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
        for (left, right) in left.as_chunks::<2>().0.iter().zip(right.as_chunks::<2>().0) {
            let rows = &left[first / TILE].0;
            for pair in 0..TILE {
                let columns: [__m512bh; 2] = [bf16(right[0].0[pair]), bf16(right[1].0[pair])];
                for row in 0..ROWS {
                    let terms = bf16([rows[first % TILE + row][pair]; TILE]);
                    sums[row][0] = _mm512_dpbf16_ps(sums[row][0], terms, columns[0]);
                    sums[row][1] = _mm512_dpbf16_ps(sums[row][1], terms, columns[1]);
                }
            }
        }
        for (output, sums) in output.iter_mut().zip(sums) {
            *output = cast::<[__m512; 2], [f32; STRIP]>(sums);
        }
    }
}

/// 16 pairs as a vector.
#[inline]
#[target_feature(enable = "avx512f")]
fn bf16(pairs: [u32; TILE]) -> __m512bh {
    #[expect(unsafe_code, reason = "vectors of bf16 are made in no other way")]
    // SAFETY: Both are 64 bytes, and any bits are 32 values of bf16.
    unsafe {
        std::mem::transmute(pairs)
    }
}
