//! The kernel: a task is a sentence, and tangents are computed again for the gradients, which takes less time than to read
//! them.

use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use crate::flex::{Numbers, close_plain, from_values, open, open_plain, record, values_of};
use crate::row::{Part, total_of_blocks};
use crate::softmax::{Softmax, SoftmaxBack};
use crate::vector::{Kernel, LANES, sum, tanh, vectorized};

/// Tangents below which another thread would take longer to wake than to help.
const PARALLEL: usize = 1 << 15;

/// [`super::additive_weights`] on flex with autodiff.
pub(super) fn additive_weights(
    queries: Tensor<3>,
    keys: Tensor<3>,
    mixed: Tensor<2>,
    mask: &Tensor<3, Bool>,
) -> Tensor<3> {
    let sizes = Sizes::new(&queries, &keys, &mixed);
    let forbidden = sizes.forbidden(mask);
    let (queries, queries_node) = open(queries).into_parts();
    let (keys, keys_node) = open(keys).into_parts();
    let (mixed, mixed_node) = open(mixed).into_parts();
    let given = [queries, keys, mixed].map(Numbers::of);
    let output = from_values(sizes.weights(&given, &forbidden), [sizes.batch, sizes.len, sizes.key_len]);
    let state = State { sizes, given, forbidden, weights: Numbers::of(output.clone()) };
    record(AdditiveWeights, [queries_node, keys_node, mixed_node], state, output)
}

/// [`super::additive_weights`] on flex without autodiff.
pub(super) fn apply(queries: Tensor<3>, keys: Tensor<3>, mixed: Tensor<2>, mask: &Tensor<3, Bool>) -> Tensor<3> {
    let sizes = Sizes::new(&queries, &keys, &mixed);
    let [queries, keys, mixed] = [open_plain(queries), open_plain(keys), open_plain(mixed)].map(Numbers::of);
    let weights = sizes.weights(&[queries, keys, mixed], &sizes.forbidden(mask));
    close_plain(from_values(weights, [sizes.batch, sizes.len, sizes.key_len]))
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
        let ([batch, len, width], [key_batch, key_len, key_width]) = (queries.dims(), keys.dims());
        assert_eq!((key_batch, key_width, mixed.dims()), (batch, width, [width, 1]), "the sides of additive attention");
        assert!(len > 0 && key_len > 0 && width > 0, "additive attention needs queries and keys");
        Self { batch, len, key_len, width }
    }

    fn forbidden(self, mask: &Tensor<3, Bool>) -> Vec<bool> {
        assert_eq!(mask.dims(), [self.batch, 1, self.key_len], "the mask of additive attention");
        mask.clone().into_data().iter::<bool>().collect()
    }

    fn is_small(self) -> bool {
        self.batch * self.len * self.key_len * self.width < PARALLEL
    }

    /// Of queries, keys and `v`.
    fn weights(self, given: &[Numbers; 3], forbidden: &[bool]) -> Vec<f32> {
        let mut weights = vec![0.0; self.batch * self.len * self.key_len];
        let run = |(sentence, scores)| vectorized(Forward { scores, of: self.sentence(given, forbidden, sentence) });
        if self.is_small() {
            weights.chunks_mut(self.len * self.key_len).enumerate().for_each(run);
        } else {
            weights.par_chunks_mut(self.len * self.key_len).enumerate().for_each(run);
        }
        weights
    }

    fn sentence<'a>(
        self,
        [queries, keys, mixed]: &'a [Numbers; 3],
        forbidden: &'a [bool],
        sentence: usize,
    ) -> Sides<'a> {
        let Self { len, key_len, width, .. } = self;
        Sides {
            queries: &queries.slice()[sentence * len * width..][..len * width],
            keys: &keys.slice()[sentence * key_len * width..][..key_len * width],
            mixed: mixed.slice(),
            forbidden: &forbidden[sentence * key_len..][..key_len],
        }
    }
}

