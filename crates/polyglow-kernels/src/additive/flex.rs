//! The kernel: a task is a row of the batch, and the backward pass computes tangents again, which
//! takes less time than to write and read `width` of them for each pair of a query and a key.

use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use crate::flex::row::{Part, total_of_blocks};
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
    mixed: &Tensor<2>,
    mask: &Tensor<3, Bool>,
) -> Option<Tensor<3>> {
    mode_of_both(queries, keys)?;
    let sizes = Sizes::new(queries, keys, mixed);
    let forbidden = sizes.forbidden(mask);
    let (queries, queries_node) = read(queries.clone());
    let (keys, keys_node) = read(keys.clone());
    let (mixed, mixed_node) = read(mixed.clone());
    let given = [queries, keys, mixed];
    let output = from_values(
        sizes.weights(&given, &forbidden),
        [sizes.batch, sizes.len, sizes.key_len],
    );
    let state = State {
        sizes,
        given,
        forbidden,
        weights: Contiguous::new(output.clone()),
    };
    Some(record(state, [queries_node, keys_node, mixed_node], output))
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    len: usize,
    key_len: usize,
    width: usize,
}

impl Sizes {
    fn new(queries: &Tensor<3>, keys: &Tensor<3>, mixed: &Tensor<2>) -> Self {
        let [batch, len, width] = queries.dims();
        let [key_batch, key_len, key_width] = keys.dims();
        assert_eq!(
            (key_batch, key_width, mixed.dims()),
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

    fn forbidden(self, mask: &Tensor<3, Bool>) -> Vec<bool> {
        assert_eq!(
            mask.dims(),
            [self.batch, 1, self.key_len],
            "the mask of additive attention"
        );
        mask.clone().into_data().iter::<bool>().collect()
    }

    fn is_small(self) -> bool {
        self.batch * self.len * self.key_len * self.width < PARALLEL
    }

    /// Of queries, keys and `v`.
    fn weights(self, given: &[Contiguous; 3], forbidden: &[bool]) -> Vec<f32> {
        let mut weights = vec![0.0; self.batch * self.len * self.key_len];
        let run = |(row, scores)| {
            vectorized(Forward {
                scores,
                of: self.row(given, forbidden, row),
            });
        };
        if self.is_small() {
            weights
                .chunks_mut(self.len * self.key_len)
                .enumerate()
                .for_each(run);
        } else {
            weights
                .par_chunks_mut(self.len * self.key_len)
                .enumerate()
                .for_each(run);
        }
        weights
    }

    fn row<'a>(
        self,
        [queries, keys, mixed]: &'a [Contiguous; 3],
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
            mixed: mixed.slice(),
            forbidden: &forbidden[row * key_len..][..key_len],
        }
    }
}

/// What the gradients are made from.
#[derive(Clone, Debug)]
struct State {
    sizes: Sizes,
    /// Queries, keys and `v`.
    given: [Contiguous; 3],
    forbidden: Vec<bool>,
    weights: Contiguous,
}

impl BackwardPass<3> for State {
    fn gradients(self, gradient: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Self {
            sizes,
            given,
            forbidden,
            weights,
        } = self;
        let Sizes {
            batch,
            len,
            key_len,
            width,
        } = sizes;
        let mut grads = into_values(gradient);
        let mut grad_queries = vec![0.0; batch * len * width];
        let mut grad_keys = vec![0.0; batch * key_len * width];
        let weights = weights.slice();
        let run = |(row, ((grads, grad_queries), grad_keys)): Part<'_>| {
            // A sum for each row, added up in the order of rows below, so that it does not depend
            // on threads.
            let mut grad_mixed = vec![0.0; width];
            let weights = &weights[row * len * key_len..][..len * key_len];
            let of = sizes.row(&given, &forbidden, row);
            vectorized(Backward {
                grads,
                weights,
                of,
                grad_queries,
                grad_keys,
                grad_mixed: &mut grad_mixed,
            });
            grad_mixed
        };
        let grad_mixed: Vec<Vec<f32>> = if sizes.is_small() {
            let parts = grads
                .chunks_mut(len * key_len)
                .zip(grad_queries.chunks_mut(len * width));
            parts
                .zip(grad_keys.chunks_mut(key_len * width))
                .enumerate()
                .map(run)
                .collect()
        } else {
            let parts = grads
                .par_chunks_mut(len * key_len)
                .zip(grad_queries.par_chunks_mut(len * width));
            parts
                .zip(grad_keys.par_chunks_mut(key_len * width))
                .enumerate()
                .map(run)
                .collect()
        };
        [
            Some(from_values(grad_queries, [batch, len, width])),
            Some(from_values(grad_keys, [batch, key_len, width])),
            Some(from_values(total_of_blocks(&grad_mixed, width), [width, 1])),
        ]
    }
}

/// What the weights of one batch row are made from.
struct Row<'a> {
    /// `[len, width]`.
    queries: &'a [f32],
    /// `[key_len, width]`.
    keys: &'a [f32],
    /// `v`, `[width]`.
    mixed: &'a [f32],
    /// `[key_len]`.
    forbidden: &'a [bool],
}

