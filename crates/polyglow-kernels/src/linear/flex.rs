//! The affine map `y = x W + b` on the CPU: products from [`crate::flex::matrix`], and a pass that
//! adds the bias.
//!
//! `x`, `y` and their gradients are contiguous rows. Where a formula has a transposed factor, the
//! product reads it through swapped strides, so nothing is transposed in memory; and it writes into
//! memory that was not zeroed first. Without autodiff a weight can be packed once for many products
//! ([`PackedWeight`]).

use std::sync::{Arc, PoisonError};

use burn::tensor::Tensor;

use super::{Layout, Packed};
use crate::Factors;
use crate::flex::matrix::{Matrix, Panels, product};
use crate::flex::row::{add_to_rows, sum_of_rows};
use crate::flex::{
    BackwardPass, Contiguous, FlexTensor, Mode, close, from_values, mode, open_untracked, read,
    record,
};

/// [`super::linear`], or with [`Layout::OutIn`] [`super::linear_transposed`], on flex.
pub(super) fn linear(
    input: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    layout: Layout,
    factors: Factors,
) -> Tensor<2> {
    let sizes = Sizes::new(&input, &weight, layout);
    let (input, input_node) = read(input);
    let (weight, weight_node) = read(weight);
    let mut output = product(sizes.input(&input), sizes.weight(&weight), factors);
    let state = LinearState {
        sizes,
        input,
        weight,
        factors,
    };
    let shape = [sizes.rows, sizes.d_out];
    let Some(bias) = bias else {
        return record(state, [input_node, weight_node], from_values(output, shape));
    };
    let (bias, bias_node) = read(bias);
    // `gemm` could add to a result that holds the bias already, but filling it in would be a pass
    // over the output as well.
    add_to_rows(&mut output, bias.slice());
    record(
        state,
        [input_node, weight_node, bias_node],
        from_values(output, shape),
    )
}

/// A weight in the order that products read it in, with the tensor that it was made from.
pub(super) struct PackedWeight {
    /// Held, so that its memory is neither overwritten nor reused for another weight: an address
    /// then identifies a weight.
    source: Contiguous,
    layout: Layout,
    /// The copy.
    panels: Panels,
}

impl PackedWeight {
    /// Copies a weight into panels.
    fn new(sizes: Sizes, weight: &Contiguous) -> Self {
        Self {
            source: weight.clone(),
            layout: sizes.layout,
            panels: Panels::new(sizes.weight(weight)),
        }
    }

    /// Whether it is a copy of this weight in this layout.
    fn is_copy_of(&self, sizes: Sizes, weight: &Contiguous) -> bool {
        let is_same = self.source.slice().as_ptr_range() == weight.slice().as_ptr_range();
        is_same && (self.layout, self.panels.shape()) == (sizes.layout, [sizes.d_in, sizes.d_out])
    }
}

/// [`super::repeated_linear`] on flex without autodiff; `None` elsewhere, or if factors are
/// rounded.
pub(super) fn repeated_linear(
    input: &Tensor<2>,
    weight: &Tensor<2>,
    bias: Option<&Tensor<1>>,
    layout: Layout,
    factors: Factors,
    packed: &Packed,
) -> Option<Tensor<2>> {
    if mode(input)? != Mode::Inference || factors != Factors::F32 {
        return None;
    }
    let sizes = Sizes::new(input, weight, layout);
    let [input, weight] =
        [input, weight].map(|tensor| Contiguous::new(open_untracked(tensor.clone())));
    let mut output = repeated_product(sizes, &input, &weight, packed);
    if let Some(bias) = bias {
        add_to_rows(
            &mut output,
            Contiguous::new(open_untracked(bias.clone())).slice(),
        );
    }
    Some(close(from_values(output, [sizes.rows, sizes.d_out])))
}

/// Returns `x W`, multiplied by the copy in `packed`, which is made first unless it is there.
pub(crate) fn repeated_product(
    sizes: Sizes,
    input: &Contiguous,
    weight: &Contiguous,
    packed: &Packed,
) -> Vec<f32> {
    packed_weight(sizes, weight, packed)
        .panels
        .product(sizes.input(input))
}