/// What the gradients are made from.
#[derive(Clone, Debug)]
struct State {
    sizes: Sizes,
    /// Queries, keys and `v`.
    given: [Numbers; 3],
    forbidden: Vec<bool>,
    weights: Numbers,
}

#[derive(Debug)]
struct AdditiveWeights;

impl Backward<Flex, 3> for AdditiveWeights {
    type State = State;

    fn backward(self, ops: Ops<State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let State { sizes, given, forbidden, weights } = ops.state;
        let Sizes { batch, len, key_len, width } = sizes;
        let mut slopes = values_of(grads.consume::<Flex>(&ops.node));
        let (mut of_queries, mut of_keys) = (vec![0.0; batch * len * width], vec![0.0; batch * key_len * width]);
        let weights = weights.slice();
        let run = |(sentence, ((slopes, of_queries), of_keys)): Part<'_>| {
            let mut of_mixed = vec![0.0; width];
            let weights = &weights[sentence * len * key_len..][..len * key_len];
            let of = sizes.sentence(&given, &forbidden, sentence);
            vectorized(Back { slopes, weights, of, of_queries, of_keys, of_mixed: &mut of_mixed });
            of_mixed
        };
        let of_mixed: Vec<Vec<f32>> = if sizes.is_small() {
            let parts = slopes.chunks_mut(len * key_len).zip(of_queries.chunks_mut(len * width));
            parts.zip(of_keys.chunks_mut(key_len * width)).enumerate().map(run).collect()
        } else {
            let parts = slopes.par_chunks_mut(len * key_len).zip(of_queries.par_chunks_mut(len * width));
            parts.zip(of_keys.par_chunks_mut(key_len * width)).enumerate().map(run).collect()
        };
        let [queries_node, keys_node, mixed_node] = ops.parents;
        if let Some(node) = queries_node {
            grads.register::<Flex>(node.id, from_values(of_queries, [batch, len, width]));
        }
        if let Some(node) = keys_node {
            grads.register::<Flex>(node.id, from_values(of_keys, [batch, key_len, width]));
        }
        if let Some(node) = mixed_node {
            grads.register::<Flex>(node.id, from_values(total_of_blocks(&of_mixed, width), [width, 1]));
        }
    }
}

/// What weights are made from, of one sentence.
struct Sides<'a> {
    /// `[len, width]`.
    queries: &'a [f32],
    /// `[key_len, width]`.
    keys: &'a [f32],
    /// `v`, `[width]`.
    mixed: &'a [f32],
    /// `[key_len]`.
    forbidden: &'a [bool],
}

/// Fills in the weights of one sentence.
struct Forward<'a> {
    /// `[len, key_len]`.
    scores: &'a mut [f32],
    of: Sides<'a>,
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { scores, of: Sides { queries, keys, mixed, forbidden } } = self;
        let (width, key_len) = (mixed.len(), forbidden.len());
        for (scores, query) in scores.chunks_exact_mut(key_len).zip(queries.chunks_exact(width)) {
            for (score, key) in scores.iter_mut().zip(keys.chunks_exact(width)) {
                *score = mixed_sum(query, key, mixed);
            }
        }
        Softmax { rows: scores, len: key_len, forbidden }.run();
    }
}

/// `vᵀ tanh(q + k)`.
#[inline(always)]
fn mixed_sum(query: &[f32], key: &[f32], mixed: &[f32]) -> f32 {
    let (queries, query) = query.as_chunks::<LANES>();
    let (keys, key) = key.as_chunks::<LANES>();
    let (factors, mixed) = mixed.as_chunks::<LANES>();
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

/// The gradients of one sentence, which are added to what is there.
struct Back<'a> {
    /// The gradient of the weights, which becomes that of the scores, `[len, key_len]`.
    slopes: &'a mut [f32],
    weights: &'a [f32],
    of: Sides<'a>,
    of_queries: &'a mut [f32],
    of_keys: &'a mut [f32],
    of_mixed: &'a mut [f32],
}