/// Fills in the weights of one batch row.
struct Forward<'a> {
    /// `[len, key_len]`.
    scores: &'a mut [f32],
    of: Row<'a>,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            scores,
            of:
                Row {
                    queries,
                    keys,
                    mixed,
                    forbidden,
                },
        } = self;
        let width = mixed.len();
        let key_len = forbidden.len();
        for (scores, query) in scores
            .chunks_exact_mut(key_len)
            .zip(queries.chunks_exact(width))
        {
            for (score, key) in scores.iter_mut().zip(keys.chunks_exact(width)) {
                *score = mixed_sum(query, key, mixed);
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

/// `vᵀ tanh(q + k)`.
#[inline(always)]
fn mixed_sum(query: &[f32], key: &[f32], mixed: &[f32]) -> f32 {
    let (queries, query) = query.as_chunks::<LANES>();
    let (keys, key) = key.as_chunks::<LANES>();
    let (factors, mixed) = mixed.as_chunks::<LANES>();
    // As `dot` adds, so that the order is the same on every machine.
    let mut sums = [0.0; LANES];
    for ((query, key), factor) in queries.iter().zip(keys).zip(factors) {
        for lane in 0..LANES {
            sums[lane] += factor[lane] * tanh(query[lane] + key[lane]);
        }
    }
    for (((sum, query), key), factor) in sums.iter_mut().zip(query).zip(key).zip(mixed) {
        *sum += factor * tanh(query + key);
    }
    sum(sums)
}

/// The gradients of one batch row, which are added to what is there.
struct Backward<'a> {
    /// The gradient of the weights, which becomes that of the scores, `[len, key_len]`.
    grads: &'a mut [f32],
    weights: &'a [f32],
    of: Row<'a>,
    grad_queries: &'a mut [f32],
    grad_keys: &'a mut [f32],
    grad_mixed: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            grads,
            weights,
            of:
                Row {
                    queries,
                    keys,
                    mixed,
                    forbidden,
                },
            grad_queries,
            grad_keys,
            grad_mixed,
        } = self;
        let width = mixed.len();
        let key_len = forbidden.len();
        // Called and not `vectorized`: this code is compiled for the widest instructions already.
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
                // The width is innermost: no sum goes across lanes, so the loop needs no lanes of
                // its own.
                let gradients = grad_query
                    .iter_mut()
                    .zip(grad_key)
                    .zip(grad_mixed.iter_mut());
                let values = query.iter().zip(key).zip(mixed);
                for (((grad_query, grad_key), grad_mixed), ((query, key), factor)) in
                    gradients.zip(values)
                {
                    let tangent = tanh(query + key);
                    let grad_sum = grad * factor * (1.0 - tangent * tangent);
                    *grad_query += grad_sum;
                    *grad_key += grad_sum;
                    *grad_mixed += grad * tangent;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution, TensorData, activation};

    use super::super::additive_weights;
    use super::*;
    use crate::FORBIDDEN;
    use crate::flex::tests::{assert_near, elements, on_threads};

    fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        let data = Tensor::<D>::random(shape, Distribution::Uniform(-2.0, 2.0), &Device::flex())
            .into_data();
        Tensor::<D>::from_data(data, &Device::flex().autodiff()).require_grad()
    }

    fn plain(
        queries: Tensor<3>,
        keys: Tensor<3>,
        mixed: Tensor<2>,
        mask: &Tensor<3, Bool>,
    ) -> Tensor<3> {
        let queries: Tensor<4> = queries.unsqueeze_dim(2);
        let sums = queries + keys.unsqueeze_dim(1); // [batch, len, key_len, width]
        let [batch, len, key_len, width] = sums.dims();
        let tangents = activation::tanh(sums).reshape([batch * len * key_len, width]);
        let scores = tangents.matmul(mixed).reshape([batch, len, key_len]);
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
            let queries = random([batch, len, width]);
            let keys = random([batch, key_len, width]);
            let mixed = random([width, 1]);
            let upstream = random([batch, len, key_len]).detach();
            // Of the last batch row half is padding; if there are several, all of the first.
            let padding = |place: usize| {
                let row = place / key_len;
                let key = place % key_len;
                batch > 1 && (row == 0 || row + 1 == batch && key > key_len / 2)
            };
            let mask = TensorData::new(
                (0..batch * key_len).map(padding).collect(),
                [batch, 1, key_len],
            );
            let mask = Tensor::<3, Bool>::from_data(mask, &Device::flex().autodiff());
            let kernel =
                || additive_weights(&queries, &keys, &mixed, &mask).expect("the kernel is there");
            let values = |weights: Tensor<3>| {
                let gradients = (weights.clone() * upstream.clone()).sum().backward();
                let of =
                    |tensor: &Tensor<3>| elements(tensor.grad(&gradients).expect("it is tracked"));
                let grad_mixed = elements(mixed.grad(&gradients).expect("it is tracked"));
                [elements(weights), of(&queries), of(&keys), grad_mixed]
            };
            let expected = values(kernel());
            let plain = values(plain(queries.clone(), keys.clone(), mixed.clone(), &mask));
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
            let applied = additive_weights(&queries, &keys, &mixed.inner(), &mask.inner());
            assert_eq!(elements(applied.expect("the kernel is there")), expected[0]);
        }
    }
}
