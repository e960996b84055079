//! The complete shape of a Vision Transformer.

use super::keys::{SELF_ATTENTION, SIZES};
use super::{Pooling, TransformerShape};
use crate::architectures::Vit;
use crate::attention::AttentionKind;
use crate::config::{Arch, ArchRow, ModelConfig, Shape, Task, Vocabulary};
use crate::error::ModelError;
use crate::model::Model;
use crate::parameter::init::ParamInit;
use crate::precision::Precision;
use crate::registry::Choice;

/// The row of the Vision Transformer, for labels of images (Dosovitskiy et al., 2021).
pub(in crate::config) static ROW: ArchRow = ArchRow {
    resolve: |config| ModelConfig {
        pooling: Some(config.pooling.unwrap_or_default()),
        patch_size: Some(config.patch_size.unwrap_or(PATCH_SIZE)),
        ..config.resolve_sizes()
    },
    ..ArchRow::new(
        "vit",
        |_| Task::Images,
        &[
            SIZES,
            SELF_ATTENTION,
            &["num_encoder_layers", "dropout", "pooling", "patch_size"],
        ],
        |config, vocabulary| Ok(config.vit(vocabulary)?.into()),
    )
};

impl Vit {
    /// Its name in a config.
    pub const ARCH: Arch = Choice(&ROW);
}

/// Default height and width of a patch, in pixels.
pub(super) const PATCH_SIZE: usize = 4;

/// The complete shape of a [`crate::Vit`].
#[derive(Clone, Debug, PartialEq)]
pub struct VitShape {
    /// The layers; the target's vocabulary is the labels.
    pub stack: TransformerShape,
    /// The pooling of the states into one.
    pub pooling: Pooling,
    /// The patches of images.
    pub patches: PatchShape,
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

/// The size of images and of their patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchShape {
    /// The size of the images.
    pub image: ImageShape,
    /// Height and width of a patch, in pixels.
    pub patch_size: usize,
}

impl PatchShape {
    /// Patches in a column and in a row.
    pub fn grid(&self) -> [usize; 2] {
        [
            self.image.height / self.patch_size,
            self.image.width / self.patch_size,
        ]
    }

    /// Patches of an image.
    pub fn num_patches(&self) -> usize {
        self.grid().iter().product()
    }

    /// Values in a patch: its pixels times their channels.
    pub fn patch_len(&self) -> usize {
        self.patch_size * self.patch_size * self.image.channels
    }

    /// Operations of the projection of all patches of an image.
    pub(super) fn forward_flops(&self, d_model: usize) -> f64 {
        2.0 * (self.image.num_bytes() * d_model) as f64
    }

    /// Elements that are kept of an image: the pixels as integers, as floats and as patches.
    pub(super) fn activations(&self) -> u64 {
        3 * self.image.num_bytes() as u64
    }
}

impl ModelConfig {
    /// The size of images and of their patches.
    ///
    /// # Errors
    /// [`ModelError::Config`] for patches that do not divide the images.
    pub fn patches(&self, vocabulary: Vocabulary) -> Result<PatchShape, ModelError> {
        let patch_size = self.patch_size.unwrap_or(PATCH_SIZE);
        let image = vocabulary.image.unwrap_or(ImageShape {
            height: patch_size,
            width: patch_size,
            channels: 3,
        });
        let fits = patch_size > 0
            && image.height.is_multiple_of(patch_size)
            && image.width.is_multiple_of(patch_size);
        if !fits {
            let reason = format!(
                "must divide the height and the width of the images, {} x {}",
                image.height, image.width
            );
            return Err(ModelError::config("model.patch_size", patch_size, reason));
        }
        Ok(PatchShape { image, patch_size })
    }

    /// The complete shape of a Vision Transformer; products are f32.
    ///
    /// # Errors
    /// As [`Self::transformer`] and [`Self::patches`].
    pub fn vit(&self, vocabulary: Vocabulary) -> Result<VitShape, ModelError> {
        let patches = self.patches(vocabulary)?;
        if self.pooling == Some(Pooling::Last) {
            let reason = "belongs to recurrent layers; patches have no last one";
            return Err(ModelError::config("model.pooling", "last", reason));
        }
        Ok(VitShape {
            stack: self.stack(vocabulary)?,
            pooling: self.pooling.unwrap_or_default(),
            patches,
        })
    }
}

impl VitShape {
    /// Sequence length of an image: its patches, and the class vector if there is one.
    fn len(&self) -> usize {
        self.patches.num_patches() + usize::from(self.pooling == Pooling::Class)
    }
}

impl Shape for VitShape {
    fn build(&self, init: ParamInit) -> Model {
        Model::reader(Vit::build(self, init), self.clone())
    }

    fn task(&self) -> Task {
        Task::Images
    }

    fn d_model(&self) -> usize {
        self.stack.d_model
    }

    fn vocabulary(&self) -> Vocabulary {
        Vocabulary {
            image: Some(self.patches.image),
            ..self.stack.vocabulary()
        }
    }

    fn max_len_mut(&mut self) -> &mut usize {
        &mut self.stack.max_len
    }

    fn set_precision(&mut self, precision: Precision) {
        self.stack.precision = precision;
    }

    fn attention_size(&self, kind: AttentionKind) -> (usize, usize) {
        match kind {
            AttentionKind::Encoder => (self.stack.num_encoder_layers, self.stack.num_heads),
            AttentionKind::Decoder | AttentionKind::Cross => (0, 0),
        }
    }

    fn forward_flops(&self, [rows, ..]: [usize; 3]) -> f64 {
        let Self { stack, patches, .. } = self;
        let head = 2.0 * (stack.d_model * stack.tgt_vocab_size) as f64;
        stack.forward_flops([rows, self.len(), 0])
            + rows as f64 * (patches.forward_flops(stack.d_model) + head)
    }

    fn activations(&self, [rows, ..]: [usize; 3], kernels: bool) -> u64 {
        self.stack.activations([rows, self.len(), 0], kernels)
            + rows as u64 * self.patches.activations()
    }
}
