//! Token embeddings, scaled by `sqrt(d_model)` (Vaswani et al., 2017, section 3.4).

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use polyglow_kernels::{Factors, Packed, embedding, int8_embedding, int8_linear};

use crate::host::computes_on_host;
use crate::parameter::init::ParamInit;
use crate::precision::Precision;
use crate::weight::Weight;

/// One trained vector per token id.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
/// use polyglow_model::embedding::Embedding;
/// use polyglow_model::init::ParamInit;
///
/// let device = Device::flex();
/// let embedding = Embedding::new(20, 8, &mut ParamInit::new(1, &device));
/// let ids = Tensor::<2, Int>::from_data([[5, 6, 2]], &device);
/// let states = embedding.forward(ids); // [batch, len, d_model]
/// assert_eq!(states.dims(), [1, 3, 8]);
/// // The same vectors score the next token.
/// assert_eq!(embedding.logits(states.flatten(0, 1)).dims(), [3, 20]);
/// ```
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[vocab_size, d_model]`.
    pub weight: Weight,
    #[module(skip)]
    packed: Packed,
    #[module(skip)]
    precision: Precision,
}

/// The way to look up rows of a table. The results are equal; the backward passes, which sum the
/// gradients of a token that occurs several times, differ in speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Row by row. On GPUs, with Burn 0.22, the backward pass has `d_model` threads, each of which
    /// goes through all tokens.
    Rows,
    /// Element by element. On a GPU with atomic additions, such as CUDA's, the backward pass has a
    /// thread for each element, and takes `batch * len * d_model` ids of memory; elsewhere it is
    /// that of [`Lookup::Rows`].
    Elements,
}

/// Returns `scale * table[id]` for every id.
///
/// # Shapes
/// - `table`: `[vocab_size, d_model]`; `ids`: `[batch, len]`; output: `[batch, len, d_model]`
pub fn lookup(table: Tensor<2>, ids: Tensor<2, Int>, scale: f64, how: Lookup) -> Tensor<3> {
    match how {
        Lookup::Rows => embedding(table, ids, scale),
        Lookup::Elements => {
            let [batch, len] = ids.dims();
            let [_, d_model] = table.dims();
            let ids = ids.reshape([batch * len, 1]).expand([batch * len, d_model]);
            (table.gather(0, ids) * scale).reshape([batch, len, d_model])
        }
    }
}

impl Embedding {
    /// Vectors drawn from a normal distribution with standard deviation `d_model^-0.5`, so that
    /// scaled embeddings have variance 1.
    pub fn new(vocab_size: usize, d_model: usize, init: &mut ParamInit) -> Self {
        let weight = Weight::Float(init.normal([vocab_size, d_model], (d_model as f64).powf(-0.5)));
        Self {
            weight,
            packed: Packed::default(),
            precision: init.precision(),
        }
    }

    /// Returns `weight[id]` for every id.
    ///
    /// # Shapes
    /// - `ids`: `[batch, len]`; output: `[batch, len, d_model]`
    pub fn rows(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        match &self.weight {
            Weight::Float(weight) => lookup_by_device(weight.val(), ids, 1.0),
            Weight::Int8(weight) => {
                // The kernel of 8-bit embeddings scales by `sqrt(d_model)`.
                let scaled = int8_embedding(weight.matrix(), ids);
                let [_, _, d_model] = scaled.dims();
                scaled / (d_model as f64).sqrt()
            }
        }
    }

    /// Returns `weight[id] * sqrt(d_model)` for every id.
    ///
    /// # Shapes
    /// - `ids`: `[batch, len]`; output: `[batch, len, d_model]`
    pub fn forward(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        match &self.weight {
            Weight::Float(weight) => {
                let table = weight.val();
                let [_, d_model] = table.dims();
                lookup_by_device(table, ids, (d_model as f64).sqrt())
            }
            Weight::Int8(weight) => int8_embedding(weight.matrix(), ids),
        }
    }

    /// Scores every token for each hidden state: the product with the same matrix, transposed.
    ///
    /// # Shapes
    /// - `hidden`: `[rows, d_model]`; output: `[rows, vocab_size]`
    pub fn logits(&self, hidden: Tensor<2>) -> Tensor<2> {
        match &self.weight {
            Weight::Float(weight) => {
                self.precision
                    .linear_transposed(hidden, weight.val(), &self.packed)
            }
            Weight::Int8(weight) => int8_linear(hidden, weight.matrix(), None),
        }
    }

    /// The matrix, if [`Self::logits`] of `hidden` is the product with its transpose, and the
    /// format that both factors are rounded to.
    pub(crate) fn matrix(&self, hidden: &Tensor<2>) -> Option<(Tensor<2>, Factors)> {
        Some((self.weight.float()?, self.precision.factors(hidden)))
    }
}

/// [`lookup`] in the way that is fastest on the table's device.
fn lookup_by_device(table: Tensor<2>, ids: Tensor<2, Int>, scale: f64) -> Tensor<3> {
    // `Elements` pays off where gradients are added in parallel; `cargo bench -p polyglow-kernels`
    // measures both.
    let how = if !table.is_autodiff() || computes_on_host(&table.device()) {
        Lookup::Rows
    } else {
        Lookup::Elements
    };
    lookup(table, ids, scale, how)
}

#[cfg(test)]
mod tests {
    use burn::tensor::TensorData;

    use super::*;

    fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.into_data().iter::<f32>().collect()
    }

    #[test]
    fn both_ways_to_look_up_give_the_same_rows_and_gradients() {
        let device = crate::test_device().autodiff();
        let results = [Lookup::Rows, Lookup::Elements].map(|how| {
            let table = Tensor::<2>::from_data([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]], &device)
                .require_grad();
            let ids = Tensor::<2, Int>::from_data([[2, 0, 2], [2, 1, 1]], &device);
            let factors = Tensor::from_data(
                TensorData::new((1..13u8).map(f32::from).collect(), [2, 3, 2]),
                &device,
            );
            let rows = lookup(table.clone(), ids, 2.0, how);
            let grads = (rows.clone() * factors).sum().backward();
            let gradient = table.grad(&grads).expect("it takes part");
            (floats(rows), floats(gradient))
        });
        let rows = vec![
            10.0, 12.0, 2.0, 4.0, 10.0, 12.0, 10.0, 12.0, 6.0, 8.0, 6.0, 8.0,
        ];
        // Token 2 is at positions 1, 3 and 4, whose factors are 1 and 2, 5 and 6, 7 and 8; all
        // are scaled by 2.
        let gradient = vec![6.0, 8.0, 40.0, 44.0, 26.0, 32.0];
        assert_eq!(
            results,
            [(rows.clone(), gradient.clone()), (rows, gradient)]
        );
    }
}
