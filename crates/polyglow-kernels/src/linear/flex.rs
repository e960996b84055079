//! The kernel: the products write where nothing was zeroed before, and the gradients need no transposed copies.

use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::tensor::Tensor;

use super::Layout;
use crate::flex::{FlexTensor, Numbers, close, close_plain, from_values, open, open_plain};
use crate::matrix::{Matrix, product};
use crate::row::{add_to_rows, sum_of_rows};

/// Both functions of the module on flex with autodiff.
pub(super) fn linear(input: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>, layout: Layout) -> Tensor<2> {
    let sizes = Sizes::new(&input, &weight, layout);
    let Sizes { rows, d_out, .. } = sizes;
    let (input, input_node) = open(input).into_parts();
    let (weight, weight_node) = open(weight).into_parts();
    let (input, weight) = (Numbers::of(input), Numbers::of(weight));
    let mut output = product(sizes.input(&input), sizes.weight(&weight));
    let state = |sizes| State { sizes, input, weight };
    let Some(bias) = bias else {
        let output = from_values(output, [rows, d_out]);
        let prepared = Projection.prepare::<NoCheckpointing>([input_node, weight_node]).compute_bound().stateful();
        return close(match prepared {
            OpsKind::Tracked(prepared) => prepared.finish(state(sizes), output),
            OpsKind::UnTracked(prepared) => prepared.finish(output),
        });
    };
    let (bias, bias_node) = open(bias).into_parts();
    add_to_rows(&mut output, Numbers::of(bias).slice());
    let output = from_values(output, [rows, d_out]);
    let prepared = Affine.prepare::<NoCheckpointing>([input_node, weight_node, bias_node]).compute_bound().stateful();
    close(match prepared {
        OpsKind::Tracked(prepared) => prepared.finish(state(sizes), output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    })
}

/// Both functions of the module on flex without autodiff.
pub(super) fn apply(input: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>, layout: Layout) -> Tensor<2> {
    let sizes = Sizes::new(&input, &weight, layout);
    let (input, weight) = (Numbers::of(open_plain(input)), Numbers::of(open_plain(weight)));
    let mut output = product(sizes.input(&input), sizes.weight(&weight));
    if let Some(bias) = bias {
        add_to_rows(&mut output, Numbers::of(open_plain(bias)).slice());
    }
    close_plain(from_values(output, [sizes.rows, sizes.d_out]))
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    rows: usize,
    d_in: usize,
    d_out: usize,
    layout: Layout,
}

impl Sizes {
    fn new(input: &Tensor<2>, weight: &Tensor<2>, layout: Layout) -> Self {
        let [rows, d_in] = input.dims();
        let [first, second] = weight.dims();
        let (weight_in, d_out) = if layout == Layout::InOut { (first, second) } else { (second, first) };
        assert_eq!(weight_in, d_in, "the input of a linear map");
        Self { rows, d_in, d_out, layout }
    }

    fn input<'a>(&self, input: &'a Numbers) -> Matrix<'a> {
        Matrix::new(input.slice(), self.rows, self.d_in)
    }

    /// `[d_in, d_out]`.
    fn weight<'a>(&self, weight: &'a Numbers) -> Matrix<'a> {
        match self.layout {
            Layout::InOut => Matrix::new(weight.slice(), self.d_in, self.d_out),
            Layout::OutIn => Matrix::new(weight.slice(), self.d_out, self.d_in).transposed(),
        }
    }
}

/// What the gradients are made from.
#[derive(Clone, Debug)]
struct State {
    sizes: Sizes,
    input: Numbers,
    weight: Numbers,
}

impl State {
    fn of_input(&self, gradient: &Numbers) -> FlexTensor {
        let Sizes { rows, d_in, d_out, .. } = self.sizes;
        let gradient = Matrix::new(gradient.slice(), rows, d_out);
        from_values(product(gradient, self.sizes.weight(&self.weight).transposed()), [rows, d_in])
    }

    fn of_weight(&self, gradient: &Numbers) -> FlexTensor {
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
    type State = State;

    fn backward(self, ops: Ops<State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
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
    type State = State;

    fn backward(self, ops: Ops<State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
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
