//! Additive attention on the CPU: scores `vᵀ tanh(q + k)`, their softmax, and the gradients.
//!
//! A task is a row of the batch: queries `[len, width]`, keys `[key_len, width]` and weights
//! `[len, key_len]`, all contiguous, with the width innermost. The forward pass keeps its inputs
//! and the weights. The backward pass computes the tangents again, which takes less time than
//! writing and reading `width` of them for each pair of a query and a key.
//!
//! The gradient of `v` is a sum over all rows of the batch: each task has a sum of its own, and
//! these are added in the order of rows, so that no bit depends on the number of threads.

use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use crate::flex::row::total_of_blocks;
use crate::flex::softmax::{Softmax, SoftmaxBackward};
use crate::flex::vector::{Kernel, LANES, sum, tanh, vectorized};
use crate::flex::{
    BackwardPass, Contiguous, FlexTensor, from_values, into_values, mode_of_both, read, record,
};

/// Tangents below which another thread would take longer to wake than to help.
const PARALLEL: usize = 1 << 15;

/// [`super::additive_weights`] on flex.
pub(super) fn additive_weights(
    queries: &Tensor<3>,
    keys: &Tensor<3>,
    score_vector: &Tensor<2>,
    mask: &Tensor<3, Bool>,
) -> Option<Tensor<3>> {
    mode_of_both(queries, keys)?;
    let sizes = Sizes::new(queries, keys, score_vector);
    let forbidden = sizes.forbidden(mask);
    let (queries, queries_node) = read(queries.clone());
    let (keys, keys_node) = read(keys.clone());
    let (score_vector, vector_node) = read(score_vector.clone());
    let inputs = [queries, keys, score_vector];
    let output = from_values(
        sizes.weights(&inputs, &forbidden),
        [sizes.batch, sizes.len, sizes.key_len],
    );
    let state = State {
        sizes,
        inputs,
        forbidden,
        weights: Contiguous::new(output.clone()),
    };
    Some(record(
        state,
        [queries_node, keys_node, vector_node],
        output,
    ))
}

/// The sizes of an attention.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    /// The number of queries of a batch row.
    len: usize,
    key_len: usize,
    /// Elements of a query, of a key and of `v`.
    width: usize,
}

impl Sizes {
    /// The sizes of these tensors.
    ///
    /// Panics if they do not fit each other, or if there is nothing to attend to.
    fn new(queries: &Tensor<3>, keys: &Tensor<3>, score_vector: &Tensor<2>) -> Self {
        let [batch, len, width] = queries.dims();
        let [key_batch, key_len, key_width] = keys.dims();
        assert_eq!(
            (key_batch, key_width, score_vector.dims()),
            (batch, width, [width, 1]),
            "the sides of additive attention"
        );
        // Chunks of length 0 panic.
        assert!(
            len > 0 && key_len > 0 && width > 0,
            "additive attention needs queries and keys"
        );
        Self {
            batch,
            len,
            key_len,
            width,
        }
    }

    /// The mask, `[batch, key_len]`.
    fn forbidden(self, mask: &Tensor<3, Bool>) -> Vec<bool> {
        assert_eq!(
            mask.dims(),
            [self.batch, 1, self.key_len],
            "the mask of additive attention"
        );
        mask.clone().into_data().iter::<bool>().collect()
    }

    /// Whether the attention is too little work for several threads.
    fn is_small(self) -> bool {
        self.batch * self.len * self.key_len * self.width < PARALLEL
    }

    /// Computes the weights, given queries, keys and `v`.
    fn weights(self, inputs: &[Contiguous; 3], forbidden: &[bool]) -> Vec<f32> {
        let mut weights = vec![0.0; self.batch * self.len * self.key_len];
        let row_len = self.len * self.key_len;
        if self.is_small() {
            for (row, scores) in weights.chunks_mut(row_len).enumerate() {
                let inputs = self.row(inputs, forbidden, row);
                vectorized(Forward { scores, inputs });
            }
        } else {
            weights
                .par_chunks_mut(row_len)
                .enumerate()
                .for_each(|(row, scores)| {
                    let inputs = self.row(inputs, forbidden, row);
                    vectorized(Forward { scores, inputs });
                });
        }
        weights
    }

    /// The parts of the inputs that belong to a batch row.
    fn row<'a>(
        self,
        [queries, keys, score_vector]: &'a [Contiguous; 3],
        forbidden: &'a [bool],
        row: usize,
    ) -> Row<'a> {
        let Self {
            len,
            key_len,
            width,
            ..
        } = self;
        Row {
            queries: &queries.slice()[row * len * width..][..len * width],
            keys: &keys.slice()[row * key_len * width..][..key_len * width],
            score_vector: score_vector.slice(),
            forbidden: &forbidden[row * key_len..][..key_len],
        }
    }
}

