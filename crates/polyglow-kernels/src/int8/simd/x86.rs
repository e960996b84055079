//! The innermost loop with AVX-512 VNNI, its narrow form AVX-VNNI, and AVX2.
//!
//! VNNI has `vpdpbusd`, which adds four products of an unsigned and a signed byte to each 32-bit
//! sum: a [`Group`](super::Group) is one or two registers, and four bytes of a row are broadcast.
//! AVX2 has no exact sum of products of bytes; it multiplies pairs of 16 bits (see [`avx2_alone`]).

use std::arch::is_x86_feature_detected as has;
use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_dpbusd_avx_epi32, _mm256_madd_epi16, _mm256_set1_epi32,
    _mm256_setzero_si256, _mm256_slli_epi16, _mm256_srai_epi16, _mm512_dpbusd_epi32,
    _mm512_set1_epi32, _mm512_setzero_si512,
};

use pulp::cast;

use super::super::product::Task;
use super::{Sums, in_tiles};

/// The versions of the loop that this CPU can run, the fastest first.
pub(super) fn all() -> impl Iterator<Item = fn(Task<'_>)> {
    let vnni = cfg!(feature = "avx512")
        && has!("avx512f")
        && has!("avx512bw")
        && has!("avx512vl")
        && has!("avx512vnni");
    let avx2 = has!("avx2") && has!("fma");
    #[expect(unsafe_code, reason = "only here is it known what the CPU can do")]
    // SAFETY: A function is returned only if the CPU has the features that it is compiled for.
    let versions: [(bool, fn(Task<'_>)); 3] = unsafe {
        [
            (vnni, |task| avx512_vnni(task)),
            (avx2 && has!("avxvnni"), |task| avx_vnni(task)),
            (avx2, |task| avx2_alone(task)),
        ]
    };
    versions
        .into_iter()
        .filter_map(|(available, run)| available.then_some(run))
}

/// Defines a version of the loop for CPUs that have `$features`: `$run` goes through a task, and
/// `$tile` through a tile. A group takes `$width` vectors.
macro_rules! kernel {
    ($features:literal, $run:ident, $tile:ident, $rows:tt, $panels:literal, $width:literal,
     $zero:ident, $splat:ident, $add:ident) => {
        #[target_feature(enable = $features)]
        fn $run(task: Task<'_>) {
            in_tiles!(task, $tile, $rows, $panels);
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn $tile<const ROWS: usize, const PANELS: usize>(
            task: &mut Task<'_>,
            row: usize,
            panel: usize,
        ) {
            let mut rows = task.rows::<ROWS>(row);
            let mut panels = task.columns::<PANELS>(panel);
            let mut sums = [[[$zero(); $width]; PANELS]; ROWS];
            // Loops and not iterators with closures, which would not be compiled for the same
            // features.
            let groups = rows[0].len();
            // Without a group the zeros would be the result, and would have to be written to
            // memory.
            assert!(groups > 0, "the inputs of a product");
            for row in &mut rows {
                *row = &row[..groups];
            }
            for panel in &mut panels {
                *panel = &panel[..groups];
            }
            for group in 0..groups {
                let mut weights = [[$zero(); $width]; PANELS];
                for panel in 0..PANELS {
                    weights[panel] = cast(panels[panel][group].0);
                }
                for row in 0..ROWS {
                    let values = $splat(i32::from_ne_bytes(rows[row][group]));
                    for panel in 0..PANELS {
                        for part in 0..$width {
                            sums[row][panel][part] =
                                $add(sums[row][panel][part], values, weights[panel][part]);
                        }
                    }
                }
            }
            for row_in_tile in 0..ROWS {
                let sums: [Sums; PANELS] = cast(sums[row_in_tile]);
                task.write(row + row_in_tile, panel, &sums);
            }
        }
    };
}

// 6 x 4 vectors of sums, 4 of weights and one of a row's bytes take 29 of 32 registers.
kernel!(
    "avx512f,avx512bw,avx512vl,avx512vnni", avx512_vnni, tile_avx512_vnni, [1 2 3 4 5 6], 4, 1,
    _mm512_setzero_si512, _mm512_set1_epi32, _mm512_dpbusd_epi32
);
// 6 x 1 sums in two vectors each, 2 vectors of weights and one of a row's bytes take 15 of 16
// registers.
kernel!(
    "avx2,fma,avxvnni", avx_vnni, tile_avx_vnni, [1 2 3 4 5 6], 1, 2,
    _mm256_setzero_si256, _mm256_set1_epi32, _mm256_dpbusd_avx_epi32
);

/// A group of a row as `vpmaddwd` multiplies it: the bytes at even positions, and those at odd
/// ones, in 16 bits each.
type Pairs = [i32; 2];

/// Runs a task with AVX2 alone. Its sum of products of bytes (`vpmaddubsw`) adds two products in 16
/// bits and saturates, so bytes are widened to 16 bits first, those of the rows once for all panels
/// of a task.
#[target_feature(enable = "avx2,fma")]
fn avx2_alone(task: Task<'_>) {
    let Task {
        input,
        scales,
        matrix,
        panels,
        finish,
        output,
    } = task;
    let input: Vec<Pairs> = input
        .iter()
        .map(|group| [pair(group[0], group[2]), pair(group[1], group[3])])
        .collect();
    let task = Task {
        input: &input,
        scales,
        matrix,
        panels,
        finish,
        output,
    };
    // Not more rows: the pairs of eight rows of 2 048 inputs would not fit into the first cache.
    // 4 x 1 sums in two vectors each, 4 vectors of weights and two of a row's pairs take 14 of 16
    // registers.
    in_tiles!(task, tile_avx2, [1 2 3 4], 1);
}

/// Two bytes, each in 16 bits.
fn pair(lower: u8, upper: u8) -> i32 {
    i32::from(lower) | i32::from(upper) << 16
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn tile_avx2<const ROWS: usize, const PANELS: usize>(
    task: &mut Task<'_, Pairs>,
    row: usize,
    panel: usize,
) {
    let rows = task.rows::<ROWS>(row);
    let [panel_weights] = task.columns::<1>(panel);
    let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
    for group in 0..panel_weights.len() {
        let mut even = [_mm256_setzero_si256(); 2];
        let mut odd = cast::<_, [__m256i; 2]>(panel_weights[group].0);
        for half in 0..2 {
            // Shifts of signed values: the bytes keep their sign.
            even[half] = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(odd[half]));
            odd[half] = _mm256_srai_epi16::<8>(odd[half]);
        }
        for row in 0..ROWS {
            let [even_inputs, odd_inputs] = rows[row][group];
            let even_inputs = _mm256_set1_epi32(even_inputs);
            let odd_inputs = _mm256_set1_epi32(odd_inputs);
            for half in 0..2 {
                let sum =
                    _mm256_add_epi32(sums[row][half], _mm256_madd_epi16(even_inputs, even[half]));
                sums[row][half] = _mm256_add_epi32(sum, _mm256_madd_epi16(odd_inputs, odd[half]));
            }
        }
    }
    for (row, sums) in (row..).zip(&sums) {
        let sums: Sums = cast(*sums);
        task.write(row, panel, &[sums]);
    }
}
