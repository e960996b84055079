//! AMX and AVX512-BF16.

use std::arch::asm;
use std::arch::is_x86_feature_detected as has;
use std::arch::x86_64::{__cpuid_count, __m512, __m512bh, _mm512_dpbf16_ps, _mm512_setzero_ps};
use std::sync::LazyLock;

use pulp::cast;

use super::super::{STRIP, Sums, TILE, Tile};
use super::Instructions;

/// Rows whose sums stay in registers together: 8 x 2 of them, 2 of columns and one of a row's pairs
/// take 19 of 32.
const ROWS: usize = 8;

/// Whether this process may use AMX: the system keeps its registers for those alone that ask.
static HAS_AMX: LazyLock<bool> = LazyLock::new(|| {
    /// Bits of what `cpuid` says.
    const AMX_BF16: u32 = 1 << 22;
    const AMX_TILE: u32 = 1 << 24;
    // Every CPU with AMX has AVX-512, too; where that is found, leaf 7 is there.
    if !cfg!(feature = "avx512") || !has!("avx512f") {
        return false;
    }
    let features = __cpuid_count(7, 0).edx;
    features & AMX_BF16 != 0 && features & AMX_TILE != 0 && may_use_tiles()
});

/// Asks Linux (5.16 and newer) for the registers of AMX; other systems are not asked.
fn may_use_tiles() -> bool {
    #[cfg(target_os = "linux")]
    {
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

/// What this CPU has, the fastest first.
pub(super) fn all() -> impl Iterator<Item = Instructions> {
    let avx512 = cfg!(feature = "avx512") && has!("avx512f") && has!("avx512bf16");
    [
        (*HAS_AMX, Instructions::Amx),
        (avx512, Instructions::Avx512),
    ]
    .into_iter()
    .filter_map(|(here, instructions)| here.then_some(instructions))
}

/// What `ldtilecfg` reads: a palette, and for each of 8 tiles the bytes in a row and the rows.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    zeros: [u8; 15],
    bytes: [u16; 16],
    rows: [u8; 16],
}

static CONFIG: TileConfig = {
    let mut config = TileConfig {
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

/// Afterwards the system has no tiles to keep when it switches threads.
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

/// Four tiles of sums; in each round two of rows and two of columns, each of which is used twice.
pub(super) fn amx(left: &[Tile], right: &[Tile], sums: &mut Sums) {
    assert!(left.len().is_multiple_of(2), "strips of a product");
    // The loop runs once at least.
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

pub(super) fn avx512(left: &[Tile], right: &[Tile], sums: &mut Sums) {
    #[expect(unsafe_code, reason = "only here is it known what the CPU can do")]
    // SAFETY: `Instructions::Avx512` is made only where the CPU has these features.
    unsafe {
        rows_by_columns(left, right, sums);
    }
}

#[expect(
    clippy::needless_range_loop,
    reason = "iterators with closures would not be compiled for the same features"
)]
#[target_feature(enable = "avx512f,avx512bf16")]
fn rows_by_columns(left: &[Tile], right: &[Tile], sums: &mut Sums) {
    for (part, output) in sums.0.as_chunks_mut::<ROWS>().0.iter_mut().enumerate() {
        let first = part * ROWS;
        let mut found = [[_mm512_setzero_ps(); 2]; ROWS];
        for (left, right) in left.as_chunks::<2>().0.iter().zip(right.as_chunks::<2>().0) {
            let rows = &left[first / TILE].0;
            for pair in 0..TILE {
                let columns: [__m512bh; 2] = [bf16(right[0].0[pair]), bf16(right[1].0[pair])];
                for row in 0..ROWS {
                    let terms = bf16([rows[first % TILE + row][pair]; TILE]);
                    found[row][0] = _mm512_dpbf16_ps(found[row][0], terms, columns[0]);
                    found[row][1] = _mm512_dpbf16_ps(found[row][1], terms, columns[1]);
                }
            }
        }
        for (output, found) in output.iter_mut().zip(found) {
            *output = cast::<[__m512; 2], [f32; STRIP]>(found);
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn bf16(pairs: [u32; TILE]) -> __m512bh {
    #[expect(unsafe_code, reason = "vectors of bf16 are made in no other way")]
    // SAFETY: Both are 64 bytes, and any bits are 32 numbers in bf16.
    unsafe {
        std::mem::transmute(pairs)
    }
}