/// The data that the forward pass keeps for the gradients.
#[derive(Clone, Debug)]
struct State {
    sizes: Sizes,
    /// Queries, keys and `v`.
    inputs: [Contiguous; 3],
    /// `[batch, key_len]`.
    forbidden: Vec<bool>,
    /// The output, which the gradient of the softmax needs.
    weights: Contiguous,
}

impl State {
    /// Adds the gradients of a batch row to those of its queries and keys, and returns its addend
    /// to that of `v`. `grads` is the gradient of its weights.
    fn backward_row(
        &self,
        row: usize,
        grads: &mut [f32],
        grad_queries: &mut [f32],
        grad_keys: &mut [f32],
    ) -> Vec<f32> {
        let mut grad_vector = vec![0.0; self.sizes.width];
        vectorized(Backward {
            weights: &self.weights.slice()[row * grads.len()..][..grads.len()],
            grads,
            inputs: self.sizes.row(&self.inputs, &self.forbidden, row),
            grad_queries,
            grad_keys,
            grad_vector: &mut grad_vector,
        });
        grad_vector
    }
}

impl BackwardPass<3> for State {
    fn gradients(self, gradient: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Sizes {
            batch,
            len,
            key_len,
            width,
        } = self.sizes;
        let mut grads = into_values(gradient);
        let mut grad_queries = vec![0.0; batch * len * width];
        let mut grad_keys = vec![0.0; batch * key_len * width];
        let grad_vector: Vec<Vec<f32>> = if self.sizes.is_small() {
            let parts = grads
                .chunks_mut(len * key_len)
                .zip(grad_queries.chunks_mut(len * width))
                .zip(grad_keys.chunks_mut(key_len * width))
                .enumerate();
            parts
                .map(|(row, ((grads, queries), keys))| self.backward_row(row, grads, queries, keys))
                .collect()
        } else {
            let parts = grads
                .par_chunks_mut(len * key_len)
                .zip(grad_queries.par_chunks_mut(len * width))
                .zip(grad_keys.par_chunks_mut(key_len * width))
                .enumerate();
            parts
                .map(|(row, ((grads, queries), keys))| self.backward_row(row, grads, queries, keys))
                .collect()
        };
        [
            Some(from_values(grad_queries, [batch, len, width])),
            Some(from_values(grad_keys, [batch, key_len, width])),
            Some(from_values(
                total_of_blocks(&grad_vector, width),
                [width, 1],
            )),
        ]
    }
}

/// The inputs of one batch row.
struct Row<'a> {
    /// `[len, width]`.
    queries: &'a [f32],
    /// `[key_len, width]`.
    keys: &'a [f32],
    /// `v`, `[width]`.
    score_vector: &'a [f32],
    /// `[key_len]`.
    forbidden: &'a [bool],
}

/// Computes the weights of one batch row.
struct Forward<'a> {
    /// `[len, key_len]`.
    scores: &'a mut [f32],
    inputs: Row<'a>,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            scores,
            inputs:
                Row {
                    queries,
                    keys,
                    score_vector,
                    forbidden,
                },
        } = self;
        let width = score_vector.len();
        let key_len = forbidden.len();
        // Each query against each key.
        for (scores, query) in scores
            .chunks_exact_mut(key_len)
            .zip(queries.chunks_exact(width))
        {
            for (score, key) in scores.iter_mut().zip(keys.chunks_exact(width)) {
                *score = score_of(query, key, score_vector);
            }
        }
        Softmax {
            rows: scores,
            len: key_len,
            forbidden,
        }
        .run();
    }
}

/// The score of a query and a key, `vᵀ tanh(q + k)`.
#[inline(always)]
fn score_of(query: &[f32], key: &[f32], score_vector: &[f32]) -> f32 {
    let (queries, query) = query.as_chunks::<LANES>();
    let (keys, key) = key.as_chunks::<LANES>();
    let (factors, score_vector) = score_vector.as_chunks::<LANES>();
    // In lanes, as `dot` adds, so that the order is the same on every machine.
    let mut sums = [0.0; LANES];
    for ((query, key), factor) in queries.iter().zip(keys).zip(factors) {
        for lane in 0..LANES {
            sums[lane] += factor[lane] * tanh(query[lane] + key[lane]);
        }
    }
    for (((sum, query), key), factor) in sums.iter_mut().zip(query).zip(key).zip(score_vector) {
        *sum += factor * tanh(query + key);
    }
    sum(sums)
}

