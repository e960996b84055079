//! The kernel: a task is a sentence; its heads are read and written where they lie in the projections, and of the squares
//! of positions only the weights are kept.

use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use super::heads::{Back, Forbidden, Side, Sizes, row_of};
use crate::Dropped;
use crate::dropout::mask::Mask;
use crate::flex::{FlexTensor, Numbers, close_plain, from_values, open, open_plain, record};

/// [`super::self_attention`] on flex with autodiff.
pub(super) fn self_attention(
    qkv: Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
) -> Tensor<3> {
    let sizes = Sizes::of_self(qkv.dims(), num_heads);
    let (qkv, node) = open(qkv).into_parts();
    let qkv = Numbers::of(qkv);
    let forbidden = Forbidden::new(mask, &sizes);
    let (output, weights) = sizes.forward(qkv.slice(), qkv.slice(), &forbidden, dropped);
    let output = from_values(output, sizes.output());
    record(SelfAttention, [node], (State { sizes, weights, forbidden, dropped }, qkv), output)
}

/// [`super::cross_attention`] on flex with autodiff.
pub(super) fn cross_attention(
    query: Tensor<3>,
    key_value: Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
) -> Tensor<3> {
    let sizes = Sizes::of_cross(query.dims(), key_value.dims(), num_heads);
    let (query, query_node) = open(query).into_parts();
    let (key_value, key_value_node) = open(key_value).into_parts();
    let (query, key_value) = (Numbers::of(query), Numbers::of(key_value));
    let forbidden = Forbidden::new(mask, &sizes);
    let (output, weights) = sizes.forward(query.slice(), key_value.slice(), &forbidden, dropped);
    let output = from_values(output, sizes.output());
    let state = (State { sizes, weights, forbidden, dropped }, query, key_value);
    record(CrossAttention, [query_node, key_value_node], state, output)
}

/// [`super::self_attention`] on flex without autodiff, where nothing is dropped.
pub(super) fn apply_to_self(qkv: Tensor<3>, mask: &Tensor<4, Bool>, num_heads: usize) -> Tensor<3> {
    let sizes = Sizes::of_self(qkv.dims(), num_heads);
    let qkv = Numbers::of(open_plain(qkv));
    let output = sizes.apply(qkv.slice(), qkv.slice(), &Forbidden::new(mask, &sizes));
    close_plain(from_values(output, sizes.output()))
}

/// [`super::cross_attention`] on flex without autodiff, where nothing is dropped.
pub(super) fn apply_to_other(
    query: Tensor<3>,
    key_value: Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
) -> Tensor<3> {
    let sizes = Sizes::of_cross(query.dims(), key_value.dims(), num_heads);
    let (query, key_value) = (Numbers::of(open_plain(query)), Numbers::of(open_plain(key_value)));
    let output = sizes.apply(query.slice(), key_value.slice(), &Forbidden::new(mask, &sizes));
    close_plain(from_values(output, sizes.output()))
}

#[derive(Clone, Debug)]
struct State {
    sizes: Sizes,
    /// `[batch, num_heads, len, other_len]`, before dropout.
    weights: Vec<f32>,
    forbidden: Forbidden,
    dropped: Option<Dropped>,
}

#[derive(Debug)]
struct SelfAttention;

impl Backward<Flex, 1> for SelfAttention {
    type State = (State, Numbers);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (State { sizes, weights, forbidden, dropped }, qkv) = ops.state;
        let gradient = Numbers::of(grads.consume::<Flex>(&ops.node));
        let [Some(node)] = ops.parents else { return };
        let Sizes { batch, query: Side { len, width, .. }, .. } = sizes;
        let mut of_qkv = vec![0.0; batch * len * width];
        let sentences = of_qkv.par_chunks_mut((len * width).max(1)).zip(sizes.sentences(&weights)).enumerate();
        sentences.for_each(|(row, (of_qkv, weights))| {
            let own = row_of(qkv.slice(), row, sizes.query);
            // The parts of queries, keys and values interleave, so each is made on its own first.
            let [of_query, of_key, of_value] = sizes.back(Back {
                query: own,
                key_value: own,
                weights,
                gradient: sizes.output_row(gradient.slice(), row),
                forbidden: forbidden.sentence(row),
                mask: dropped.map(|dropped| Mask::new(dropped).part(row)),
            });
            sizes.place(of_qkv, &of_query, sizes.query);
            sizes.place(of_qkv, &of_key, sizes.key);
            sizes.place(of_qkv, &of_value, sizes.value);
        });
        grads.register::<Flex>(node.id, from_values(of_qkv, [batch, len, width]));
    }
}

#[derive(Debug)]
struct CrossAttention;

