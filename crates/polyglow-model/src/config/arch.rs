//! The architectures, and what each is trained for.

use serde::{Deserialize, Serialize};

/// The architectures that can be trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// The encoder-decoder Transformer (Vaswani et al., 2017).
    #[default]
    Transformer,
    /// A recurrent encoder-decoder, with attention (Bahdanau et al., 2015; Luong et al., 2015) or without (Sutskever et
    /// al., 2014).
    Rnn,
    /// A decoder-only Transformer, a language model of one-sided text (Radford et al., 2018).
    Lm,
    /// A recurrent language model, the network that predicts the next letter (Mikolov et al., 2010).
    #[serde(rename = "rnn-lm")]
    RnnLm,
    /// Word vectors, by telling the words beside a word from others (Mikolov et al., 2013).
    #[serde(rename = "skipgram")]
    SkipGram,
    /// An encoder with a head: for labels of texts, or for tokens that are hidden in them (Devlin et al., 2019).
    Encoder,
    /// A Vision Transformer, for labels of images (Dosovitskiy et al., 2021).
    Vit,
}

/// What an architecture is trained for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The target, given the source.
    Translation,
    /// The next token of a text that has only one side.
    Language,
    /// Which words stand beside a word, in a text that has only one side.
    Words,
    /// The label of a text.
    Labels,
    /// The label of an image.
    Images,
    /// The tokens that are hidden in a text that has only one side.
    Masked,
}

impl Task {
    /// Whether an answer is one of a few labels.
    pub fn is_classification(self) -> bool {
        matches!(self, Self::Labels | Self::Images)
    }
}

impl Arch {
    /// What it is trained for, if its head does not say otherwise.
    pub fn task(self) -> Task {
        match self {
            Self::Transformer | Self::Rnn => Task::Translation,
            Self::Lm | Self::RnnLm => Task::Language,
            Self::SkipGram => Task::Words,
            Self::Encoder => Task::Labels,
            Self::Vit => Task::Images,
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
        }
    }
}
