//! The architectures: their names, their default values of keys, and the keys they refuse.
//!
//! To add a built-in one, begin here with a variant of [`Arch`] and one of [`ModelShape`]; the
//! compiler then names every other place. Other programs register theirs in [`crate::registry`].

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::recurrent::Attend;
use super::{ModelConfig, ModelShape, Preset, Sizes, Task, TieEmbeddings, Vocabulary};
use crate::error::ModelError;
use crate::registry::{self, Registered, read_name, unknown_name};

/// The architectures that can be trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    RnnLm,
    /// Word vectors, by distinguishing the neighbors of a word from random words (Mikolov et al.,
    /// 2013).
    SkipGram,
    /// An encoder with a head, for labels of texts, tags of words or masked tokens (Devlin et al.,
    /// 2019).
    Encoder,
    /// A Vision Transformer, for labels of images (Dosovitskiy et al., 2021).
    Vit,
    /// An encoder of images and a decoder that describes them (Xu et al., 2015).
    Captioner,
    /// One that this program has registered.
    Registered(Registered),
}

impl Serialize for Arch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Arch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = read_name(deserializer)?;
        Self::all()
            .into_iter()
            .find(|arch| arch.name() == name)
            .ok_or_else(|| {
                let known = Self::all().into_iter().map(Self::name);
                D::Error::custom(unknown_name(&name, known))
            })
    }
}

impl Arch {
    /// The built-in ones.
    pub const BUILT_IN: [Self; 8] = [
        Self::Transformer,
        Self::Rnn,
        Self::Lm,
        Self::RnnLm,
        Self::SkipGram,
        Self::Encoder,
        Self::Vit,
        Self::Captioner,
    ];

    /// Whether it is one of this library, which every program has.
    pub fn is_built_in(self) -> bool {
        !matches!(self, Self::Registered(_))
    }

    /// Returns the built-in ones and those that this program has registered.
    pub fn all() -> Vec<Self> {
        let registered = registry::all().into_iter().map(Self::Registered);
        Self::BUILT_IN.into_iter().chain(registered).collect()
    }

    /// The task that it is trained for, unless its head says otherwise.
    pub fn task(self) -> Task {
        match self {
            Self::Transformer | Self::Rnn => Task::Translation,
            Self::Lm | Self::RnnLm => Task::Language,
            Self::SkipGram => Task::Words,
            Self::Encoder => Task::Labels,
            Self::Vit => Task::Images,
            Self::Captioner => Task::Captions,
            Self::Registered(architecture) => architecture.task(),
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
            Self::Registered(architecture) => architecture.name(),
        }
    }

    /// Layers of a stack in a preset in which a Transformer has `num_transformer_layers`.
    pub(super) fn num_layers(self, num_transformer_layers: usize) -> usize {
        match self {
            Self::Transformer | Self::Lm | Self::Encoder | Self::Vit | Self::Captioner => {
                num_transformer_layers
            }
            // Each recurrent layer reads the whole sequence, so few are needed, and each costs
            // `len` sequential steps.
            Self::Rnn | Self::RnnLm => num_transformer_layers / 3,
            Self::SkipGram | Self::Registered(_) => 0,
        }
    }
}

impl ModelConfig {
    /// The task that the model is trained for.
    pub fn task(&self) -> Task {
        match self.head {
            Some(head) if self.arch == Arch::Encoder => head.task(),
            _ => self.arch.task(),
        }
    }

    /// Fills in every key that the preset or the architecture decides, so that the result is
    /// explicit.
    #[must_use]
    pub fn resolve(&self) -> Self {
        match self.arch {
            Arch::Transformer | Arch::Lm => self.resolve_self_attention(),
            Arch::Encoder if self.has_recurrent_body() => {
                let recurrent = self.with_arch(Arch::Rnn).resolve();
                let encoder = Self {
                    num_encoder_layers: recurrent.num_encoder_layers,
                    cell: recurrent.cell,
                    ..self.resolve_layers()
                };
                encoder.resolve_head()
            }
            Arch::Encoder | Arch::Vit => self.resolve_self_attention().resolve_head(),
            Arch::Captioner => {
                // The default number of decoder layers depends on the kind of decoder.
                let captioner = Self {
                    num_decoder_layers: self.num_decoder_layers,
                    ..self.resolve_self_attention()
                };
                captioner.resolve_captioner()
            }
            Arch::SkipGram => self.resolve_width(),
            Arch::RnnLm => Self {
                cell: Some(self.cell.unwrap_or_default()),
                ..self.resolve_layers()
            },
            Arch::Rnn => Self {
                cell: Some(self.cell.unwrap_or_default()),
                attention: Some(self.attention.unwrap_or_default()),
                // The default is left out, so that configs of runs from before the key existed stay
                // the same.
                attend: self.attend.filter(|attend| *attend != Attend::default()),
                input_feeding: Some(self.input_feeding()),
                ..self.resolve_layers()
            },
            Arch::Registered(architecture) => Self {
                own: Some(self.registered(architecture)),
                ..self.clone()
            },
        }
    }

    /// Fills in the preset and the width.
    fn resolve_width(&self) -> Self {
        Self {
            preset: Some(self.preset.unwrap_or(Preset::Small)),
            d_model: Some(self.width()),
            ..self.clone()
        }
    }

