//! The complete shape of a captioner.

use std::any::Any;

use serde::{Deserialize, Serialize};

use super::keys::{CELLS, DECODER, RECURRENT_DECODER, SELF_ATTENTION, SIZES};
use super::vit::PATCH_SIZE;
use super::{PatchShape, RnnShape, TransformerShape};
use crate::architectures::{Captioner, Rnn};
use crate::attention::AttentionKind;
use crate::config::{Arch, ArchRow, ModelConfig, Position, Shape, Task, Vocabulary};
use crate::error::ModelError;
use crate::model::Model;
use crate::parameter::init::ParamInit;
use crate::parameter::quantization::NamedMatrix;
use crate::precision::Precision;
use crate::registry::Choice;

/// The row of an encoder of images and a decoder that describes them (Xu et al., 2015).
pub(in crate::config) static ROW: ArchRow = ArchRow {
    has_int8: |config| config.decoder != Some(CaptionDecoder::Rnn),
    resolve: ModelConfig::resolve_captioner,
    ..ArchRow::new(
        "captioner",
        |_| Task::Captions,
        &[
            SIZES,
            SELF_ATTENTION,
            DECODER,
            CELLS,
            RECURRENT_DECODER,
            &["num_encoder_layers", "dropout", "position"],
            &["decoder", "patch_size"],
        ],
        |config, vocabulary| Ok(config.captioner(vocabulary)?.into()),
    )
};

impl Captioner {
    /// Its name in a config.
    pub const ARCH: Arch = Choice(&ROW);
}

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
                    ..self.with_arch(Rnn::ARCH).recurrent(vocabulary)?
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
    fn resolve_captioner(&self) -> Self {
        let decoder = self.decoder.unwrap_or_default();
        let resolved = Self {
            decoder: Some(decoder),
            patch_size: Some(self.patch_size.unwrap_or(PATCH_SIZE)),
            // The default number of decoder layers depends on the kind of decoder.
            num_decoder_layers: self.num_decoder_layers,
            ..self.resolve_sizes()
        };
        match decoder {
            CaptionDecoder::Transformer => resolved,
            CaptionDecoder::Rnn => {
                let recurrent = resolved.with_arch(Rnn::ARCH).resolve();
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
}

impl Shape for CaptionerShape {
    fn build(&self, init: ParamInit) -> Model {
        Model::writer(Captioner::build(self, init), self.clone())
    }

    fn task(&self) -> Task {
        Task::Captions
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
        if let Some(layers) = &mut self.recurrent {
            layers.precision = precision;
        }
    }

    fn attention_size(&self, kind: AttentionKind) -> (usize, usize) {
        match (kind, &self.recurrent) {
            (AttentionKind::Encoder, _) | (_, None) => self.stack.attention_size(kind),
            (_, Some(decoder)) => decoder.attention_size(kind),
        }
    }

    fn forward_flops(&self, batch: [usize; 3]) -> f64 {
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

    fn activations(&self, batch: [usize; 3], kernels: bool) -> u64 {
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

    fn matrices<'m>(&self, model: &'m mut dyn Any) -> Vec<NamedMatrix<'m>> {
        model
            .downcast_mut()
            .map_or_else(Vec::new, Captioner::matrices)
    }
}