/// Adds the gradients of one batch row to its parts of the gradients.
struct Backward<'a> {
    /// The gradient of the weights, which becomes that of the scores, `[len, key_len]`.
    grads: &'a mut [f32],
    /// `[len, key_len]`.
    weights: &'a [f32],
    inputs: Row<'a>,
    /// `[len, width]`; added to, as the two below.
    grad_queries: &'a mut [f32],
    /// `[key_len, width]`.
    grad_keys: &'a mut [f32],
    /// `[width]`.
    grad_vector: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            grads,
            weights,
            inputs:
                Row {
                    queries,
                    keys,
                    score_vector,
                    forbidden,
                },
            grad_queries,
            grad_keys,
            grad_vector,
        } = self;
        let width = score_vector.len();
        let key_len = forbidden.len();
        // Called directly and not by `vectorized`: this code is compiled for the widest
        // instructions already.
        SoftmaxBackward {
            grads: &mut *grads,
            weights,
            len: key_len,
            forbidden,
            mask: None,
            first: 0,
        }
        .run();
        let rows = grad_queries
            .chunks_exact_mut(width)
            .zip(queries.chunks_exact(width));
        for ((grad_query, query), grads) in rows.zip(grads.chunks_exact(key_len)) {
            let pairs = grad_keys
                .chunks_exact_mut(width)
                .zip(keys.chunks_exact(width));
            for ((grad_key, key), grad) in pairs.zip(grads) {
                // The width is innermost: no sum goes along it, so the compiler may vectorize the
                // loop as it is.
                let gradients = grad_query
                    .iter_mut()
                    .zip(grad_key)
                    .zip(grad_vector.iter_mut());
                let values = query.iter().zip(key).zip(score_vector);
                for (((grad_query, grad_key), grad_vector), ((query, key), factor)) in
                    gradients.zip(values)
                {
                    // s v (1 - t²) for `q` and `k`, and s t for `v`.
                    let tangent = tanh(query + key);
                    let grad_sum = grad * factor * (1.0 - tangent * tangent);
                    *grad_query += grad_sum;
                    *grad_key += grad_sum;
                    *grad_vector += grad * tangent;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData, activation};

    use super::super::additive_weights;
    use super::*;
    use crate::FORBIDDEN;
    use crate::flex::tests::{
        assert_near, elements, gradient_of, on_threads, random, random_tracked, with_autodiff,
    };

    /// Additive attention in terms of Burn's operations.
    fn plain(
        queries: Tensor<3>,
        keys: Tensor<3>,
        score_vector: Tensor<2>,
        mask: &Tensor<3, Bool>,
    ) -> Tensor<3> {
        let queries: Tensor<4> = queries.unsqueeze_dim(2);
        let sums = queries + keys.unsqueeze_dim(1); // [batch, len, key_len, width]
        let [batch, len, key_len, width] = sums.dims();
        let tangents = activation::tanh(sums).reshape([batch * len * key_len, width]);
        let scores = tangents.matmul(score_vector).reshape([batch, len, key_len]);
        activation::softmax(
            scores.mask_fill(mask.clone().expand([batch, len, key_len]), FORBIDDEN),
            2,
        )
    }

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        // The last is large enough for several threads.
        for (batch, len, key_len, width) in
            [(1, 1, 1, 1), (3, 1, 5, 16), (2, 4, 3, 37), (7, 3, 41, 65)]
        {
            let queries = random_tracked([batch, len, width], 2.0);
            let keys = random_tracked([batch, key_len, width], 2.0);
            let score_vector = random_tracked([width, 1], 2.0);
            let upstream = with_autodiff(&random([batch, len, key_len], 2.0));
            // If there are several batch rows, half of the last is padding, and all of the first.
            let padding = |index: usize| {
                let row = index / key_len;
                let key = index % key_len;
                batch > 1 && (row == 0 || row + 1 == batch && key > key_len / 2)
            };
            let mask = TensorData::new(
                (0..batch * key_len).map(padding).collect(),
                [batch, 1, key_len],
            );
            let mask = Tensor::<3, Bool>::from_data(mask, &Device::flex().autodiff());
            let kernel = || {
                additive_weights(&queries, &keys, &score_vector, &mask)
                    .expect("the kernel is there")
            };
            let values = |weights: Tensor<3>| {
                let gradients = (weights.clone() * upstream.clone()).sum().backward();
                [
                    elements(weights),
                    gradient_of(&queries, &gradients),
                    gradient_of(&keys, &gradients),
                    gradient_of(&score_vector, &gradients),
                ]
            };
            let expected = values(kernel());
            let plain = values(plain(
                queries.clone(),
                keys.clone(),
                score_vector.clone(),
                &mask,
            ));
            for (expected, plain) in expected.iter().zip(&plain) {
                assert_near(expected, plain, 1e-5);
            }
            for threads in [1, 2, 5] {
                assert!(
                    on_threads(threads, || values(kernel())) == expected,
                    "{threads} threads"
                );
            }
            let [queries, keys] = [&queries, &keys].map(|tensor| tensor.clone().inner());
            let applied = additive_weights(&queries, &keys, &score_vector.inner(), &mask.inner());
            assert_eq!(elements(applied.expect("the kernel is there")), expected[0]);
        }
    }
}
