//! SentencePiece's models (Kudo and Richardson, 2018) as `tokenizer.json`, and back where both cut
//! text alike.
//!
//! A model is a protocol buffer: pieces with scores and types, how it was trained, and how text is
//! normalized. Unigram and BPE models are read; those of unigram, word and character tokenizers are
//! written.

mod proto;
mod read;
mod write;

use std::ffi::OsStr;
use std::path::Path;

use serde_json::Value;

use super::Tokenizer;
use super::guard::tokenizer_error;
use crate::error::DataError;

pub(super) use read::read;

/// The character that SentencePiece writes for a space.
const SPACE: &str = "\u{2581}";

/// Whether a file is a SentencePiece model by its name, which ends in `.spm` or `.model`.
pub fn is_sentencepiece(path: &Path) -> bool {
    path.extension()
        .and_then(OsStr::to_str)
        .is_some_and(|ending| ["spm", "model"].contains(&ending))
}

impl Tokenizer {
    /// Reads the content of a SentencePiece model; `name` appears in error messages. Ids 0 to 3 are
    /// padding, begin, end and unknown, and the pieces follow in their order.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if it is no such model, or one that a `tokenizer.json` cannot
    /// express.
    pub fn parse_sentencepiece(bytes: &[u8], name: &str) -> Result<Self, DataError> {
        let json = read(bytes).map_err(|problem| tokenizer_error(name, problem))?;
        Self::parse(json.to_string().as_bytes(), name)
    }

    /// Returns the tokenizer as a SentencePiece model that cuts text into the same ids.
    ///
    /// Two things differ: a text that begins with a space gets a second one (unigram), and unknown
    /// words or characters that follow each other become one (word, character).
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if SentencePiece cannot do the same: byte pair encodings, or
    /// normalization by NFKC or to lower case.
    pub fn to_sentencepiece(&self) -> Result<Vec<u8>, DataError> {
        let json: Value = serde_json::from_str(&self.to_json()?)
            .map_err(|error| tokenizer_error(&self.name, error.to_string()))?;
        write::write(&json, self.vocab_size(), self.special())
            .map_err(|problem| tokenizer_error(&self.name, problem))
    }

    /// Returns the same as [`Self::to_sentencepiece`], of unigram tokenizers only: their pieces are
    /// spelled as our tokens, and [`Self::parse_sentencepiece`] reads them again.
    ///
    /// # Errors
    /// As [`Self::to_sentencepiece`]; the tokenizer is of another kind.
    pub fn to_unigram(&self) -> Result<Vec<u8>, DataError> {
        let model = self.to_sentencepiece()?;
        read(&model).map_err(|problem| tokenizer_error(&self.name, problem))?;
        Ok(model)
    }
}
