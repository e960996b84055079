//! The complete shape of a captioner.

use serde::{Deserialize, Serialize};

use super::vit::PATCH_SIZE;
use super::{PatchShape, RnnShape, TransformerShape};
use crate::config::{Arch, ModelConfig, Position, Vocabulary};
use crate::error::ModelError;

/// The decoder of captions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaptionDecoder {
    /// The decoder of a Transformer.
    #[default]
    Transformer,
    /// A recurrent decoder with attention (Xu et al., 2015).
    Rnn,
}

/// The complete shape of a [`crate::Captioner`].
#[derive(Clone, Debug, PartialEq)]
pub struct CaptionerShape {
    /// The layers of the encoder; and of the decoder, if that is a Transformer's.
    pub stack: TransformerShape,
    /// The decoder, if it is recurrent.
    pub recurrent: Option<RnnShape>,
    /// The patches of images.
    pub patches: PatchShape,
}

impl ModelConfig {
    /// The complete shape of a captioner; products are f32.
    ///
    /// # Errors
    /// As [`Self::transformer`], [`Self::patches`], and for a recurrent decoder as [`Self::rnn`].
    pub fn captioner(&self, vocabulary: Vocabulary) -> Result<CaptionerShape, ModelError> {
        self.refuse_keys_of_the_other_decoder()?;
        let patches = self.patches(vocabulary)?;
        let (stack, recurrent) = match self.decoder.unwrap_or_default() {
            CaptionDecoder::Transformer => (self.transformer(vocabulary)?, None),
            CaptionDecoder::Rnn => {
                let decoder = RnnShape {
                    num_encoder_layers: 0,
                    ..self.with_arch(Arch::Rnn).recurrent(vocabulary)?
                };
                (self.stack(vocabulary)?, Some(decoder))
            }
        };
        Ok(CaptionerShape {
            stack,
            recurrent,
            patches,
        })
    }

    /// Fills in the keys of captioners.
    pub(in crate::config) fn resolve_captioner(self) -> Self {
        let decoder = self.decoder.unwrap_or_default();
        let resolved = Self {
            decoder: Some(decoder),
            patch_size: Some(self.patch_size.unwrap_or(PATCH_SIZE)),
            ..self
        };
        match decoder {
            CaptionDecoder::Transformer => resolved,
            CaptionDecoder::Rnn => {
                let recurrent = resolved.with_arch(Arch::Rnn).resolve();
                Self {
                    num_decoder_layers: recurrent.num_decoder_layers,
                    cell: recurrent.cell,
                    attention: recurrent.attention,
                    attend: recurrent.attend,
                    input_feeding: recurrent.input_feeding,
                    ..resolved
                }
            }
        }
    }

    /// Refuses keys that were given but have no effect with this kind of decoder.
    fn refuse_keys_of_the_other_decoder(&self) -> Result<(), ModelError> {
        let is_recurrent = self.decoder == Some(CaptionDecoder::Rnn);
        // Each key, whether it was given, and whether it is one of recurrent decoders.
        let keys = [
            ("model.cell", self.cell.is_some(), true),
            ("model.cell_size", self.cell_size.is_some(), true),
            ("model.bias", self.bias.is_some(), true),
            ("model.attention", self.attention.is_some(), true),
            ("model.attend", self.attend.is_some(), true),
            ("model.input_feeding", self.input_feeding.is_some(), true),
            (
                "model.position",
                self.position != Position::default(),
                false,
            ),
        ];
        let foreign = keys
            .into_iter()
            .find(|(_, is_given, for_recurrent)| *is_given && *for_recurrent != is_recurrent);
        let Some((key, _, for_recurrent)) = foreign else {
            return Ok(());
        };
        let decoder = if for_recurrent { "rnn" } else { "transformer" };
        let reason = format!("belongs to `model.decoder = \"{decoder}\"`; leave it out");
        Err(ModelError::config(key, "...", reason))
    }
}

impl CaptionerShape {
    /// The sizes of a batch, whose source positions are the patches.
    fn batch(&self, [rows, _, tgt_len]: [usize; 3]) -> [usize; 3] {
        [rows, self.patches.num_patches(), tgt_len]
    }

    pub(crate) fn forward_flops(&self, batch: [usize; 3]) -> f64 {
        let batch @ [rows, src_len, _] = self.batch(batch);
        let patches = rows as f64 * self.patches.forward_flops(self.stack.d_model);
        let layers = match &self.recurrent {
            None => self.stack.forward_flops(batch),
            Some(decoder) => {
                self.stack.forward_flops([rows, src_len, 0]) + decoder.forward_flops(batch)
            }
        };
        patches + layers
    }

    pub(crate) fn activations(&self, batch: [usize; 3], kernels: bool) -> u64 {
        let batch @ [rows, src_len, _] = self.batch(batch);
        let patches = rows as u64 * self.patches.activations();
        let layers = match &self.recurrent {
            None => self.stack.activations(batch, kernels),
            Some(decoder) => {
                self.stack.activations([rows, src_len, 0], kernels)
                    + decoder.activations(batch, kernels)
            }
        };
        patches + layers
    }
}