/// The copy of this weight in `packed`. The lock is released before the product begins, so that
/// threads multiply at the same time.
fn packed_weight(sizes: Sizes, weight: &Contiguous, packed: &Packed) -> Arc<PackedWeight> {
    let mut kept = packed.weight.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = &*kept
        && kept.is_copy_of(sizes, weight)
    {
        return Arc::clone(kept);
    }
    // The old copy is freed before the new one takes memory. The new one is made with the lock
    // held, so that threads that need it wait for one copy and do not make one each.
    *kept = None;
    let new = Arc::new(PackedWeight::new(sizes, weight));
    *kept = Some(Arc::clone(&new));
    new
}

/// The shapes of a linear map, and the layout of its weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) rows: usize,
    pub(crate) d_in: usize,
    pub(crate) d_out: usize,
    pub(crate) layout: Layout,
}

impl Sizes {
    /// The sizes of these tensors.
    ///
    /// Panics if the input does not fit the weight.
    pub(crate) fn new(input: &Tensor<2>, weight: &Tensor<2>, layout: Layout) -> Self {
        let [rows, d_in] = input.dims();
        let [first, second] = weight.dims();
        let (weight_in, d_out) = if layout == Layout::InOut {
            (first, second)
        } else {
            (second, first)
        };
        assert_eq!(weight_in, d_in, "the input of a linear map");
        Self {
            rows,
            d_in,
            d_out,
            layout,
        }
    }

    /// The input as a matrix, `[rows, d_in]`.
    pub(crate) fn input<'a>(&self, input: &'a Contiguous) -> Matrix<'a> {
        Matrix::new(input.slice(), self.rows, self.d_in)
    }

    /// The weight as a matrix, `[d_in, d_out]`; in [`Layout::OutIn`] by swapped strides.
    pub(crate) fn weight<'a>(&self, weight: &'a Contiguous) -> Matrix<'a> {
        match self.layout {
            Layout::InOut => Matrix::new(weight.slice(), self.d_in, self.d_out),
            Layout::OutIn => Matrix::new(weight.slice(), self.d_out, self.d_in).transposed(),
        }
    }
}

/// The data that the forward pass keeps for the gradients.
#[derive(Clone, Debug)]
pub(crate) struct LinearState {
    pub(crate) sizes: Sizes,
    /// `x`, `[rows, d_in]`.
    pub(crate) input: Contiguous,
    /// `W`, in the order of the layout.
    pub(crate) weight: Contiguous,
    /// The format that the factors of both gradients are rounded to.
    pub(crate) factors: Factors,
}

impl LinearState {
    /// The gradient of the input, `g Wᵀ`.
    fn grad_input(&self, gradient: &Contiguous) -> FlexTensor {
        let Sizes {
            rows, d_in, d_out, ..
        } = self.sizes;
        let gradient = Matrix::new(gradient.slice(), rows, d_out);
        from_values(
            product(
                gradient,
                self.sizes.weight(&self.weight).transposed(),
                self.factors,
            ),
            [rows, d_in],
        )
    }

    /// The gradient of the weight, `xᵀ g`, in the layout of the weight.
    fn grad_weight(&self, gradient: &Contiguous) -> FlexTensor {
        let Sizes {
            rows,
            d_in,
            d_out,
            layout,
        } = self.sizes;
        let gradient = Matrix::new(gradient.slice(), rows, d_out);
        let input = self.sizes.input(&self.input);
        match layout {
            Layout::InOut => from_values(
                product(input.transposed(), gradient, self.factors),
                [d_in, d_out],
            ),
            Layout::OutIn => from_values(
                product(gradient.transposed(), input, self.factors),
                [d_out, d_in],
            ),
        }
    }

