//! The kernel: products write into memory that was not zeroed first, and gradients need no
//! transposed copies.

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

/// Both functions of the module on flex.
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
    // A pass of its own: `gemm` could add to old values, but filling them in first is the same
    // pass.
    add_to_rows(&mut output, bias.slice());
    record(
        state,
        [input_node, weight_node, bias_node],
        from_values(output, shape),
    )
}

/// A weight in the order that products read it in, and the one that it was made of.
pub(super) struct PackedWeight {
    /// Held, so that nobody writes to this memory or gives it away.
    of: Contiguous,
    layout: Layout,
    panels: Panels,
}

impl PackedWeight {
    fn new(sizes: Sizes, weight: &Contiguous) -> Self {
        Self {
            of: weight.clone(),
            layout: sizes.layout,
            panels: Panels::new(sizes.weight(weight)),
        }
    }

    fn is_of(&self, sizes: Sizes, weight: &Contiguous) -> bool {
        let is_same = self.of.slice().as_ptr_range() == weight.slice().as_ptr_range();
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

/// `x W`.
pub(crate) fn repeated_product(
    sizes: Sizes,
    input: &Contiguous,
    weight: &Contiguous,
    packed: &Packed,
) -> Vec<f32> {
    let packed = {
        let mut kept = packed.weight.lock().unwrap_or_else(PoisonError::into_inner);
        let same = kept.take().filter(|kept| kept.is_of(sizes, weight));
        Arc::clone(kept.insert(same.unwrap_or_else(|| Arc::new(PackedWeight::new(sizes, weight)))))
    };
    packed.panels.product(sizes.input(input))
}

/// The shapes of a linear map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) rows: usize,
    pub(crate) d_in: usize,
    pub(crate) d_out: usize,
    pub(crate) layout: Layout,
}

impl Sizes {
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

    pub(crate) fn input<'a>(&self, input: &'a Contiguous) -> Matrix<'a> {
        Matrix::new(input.slice(), self.rows, self.d_in)
    }

    /// `[d_in, d_out]`, by strides in either layout.
    pub(crate) fn weight<'a>(&self, weight: &'a Contiguous) -> Matrix<'a> {
        match self.layout {
            Layout::InOut => Matrix::new(weight.slice(), self.d_in, self.d_out),
            Layout::OutIn => Matrix::new(weight.slice(), self.d_out, self.d_in).transposed(),
        }
    }
}

/// What the gradients are made from.
#[derive(Clone, Debug)]
pub(crate) struct LinearState {
    pub(crate) sizes: Sizes,
    pub(crate) input: Contiguous,
    pub(crate) weight: Contiguous,
    pub(crate) factors: Factors,
}

impl LinearState {
    /// `gradient Wᵀ`.
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

    /// `xᵀ gradient`, in the layout of the weight.
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

