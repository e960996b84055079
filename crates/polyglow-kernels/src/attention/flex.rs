//! The kernel: a task is a sentence; its heads are read and written where they lie in the projections, and of the squares
//! of positions only the weights are kept.

use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use super::loops::{Dropping, Softmax, SoftmaxBack};
use crate::Dropped;
use crate::dropout::mask::Mask;
use crate::flex::{FlexTensor, Numbers, close, from_values, open};
use crate::matrix::{Matrix, MatrixMut, Old, product_into};
use crate::vector::vectorized;

/// [`super::self_attention`] on flex with autodiff.
pub(super) fn self_attention(
    qkv: Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
) -> Tensor<3> {
    let [batch, len, width] = qkv.dims();
    let d_model = width / 3;
    assert_eq!((width % 3, d_model % num_heads), (0, 0), "the heads of self-attention");
    let (qkv, node) = open(qkv).into_parts();
    let sizes = Sizes {
        batch,
        num_heads,
        head_dim: d_model / num_heads,
        query: Side { len, width, start: 0 },
        key: Side { len, width, start: d_model },
        value: Side { len, width, start: 2 * d_model },
    };
    let qkv = Numbers::of(qkv);
    let forbidden = Forbidden::new(mask, &sizes);
    let (output, weights) = sizes.forward(qkv.slice(), qkv.slice(), &forbidden, dropped);
    let output = from_values(output, [batch, len, d_model]);
    let prepared = SelfAttention.prepare::<NoCheckpointing>([node]).compute_bound().stateful();
    close(match prepared {
        OpsKind::Tracked(prepared) => prepared.finish((State { sizes, weights, forbidden, dropped }, qkv), output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    })
}

/// [`super::cross_attention`] on flex with autodiff.
pub(super) fn cross_attention(
    query: Tensor<3>,
    key_value: Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
) -> Tensor<3> {
    let [batch, len, d_model] = query.dims();
    let [_, other_len, width] = key_value.dims();
    assert_eq!((key_value.dims()[0], width), (batch, 2 * d_model), "the keys and values of cross-attention");
    let (query, query_node) = open(query).into_parts();
    let (key_value, key_value_node) = open(key_value).into_parts();
    let sizes = Sizes {
        batch,
        num_heads,
        head_dim: d_model / num_heads,
        query: Side { len, width: d_model, start: 0 },
        key: Side { len: other_len, width, start: 0 },
        value: Side { len: other_len, width, start: d_model },
    };
    let (query, key_value) = (Numbers::of(query), Numbers::of(key_value));
    let forbidden = Forbidden::new(mask, &sizes);
    let (output, weights) = sizes.forward(query.slice(), key_value.slice(), &forbidden, dropped);
    let output = from_values(output, [batch, len, d_model]);
    let prepared = CrossAttention.prepare::<NoCheckpointing>([query_node, key_value_node]).compute_bound().stateful();
    close(match prepared {
        OpsKind::Tracked(prepared) => {
            prepared.finish((State { sizes, weights, forbidden, dropped }, query, key_value), output)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    })
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

/// Where queries, keys or values lie: at every position, `width` numbers apart, from `start` on.
#[derive(Clone, Copy, Debug)]
struct Side {
    len: usize,
    width: usize,
    start: usize,
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    num_heads: usize,
    head_dim: usize,
    query: Side,
    key: Side,
    value: Side,
}

/// What the gradients of a sentence are made from.
#[derive(Clone, Copy)]
struct Back<'a> {
    query: &'a [f32],
    key_value: &'a [f32],
    weights: &'a [f32],
    gradient: &'a [f32],
    forbidden: &'a [bool],
    mask: Option<Mask>,
}

impl Sizes {
    fn d_model(&self) -> usize {
        self.num_heads * self.head_dim
    }

    fn scale(&self) -> f32 {
        (self.head_dim as f32).powf(-0.5)
    }

    /// Weights of a head of a sentence.
    fn square(&self) -> usize {
        self.query.len * self.key.len
    }

    fn sentences<'a>(&self, weights: &'a [f32]) -> rayon::slice::Chunks<'a, f32> {
        weights.par_chunks((self.num_heads * self.square()).max(1))
    }

    fn output_row<'a>(&self, values: &'a [f32], row: usize) -> &'a [f32] {
        &values[row * self.query.len * self.d_model()..][..self.query.len * self.d_model()]
    }

    /// A head of a sentence's queries, keys or values, `[len, head_dim]`.
    fn head<'a>(&self, row: &'a [f32], side: Side, head: usize) -> Matrix<'a> {
        Matrix::strided(&row[side.start + head * self.head_dim..], side.len, self.head_dim, side.width)
    }

    /// A head of what has the positions of `side` and `d_model` numbers at each.
    fn joined_head<'a>(&self, row: &'a [f32], side: Side, head: usize) -> Matrix<'a> {
        Matrix::strided(&row[head * self.head_dim..], side.len, self.head_dim, self.d_model())
    }

    fn joined_head_mut<'a>(&self, row: &'a mut [f32], side: Side, head: usize) -> MatrixMut<'a> {
        MatrixMut::strided(&mut row[head * self.head_dim..], side.len, self.head_dim, self.d_model())
    }

    /// Copies what has `d_model` numbers at each position to where `side` lies.
    fn place(&self, row: &mut [f32], part: &[f32], side: Side) {
        let d_model = self.d_model();
        for (to, from) in row.chunks_exact_mut(side.width).zip(part.chunks_exact(d_model)) {
            to[side.start..side.start + d_model].copy_from_slice(from);
        }
    }

    /// The output and the weights.
    fn forward(
        &self,
        query: &[f32],
        key_value: &[f32],
        forbidden: &Forbidden,
        dropped: Option<Dropped>,
    ) -> (Vec<f32>, Vec<f32>) {
        let Self { batch, num_heads, .. } = *self;
        let mut output = vec![0.0; batch * self.query.len * self.d_model()];
        let mut weights = vec![0.0; batch * num_heads * self.square()];
        let outputs = output.par_chunks_mut((self.query.len * self.d_model()).max(1));
        let sentences = outputs.zip(weights.par_chunks_mut((num_heads * self.square()).max(1))).enumerate();
        sentences.for_each(|(row, (output, weights))| {
            let (query, key_value) = (row_of(query, row, self.query), row_of(key_value, row, self.key));
            let mask = dropped.map(|dropped| Mask::new(dropped).part(row));
            let mut kept = vec![0.0; if mask.is_some() { self.square() } else { 0 }];
            for (head, weights) in weights.chunks_exact_mut(self.square().max(1)).enumerate() {
                let scores = MatrixMut::strided(weights, self.query.len, self.key.len, self.key.len);
                let keys = self.head(key_value, self.key, head).transposed();
                product_into(scores, self.head(query, self.query, head), keys, self.scale(), Old::Replaced);
                vectorized(Softmax { rows: weights, len: self.key.len, forbidden: forbidden.sentence(row) });
                let weights = match mask {
                    None => &*weights,
                    Some(mask) => {
                        vectorized(Dropping { output: &mut kept, input: weights, mask: mask.part(head) });
                        &kept
                    }
                };
                let weights = Matrix::new(weights, self.query.len, self.key.len);
                let values = self.head(key_value, self.value, head);
                product_into(self.joined_head_mut(output, self.query, head), weights, values, 1.0, Old::Replaced);
            }
        });
        (output, weights)
    }

    /// The gradients of a sentence's queries, keys and values, `[len, d_model]` each.
    fn back(&self, state: Back<'_>) -> [Vec<f32>; 3] {
        let Back { query, key_value, weights, gradient, forbidden, mask } = state;
        let zeros = |side: Side| vec![0.0; side.len * self.d_model()];
        let [mut of_query, mut of_key, mut of_value] = [zeros(self.query), zeros(self.key), zeros(self.value)];
        let (rows, columns) = (self.query.len, self.key.len);
        let mut of_weights = vec![0.0; self.square()];
        let mut kept = vec![0.0; if mask.is_some() { self.square() } else { 0 }];
        for (head, weights) in weights.chunks_exact(self.square().max(1)).enumerate() {
            let gradient = self.joined_head(gradient, self.query, head);
            let mask = mask.map(|mask| mask.part(head));
            let used = match mask {
                None => weights,
                Some(mask) => {
                    vectorized(Dropping { output: &mut kept, input: weights, mask });
                    &kept
                }
            };
            let used = Matrix::new(used, rows, columns).transposed();
            product_into(self.joined_head_mut(&mut of_value, self.value, head), used, gradient, 1.0, Old::Replaced);
            let values = self.head(key_value, self.value, head).transposed();
            let slopes = MatrixMut::strided(&mut of_weights, rows, columns, columns);
            product_into(slopes, gradient, values, 1.0, Old::Replaced);
            vectorized(SoftmaxBack { slopes: &mut of_weights, weights, len: columns, forbidden, mask });
            let slopes = Matrix::new(&of_weights, rows, columns);
            let (queries, keys) = (self.head(query, self.query, head), self.head(key_value, self.key, head));
            let scale = self.scale();
            product_into(self.joined_head_mut(&mut of_query, self.query, head), slopes, keys, scale, Old::Replaced);
            let slopes = slopes.transposed();
            product_into(self.joined_head_mut(&mut of_key, self.key, head), slopes, queries, scale, Old::Replaced);
        }
        [of_query, of_key, of_value]
    }
}