impl Kernel for Back<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { slopes, weights, of: Sides { queries, keys, mixed, forbidden }, of_queries, of_keys, of_mixed } =
            self;
        let (width, key_len) = (mixed.len(), forbidden.len());
        SoftmaxBack { slopes: &mut *slopes, weights, len: key_len, forbidden, mask: None }.run();
        let rows = of_queries.chunks_exact_mut(width).zip(queries.chunks_exact(width));
        for ((of_query, query), slopes) in rows.zip(slopes.chunks_exact(key_len)) {
            let pairs = of_keys.chunks_exact_mut(width).zip(keys.chunks_exact(width));
            for ((of_key, key), slope) in pairs.zip(slopes) {
                let gradients = of_query.iter_mut().zip(of_key).zip(of_mixed.iter_mut());
                let values = query.iter().zip(key).zip(mixed);
                for (((of_query, of_key), of_mixed), ((query, key), factor)) in gradients.zip(values) {
                    let tangent = tanh(query + key);
                    let of_sum = slope * factor * (1.0 - tangent * tangent);
                    *of_query += of_sum;
                    *of_key += of_sum;
                    *of_mixed += slope * tangent;
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
    use crate::flex::tests::{assert_near, numbers, on_threads};

    fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        let data = Tensor::<D>::random(shape, Distribution::Uniform(-2.0, 2.0), &Device::flex()).into_data();
        Tensor::<D>::from_data(data, &Device::flex().autodiff()).require_grad()
    }

    fn plain(queries: Tensor<3>, keys: Tensor<3>, mixed: Tensor<2>, mask: &Tensor<3, Bool>) -> Tensor<3> {
        let queries: Tensor<4> = queries.unsqueeze_dim(2);
        let sums = queries + keys.unsqueeze_dim(1); // [batch, len, key_len, width]
        let [batch, len, key_len, width] = sums.dims();
        let tangents = activation::tanh(sums).reshape([batch * len * key_len, width]);
        let scores = tangents.matmul(mixed).reshape([batch, len, key_len]);
        activation::softmax(scores.mask_fill(mask.clone().expand([batch, len, key_len]), FORBIDDEN), 2)
    }

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        // The last is large enough for several threads.
        for (batch, len, key_len, width) in [(1, 1, 1, 1), (3, 1, 5, 16), (2, 4, 3, 37), (7, 3, 41, 65)] {
            let (queries, keys) = (random([batch, len, width]), random([batch, key_len, width]));
            let (mixed, slopes) = (random([width, 1]), random([batch, len, key_len]).detach());
            // Of the last sentence half is padding; where there are several, all of the first.
            let padding = |place: usize| {
                let (sentence, key) = (place / key_len, place % key_len);
                batch > 1 && (sentence == 0 || sentence + 1 == batch && key > key_len / 2)
            };
            let mask = TensorData::new((0..batch * key_len).map(padding).collect(), [batch, 1, key_len]);
            let mask = Tensor::<3, Bool>::from_data(mask, &Device::flex().autodiff());
            let kernel = || additive_weights(&queries, &keys, &mixed, &mask).expect("the kernel is there");
            let values = |weights: Tensor<3>| {
                let gradients = (weights.clone() * slopes.clone()).sum().backward();
                let of = |tensor: &Tensor<3>| numbers(tensor.grad(&gradients).expect("it is tracked"));
                let of_mixed = numbers(mixed.grad(&gradients).expect("it is tracked"));
                [numbers(weights), of(&queries), of(&keys), of_mixed]
            };
            let expected = values(kernel());
            let plain = values(plain(queries.clone(), keys.clone(), mixed.clone(), &mask));
            for (expected, plain) in expected.iter().zip(&plain) {
                assert_near(expected, plain, 1e-5);
            }
            for threads in [1, 2, 5] {
                assert!(on_threads(threads, || values(kernel())) == expected, "{threads} threads");
            }
            let [queries, keys] = [&queries, &keys].map(|tensor| tensor.clone().inner());
            let applied = additive_weights(&queries, &keys, &mixed.inner(), &mask.inner());
            assert_eq!(numbers(applied.expect("the kernel is there")), expected[0]);
        }
    }
}