    /// Fills in the keys of every model with layers: numbers of layers and dropout, and those of
    /// [`Self::resolve_width`].
    fn resolve_layers(&self) -> Self {
        let Sizes {
            num_layers,
            dropout,
            ..
        } = self.sizes();
        let has_encoder = !matches!(self.task(), Task::Language | Task::Words);
        let has_decoder = matches!(
            self.task(),
            Task::Translation | Task::Captions | Task::Language
        );
        let mut resolved = self.resolve_width();
        resolved.dropout.get_or_insert(dropout);
        if has_encoder {
            resolved.num_encoder_layers.get_or_insert(num_layers);
        }
        if has_decoder {
            resolved.num_decoder_layers.get_or_insert(num_layers);
        }
        resolved
    }

    /// Fills in the keys of models with self-attention: heads and the feed-forward block, and those
    /// of [`Self::resolve_layers`].
    fn resolve_self_attention(&self) -> Self {
        let sizes = self.sizes();
        Self {
            d_ff: self.d_ff.or(Some(sizes.d_ff)),
            num_heads: self.num_heads.or(Some(sizes.num_heads)),
            ..self.resolve_layers()
        }
    }

    /// This config with another architecture.
    pub(super) fn with_arch(&self, arch: Arch) -> Self {
        Self {
            arch,
            ..self.clone()
        }
    }

    /// The complete shape of the model for the given vocabularies; products are f32.
    ///
    /// # Errors
    /// [`ModelError::Config`] for a size of zero or beyond reason, a dropout outside `[0, 1)`,
    /// sizes that do not fit each other, tied embeddings over vocabularies that are not shared, and
    /// keys that the architecture does not have.
    pub fn shape(&self, vocabulary: Vocabulary) -> Result<ModelShape, ModelError> {
        let has_two_sides = matches!(self.arch, Arch::Transformer | Arch::Rnn);
        if has_two_sides && self.tie_embeddings == TieEmbeddings::All && !vocabulary.shared {
            return Err(ModelError::config(
                "model.tie_embeddings",
                "all",
                "source and target have separate vocabularies; use `\"decoder\"`, or \
                 `tokenizer.shared = true`",
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
            Arch::Registered(architecture) => self
                .registered(architecture)
                .shape(vocabulary)
                .map(ModelShape::Registered),
        }
    }

    /// Refuses keys that were given but have no effect in this architecture.
    fn refuse_foreign(&self) -> Result<(), ModelError> {
        use Arch::{Captioner, Encoder, Lm, Rnn, RnnLm, Transformer, Vit};

        let default = Self::default();
        let with_self_attention: &[Arch] = &[Transformer, Lm, Encoder, Vit, Captioner];
        let with_decoder: &[Arch] = &[Transformer, Rnn, Lm, RnnLm, Captioner];
        let with_cells: &[Arch] = &[Rnn, RnnLm, Encoder, Captioner];
        let with_recurrent_decoder: &[Arch] = &[Rnn, Captioner];
        // Each key, whether it was given, and the architectures that have it.
        let keys: [(&str, bool, &[Arch]); 25] = [
            ("model.preset", self.preset.is_some(), &Arch::BUILT_IN),
            ("model.d_model", self.d_model.is_some(), &Arch::BUILT_IN),
            ("model.d_ff", self.d_ff.is_some(), with_self_attention),
            (
                "model.num_heads",
                self.num_heads.is_some(),
                with_self_attention,
            ),
            (
                "model.num_encoder_layers",
                self.num_encoder_layers.is_some(),
                &[Transformer, Rnn, Encoder, Vit, Captioner],
            ),
            (
                "model.num_decoder_layers",
                self.num_decoder_layers.is_some(),
                with_decoder,
            ),
            (
                "model.dropout",
                self.dropout.is_some(),
                &[Transformer, Rnn, Lm, RnnLm, Encoder, Vit, Captioner],
            ),
            (
                "model.attention_dropout",
                self.attention_dropout > 0.0,
                with_self_attention,
            ),
            (
                "model.activation_dropout",
                self.activation_dropout > 0.0,
                with_self_attention,
            ),
            (
                "model.activation",
                self.activation != default.activation,
                with_self_attention,
            ),
            ("model.norm", self.norm != default.norm, with_self_attention),
            (
                "model.position",
                self.position != default.position,
                &[Transformer, Lm, Encoder, Captioner],
            ),
            (
                "model.tie_embeddings",
                self.tie_embeddings != default.tie_embeddings,
                with_decoder,
            ),
            ("model.output_bias", self.output_bias, &[Transformer]),
            ("model.decoder", self.decoder.is_some(), &[Captioner]),
            ("model.cell", self.cell.is_some(), with_cells),
            ("model.cell_size", self.cell_size.is_some(), with_cells),
            ("model.bias", self.bias.is_some(), with_cells),
            (
                "model.attention",
                self.attention.is_some(),
                with_recurrent_decoder,
            ),
            (
                "model.attend",
                self.attend.is_some(),
                with_recurrent_decoder,
            ),
            (
                "model.input_feeding",
                self.input_feeding.is_some(),
                with_recurrent_decoder,
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
        let foreign: Vec<&str> = keys
            .iter()
            .filter(|(_, is_given, archs)| *is_given && !archs.contains(&self.arch))
            .map(|(key, ..)| *key)
            .collect();
        if foreign.is_empty() {
            return Ok(());
        }
        Err(ModelError::Foreign {
            keys: foreign.join("`, `"),
            arch: self.arch.name(),
        })
    }
}
