//! The built-in architectures: their names, which keys they fill, and which they refuse.
//!
//! To add one, begin here with a variant of [`Arch`] and one of [`ModelShape`]; the compiler asks
//! for the rest.

use serde::{Deserialize, Serialize};

use super::recurrent::Attend;
use super::{Head, ModelConfig, ModelShape, Preset, Sizes, Task, TieEmbeddings, Vocabulary};
use crate::error::ModelError;

/// The architectures that can be trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// The encoder-decoder Transformer (Vaswani et al., 2017).
    #[default]
    Transformer,
    /// A recurrent encoder-decoder, with attention (Bahdanau et al., 2015; Luong et al., 2015) or
    /// without (Sutskever et al., 2014).
    Rnn,
    /// A decoder-only Transformer, a language model of one-sided text (Radford et al., 2018).
    Lm,
    /// A recurrent language model, the network that predicts the next letter (Mikolov et al.,
    /// 2010).
    #[serde(rename = "rnn-lm")]
    RnnLm,
    /// Word vectors, by telling the words beside a word from others (Mikolov et al., 2013).
    #[serde(rename = "skipgram")]
    SkipGram,
    /// An encoder with a head: for labels of texts, or for tokens that are hidden in them (Devlin
    /// et al., 2019).
    Encoder,
    /// A Vision Transformer, for labels of images (Dosovitskiy et al., 2021).
    Vit,
    /// An encoder of images and a decoder that describes them (Xu et al., 2015).
    Captioner,
}

impl Arch {
    /// What it is trained for, unless its head says otherwise.
    pub fn task(self) -> Task {
        match self {
            Self::Transformer | Self::Rnn => Task::Translation,
            Self::Lm | Self::RnnLm => Task::Language,
            Self::SkipGram => Task::Words,
            Self::Encoder => Task::Labels,
            Self::Vit => Task::Images,
            Self::Captioner => Task::Captions,
        }
    }

    /// Its name in a config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transformer => "transformer",
            Self::Rnn => "rnn",
            Self::Lm => "lm",
            Self::RnnLm => "rnn-lm",
            Self::SkipGram => "skipgram",
            Self::Encoder => "encoder",
            Self::Vit => "vit",
            Self::Captioner => "captioner",
        }
    }

    /// Layers of a stack of the size at which a Transformer has `of_transformer`.
    pub(super) fn num_layers(self, of_transformer: usize) -> usize {
        match self {
            Self::Transformer | Self::Lm | Self::Encoder | Self::Vit | Self::Captioner => {
                of_transformer
            }
            // Each recurrent layer reads the whole sequence, so few are needed, and each costs
            // `len` sequential steps.
            Self::Rnn | Self::RnnLm => of_transformer / 3,
            Self::SkipGram => 0,
        }
    }
}

impl ModelConfig {
    /// What the model is trained for.
    pub fn task(&self) -> Task {
        match self.head {
            Some(Head::MaskedLm) if self.arch == Arch::Encoder => Task::Masked,
            Some(Head::MaskedLm | Head::Classification) | None => self.arch.task(),
        }
    }

    /// Fills every key that a preset or the architecture decides, so that the result says all it
    /// means.
    #[must_use]
    pub fn resolve(&self) -> Self {
        let Sizes {
            num_layers,
            d_model,
            d_ff,
            num_heads,
            dropout,
        } = self.sizes();
        let (reads, writes) = (
            !matches!(self.task(), Task::Language | Task::Words),
            matches!(
                self.task(),
                Task::Translation | Task::Captions | Task::Language
            ),
        );
        let vectors = Self {
            preset: Some(self.preset.unwrap_or(Preset::Small)),
            d_model: Some(self.d_model.unwrap_or(d_model)),
            ..self.clone()
        };
        let common = Self {
            num_encoder_layers: if reads {
                self.num_encoder_layers.or(Some(num_layers))
            } else {
                self.num_encoder_layers
            },
            num_decoder_layers: if writes {
                self.num_decoder_layers.or(Some(num_layers))
            } else {
                self.num_decoder_layers
            },
            dropout: Some(self.dropout.unwrap_or(dropout)),
            ..vectors.clone()
        };
        let of_transformer = Self {
            d_ff: Some(self.d_ff.unwrap_or(d_ff)),
            num_heads: Some(self.num_heads.unwrap_or(num_heads)),
            ..common.clone()
        };
        match self.arch {
            Arch::Transformer | Arch::Lm => of_transformer,
            Arch::Encoder if self.has_recurrent_body() => {
                let Self {
                    num_encoder_layers,
                    cell,
                    ..
                } = Self {
                    arch: Arch::Rnn,
                    ..self.clone()
                }
                .resolve();
                Self {
                    num_encoder_layers,
                    cell,
                    ..common
                }
                .resolve_head()
            }
            Arch::Encoder | Arch::Vit => of_transformer.resolve_head(),
            Arch::Captioner => Self {
                num_decoder_layers: self.num_decoder_layers,
                ..of_transformer
            }
            .resolve_captioner(),
            Arch::SkipGram => vectors,
            Arch::RnnLm => Self {
                cell: Some(self.cell.unwrap_or_default()),
                ..common
            },
            Arch::Rnn => Self {
                cell: Some(self.cell.unwrap_or_default()),
                attention: Some(self.attention.unwrap_or_default()),
                // Left out where it says nothing, so that configs stay as they were before it was
                // there.
                attend: self.attend.filter(|attend| *attend != Attend::default()),
                input_feeding: Some(self.input_feeding()),
                ..common
            },
        }
    }

