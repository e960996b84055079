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
}

impl Arch {
    /// What it is trained for.
    pub fn task(self) -> Task {
        match self {
            Self::Transformer | Self::Rnn => Task::Translation,
            Self::Lm | Self::RnnLm => Task::Language,
            Self::SkipGram => Task::Words,
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
        }
    }
}
