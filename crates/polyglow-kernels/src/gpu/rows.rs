//! The sum of the rows of a matrix: what workgroups, or parts of a product, have left to add up.
//!
//! A thread has a column of vectors, and adds it up in order, so that the bits are the same in every
//! run. Neighboring threads read neighboring vectors. Burn's own sum of an axis tries several kernels
//! for each size, which are compiled first.

use burn::tensor::DType;
use burn_cubecl::cubecl;
use burn_cubecl::cubecl::calculate_cube_count_elemwise;
use burn_cubecl::cubecl::client::Client;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::operation::{Operand, queue, vector_size};

/// Returns the sum of the rows of an f32 tensor, whose first axis counts `rows`, as one row.
pub(crate) fn sum_of_rows(tensor: Operand, rows: usize) -> Operand {
    let columns = tensor.num_elements() / rows;
    let vector = vector_size(columns);
    let vectors = columns / vector;
    let launch = move |client: &Client, [tensor]: [CubeTensor; 1], [sums]: [CubeTensor; 1]| {
        let dim = CubeDim::new(client, vectors);
        let count = calculate_cube_count_elemwise(client, vectors, dim);
        let tensor = tensor.into_buffer_arg();
        let sums = sums.into_buffer_arg();
        let (rows, vectors) = (rows as u32, vectors as u32);
        sum::launch(client, count, dim, vector, tensor, sums, rows, vectors);
    };
    let written = [(vec![columns], DType::F32)];
    let [sums] = queue("sum of rows", [tensor], written, launch);
    sums
}

/// Writes `sums[j] = Σ_i matrix[i][j]`, with `vectors` vectors in a row.
#[cube(launch)]
fn sum<N: Size>(matrix: &[Vector<f32, N>], sums: &mut [Vector<f32, N>], rows: u32, vectors: u32) {
    let column = ABSOLUTE_POS;
    if column < vectors as usize {
        let mut sum = Vector::<f32, N>::new(0.0f32);
        for row in 0..rows as usize {
            sum += matrix[row * vectors as usize + column];
        }
        sums[column] = sum;
    }
}
