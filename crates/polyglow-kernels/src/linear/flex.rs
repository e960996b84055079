//! The kernel: the products write where nothing was zeroed before, and the gradients need no transposed copies.

use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::Layout;
use crate::flex::{FlexTensor, Numbers, close_plain, from_values, open, open_plain, record};
use crate::matrix::{Matrix, product};
use crate::row::{add_to_rows, sum_of_rows};
use crate::vector::{Kernel, dot, vectorized};

/// Up to so many rows are multiplied one by one.
const FEW: usize = 8;
/// Rows of weights in a task.
const BLOCK: usize = 256;
/// Products below which another thread would take longer to wake than to help.
const PARALLEL: usize = 1 << 17;

/// Both functions of the module on flex with autodiff.
pub(super) fn linear(input: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>, layout: Layout) -> Tensor<2> {
    let sizes = Sizes::new(&input, &weight, layout);
    let Sizes { rows, d_out, .. } = sizes;
    let (input, input_node) = open(input).into_parts();
    let (weight, weight_node) = open(weight).into_parts();
    let (input, weight) = (Numbers::of(input), Numbers::of(weight));
    let mut output = product(sizes.input(&input), sizes.weight(&weight));
    let state = LinearState { sizes, input, weight };
    let Some(bias) = bias else {
        return record(Projection, [input_node, weight_node], state, from_values(output, [rows, d_out]));
    };
    let (bias, bias_node) = open(bias).into_parts();
    add_to_rows(&mut output, Numbers::of(bias).slice());
    record(Affine, [input_node, weight_node, bias_node], state, from_values(output, [rows, d_out]))
}

/// Both functions of the module on flex without autodiff.
pub(super) fn apply(input: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>, layout: Layout) -> Tensor<2> {
    let sizes = Sizes::new(&input, &weight, layout);
    let (input, weight) = (Numbers::of(open_plain(input)), Numbers::of(open_plain(weight)));
    let mut output = if layout == Layout::OutIn && sizes.rows <= FEW {
        few_rows(input.slice(), weight.slice(), sizes)
    } else {
        product(sizes.input(&input), sizes.weight(&weight))
    };
    if let Some(bias) = bias {
        add_to_rows(&mut output, Numbers::of(open_plain(bias)).slice());
    }
    close_plain(from_values(output, [sizes.rows, sizes.d_out]))
}

/// `input weightᵀ` for the rows of a beam: the weights are read once, where a product would reorder them first.
fn few_rows(input: &[f32], weight: &[f32], sizes: Sizes) -> Vec<f32> {
    let Sizes { rows, d_in, d_out, .. } = sizes;
    // By outputs, so that each task writes what lies together.
    let mut transposed = vec![0.0; rows * d_out];
    let run = |(output, weight): (&mut [f32], &[f32])| vectorized(Dots { output, weight, input, d_in });
    if weight.len() * rows < PARALLEL {
        run((&mut transposed, weight));
    } else {
        transposed.par_chunks_mut(BLOCK * rows).zip(weight.par_chunks(BLOCK * d_in)).for_each(run);
    }
    (0..rows).flat_map(|row| transposed[row..].iter().step_by(rows).copied()).collect()
}

/// The product of each row of weights with each row of the input.
struct Dots<'a> {
    output: &'a mut [f32],
    weight: &'a [f32],
    input: &'a [f32],
    d_in: usize,
}

impl Kernel for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { output, weight, input, d_in } = self;
        let rows = input.len() / d_in.max(1);
        if rows == 0 {
            return;
        }
        for (output, weight) in output.chunks_exact_mut(rows).zip(weight.chunks_exact(d_in)) {
            for (value, input) in output.iter_mut().zip(input.chunks_exact(d_in)) {
                *value = dot(weight, input);
            }
        }
    }
}

/// The two sides of a linear map.
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
        let (weight_in, d_out) = if layout == Layout::InOut { (first, second) } else { (second, first) };
        assert_eq!(weight_in, d_in, "the input of a linear map");
        Self { rows, d_in, d_out, layout }
    }

    pub(crate) fn input<'a>(&self, input: &'a Numbers) -> Matrix<'a> {
        Matrix::new(input.slice(), self.rows, self.d_in)
    }

    /// `[d_in, d_out]`.
    pub(crate) fn weight<'a>(&self, weight: &'a Numbers) -> Matrix<'a> {
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
    pub(crate) input: Numbers,
    pub(crate) weight: Numbers,
}

