//! The kernel: a task is a row of the batch. Heads are read and written where they lie in the
//! projections, and of the `[query_len, key_len]` matrices only the weights are kept, and of long
//! rows not even these.

mod backward;
mod cached;
mod dropping;
mod heads;
mod long;

use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use backward::{BackwardInput, Gradients};
pub(super) use cached::{append, cached_attention, has_kernel};
use heads::{Forbidden, Side, Sizes, row_of};

use crate::Dropped;
use crate::dropout::mask::Mask;
use crate::flex::{
    BackwardPass, Contiguous, FlexTensor, Mode, close, from_values, mode, mode_of_both, read,
    record,
};

/// [`super::self_attention`] on flex.
pub(super) fn self_attention(
    qkv: &Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
) -> Option<Tensor<3>> {
    let mode = mode(qkv)?;
    // Dropout belongs to training: the kernel without autodiff has no mask.
    if mode == Mode::Inference && dropped.is_some() {
        return None;
    }
    let sizes = Sizes::of_self(qkv.dims(), num_heads);
    let (qkv, node) = read(qkv.clone());
    let forbidden = Forbidden::new(mask, &sizes);
    if mode == Mode::Inference {
        let output = sizes.apply(qkv.slice(), qkv.slice(), &forbidden);
        return Some(close(from_values(output, sizes.output())));
    }
    let (output, weights) = sizes.forward(qkv.slice(), qkv.slice(), &forbidden, dropped);
    let state = SelfAttention {
        heads: State {
            sizes,
            weights,
            forbidden,
            dropped,
        },
        qkv,
    };
    Some(record(state, [node], from_values(output, sizes.output())))
}

/// [`super::cross_attention`] on flex.
pub(super) fn cross_attention(
    query: &Tensor<3>,
    key_value: &Tensor<3>,
    mask: &Tensor<4, Bool>,
    num_heads: usize,
    dropped: Option<Dropped>,
) -> Option<Tensor<3>> {
    let mode = mode_of_both(query, key_value)?;
    if mode == Mode::Inference && dropped.is_some() {
        return None;
    }
    let sizes = Sizes::of_cross(query.dims(), key_value.dims(), num_heads);
    let (query, query_node) = read(query.clone());
    let (key_value, key_value_node) = read(key_value.clone());
    let forbidden = Forbidden::new(mask, &sizes);
    if mode == Mode::Inference {
        let output = sizes.apply(query.slice(), key_value.slice(), &forbidden);
        return Some(close(from_values(output, sizes.output())));
    }
    let (output, weights) = sizes.forward(query.slice(), key_value.slice(), &forbidden, dropped);
    let state = CrossAttention {
        heads: State {
            sizes,
            weights,
            forbidden,
            dropped,
        },
        query,
        key_value,
    };
    Some(record(
        state,
        [query_node, key_value_node],
        from_values(output, sizes.output()),
    ))
}

#[derive(Clone, Debug)]
struct State {
    sizes: Sizes,
    /// `[batch, num_heads, query_len, key_len]`, before dropout, whose mask is computed again;
    /// empty if rows are long.
    weights: Vec<f32>,
    forbidden: Forbidden,
    dropped: Option<Dropped>,
}

impl State {
    /// What the gradients of a batch row are made from.
    fn row<'a>(
        &'a self,
        row: usize,
        query: &'a Contiguous,
        key_value: &'a Contiguous,
        gradient: &'a Contiguous,
    ) -> BackwardInput<'a> {
        BackwardInput {
            query: row_of(query.slice(), row, self.sizes.query),
            key_value: row_of(key_value.slice(), row, self.sizes.key),
            weights: self.sizes.weights_row(&self.weights, row),
            gradient: self.sizes.output_row(gradient.slice(), row),
            forbidden: self.forbidden.row(row),
            mask: self.dropped.map(|dropped| Mask::new(dropped).part(row)),
        }
    }
}

#[derive(Clone, Debug)]
struct SelfAttention {
    heads: State,
    qkv: Contiguous,
}

impl BackwardPass<1> for SelfAttention {
    fn gradients(self, gradient: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let Self { heads, qkv } = self;
        let sizes = heads.sizes;
        let gradient = Contiguous::new(gradient);
        let Sizes {
            batch,
            query: Side { len, width, .. },
            ..
        } = sizes;
        let mut grad_qkv = vec![0.0; batch * len * width];
        grad_qkv
            .par_chunks_mut((len * width).max(1))
            .enumerate()
            .for_each(|(row, grad_qkv)| {
                sizes.backward(
                    heads.row(row, &qkv, &qkv, &gradient),
                    Gradients::Joined(grad_qkv),
                );
            });
        [Some(from_values(grad_qkv, [batch, len, width]))]
    }
}

#[derive(Clone, Debug)]
struct CrossAttention {
    heads: State,
    query: Contiguous,
    key_value: Contiguous,
}

