//! The `[tokenizer]` table of a configuration.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::own_tokens::own_token_problem;
use super::segmentation::Segmentation;
use crate::config::wrong;
use crate::error::DataError;

/// The `[tokenizer]` table: how text is split into tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokenizerConfig {
    /// The kind of tokens.
    pub kind: Kind,
    /// An existing `tokenizer.json` for both sides, or a directory with `tokenizer.src.json` and
    /// `tokenizer.tgt.json`. Nothing is trained then, and of the other keys only `dropout`,
    /// `sampling_alpha` and `symbols` are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Vocabulary of `kind = "whitespace"`: one token per line, optionally followed by a count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocab: Option<VocabFiles>,
    /// Maximum size of a trained vocabulary, including the four special tokens, symbols and tags.
    pub vocab_size: usize,
    /// Symbols that stand in the text and are never cut, each of which has an id of its own, such as
    /// `<informal>` or `<url>`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<String>,
    /// Whether source and target share one vocabulary.
    pub shared: bool,
    /// Whether text is cleaned before anything else: white space of every kind becomes single plain
    /// spaces, none at the ends, and characters that cannot be seen are removed, such as soft
    /// hyphens, marks of direction and control characters. Joiners stay where a script or an emoji
    /// needs them.
    pub clean_text: bool,
    /// Unicode normalization, applied to the text that was cleaned.
    pub normalization: Normalization,
    /// Whether text is lower-cased.
    pub lowercase: bool,
    /// Probability of skipping a BPE merge in training (BPE dropout), in `[0, 1)`.
    pub dropout: f64,
    /// Exponent alpha of subword regularization (Kudo, 2018), above 0: in every epoch the segmentation
    /// of a word by the unigram model is drawn in proportion to its probability to this power. `None`:
    /// always the tokenizer's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling_alpha: Option<f64>,
}

/// The kind of the tokens of a vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Byte-level byte pair encoding: encodes any Unicode text, and decoding restores it as it was
    /// after cleaning and normalization.
    Bpe,
    /// Byte pair encoding of the characters of whitespace-separated words, with a suffix on the
    /// last character of a word (Sennrich et al., 2016): for text that is already tokenized.
    WordBpe,
    /// Pieces of a unigram language model (Kudo, 2018), with `▁` for spaces.
    Unigram,
    /// The most frequent whitespace-separated words.
    Word,
    /// Single Unicode characters, spaces included.
    Char,
    /// Whitespace-separated tokens of a given vocabulary: for text that is already split into
    /// subwords.
    Whitespace,
}

/// Unicode normalization form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalization {
    /// Canonical composition: a letter and its accents become one character, which looks the same.
    Nfc,
    /// Compatibility composition: also replaces ligatures, full-width forms and the like.
    Nfkc,
    /// No normalization.
    None,
}

/// Vocabulary files of `kind = "whitespace"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a path, or a table `{ src = \"...\", tgt = \"...\" }`"
)]
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
    /// The name in configurations, such as `word-bpe`.
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

    /// Minimum size of a vocabulary of this kind.
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
            symbols: Vec::new(),
            shared: true,
            clean_text: true,
            normalization: Normalization::Nfc,
            lowercase: false,
            dropout: 0.0,
            sampling_alpha: None,
        }
    }
}

impl TokenizerConfig {
    /// Returns how the words of training text are segmented.
    pub fn segmentation(&self) -> Segmentation {
        match self.sampling_alpha {
            Some(alpha) => Segmentation::Sampling(alpha),
            None if self.dropout > 0.0 => Segmentation::Dropout(self.dropout),
            None => Segmentation::Fixed,
        }
    }

    /// Returns the most tokens of a side in a batch whose text the tokenizer segments into `len`: see
    /// [`Segmentation::planned_len`].
    pub fn planned_len(&self, len: usize) -> usize {
        self.segmentation().planned_len(len)
    }