impl LinearState {
    /// `gradient Wᵀ`.
    pub(crate) fn of_input(&self, gradient: &Numbers) -> FlexTensor {
        let Sizes { rows, d_in, d_out, .. } = self.sizes;
        let gradient = Matrix::new(gradient.slice(), rows, d_out);
        from_values(product(gradient, self.sizes.weight(&self.weight).transposed()), [rows, d_in])
    }

    /// `xᵀ gradient`, in the layout of the weight.
    pub(crate) fn of_weight(&self, gradient: &Numbers) -> FlexTensor {
        let Sizes { rows, d_in, d_out, layout } = self.sizes;
        let gradient = Matrix::new(gradient.slice(), rows, d_out);
        let input = self.sizes.input(&self.input);
        match layout {
            Layout::InOut => from_values(product(input.transposed(), gradient), [d_in, d_out]),
            Layout::OutIn => from_values(product(gradient.transposed(), input), [d_out, d_in]),
        }
    }
}

/// The backward pass of `x W`.
#[derive(Debug)]
struct Projection;

impl Backward<Flex, 2> for Projection {
    type State = LinearState;

    fn backward(self, ops: Ops<LinearState, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = Numbers::of(grads.consume::<Flex>(&ops.node));
        let [input, weight] = ops.parents;
        if let Some(input) = input {
            grads.register::<Flex>(input.id, ops.state.of_input(&gradient));
        }
        if let Some(weight) = weight {
            grads.register::<Flex>(weight.id, ops.state.of_weight(&gradient));
        }
    }
}

/// The backward pass of `x W + b`.
#[derive(Debug)]
struct Affine;

impl Backward<Flex, 3> for Affine {
    type State = LinearState;

    fn backward(self, ops: Ops<LinearState, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = Numbers::of(grads.consume::<Flex>(&ops.node));
        let [input, weight, bias] = ops.parents;
        if let Some(input) = input {
            grads.register::<Flex>(input.id, ops.state.of_input(&gradient));
        }
        if let Some(weight) = weight {
            grads.register::<Flex>(weight.id, ops.state.of_weight(&gradient));
        }
        if let Some(bias) = bias {
            let d_out = ops.state.sizes.d_out;
            grads.register::<Flex>(bias.id, from_values(sum_of_rows(gradient.slice(), d_out), [d_out]));
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution};

    use super::super::{linear, linear_transposed};
    use super::*;
    use crate::flex::tests::{assert_near, numbers};

    #[test]
    fn all_ways_to_multiply_give_the_same() {
        let plain = Device::flex();
        let random = |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Uniform(-1.0, 1.0), &plain);
        for (rows, d_in, d_out) in [(1, 5, 3), (5, 128, 1500), (8, 17, 900), (9, 16, 33), (70, 3, 1)] {
            let (input, weight) = (random([rows, d_in]), random([d_in, d_out]));
            let bias = Tensor::<1>::random([d_out], Distribution::Uniform(-1.0, 1.0), &plain);
            let expected = input.clone().matmul(weight.clone());
            let transposed = Tensor::from_data(weight.clone().transpose().into_data(), &plain);
            let tracked =
                |tensor: &Tensor<2>| Tensor::<2>::from_data(tensor.clone().into_data(), &plain.clone().autodiff());
            let near = |found: Tensor<2>, expected: Tensor<2>| assert_near(&numbers(found), &numbers(expected), 1e-5);
            near(linear(input.clone(), weight.clone(), None), expected.clone());
            near(linear_transposed(input.clone(), transposed.clone()), expected.clone());
            near(linear(tracked(&input), tracked(&weight), None), expected.clone());
            near(linear_transposed(tracked(&input), tracked(&transposed)), expected.clone());
            near(linear(input, weight, Some(bias.clone())), expected + bias.unsqueeze());
        }
    }
}