    /// Of input, weight and bias. Each is a product of its own, so none is made for an input that
    /// is not tracked.
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
        [grad_input, grad_weight]: [bool; 2],
    ) -> [Option<FlexTensor>; 2] {
        let gradient = Contiguous::new(gradient);
        [
            grad_input.then(|| self.grad_input(&gradient)),
            grad_weight.then(|| self.grad_weight(&gradient)),
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
    use burn::tensor::{Device, Distribution, FloatDType};

    use super::super::{linear, linear_transposed, repeated_linear};
    use super::*;
    use crate::flex::tests::{assert_near, elements};

    #[test]
    fn all_ways_to_multiply_give_the_same() {
        let plain = Device::flex();
        let random = |shape: [usize; 2]| {
            Tensor::<2>::random(shape, Distribution::Uniform(-1.0, 1.0), &plain)
        };
        for (rows, d_in, d_out) in [
            (1, 5, 3),
            (5, 128, 1500),
            (8, 17, 900),
            (9, 16, 33),
            (70, 3, 1),
        ] {
            let input = random([rows, d_in]);
            let weight = random([d_in, d_out]);
            let bias = Tensor::<1>::random([d_out], Distribution::Uniform(-1.0, 1.0), &plain);
            let expected = input.clone().matmul(weight.clone());
            let transposed = Tensor::from_data(weight.clone().transpose().into_data(), &plain);
            let tracked = |tensor: &Tensor<2>| {
                Tensor::<2>::from_data(tensor.clone().into_data(), &plain.clone().autodiff())
            };
            let near = |actual: Tensor<2>, expected: Tensor<2>| {
                assert_near(&elements(actual), &elements(expected), 1e-5);
            };
            near(
                linear(input.clone(), weight.clone(), None, Factors::F32),
                expected.clone(),
            );
            near(
                linear_transposed(input.clone(), transposed.clone(), Factors::F32),
                expected.clone(),
            );
            // The third is another weight than the one that is packed.
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
                    near(output, expected.clone() * times + bias_sum.clone());
                }
            }
            near(
                linear(tracked(&input), tracked(&weight), None, Factors::F32),
                expected.clone(),
            );
            near(
                linear_transposed(tracked(&input), tracked(&transposed), Factors::F32),
                expected.clone(),
            );
            near(
                linear(input, weight, Some(bias.clone()), Factors::F32),
                expected + bias.unsqueeze(),
            );
        }
    }

    #[test]
    fn what_is_packed_is_of_one_weight_in_one_layout() {
        let plain = Device::flex();
        let random = |shape: [usize; 2]| {
            Tensor::<2>::random(shape, Distribution::Uniform(-1.0, 1.0), &plain)
        };
        let input = random([3, 20]);
        let weight = random([20, 20]);
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
        // What is changed is another weight, and what was packed stays.
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
        let plain = Device::flex();
        let random = |shape: [usize; 2]| {
            Tensor::<2>::random(shape, Distribution::Uniform(-1.0, 1.0), &plain)
        };
        let input = random([40, 64]);
        let weight = random([64, 900]);
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

    #[test]
    fn both_factors_of_all_three_products_are_rounded() {
        let plain = Device::flex();
        let random = |shape: [usize; 2]| {
            Tensor::<2>::random(shape, Distribution::Uniform(-1.0, 1.0), &plain)
        };
        let rounded =
            |tensor: &Tensor<2>| tensor.clone().cast(FloatDType::BF16).cast(FloatDType::F32);
        let tracked = |tensor: &Tensor<2>| {
            Tensor::<2>::from_data(tensor.clone().into_data(), &plain.clone().autodiff())
        };
        let near = |actual: Tensor<2>, expected: Tensor<2>| {
            assert_near(&elements(actual), &elements(expected), 1e-5);
        };
        for (rows, d_in, d_out) in [(1, 5, 3), (40, 33, 65), (130, 64, 16)] {
            let input = random([rows, d_in]);
            let weight = random([d_in, d_out]);
            let upstream = random([rows, d_out]);
            for layout in [Layout::InOut, Layout::OutIn] {
                let turned = |tensor: Tensor<2>| {
                    if layout == Layout::InOut {
                        tensor
                    } else {
                        tensor.transpose()
                    }
                };
                let x = tracked(&input).require_grad();
                let w = tracked(&turned(weight.clone())).require_grad();
                let output = match layout {
                    Layout::InOut => linear(x.clone(), w.clone(), None, Factors::Bf16),
                    Layout::OutIn => linear_transposed(x.clone(), w.clone(), Factors::Bf16),
                };
                near(
                    output.clone().inner(),
                    rounded(&input).matmul(rounded(&weight)),
                );
                let gradients = (output.clone() * tracked(&upstream)).sum().backward();
                let gradient =
                    |tensor: Tensor<2>| tensor.grad(&gradients).expect("the output depends on it");
                // Burn's operations, as on other devices, may round the result, too.
                let elsewhere = plain.clone().autodiff().gradient_checkpointing();
                let [x_there, w_there] = [&x, &w]
                    .map(|tensor| Tensor::<2>::from_data(tensor.clone().into_data(), &elsewhere));
                let there = match layout {
                    Layout::InOut => linear(x_there, w_there, None, Factors::Bf16),
                    Layout::OutIn => linear_transposed(x_there, w_there, Factors::Bf16),
                };
                assert_near(&elements(there), &elements(output.clone()), 1.0 / 256.0);
                near(
                    gradient(x),
                    rounded(&upstream).matmul(rounded(&weight).transpose()),
                );
                near(
                    turned(gradient(w)),
                    rounded(&input).transpose().matmul(rounded(&upstream)),
                );
            }
        }
    }
}