    /// The gradients of input, weight and bias. Each is a product of its own, so none is computed
    /// for an input that is not tracked.
    pub(crate) fn gradients_with_bias(
        &self,
        gradient: &Contiguous,
        tracked: [bool; 3],
    ) -> [Option<FlexTensor>; 3] {
        let d_out = self.sizes.d_out;
        [
            tracked[0].then(|| self.grad_input(gradient)),
            tracked[1].then(|| self.grad_weight(gradient)),
            tracked[2].then(|| from_values(sum_of_rows(gradient.slice(), d_out), [d_out])),
        ]
    }
}

/// The backward pass of `x W`.
impl BackwardPass<2> for LinearState {
    fn gradients(
        self,
        gradient: FlexTensor,
        [tracks_input, tracks_weight]: [bool; 2],
    ) -> [Option<FlexTensor>; 2] {
        let gradient = Contiguous::new(gradient);
        [
            tracks_input.then(|| self.grad_input(&gradient)),
            tracks_weight.then(|| self.grad_weight(&gradient)),
        ]
    }
}

/// The backward pass of `x W + b`.
impl BackwardPass<3> for LinearState {
    fn gradients(self, gradient: FlexTensor, tracked: [bool; 3]) -> [Option<FlexTensor>; 3] {
        self.gradients_with_bias(&Contiguous::new(gradient), tracked)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, FloatDType};

    use super::super::{linear, linear_transposed, repeated_linear};
    use super::*;
    use crate::flex::tests::{
        assert_near, elements, gradient_of, random, random_tracked, with_autodiff,
    };

    fn assert_tensors_near(actual: Tensor<2>, expected: Tensor<2>) {
        assert_near(&elements(actual), &elements(expected), 1e-5);
    }

    #[test]
    fn all_ways_to_multiply_give_the_same() {
        for (rows, d_in, d_out) in [
            (1, 5, 3),
            (5, 128, 1500),
            (8, 17, 900),
            (9, 16, 33),
            (70, 3, 1),
        ] {
            let input = random([rows, d_in], 1.0);
            let weight = random([d_in, d_out], 1.0);
            let bias = random([d_out], 1.0);
            let expected = input.clone().matmul(weight.clone());
            let transposed =
                Tensor::from_data(weight.clone().transpose().into_data(), &Device::flex());
            assert_tensors_near(
                linear(input.clone(), weight.clone(), None, Factors::F32),
                expected.clone(),
            );
            assert_tensors_near(
                linear_transposed(input.clone(), transposed.clone(), Factors::F32),
                expected.clone(),
            );
            // The third product has another weight than the one that is packed.
            for (weight, layout) in [(&transposed, Layout::OutIn), (&weight, Layout::InOut)] {
                let packed = Packed::default();
                let double = weight.clone() * 2.0;
                let bias = (layout == Layout::InOut).then(|| bias.clone());
                let bias_sum = bias.clone().map_or(expected.zeros_like(), |bias| {
                    expected.zeros_like() + bias.unsqueeze()
                });
                for (weight, times) in [(weight, 1.0), (weight, 1.0), (&double, 2.0)] {
                    let output = repeated_linear(
                        input.clone(),
                        weight.clone(),
                        bias.clone(),
                        layout,
                        Factors::F32,
                        &packed,
                    );
                    assert_tensors_near(output, expected.clone() * times + bias_sum.clone());
                }
            }
            let tracked = with_autodiff(&input);
            assert_tensors_near(
                linear(tracked.clone(), with_autodiff(&weight), None, Factors::F32),
                expected.clone(),
            );
            assert_tensors_near(
                linear_transposed(tracked, with_autodiff(&transposed), Factors::F32),
                expected.clone(),
            );
            assert_tensors_near(
                linear(input, weight, Some(bias.clone()), Factors::F32),
                expected + bias.unsqueeze(),
            );
        }
    }