    /// The complete shape of the model for the given vocabularies; products are f32.
    ///
    /// # Errors
    /// [`ModelError::Config`] for a size of zero or beyond reason, a dropout outside `[0, 1)`,
    /// sizes that do not fit each other, tied embeddings over vocabularies that are not shared, and
    /// keys that the architecture does not have.
    pub fn shape(&self, vocabulary: Vocabulary) -> Result<ModelShape, ModelError> {
        let both_sides = self.arch.task() == Task::Translation;
        if both_sides && self.tie_embeddings == TieEmbeddings::All && !vocabulary.shared {
            return Err(ModelError::config(
                "model.tie_embeddings",
                "all",
                "source and target have separate vocabularies; use `\"decoder\"`, or `tokenizer.shared = true`",
            ));
        }
        self.refuse_foreign()?;
        match self.arch {
            Arch::Transformer => self.transformer(vocabulary).map(ModelShape::Transformer),
            Arch::Rnn => self.rnn(vocabulary).map(ModelShape::Rnn),
            Arch::Lm => self.lm(vocabulary).map(ModelShape::Lm),
            Arch::RnnLm => self.rnn_lm(vocabulary).map(ModelShape::RnnLm),
            Arch::SkipGram => self.skip_gram(vocabulary).map(ModelShape::SkipGram),
            Arch::Encoder => self.encoder(vocabulary).map(ModelShape::Encoder),
            Arch::Vit => self.vit(vocabulary).map(ModelShape::Vit),
            Arch::Captioner => self.captioner(vocabulary).map(ModelShape::Captioner),
        }
    }

    /// Refuses keys that were given but have no effect in this architecture.
    fn refuse_foreign(&self) -> Result<(), ModelError> {
        use Arch::{Captioner, Encoder, Lm, Rnn, RnnLm, Transformer, Vit};

        let others = Self::default();
        let of_transformers: &[Arch] = &[Transformer, Lm, Encoder, Vit, Captioner];
        let keys: [(&str, bool, &[Arch]); 23] = [
            ("model.d_ff", self.d_ff.is_some(), of_transformers),
            ("model.num_heads", self.num_heads.is_some(), of_transformers),
            (
                "model.num_encoder_layers",
                self.num_encoder_layers.is_some(),
                &[Transformer, Rnn, Encoder, Vit, Captioner],
            ),
            (
                "model.num_decoder_layers",
                self.num_decoder_layers.is_some(),
                &[Transformer, Rnn, Lm, RnnLm, Captioner],
            ),
            (
                "model.dropout",
                self.dropout.is_some(),
                &[Transformer, Rnn, Lm, RnnLm, Encoder, Vit, Captioner],
            ),
            (
                "model.attention_dropout",
                self.attention_dropout > 0.0,
                of_transformers,
            ),
            (
                "model.activation_dropout",
                self.activation_dropout > 0.0,
                of_transformers,
            ),
            (
                "model.activation",
                self.activation != others.activation,
                of_transformers,
            ),
            ("model.norm", self.norm != others.norm, of_transformers),
            (
                "model.position",
                self.position != others.position,
                &[Transformer, Lm, Encoder, Captioner],
            ),
            (
                "model.tie_embeddings",
                self.tie_embeddings != others.tie_embeddings,
                &[Transformer, Rnn, Lm, RnnLm, Captioner],
            ),
            ("model.output_bias", self.output_bias, &[Transformer]),
            ("model.decoder", self.decoder.is_some(), &[Captioner]),
            (
                "model.cell",
                self.cell.is_some(),
                &[Rnn, RnnLm, Encoder, Captioner],
            ),
            (
                "model.cell_size",
                self.cell_size.is_some(),
                &[Rnn, RnnLm, Encoder, Captioner],
            ),
            (
                "model.bias",
                self.bias.is_some(),
                &[Rnn, RnnLm, Encoder, Captioner],
            ),
            (
                "model.attention",
                self.attention.is_some(),
                &[Rnn, Captioner],
            ),
            ("model.attend", self.attend.is_some(), &[Rnn, Captioner]),
            (
                "model.input_feeding",
                self.input_feeding.is_some(),
                &[Rnn, Captioner],
            ),
            ("model.body", self.body.is_some(), &[Encoder]),
            ("model.head", self.head.is_some(), &[Encoder]),
            ("model.pooling", self.pooling.is_some(), &[Encoder, Vit]),
            (
                "model.patch_size",
                self.patch_size.is_some(),
                &[Vit, Captioner],
            ),
        ];
        let foreign = keys
            .iter()
            .filter(|(_, given, of)| *given && !of.contains(&self.arch));
        let foreign: Vec<&str> = foreign.map(|(key, ..)| *key).collect();
        if foreign.is_empty() {
            return Ok(());
        }
        Err(ModelError::Foreign {
            keys: foreign.join("`, `"),
            arch: self.arch.name(),
        })
    }
}