impl BackwardPass<2> for CrossAttention {
    fn gradients(self, gradient: FlexTensor, _: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let Self {
            heads,
            query,
            key_value,
        } = self;
        let sizes = heads.sizes;
        let gradient = Contiguous::new(gradient);
        let Sizes {
            batch,
            query: of_own,
            key: of_other,
            ..
        } = sizes;
        let mut query_gradient = vec![0.0; batch * of_own.len * of_own.width];
        let mut other_gradient = vec![0.0; batch * of_other.len * of_other.width];
        let rows = query_gradient
            .par_chunks_mut((of_own.len * of_own.width).max(1))
            .zip(other_gradient.par_chunks_mut((of_other.len * of_other.width).max(1)))
            .enumerate();
        rows.for_each(|(row, (grad_query, grad_key_value))| {
            let grads = Gradients::Separate {
                query: grad_query,
                key_value: grad_key_value,
            };
            sizes.backward(heads.row(row, &query, &key_value, &gradient), grads);
        });
        [
            Some(from_values(
                query_gradient,
                [batch, of_own.len, of_own.width],
            )),
            Some(from_values(
                other_gradient,
                [batch, of_other.len, of_other.width],
            )),
        ]
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::FORBIDDEN;
    use burn::tensor::activation::softmax;
    use burn::tensor::{Device, Distribution};

    use super::*;
    use crate::flex::tests::{assert_near, elements};

    const HEADS: usize = 2;

    pub(super) fn plain(
        query: Tensor<3>,
        key: Tensor<3>,
        value: Tensor<3>,
        mask: &Tensor<4, Bool>,
    ) -> Tensor<3> {
        let [batch, len, d_model] = query.dims();
        let split = |tensor: Tensor<3>| {
            let [batch, len, _] = tensor.dims();
            tensor
                .reshape([batch, len, HEADS, d_model / HEADS])
                .swap_dims(1, 2)
        };
        let other_len = key.dims()[1];
        let scores =
            split(query).matmul(split(key).transpose()) * ((d_model / HEADS) as f64).powf(-0.5);
        let scores = scores.mask_fill(
            mask.clone().expand([batch, HEADS, len, other_len]),
            f64::from(FORBIDDEN),
        );
        softmax(scores, 3)
            .matmul(split(value))
            .swap_dims(1, 2)
            .reshape([batch, len, d_model])
    }

    fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
        let data = Tensor::<D>::random(shape, Distribution::Uniform(-2.0, 2.0), &Device::flex())
            .into_data();
        Tensor::from_data(data, &Device::flex().autodiff())
    }

    /// Forbids the last position of the second batch row, and with `causal` the future and
    /// everything in the first row.
    fn mask(len: usize, other_len: usize, causal: bool) -> Tensor<4, Bool> {
        let rows = if causal { len } else { 1 };
        let forbidden = |batch_row: usize, row: usize, column: usize| {
            batch_row == 1 && column + 1 == other_len || causal && (column > row || row == 0)
        };
        let values: Vec<bool> = (0..2 * rows * other_len)
            .map(|place| {
                forbidden(
                    place / (rows * other_len),
                    place / other_len % rows,
                    place % other_len,
                )
            })
            .collect();
        Tensor::from_data(
            burn::tensor::TensorData::new(values, [2, 1, rows, other_len]),
            &Device::flex().autodiff(),
        )
    }

    #[test]
    fn the_kernel_gives_what_the_plain_version_gives() {
        // The last two are long rows: a whole number of blocks and none, and more queries than
        // keys.
        for (len, other_len, d_model) in [
            (1, 2, 4),
            (5, 3, 6),
            (19, 33, 32),
            (256, 300, 4),
            (331, 260, 8),
        ] {
            let qkv = random([2, len, 3 * d_model]).require_grad();
            let upstream = random([2, len, d_model]);
            let forbidden = mask(len, len, true);
            let part = |place: usize| qkv.clone().narrow(2, place * d_model, d_model);
            let kernel =
                self_attention(&qkv, &forbidden, HEADS, None).expect("the kernel is there");
            let outputs = [kernel, plain(part(0), part(1), part(2), &forbidden)];
            let [kernel, plain_version] = outputs.map(|output| {
                let gradients = (output.clone() * upstream.clone()).sum().backward();
                (
                    elements(output),
                    elements(qkv.grad(&gradients).expect("it is tracked")),
                )
            });
            assert_near(&kernel.0, &plain_version.0, 1e-5);
            assert_near(&kernel.1, &plain_version.1, 1e-5);

            let query = random([2, len, d_model]).require_grad();
            let key_value = random([2, other_len, 2 * d_model]);
            let key_value = key_value.require_grad();
            let forbidden = mask(len, other_len, false);
            let part = |place: usize| key_value.clone().narrow(2, place * d_model, d_model);
            let kernel = cross_attention(&query, &key_value, &forbidden, HEADS, None)
                .expect("the kernel is there");
            let outputs = [kernel, plain(query.clone(), part(0), part(1), &forbidden)];
            let [kernel, plain_version] = outputs.map(|output| {
                let gradients = (output.clone() * upstream.clone()).sum().backward();
                let of =
                    |tensor: &Tensor<3>| elements(tensor.grad(&gradients).expect("it is tracked"));
                [elements(output), of(&query), of(&key_value)]
            });
            for (kernel, plain_version) in kernel.iter().zip(&plain_version) {
                assert_near(kernel, plain_version, 1e-5);
            }
        }
    }
}
