//! On GPUs: the gradients are there when the loss is, and the backward pass multiplies them by its slope.

use burn::tensor::{Int, Tensor};

use super::{Chunks, Sums};
use crate::gpu::{Slope, Slopes, open, record};
use crate::{Factors, Layout, LossOutput};

/// [`super::projected_cross_entropy`] on GPUs with autodiff; `None` elsewhere.
pub(super) fn loss(
    hidden: &Tensor<2>,
    weight: &Tensor<2>,
    layout: Layout,
    targets: &Tensor<1, Int>,
    label_smoothing: f64,
    pad_id: u32,
    factors: Factors,
) -> Option<LossOutput> {
    let ((hidden, hidden_node), (weight, weight_node)) = (open(hidden)?, open(weight)?);
    let targets: Tensor<2, Int> = targets.clone().inner().unsqueeze_dim(1);
    let chunks = Chunks::new(weight, layout, label_smoothing, pad_id, factors);
    let Sums { loss_sum, nll_sum, of_hidden, of_weight } = chunks.of(&hidden, &targets);
    let loss_sum = record(State { of_hidden, of_weight }, [hidden_node, weight_node], loss_sum);
    Some(LossOutput { loss_sum, nll_sum: Tensor::from_inner(nll_sum) })
}

#[derive(Clone, Debug)]
struct State {
    of_hidden: Tensor<2>,
    of_weight: Tensor<2>,
}

impl Slopes<2, 1> for State {
    fn slopes(self, gradient: Tensor<1>, tracked: [bool; 2]) -> [Option<Slope>; 2] {
        let [of_hidden, of_weight] = tracked;
        let gradient: Tensor<2> = gradient.unsqueeze();
        let scaled = |slope: Tensor<2>| (slope * gradient.clone()).into();
        [of_hidden.then(|| scaled(self.of_hidden)), of_weight.then(|| scaled(self.of_weight))]
    }
}
