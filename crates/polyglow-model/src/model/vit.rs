//! The Vision Transformer on one screen: what an image is (Dosovitskiy et al., 2021).

use burn::module::Module;
use burn::tensor::{Int, Tensor};

use super::{Architecture, AttentionMaps, Side, of_encoder};
use crate::attention::Watch;
use crate::config::{ImageShape, ModelShape, VitConfig};
use crate::dropout::Dropout;
use crate::embedding::Embedding;
use crate::encoder::Encoder;
use crate::init::ParamInit;
use crate::linear::Linear;
use crate::mask::no_mask;
use crate::pooling::Pool;
use crate::position::LearnedPositions;
use crate::prediction::Prediction;

/// Standard deviation of positions at first: small, so that a patch is known by what it shows.
const STD: f64 = 0.02;
/// Values of a byte.
const BYTES: usize = 256;

/// An encoder of images with a head.
#[derive(Module, Debug)]
pub struct Vit {
    /// From the numbers of a patch to its vector.
    pub patch: Linear,
    /// A trained vector for each row of patches.
    pub row_position: LearnedPositions,
    /// A trained vector for each column of patches.
    pub column_position: LearnedPositions,
    /// How states become one.
    pub pool: Pool,
    /// The layers.
    pub stack: Encoder,
    /// From the pooled state to the labels.
    pub head: Linear,
    dropout: Dropout,
    on_host: bool,
    #[module(skip)]
    config: VitConfig,
}

impl Vit {
    /// A model with initial values of one kind.
    pub(crate) fn build(config: &VitConfig, init: ParamInit) -> Self {
        let stack = &config.stack;
        let init = &mut init.with_precision(stack.precision);
        let [rows, columns] = config.grid();
        Self {
            patch: Linear::new(config.patch_len(), stack.d_model, init),
            row_position: LearnedPositions::new(rows, stack.d_model, STD, init),
            column_position: LearnedPositions::new(columns, stack.d_model, STD, init),
            pool: Pool::new(config.pooling, stack.d_model, init),
            stack: Encoder::new(stack, stack.num_encoder_layers, init),
            head: Linear::new(stack.d_model, stack.tgt_vocab_size, init),
            dropout: Dropout::new(stack.dropout, init),
            on_host: init.on_host(),
            config: config.clone(),
        }
    }

    /// Scores of the labels of each image; shows the attention weights to `watch`.
    ///
    /// # Shapes
    /// - `src`: `[batch, height * width * channels]`, the ids of bytes, row by row
    /// - output: `[batch, tgt_vocab_size]`
    pub fn forward(&self, src: Tensor<2, Int>, watch: Watch<'_>) -> Tensor<2> {
        let positions = self.row_position.weight.val().unsqueeze_dim::<3>(1)
            + self.column_position.weight.val().unsqueeze_dim::<3>(0);
        let embedded = self.patch.forward(self.patches(src)) + positions.flatten::<2>(0, 1).unsqueeze::<3>();
        let input = self.dropout.forward(self.pool.prepend(embedded));
        let [batch, len, _] = input.dims();
        let mask = no_mask(batch, len, &input.device());
        let states = self.stack.forward(input, &mask, None, watch);
        self.head.rows(self.pool.forward(states, None))
    }

    /// Bytes as numbers from -1 to 1, patch by patch; in each row by row.
    ///
    /// # Shapes
    /// - `src`: `[batch, height * width * channels]`; output: `[batch, patches, patch_size * patch_size * channels]`
    fn patches(&self, src: Tensor<2, Int>) -> Tensor<3> {
        let VitConfig { ref stack, image: ImageShape { channels, .. }, patch_size, .. } = self.config;
        let ([batch, _], [rows, columns]) = (src.dims(), self.config.grid());
        let first = stack.src_vocab_size - BYTES;
        let values = (src - first as i32).float() / 127.5 - 1.0;
        let lines: Tensor<5> = values.reshape([batch, rows, patch_size, columns, patch_size * channels]);
        lines.swap_dims(2, 3).reshape([batch, rows * columns, self.config.patch_len()])
    }
}

impl Architecture for Vit {
    fn shape(&self) -> ModelShape {
        ModelShape::Vit(self.config.clone())
    }

    fn on_host(&self) -> bool {
        self.on_host
    }

    fn embedding(&self, _: Side) -> &Embedding {
        panic!("images have no tokens")
    }

    fn predict(&self, src: Tensor<2, Int>, _: Tensor<2, Int>) -> Prediction<'_> {
        Prediction::Scores(self.forward(src, None))
    }

    fn attention(&self, src: Tensor<2, Int>, _: Tensor<2, Int>) -> AttentionMaps {
        of_encoder(|watch| self.forward(src, watch))
    }
}
