//! The complete shapes of encoders that end in a head: for text and for images.

use serde::{Deserialize, Serialize};

use super::{Arch, TransformerConfig};
use crate::attention::AttentionKind;
use crate::config::shape::Shape;
use crate::config::{ModelConfig, Task, Vocabulary};
use crate::error::ModelError;
use crate::init::ParamInit;
use crate::model::{EncoderOnly, Model, Vit};
use crate::precision::Precision;

/// What stands on the encoder of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    /// A linear map from the pooled states to the labels.
    #[default]
    Classification,
    /// The embedding, transposed, at every position: which token stood there (Devlin et al., 2019, section 3.1).
    MaskedLm,
}

/// How the states of all positions become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// Their mean over what is no padding.
    #[default]
    Mean,
    /// The state of a trained vector that stands before the others (Devlin et al., 2019; Dosovitskiy et al., 2021).
    Class,
}

/// The shape of an encoder of text with its head.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderConfig {
    /// The layers; the target's vocabulary is the labels, or that of the text.
    pub stack: TransformerConfig,
    /// How states become one; under a head of masked tokens, whether there is a trained vector before them.
    pub pooling: Pooling,
    /// What stands on it.
    pub head: Head,
}

/// The shape of a Vision Transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct VitConfig {
    /// The layers; the target's vocabulary is the labels. The last 256 ids of the source's are the values of a byte.
    pub stack: TransformerConfig,
    /// How states become one.
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

/// Pixels of a patch's side where nothing else is asked for.
const PATCH_SIZE: usize = 4;

impl ModelConfig {
    /// The keys of encoders that end in a head, filled in.
    pub(super) fn resolve_head(self) -> Self {
        let is_vit = self.arch == Arch::Vit;
        Self {
            pooling: Some(self.pooling.unwrap_or_default()),
            head: if is_vit { self.head } else { Some(self.head.unwrap_or_default()) },
            patch_size: if is_vit { Some(self.patch_size.unwrap_or(PATCH_SIZE)) } else { self.patch_size },
            ..self
        }
    }

    /// The complete shape of an encoder of text with its head; products are f32.
    ///
    /// # Errors
    /// As [`Self::transformer`].
    pub fn encoder(&self, vocabulary: Vocabulary) -> Result<EncoderConfig, ModelError> {
        let stack = self.stack(vocabulary)?;
        Ok(EncoderConfig { stack, pooling: self.pooling.unwrap_or_default(), head: self.head.unwrap_or_default() })
    }

    /// The complete shape of a Vision Transformer; products are f32.
    ///
    /// # Errors
    /// As [`Self::transformer`]; patches that do not divide the images.
    pub fn vit(&self, vocabulary: Vocabulary) -> Result<VitConfig, ModelError> {
        let patch_size = self.patch_size.unwrap_or(PATCH_SIZE);
        let image = vocabulary.image.unwrap_or(ImageShape { height: patch_size, width: patch_size, channels: 3 });
        let divides = |side: usize| patch_size > 0 && side.is_multiple_of(patch_size);
        if !divides(image.height) || !divides(image.width) {
            let reason =
                format!("must divide the height and the width of the images, {} x {}", image.height, image.width);
            return Err(ModelError::config("model.patch_size", patch_size, reason));
        }
        let stack = self.stack(vocabulary)?;
        Ok(VitConfig { stack, pooling: self.pooling.unwrap_or_default(), image, patch_size })
    }

    /// The layers of an encoder without a decoder.
    fn stack(&self, vocabulary: Vocabulary) -> Result<TransformerConfig, ModelError> {
        // A decoder layer that is not built, for the checks.
        let config = Self { num_decoder_layers: Some(1), ..self.clone() }.transformer(vocabulary)?;
        Ok(TransformerConfig { num_decoder_layers: 0, ..config })
    }
}

impl EncoderConfig {
    /// Positions of a text of this length.
    fn len(&self, src_len: usize) -> usize {
        src_len + usize::from(self.pooling == Pooling::Class)
    }

    /// Rows of logits that a batch has.
    fn num_logits(&self, [rows, src_len, _]: [usize; 3]) -> usize {
        match self.head {
            Head::Classification => rows,
            Head::MaskedLm => rows * src_len,
        }
    }
}

impl Shape for EncoderConfig {
    fn build(&self, init: ParamInit) -> Model {
        Model::Encoder(EncoderOnly::build(self, init))
    }

    fn task(&self) -> Task {
        match self.head {
            Head::Classification => Task::Labels,
            Head::MaskedLm => Task::Masked,
        }
    }

    fn d_model(&self) -> usize {
        self.stack.d_model
    }

    fn vocabulary(&self) -> Vocabulary {
        self.stack.vocabulary()
    }

    fn max_len(&mut self) -> &mut usize {
        &mut self.stack.max_len
    }

    fn precision(&mut self) -> Option<&mut Precision> {
        Some(&mut self.stack.precision)
    }

    fn attention(&self, kind: AttentionKind) -> (usize, usize) {
        if kind == AttentionKind::Encoder { self.stack.attention(kind) } else { (0, 0) }
    }

    fn forward_flops(&self, batch @ [rows, src_len, _]: [usize; 3]) -> f64 {
        let logits = 2.0 * (self.num_logits(batch) * self.stack.d_model * self.stack.tgt_vocab_size) as f64;
        self.stack.forward_flops([rows, self.len(src_len), 0]) + logits
    }

    fn activations(&self, batch @ [rows, src_len, _]: [usize; 3], kernels: bool) -> u64 {
        let logits = (self.num_logits(batch) * self.stack.tgt_vocab_size) as u64 * if kernels { 1 } else { 3 };
        self.stack.activations([rows, self.len(src_len), 0], kernels) + logits
    }
}

impl VitConfig {
    /// Patches in a column and in a row.
    pub fn grid(&self) -> [usize; 2] {
        [self.image.height / self.patch_size, self.image.width / self.patch_size]
    }

    /// Numbers of a patch.
    pub fn patch_len(&self) -> usize {
        self.patch_size * self.patch_size * self.image.channels
    }

    /// Positions of an image.
    fn len(&self) -> usize {
        let [rows, columns] = self.grid();
        rows * columns + usize::from(self.pooling == Pooling::Class)
    }
}

impl Shape for VitConfig {
    fn build(&self, init: ParamInit) -> Model {
        Model::Vit(Vit::build(self, init))
    }

    fn task(&self) -> Task {
        Task::Images
    }

    fn d_model(&self) -> usize {
        self.stack.d_model
    }

    fn vocabulary(&self) -> Vocabulary {
        Vocabulary { image: Some(self.image), ..self.stack.vocabulary() }
    }

    fn max_len(&mut self) -> &mut usize {
        &mut self.stack.max_len
    }

    fn precision(&mut self) -> Option<&mut Precision> {
        Some(&mut self.stack.precision)
    }

    fn attention(&self, kind: AttentionKind) -> (usize, usize) {
        if kind == AttentionKind::Encoder { self.stack.attention(kind) } else { (0, 0) }
    }

    fn forward_flops(&self, [rows, ..]: [usize; 3]) -> f64 {
        let ends = self.image.num_bytes() + self.stack.tgt_vocab_size;
        self.stack.forward_flops([rows, self.len(), 0]) + 2.0 * (rows * self.stack.d_model * ends) as f64
    }

    /// With the pixels as ids, as numbers and as patches.
    fn activations(&self, [rows, ..]: [usize; 3], kernels: bool) -> u64 {
        self.stack.activations([rows, self.len(), 0], kernels) + 3 * (rows * self.image.num_bytes()) as u64
    }
}
