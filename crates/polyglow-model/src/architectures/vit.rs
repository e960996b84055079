//! The Vision Transformer, for labels of images (Dosovitskiy et al., 2021).

use burn::module::Module;

use crate::architecture::{Inspect, Predict};
use crate::attention::{AttentionMaps, Watch};
use crate::config::VitShape;
use crate::dropout::Dropout;
use crate::encoder::Encoder;
use crate::inputs::Image;
use crate::linear::Linear;
use crate::loss::prediction::Prediction;
use crate::mask::no_mask;
use crate::parameter::init::ParamInit;
use crate::patches::Patches;
use crate::pooling::Pool;

/// Initial standard deviation of positions: small, so that the content of a patch outweighs its
/// position.
const STD: f64 = 0.02;

/// An encoder of images with a head.
#[derive(Module, Debug)]
pub struct Vit {
    /// Embeds the patches of an image.
    pub patches: Patches,
    /// Pools the states into one.
    pub pool: Pool,
    /// The layers.
    pub stack: Encoder,
    /// Projects the pooled state to the labels.
    pub head: Linear,
    dropout: Dropout,
    #[module(skip)]
    shape: VitShape,
}

impl Vit {
    /// A model with the given kind of initial values.
    pub(crate) fn build(shape: &VitShape, init: ParamInit) -> Self {
        let stack = &shape.stack;
        let init = &mut init.with_precision(stack.precision);
        Self {
            patches: Patches::new(shape.patches, stack.d_model, STD, init),
            pool: Pool::new(shape.pooling, stack.d_model, init),
            stack: Encoder::new(stack, stack.num_encoder_layers, init),
            head: Linear::new(stack.d_model, stack.tgt_vocab_size, init),
            dropout: Dropout::new(stack.dropout),
            shape: shape.clone(),
        }
    }

    /// The shape it was built with.
    pub fn shape(&self) -> &VitShape {
        &self.shape
    }

    /// As [`Predict::predict`]; calls `watch` with the attention weights of each layer.
    fn predict_watched(&self, Image { pixels }: Image, watch: Watch<'_>) -> Prediction<'_> {
        let embedded = self.pool.prepend(self.patches.forward(pixels));
        let input = self.dropout.forward(embedded);
        let [batch, len, _] = input.dims();
        // Images of one size need no padding.
        let mask = no_mask(batch, len, &input.device());
        let states = self.stack.forward(input, &mask, None, watch);
        Prediction::Scores(self.head.rows(self.pool.forward(states, None)))
    }
}

impl Predict<Image> for Vit {
    /// Scores of the labels of each image, `[batch, tgt_vocab_size]`.
    fn predict(&self, image: Image) -> Prediction<'_> {
        self.predict_watched(image, None)
    }
}

impl Inspect for Vit {
    type Inputs = Image;

    fn attention(&self, image: Image) -> AttentionMaps {
        let mut encoder = Vec::new();
        self.predict_watched(image, Some(&mut |_, weights| encoder.push(weights)));
        AttentionMaps {
            encoder,
            ..AttentionMaps::default()
        }
    }
}