/// A sentence's queries, keys or values with all that stands between them.
fn row_of(values: &[f32], row: usize, side: Side) -> &[f32] {
    &values[row * side.len * side.width..][..side.len * side.width]
}

/// The mask, in host memory.
#[derive(Clone, Debug)]
struct Forbidden {
    values: Vec<bool>,
    /// Numbers for each sentence, 0 where all share one mask.
    of_sentence: usize,
    /// 1 where all queries share one row, or else their number.
    rows: usize,
    columns: usize,
}

impl Forbidden {
    fn new(mask: &Tensor<4, Bool>, sizes: &Sizes) -> Self {
        let [batch, heads, rows, columns] = mask.dims();
        assert!(heads == 1 && columns == sizes.key.len && (rows == 1 || rows == sizes.query.len), "the attention mask");
        assert!(batch == 1 || batch == sizes.batch, "the attention mask");
        let values = mask.clone().into_data().iter::<bool>().collect();
        Self { values, of_sentence: if batch == 1 { 0 } else { rows * columns }, rows, columns }
    }

    fn sentence(&self, row: usize) -> &[bool] {
        &self.values[row * self.of_sentence..][..self.rows * self.columns]
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

    /// With dropout there is no plain version to compare with, so the slope is compared with differences of the loss.
    #[test]
    fn the_gradient_of_dropped_attention_is_its_slope() {
        let (len, d_model) = (5, 4);
        let dropped = Some(Dropped { keep: 0.6, key: 3 });
        let values = numbers(random([2, len, 3 * d_model]));
        let slopes = random([2, len, d_model]);
        let device = Device::flex().autodiff();
        let loss = |values: &[f32]| {
            let data = burn::tensor::TensorData::new(values.to_vec(), [2, len, 3 * d_model]);
            let qkv = Tensor::<3>::from_data(data, &device).require_grad();
            let output = self_attention(qkv.clone(), &mask(len, len, true), HEADS, dropped);
            ((output * slopes.clone()).sum(), qkv)
        };
        let (sum, qkv) = loss(&values);
        let gradient = numbers(qkv.grad(&sum.backward()).expect("it is tracked"));
        for place in (0..values.len()).step_by(7) {
            let at = |shift: f32| {
                let mut values = values.clone();
                values[place] += shift;
                loss(&values).0.into_scalar::<f32>()
            };
            let slope = (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!((slope - gradient[place]).abs() < 2e-3, "{place}: {slope}, {}", gradient[place]);
        }
    }
}