    /// Returns the config of a vocabulary that leaves room for `count` more tokens.
    ///
    /// # Errors
    /// [`DataError::Config`] if nothing would be left of the vocabulary.
    #[cfg(feature = "training")]
    pub(crate) fn with_room_for(&self, count: usize) -> Result<Self, DataError> {
        let smallest = self.smallest_size() + count;
        if self.vocab_size < smallest {
            let problem = format!(
                "must be at least {smallest} with {count} tags and {} symbols, not {}",
                self.symbols.len(),
                self.vocab_size
            );
            return Err(wrong("tokenizer.vocab_size", problem));
        }
        Ok(Self {
            vocab_size: self.vocab_size - count,
            ..self.clone()
        })
    }

    /// The smallest vocabulary of this kind with these symbols.
    fn smallest_size(&self) -> usize {
        self.kind.smallest_vocab() + self.symbols.len()
    }

    /// Checks that each symbol is a word, and none is there twice.
    fn validate_symbols(&self) -> Result<(), DataError> {
        for (index, symbol) in self.symbols.iter().enumerate() {
            if let Some(problem) = own_token_problem(symbol) {
                return Err(wrong("tokenizer.symbols", problem));
            }
            if self.symbols[..index].contains(symbol) {
                let problem = format!("has `{symbol}` twice");
                return Err(wrong("tokenizer.symbols", problem));
            }
        }
        if self.lowercase
            && self
                .symbols
                .iter()
                .any(|symbol| symbol.to_lowercase() != *symbol)
        {
            let problem = "must be lower-case with `tokenizer.lowercase`".to_owned();
            return Err(wrong("tokenizer.symbols", problem));
        }
        Ok(())
    }

    /// Checks that the words of this kind of tokenizer can be segmented as the config asks for.
    fn validate_segmentation(&self) -> Result<(), DataError> {
        if !(0.0..1.0).contains(&self.dropout) {
            let problem = format!("must lie in [0, 1), not {}", self.dropout);
            return Err(wrong("tokenizer.dropout", problem));
        }
        if let Some(alpha) = self.sampling_alpha {
            if !(alpha > 0.0 && alpha.is_finite()) {
                let problem = format!("must be a number above 0, not {alpha}");
                return Err(wrong("tokenizer.sampling_alpha", problem));
            }
            if self.dropout > 0.0 {
                let problem = "goes with kind \"unigram\", and `tokenizer.dropout` with BPE";
                return Err(wrong("tokenizer.sampling_alpha", problem.to_owned()));
            }
        }
        // The kind of a given tokenizer is known when it is read.
        let (Some(key), None) = (self.segmentation().key(), &self.path) else {
            return Ok(());
        };
        let (is_right, kinds) = match self.segmentation() {
            Segmentation::Sampling(_) => (self.kind == Kind::Unigram, "\"unigram\""),
            _ => (
                matches!(self.kind, Kind::Bpe | Kind::WordBpe),
                "\"bpe\" or \"word-bpe\"",
            ),
        };
        if is_right {
            return Ok(());
        }
        let problem = format!("needs kind {kinds}, not \"{}\"", self.kind.name());
        Err(wrong(key, problem))
    }

    /// Checks ranges of numbers and combinations of keys. Opens no file.
    ///
    /// # Errors
    /// [`DataError::Config`] names the first key with a wrong value.
    pub fn validate(&self) -> Result<(), DataError> {
        self.validate_symbols()?;
        let smallest = self.smallest_size();
        if self.vocab_size < smallest || self.vocab_size > 1 << 24 {
            let problem = format!(
                "must lie in {smallest}..={} for kind \"{}\", not {}",
                1 << 24,
                self.kind.name(),
                self.vocab_size
            );
            return Err(wrong("tokenizer.vocab_size", problem));
        }
        self.validate_segmentation()?;
        if self.path.is_some() {
            return Ok(());
        }
        match (self.kind, &self.vocab) {
            (Kind::Whitespace, None) => Err(wrong(
                "tokenizer.vocab",
                "is missing: kind \"whitespace\" takes its tokens from that file".to_owned(),
            )),
            (Kind::Whitespace, Some(VocabFiles::Sides { .. })) if self.shared => Err(wrong(
                "tokenizer.vocab",
                "names a file per side although `tokenizer.shared` is true".to_owned(),
            )),
            (kind, Some(_)) if kind != Kind::Whitespace => Err(wrong(
                "tokenizer.vocab",
                format!("goes with kind \"whitespace\", not \"{}\"", kind.name()),
            )),
            _ => Ok(()),
        }
    }
}
