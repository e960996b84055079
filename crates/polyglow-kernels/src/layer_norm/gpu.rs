//! On GPUs: two passes over a row each way, which are fused, also with what comes before and after.

use burn::tensor::Tensor;

use crate::gpu::{Slope, Slopes, open, record};

/// [`super::layer_norm`] on GPUs with autodiff; `None` elsewhere.
pub(super) fn layer_norm(input: &Tensor<3>, gamma: &Tensor<1>, beta: &Tensor<1>, epsilon: f64) -> Option<Tensor<3>> {
    let ((input, input_node), (gamma, gamma_node), (beta, beta_node)) = (open(input)?, open(gamma)?, open(beta)?);
    let (gamma, beta): (Tensor<3>, Tensor<3>) = (gamma.unsqueeze(), beta.unsqueeze());
    let centered = input.clone() - input.mean_dim(2);
    let variance = (centered.clone() * centered.clone()).mean_dim(2);
    let scale = (variance + epsilon).sqrt().recip(); // [batch, len, 1]
    let standard = centered * scale.clone();
    let output = standard.clone() * gamma.clone() + beta;
    Some(record(State { standard, scale, gamma }, [input_node, gamma_node, beta_node], output))
}

#[derive(Clone, Debug)]
struct State {
    /// The input less its mean, over its standard deviation, `[batch, len, width]`; `y` in the formulas.
    standard: Tensor<3>,
    /// One over the standard deviation of each row, `[batch, len, 1]`.
    scale: Tensor<3>,
    /// `[1, 1, width]`.
    gamma: Tensor<3>,
}

impl Slopes<3, 3> for State {
    fn slopes(self, gradient: Tensor<3>, _: [bool; 3]) -> [Option<Slope>; 3] {
        let Self { standard, scale, gamma } = self;
        let width = standard.dims()[2] as i32;
        let weighted = gradient.clone() * gamma;
        let mean = weighted.clone().mean_dim(2);
        let slope = (weighted.clone() * standard.clone()).mean_dim(2);
        let of_input = (weighted - mean - standard.clone() * slope) * scale;
        // Sums over rows are of two axes, which fuse with the product.
        let rows = |tensor: &Tensor<3>| -> Tensor<2> { tensor.clone().reshape([-1, width]) };
        let of_gamma = (rows(&gradient) * rows(&standard)).sum_dim(0).squeeze_dim::<1>(0);
        let of_beta = rows(&gradient).sum_dim(0).squeeze_dim::<1>(0);
        [Some(of_input.into()), Some(of_gamma.into()), Some(of_beta.into())]
    }
}
