//! The Vision Transformer, for labels of images (Dosovitskiy et al., 2021).

use burn::module::Module;
use burn::tensor::{Int, Tensor};

use crate::architecture::{Inspect, Predict};
use crate::attention::{AttentionMaps, Watch};
use crate::config::{ImageShape, VitShape};
use crate::dropout::Dropout;
use crate::encoder::Encoder;
use crate::inputs::Image;
use crate::linear::Linear;
use crate::loss::prediction::Prediction;
use crate::mask::no_mask;
use crate::parameter::init::ParamInit;
use crate::pooling::Pool;
use crate::position::LearnedPositions;

/// Initial standard deviation of positions: small, so that the content of a patch outweighs its place.
const STD: f64 = 0.02;

/// An encoder of images with a head.
#[derive(Module, Debug)]
pub struct Vit {
    /// From the values of a patch to its vector.
    pub patch: Linear,
    /// A trained vector for each row of patches.
    pub row_position: LearnedPositions,
    /// A trained vector for each column of patches.
    pub column_position: LearnedPositions,
    /// Pools the states into one.
    pub pool: Pool,
    /// The layers.
    pub stack: Encoder,
    /// From the pooled state to the labels.
    pub head: Linear,
    dropout: Dropout,
    #[module(skip)]
    shape: VitShape,
}

impl Vit {
    /// A model with initial values of one kind.
    pub(crate) fn build(shape: &VitShape, init: ParamInit) -> Self {
        let stack = &shape.stack;
        let init = &mut init.with_precision(stack.precision);
        let [rows, columns] = shape.grid();
        Self {
            patch: Linear::new(shape.patch_len(), stack.d_model, init),
            row_position: LearnedPositions::new(rows, stack.d_model, STD, init),
            column_position: LearnedPositions::new(columns, stack.d_model, STD, init),
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

    /// Shows the attention weights to `watch`.
    fn predict_watched(&self, Image { pixels }: Image, watch: Watch<'_>) -> Prediction<'_> {
        let positions = self.row_position.weight.val().unsqueeze_dim::<3>(1)
            + self.column_position.weight.val().unsqueeze_dim::<3>(0);
        let embedded = self.patch.forward(self.patches(pixels)) + positions.flatten::<2>(0, 1).unsqueeze::<3>();
        let input = self.dropout.forward(self.pool.prepend(embedded));
        let [batch, len, _] = input.dims();
        let mask = no_mask(batch, len, &input.device());
        let states = self.stack.forward(input, &mask, None, watch);
        Prediction::Scores(self.head.rows(self.pool.forward(states, None)))
    }

    /// Bytes as numbers from -1 to 1, patch by patch; in each row by row.
    ///
    /// # Shapes
    /// - `pixels`: `[batch, height * width * channels]`; output: `[batch, patches, patch_size * patch_size * channels]`
    fn patches(&self, pixels: Tensor<2, Int>) -> Tensor<3> {
        let VitShape { image: ImageShape { channels, .. }, patch_size, .. } = self.shape;
        let ([batch, _], [rows, columns]) = (pixels.dims(), self.shape.grid());
        let values = pixels.float() / 127.5 - 1.0;
        let lines: Tensor<5> = values.reshape([batch, rows, patch_size, columns, patch_size * channels]);
        lines.swap_dims(2, 3).reshape([batch, rows * columns, self.shape.patch_len()])
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
        AttentionMaps { encoder, ..AttentionMaps::default() }
    }
}