    #[test]
    fn a_packed_weight_is_of_one_tensor_in_one_layout() {
        let input = random([3, 20], 1.0);
        let weight = random([20, 20], 1.0);
        let packed = Packed::default();
        let multiply = |weight: Tensor<2>, layout| {
            elements(repeated_linear(
                input.clone(),
                weight,
                None,
                layout,
                Factors::F32,
                &packed,
            ))
        };
        let expected = |weight: Tensor<2>| elements(input.clone().matmul(weight));
        let before = expected(weight.clone());
        assert_near(&multiply(weight.clone(), Layout::InOut), &before, 1e-5);
        assert_near(
            &multiply(weight.clone(), Layout::OutIn),
            &expected(weight.clone().transpose()),
            1e-5,
        );
        // A view in another order, which is copied each time.
        assert_near(
            &multiply(weight.clone().transpose(), Layout::OutIn),
            &before,
            1e-5,
        );
        // A changed weight is another weight, and the packed one is not overwritten.
        let changed = weight.clone().slice_fill([0..1, 0..20], 3.0);
        assert_near(
            &multiply(changed.clone(), Layout::InOut),
            &expected(changed),
            1e-5,
        );
        assert_near(&multiply(weight, Layout::InOut), &before, 1e-5);
    }

    #[test]
    fn threads_pack_together() {
        let input = random([40, 64], 1.0);
        let weight = random([64, 900], 1.0);
        for _ in 0..20 {
            let packed = Packed::default();
            // As callers of a search do: in the pool, with products that are shared among its
            // threads.
            let multiply = || {
                let output = repeated_linear(
                    input.clone(),
                    weight.clone(),
                    None,
                    Layout::InOut,
                    Factors::F32,
                    &packed,
                );
                elements(output)
            };
            let (left, right) = std::thread::scope(|scope| {
                let other = scope.spawn(|| rayon::scope(|_| multiply()));
                (
                    rayon::scope(|_| multiply()),
                    other.join().expect("it does not panic"),
                )
            });
            assert_eq!(left, right);
        }
    }

    fn rounded(tensor: &Tensor<2>) -> Tensor<2> {
        tensor.clone().cast(FloatDType::BF16).cast(FloatDType::F32)
    }

    /// The matrix as it is stored in this layout.
    fn stored(matrix: Tensor<2>, layout: Layout) -> Tensor<2> {
        match layout {
            Layout::InOut => matrix,
            Layout::OutIn => matrix.transpose(),
        }
    }

    fn multiply(input: Tensor<2>, weight: Tensor<2>, layout: Layout) -> Tensor<2> {
        match layout {
            Layout::InOut => linear(input, weight, None, Factors::Bf16),
            Layout::OutIn => linear_transposed(input, weight, Factors::Bf16),
        }
    }

    #[test]
    fn both_factors_of_all_three_products_are_rounded() {
        // Burn's operations, as on other devices.
        let elsewhere = Device::flex().autodiff().gradient_checkpointing();
        for (rows, d_in, d_out) in [(1, 5, 3), (40, 33, 65), (130, 64, 16)] {
            for layout in [Layout::InOut, Layout::OutIn] {
                let x = random_tracked([rows, d_in], 1.0);
                let matrix = random([d_in, d_out], 1.0);
                let w = with_autodiff(&stored(matrix.clone(), layout)).require_grad();
                let upstream = random([rows, d_out], 1.0);
                let input = x.clone().inner();
                let output = multiply(x.clone(), w.clone(), layout);
                assert_tensors_near(
                    output.clone().inner(),
                    rounded(&input).matmul(rounded(&matrix)),
                );
                // These may round the result, too.
                let [x_there, w_there] = [&x, &w]
                    .map(|tensor| Tensor::<2>::from_data(tensor.clone().into_data(), &elsewhere));
                let there = multiply(x_there, w_there, layout);
                assert_near(&elements(there), &elements(output.clone()), 1.0 / 256.0);
                let gradients = (output * with_autodiff(&upstream)).sum().backward();
                let expected = rounded(&upstream).matmul(rounded(&matrix).transpose());
                assert_near(&gradient_of(&x, &gradients), &elements(expected), 1e-5);
                let expected = rounded(&input).transpose().matmul(rounded(&upstream));
                assert_near(
                    &gradient_of(&w, &gradients),
                    &elements(stored(expected, layout)),
                    1e-5,
                );
            }
        }
    }
}