impl Backward<Flex, 2> for CrossAttention {
    type State = (State, Numbers, Numbers);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (State { sizes, weights, forbidden, dropped }, query, key_value) = ops.state;
        let gradient = Numbers::of(grads.consume::<Flex>(&ops.node));
        let Sizes { batch, query: of_own, key: of_other, .. } = sizes;
        let mut query_gradient = vec![0.0; batch * of_own.len * of_own.width];
        let mut other_gradient = vec![0.0; batch * of_other.len * of_other.width];
        let sentences = query_gradient
            .par_chunks_mut((of_own.len * of_own.width).max(1))
            .zip(other_gradient.par_chunks_mut((of_other.len * of_other.width).max(1)))
            .zip(sizes.sentences(&weights))
            .enumerate();
        sentences.for_each(|(row, ((query_gradient, other_gradient), weights))| {
            let [of_query, of_key, of_value] = sizes.back(Back {
                query: row_of(query.slice(), row, sizes.query),
                key_value: row_of(key_value.slice(), row, sizes.key),
                weights,
                gradient: sizes.output_row(gradient.slice(), row),
                forbidden: forbidden.sentence(row),
                mask: dropped.map(|dropped| Mask::new(dropped).part(row)),
            });
            sizes.place(query_gradient, &of_query, sizes.query);
            sizes.place(other_gradient, &of_key, sizes.key);
            sizes.place(other_gradient, &of_value, sizes.value);
        });
        let [query_node, other_node] = ops.parents;
        let register = |grads: &mut Gradients, id, gradient: FlexTensor| grads.register::<Flex>(id, gradient);
        if let Some(node) = query_node {
            register(grads, node.id, from_values(query_gradient, [batch, of_own.len, of_own.width]));
        }
        if let Some(node) = other_node {
            register(grads, node.id, from_values(other_gradient, [batch, of_other.len, of_other.width]));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::FORBIDDEN;
    use burn::tensor::activation::softmax;
    use burn::tensor::{Device, Distribution};

    use super::*;
    use crate::flex::tests::{assert_near, numbers};

    const HEADS: usize = 2;

    pub(in super::super) fn plain(
        query: Tensor<3>,
        key: Tensor<3>,
        value: Tensor<3>,
        mask: &Tensor<4, Bool>,
    ) -> Tensor<3> {
        let [batch, len, d_model] = query.dims();
        let split = |tensor: Tensor<3>| {
            let [batch, len, _] = tensor.dims();
            tensor.reshape([batch, len, HEADS, d_model / HEADS]).swap_dims(1, 2)
        };
        let other_len = key.dims()[1];
        let scores = split(query).matmul(split(key).transpose()) * ((d_model / HEADS) as f64).powf(-0.5);
        let scores = scores.mask_fill(mask.clone().expand([batch, HEADS, len, other_len]), f64::from(FORBIDDEN));
        softmax(scores, 3).matmul(split(value)).swap_dims(1, 2).reshape([batch, len, d_model])
    }

    fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        let data = Tensor::<D>::random(shape, Distribution::Uniform(-2.0, 2.0), &Device::flex()).into_data();
        Tensor::from_data(data, &Device::flex().autodiff())
    }

    /// Forbids the last position of the second sentence, and with `causal` the future and everything in the first row.
    fn mask(len: usize, other_len: usize, causal: bool) -> Tensor<4, Bool> {
        let rows = if causal { len } else { 1 };
        let forbidden = |sentence: usize, row: usize, column: usize| {
            sentence == 1 && column + 1 == other_len || causal && (column > row || row == 0)
        };
        let values: Vec<bool> = (0..2 * rows * other_len)
            .map(|place| forbidden(place / (rows * other_len), place / other_len % rows, place % other_len))
            .collect();
        Tensor::from_data(burn::tensor::TensorData::new(values, [2, 1, rows, other_len]), &Device::flex().autodiff())
    }

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        for (len, other_len, d_model) in [(1, 2, 4), (5, 3, 6), (19, 33, 32)] {
            let (qkv, slopes) = (random([2, len, 3 * d_model]).require_grad(), random([2, len, d_model]));
            let forbidden = mask(len, len, true);
            let part = |place: usize| qkv.clone().narrow(2, place * d_model, d_model);
            let outputs =
                [self_attention(qkv.clone(), &forbidden, HEADS, None), plain(part(0), part(1), part(2), &forbidden)];
            let [kernel, plain_version] = outputs.map(|output| {
                let gradients = (output.clone() * slopes.clone()).sum().backward();
                (numbers(output), numbers(qkv.grad(&gradients).expect("it is tracked")))
            });
            assert_near(&kernel.0, &plain_version.0, 1e-5);
            assert_near(&kernel.1, &plain_version.1, 1e-5);

            let (query, key_value) = (random([2, len, d_model]).require_grad(), random([2, other_len, 2 * d_model]));
            let key_value = key_value.require_grad();
            let forbidden = mask(len, other_len, false);
            let part = |place: usize| key_value.clone().narrow(2, place * d_model, d_model);
            let outputs = [
                cross_attention(query.clone(), key_value.clone(), &forbidden, HEADS, None),
                plain(query.clone(), part(0), part(1), &forbidden),
            ];
            let [kernel, plain_version] = outputs.map(|output| {
                let gradients = (output.clone() * slopes.clone()).sum().backward();
                let of = |tensor: &Tensor<3>| numbers(tensor.grad(&gradients).expect("it is tracked"));
                [numbers(output), of(&query), of(&key_value)]
            });
            for (kernel, plain_version) in kernel.iter().zip(&plain_version) {
                assert_near(kernel, plain_version, 1e-5);
            }
        }
    }
}
