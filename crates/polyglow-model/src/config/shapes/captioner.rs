//! The complete shape of a captioner.

use serde::{Deserialize, Serialize};

use super::vit::PATCH_SIZE;
use super::{PatchShape, RnnShape, TransformerShape};
use crate::config::{Arch, ModelConfig, Position, Vocabulary};
use crate::error::ModelError;

/// What writes the captions.
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
    /// The encoder's layers; and the decoder's, if that is a Transformer's.
    pub stack: TransformerShape,
    /// The decoder, if it is recurrent.
    pub recurrent: Option<RnnShape>,
    /// How images are cut.
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
                let decoder = Self {
                    arch: Arch::Rnn,
                    ..self.clone()
                }
                .recurrent(vocabulary)?;
                (
                    self.stack(vocabulary)?,
                    Some(RnnShape {
                        num_encoder_layers: 0,
                        ..decoder
                    }),
                )
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
                let Self {
                    num_decoder_layers,
                    cell,
                    attention,
                    attend,
                    input_feeding,
                    ..
                } = Self {
                    arch: Arch::Rnn,
                    ..resolved.clone()
                }
                .resolve();
                Self {
                    num_decoder_layers,
                    cell,
                    attention,
                    attend,
                    input_feeding,
                    ..resolved
                }
            }
        }
    }

    fn refuse_keys_of_the_other_decoder(&self) -> Result<(), ModelError> {
        let recurrent = self.decoder == Some(CaptionDecoder::Rnn);
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
        match keys
            .into_iter()
            .find(|(_, given, of_recurrent)| *given && *of_recurrent != recurrent)
        {
            None => Ok(()),
            Some((key, _, of_recurrent)) => {
                let wanted = if of_recurrent { "rnn" } else { "transformer" };
                let reason = format!("belongs to `model.decoder = \"{wanted}\"`; leave it out");
                Err(ModelError::config(key, "...", reason))
            }
        }
    }
}

impl CaptionerShape {
    /// Source positions are the patches, whatever the length of the batch's source.
    fn batch(&self, [rows, _, tgt_len]: [usize; 3]) -> [usize; 3] {
        [rows, self.patches.num_patches(), tgt_len]
    }

    pub(crate) fn forward_flops(&self, batch: [usize; 3]) -> f64 {
        let batch @ [rows, src_len, _] = self.batch(batch);
        let patches = rows as f64 * self.patches.forward_flops(self.stack.d_model);
        patches
            + match &self.recurrent {
                None => self.stack.forward_flops(batch),
                Some(decoder) => {
                    self.stack.forward_flops([rows, src_len, 0]) + decoder.forward_flops(batch)
                }
            }
    }

    pub(crate) fn activations(&self, batch: [usize; 3], kernels: bool) -> u64 {
        let batch @ [rows, src_len, _] = self.batch(batch);
        rows as u64 * self.patches.activations()
            + match &self.recurrent {
                None => self.stack.activations(batch, kernels),
                Some(decoder) => {
                    self.stack.activations([rows, src_len, 0], kernels)
                        + decoder.activations(batch, kernels)
                }
            }
    }
}
