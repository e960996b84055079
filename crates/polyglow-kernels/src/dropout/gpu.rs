//! On GPUs: the mask is made where it is used, forwards and again backwards.

use burn::tensor::Tensor;

use super::Dropped;
use super::composed::ComposedMask;
use crate::gpu::{Slope, Slopes, open, record};

/// [`super::add_dropped`] on GPUs with autodiff; `None` elsewhere.
pub(super) fn add_dropped(residual: &Tensor<3>, input: &Tensor<3>, dropped: Dropped) -> Option<Tensor<3>> {
    let ((residual, residual_node), (input, input_node)) = (open(residual)?, open(input)?);
    let mask = ComposedMask::new(input.dims(), dropped, &input.device());
    let output = residual + input * mask.scaled();
    Some(record(State(mask), [residual_node, input_node], output))
}

#[derive(Clone, Debug)]
struct State(ComposedMask<3>);

impl Slopes<2, 3> for State {
    fn slopes(self, gradient: Tensor<3>, [_, of_input]: [bool; 2]) -> [Option<Slope>; 2] {
        let of_input = of_input.then(|| (gradient.clone() * self.0.scaled()).into());
        [Some(gradient.into()), of_input]
    }
}
