//! The complete shape of a Vision Transformer.

use super::{Pooling, TransformerShape};
use crate::config::{ModelConfig, Vocabulary};
use crate::error::ModelError;

/// Default height and width of a patch, in pixels.
pub(super) const PATCH_SIZE: usize = 4;

/// The complete shape of a [`crate::Vit`].
#[derive(Clone, Debug, PartialEq)]
pub struct VitShape {
    /// The layers; the target's vocabulary is the labels.
    pub stack: TransformerShape,
    /// Pools the states into one.
    pub pooling: Pooling,
    /// What the images are.
    pub image: ImageShape,
    /// Height and width of a patch, in pixels.
    pub patch_size: usize,
}

/// The size of all images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageShape {
    /// Rows of pixels.
    pub height: usize,
    /// Pixels of a row.
    pub width: usize,
    /// Bytes of a pixel.
    pub channels: usize,
}

impl ImageShape {
    /// Bytes of an image.
    pub fn num_bytes(&self) -> usize {
        self.height * self.width * self.channels
    }
}

impl ModelConfig {
    /// The complete shape of a Vision Transformer; products are f32.
    ///
    /// # Errors
    /// As [`Self::transformer`]; patches that do not divide the images.
    pub fn vit(&self, vocabulary: Vocabulary) -> Result<VitShape, ModelError> {
        let patch_size = self.patch_size.unwrap_or(PATCH_SIZE);
        let image = vocabulary.image.unwrap_or(ImageShape { height: patch_size, width: patch_size, channels: 3 });
        let divides = |side: usize| patch_size > 0 && side.is_multiple_of(patch_size);
        if !divides(image.height) || !divides(image.width) {
            let reason =
                format!("must divide the height and the width of the images, {} x {}", image.height, image.width);
            return Err(ModelError::config("model.patch_size", patch_size, reason));
        }
        let stack = self.stack(vocabulary)?;
        Ok(VitShape { stack, pooling: self.pooling.unwrap_or_default(), image, patch_size })
    }
}

impl VitShape {
    /// Patches in a column and in a row.
    pub fn grid(&self) -> [usize; 2] {
        [self.image.height / self.patch_size, self.image.width / self.patch_size]
    }

    /// Values in a patch: its pixels times their channels.
    pub fn patch_len(&self) -> usize {
        self.patch_size * self.patch_size * self.image.channels
    }

    /// Sequence length of an image: its patches, and the class position if there is one.
    fn len(&self) -> usize {
        let [rows, columns] = self.grid();
        rows * columns + usize::from(self.pooling == Pooling::Class)
    }

    pub(crate) fn forward_flops(&self, [rows, ..]: [usize; 3]) -> f64 {
        let ends = self.image.num_bytes() + self.stack.tgt_vocab_size;
        self.stack.forward_flops([rows, self.len(), 0]) + 2.0 * (rows * self.stack.d_model * ends) as f64
    }

    /// With the pixels as ids, as numbers and as patches.
    pub(crate) fn activations(&self, [rows, ..]: [usize; 3], kernels: bool) -> u64 {
        self.stack.activations([rows, self.len(), 0], kernels) + 3 * (rows * self.image.num_bytes()) as u64
    }
}
