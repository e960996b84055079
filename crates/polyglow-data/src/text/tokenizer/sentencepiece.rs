//! SentencePiece's models (Kudo and Richardson, 2018) as `tokenizer.json`, and back where both say the same.
//!
//! A model is a protocol buffer: pieces with scores and types, how it was trained, and how text is normalized. What is read
//! are unigram models; what is written are those of unigram, word and character tokenizers.

mod protobuf;
mod read;
mod write;

use std::ffi::OsStr;
use std::path::Path;

use serde_json::Value;

use super::Tokenizer;
use super::guard::failed;
use crate::error::DataError;

pub(super) use read::read;

/// What SentencePiece writes for a space.
const SPACE: &str = "\u{2581}";

/// What the field `model_type` is for the kinds of models.
mod model_type {
    pub(super) const UNIGRAM: u64 = 1;
    pub(super) const BPE: u64 = 2;
    pub(super) const WORD: u64 = 3;
    pub(super) const CHAR: u64 = 4;
}

/// What the field `type` of a piece is.
mod piece_type {
    pub(super) const NORMAL: u64 = 1;
    pub(super) const UNKNOWN: u64 = 2;
    pub(super) const CONTROL: u64 = 3;
    pub(super) const USER_DEFINED: u64 = 4;
}

/// The numbers of the fields of a model.
mod field {
    pub(super) const PIECES: u64 = 1;
    pub(super) const TRAINER: u64 = 2;
    pub(super) const NORMALIZER: u64 = 3;

    pub(super) const PIECE: u64 = 1;
    pub(super) const SCORE: u64 = 2;
    pub(super) const TYPE: u64 = 3;

    pub(super) const MODEL_TYPE: u64 = 3;
    pub(super) const VOCAB_SIZE: u64 = 4;
    pub(super) const BYTE_FALLBACK: u64 = 35;
    /// Of unknown, begin, end and padding, from here on; their spellings are five further.
    pub(super) const MARKS: u64 = 40;

    pub(super) const NAME: u64 = 1;
    pub(super) const CHARSMAP: u64 = 2;
    pub(super) const DUMMY_PREFIX: u64 = 3;
    pub(super) const REMOVE_SPACES: u64 = 4;
    pub(super) const ESCAPE_SPACES: u64 = 5;
}

/// Whether a file is a SentencePiece model by its name, which ends in `.spm` or `.model`.
pub fn is_sentencepiece(path: &Path) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|ending| ["spm", "model"].contains(&ending))
}

impl Tokenizer {
    /// The content of a SentencePiece model; `name` appears in error messages. Ids 0 to 3 are padding, begin, end and
    /// unknown, and the pieces follow in their order.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if it is no such model, or one that a `tokenizer.json` cannot express.
    pub fn parse_sentencepiece(bytes: &[u8], name: &str) -> Result<Self, DataError> {
        let json = read(bytes).map_err(|problem| failed(name)(problem.into()))?;
        Self::parse(json.to_string().as_bytes(), name)
    }

    /// The tokenizer as a SentencePiece model that cuts text into the same ids.
    ///
    /// Two things differ: a text that begins with a space gets a second one (unigram), and unknown words or characters that
    /// follow each other become one (word, character).
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if SentencePiece cannot do the same: byte pair encodings, or normalization by NFKC or to
    /// lower case.
    pub fn to_sentencepiece(&self) -> Result<Vec<u8>, DataError> {
        let json: Value = serde_json::from_str(&self.to_json()?).map_err(|error| failed(&self.name)(error.into()))?;
        write::write(&json, self.vocab_size(), self.special()).map_err(|problem| failed(&self.name)(problem.into()))
    }
}
