//! Root mean square normalization (Zhang and Sennrich, 2019).

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use crate::linear::widened;
use crate::parameter::init::ParamInit;

/// `x / sqrt(mean(x²) + eps) * gamma` over the last axis: a layer norm that subtracts no mean and
/// adds no bias (Zhang and Sennrich, 2019, section 3, equation 4).
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_model::init::ParamInit;
/// use polyglow_model::rms_norm::RmsNorm;
///
/// let device = Device::flex();
/// let norm = RmsNorm::new(2, &mut ParamInit::new(1, &device)).with_eps(0.0);
/// // The mean square of 1 and 7 is 25.
/// let output = norm.forward(Tensor::<2>::from_data([[1.0, 7.0]], &device));
/// assert_eq!(output.into_data().try_to_vec::<f32>().unwrap(), [0.2, 1.4]);
/// ```
#[derive(Module, Debug)]
pub struct RmsNorm {
    /// The gain, `[d_model]`, starts at 1.
    pub gamma: Param<Tensor<1>>,
    /// Added to the mean square before the square root, so that a row of zeros stays zero.
    pub eps: f64,
}

impl RmsNorm {
    /// A norm with `gamma` 1 and `eps` 1e-5, as that of a
    /// [`LayerNorm`](crate::layer_norm::LayerNorm).
    pub fn new(d_model: usize, init: &mut ParamInit) -> Self {
        Self {
            gamma: init.constant(d_model, 1.0),
            eps: 1e-5,
        }
    }

    /// Sets what is added to the mean square.
    #[must_use]
    pub fn with_eps(self, eps: f64) -> Self {
        Self { eps, ..self }
    }

    /// Normalizes every row. The output is f32; the input may be in the format of
    /// [`Linear::narrow`](crate::linear::Linear::narrow).
    ///
    /// # Shapes
    /// - `input`: `[rows, d_model]`; output: as `input`
    ///
    /// # Panics
    /// If the rows do not have `d_model` elements.
    pub fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let input = widened(input);
        let gamma = self.gamma.val();
        let [_, width] = input.dims();
        assert_eq!([width], gamma.dims(), "the width of an RMS norm");
        let mean_square = input.clone().square().mean_dim(1); // [rows, 1]
        let scale = (mean_square + self.eps).sqrt().recip();
        input * scale * gamma.unsqueeze()
    }
}
