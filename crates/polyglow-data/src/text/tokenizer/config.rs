//! The `[tokenizer]` table of a run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::wrong;
use crate::error::DataError;

/// How text is cut into tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokenizerConfig {
    /// What a token is.
    pub kind: Kind,
    /// An existing `tokenizer.json` for both sides, or a directory with `tokenizer.src.json` and
    /// `tokenizer.tgt.json`; nothing is trained then, and the other keys except `dropout` do not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Vocabulary of `kind = "whitespace"`: one token per line, optionally followed by a count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocab: Option<VocabFiles>,
    /// Largest number of tokens in a trained vocabulary, the four special ones included.
    pub vocab_size: usize,
    /// Whether source and target have one vocabulary.
    pub shared: bool,
    /// Unicode normalization before anything else.
    pub normalization: Normalization,
    /// Whether text is lower-cased.
    pub lowercase: bool,
    /// Probability with which a BPE merge is left out in training (BPE dropout).
    pub dropout: f64,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Byte-level byte pair encoding: every Unicode text has tokens, and decoding gives it back exactly.
    Bpe,
    /// Byte pair encoding of the characters of whitespace-separated words, whose last character carries a mark
    /// (Sennrich et al., 2016): for text that is tokenized already.
    WordBpe,
    /// The pieces of a unigram language model (Kudo, 2018), with `▁` for spaces.
    Unigram,
    /// The most frequent whitespace-separated words.
    Word,
    /// Single Unicode characters, spaces included.
    Char,
    /// Whitespace-separated tokens of a given vocabulary: for text that is cut into subwords already.
    Whitespace,
}

/// Unicode normalization form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalization {
    /// Canonical composition: letters and their accents become one character; nothing visible changes.
    Nfc,
    /// Compatibility composition: also unifies ligatures, full-width forms and the like.
    Nfkc,
    /// Text stays as it is.
    None,
}

/// Vocabulary files of `kind = "whitespace"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a path, or a table `{ src = \"...\", tgt = \"...\" }`")]
pub enum VocabFiles {
    /// One vocabulary for both sides.
    One(PathBuf),
    /// One vocabulary per side.
    Sides {
        /// Source vocabulary.
        src: PathBuf,
        /// Target vocabulary.
        tgt: PathBuf,
    },
}

impl Kind {
    /// The name that configurations use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bpe => "bpe",
            Self::WordBpe => "word-bpe",
            Self::Unigram => "unigram",
            Self::Word => "word",
            Self::Char => "char",
            Self::Whitespace => "whitespace",
        }
    }

    /// Fewest tokens that a vocabulary of this kind can have.
    const fn smallest_vocab(self) -> usize {
        match self {
            // Four special tokens and one token for each byte.
            Self::Bpe => 260,
            _ => 5,
        }
    }
}

impl Default for TokenizerConfig {
    fn default() -> Self {
        Self {
            kind: Kind::Bpe,
            path: None,
            vocab: None,
            vocab_size: 8000,
            shared: true,
            normalization: Normalization::Nfc,
            lowercase: false,
            dropout: 0.0,
        }
    }
}

impl TokenizerConfig {
    /// Checks the ranges of numbers and which keys go together. Opens no file.
    ///
    /// # Errors
    /// [`DataError::Config`] names the first key that does not fit.
    pub fn validate(&self) -> Result<(), DataError> {
        let smallest = self.kind.smallest_vocab();
        if self.vocab_size < smallest || self.vocab_size > 1 << 24 {
            let problem = format!(
                "must lie in {smallest}..={} for kind \"{}\", not {}",
                1 << 24,
                self.kind.name(),
                self.vocab_size
            );
            return Err(wrong("tokenizer.vocab_size", problem));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(wrong("tokenizer.dropout", format!("must lie in [0, 1), not {}", self.dropout)));
        }
        if self.path.is_some() {
            return Ok(());
        }
        if self.dropout > 0.0 && !matches!(self.kind, Kind::Bpe | Kind::WordBpe) {
            let problem = format!("needs kind \"bpe\" or \"word-bpe\", not \"{}\"", self.kind.name());
            return Err(wrong("tokenizer.dropout", problem));
        }
        match (self.kind, &self.vocab) {
            (Kind::Whitespace, None) => Err(wrong(
                "tokenizer.vocab",
                "is missing: kind \"whitespace\" takes its tokens from that file".to_owned(),
            )),
            (Kind::Whitespace, Some(VocabFiles::Sides { .. })) if self.shared => {
                Err(wrong("tokenizer.vocab", "names a file per side although `tokenizer.shared` is true".to_owned()))
            }
            (kind, Some(_)) if kind != Kind::Whitespace => {
                Err(wrong("tokenizer.vocab", format!("goes with kind \"whitespace\", not \"{}\"", kind.name())))
            }
            _ => Ok(()),
        }
    }
}
