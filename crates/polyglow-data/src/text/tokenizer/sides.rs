//! The tokenizers of both sides of a corpus.

use std::path::Path;
use std::sync::Arc;

use super::Tokenizer;
use crate::error::DataError;

const SHARED_FILE: &str = "tokenizer.json";
const SRC_FILE: &str = "tokenizer.src.json";
const TGT_FILE: &str = "tokenizer.tgt.json";

/// The tokenizers of both sides; the same one twice if the vocabulary is shared.
#[derive(Clone)]
pub struct Tokenizers {
    /// Source side.
    pub src: Arc<Tokenizer>,
    /// Target side.
    pub tgt: Arc<Tokenizer>,
}

impl Tokenizers {
    /// Uses one tokenizer for both sides.
    pub fn shared(tokenizer: Tokenizer) -> Self {
        let tokenizer = Arc::new(tokenizer);
        Self {
            src: Arc::clone(&tokenizer),
            tgt: tokenizer,
        }
    }

    /// Whether both sides share one vocabulary.
    pub fn is_shared(&self) -> bool {
        Arc::ptr_eq(&self.src, &self.tgt)
    }

    /// Reads the content of a `tokenizer.json`, or of `tokenizer.src.json` and
    /// `tokenizer.tgt.json`.
    ///
    /// # Errors
    /// As [`Tokenizer::parse`].
    pub fn parse(src: &[u8], tgt: Option<&[u8]>) -> Result<Self, DataError> {
        let Some(tgt) = tgt else {
            return Ok(Self::shared(Tokenizer::parse(src, SHARED_FILE)?));
        };
        let src = Tokenizer::parse(src, SRC_FILE)?;
        let tgt = Tokenizer::parse(tgt, TGT_FILE)?;
        Ok(Self {
            src: Arc::new(src),
            tgt: Arc::new(tgt),
        })
    }

    /// Reads what [`Tokenizers::save`] wrote into the directory `dir`.
    ///
    /// # Errors
    /// As [`Tokenizer::load`].
    pub fn load(dir: &Path) -> Result<Self, DataError> {
        if dir.join(SHARED_FILE).is_file() || !dir.join(SRC_FILE).is_file() {
            return Ok(Self::shared(Tokenizer::load(&dir.join(SHARED_FILE))?));
        }
        let src = Tokenizer::load(&dir.join(SRC_FILE))?;
        let tgt = Tokenizer::load(&dir.join(TGT_FILE))?;
        Ok(Self {
            src: Arc::new(src),
            tgt: Arc::new(tgt),
        })
    }

    /// Writes `tokenizer.json` into `dir`, or `tokenizer.src.json` and `tokenizer.tgt.json` if they
    /// differ.
    ///
    /// # Errors
    /// As [`Tokenizer::save`].
    pub fn save(&self, dir: &Path) -> Result<(), DataError> {
        if self.is_shared() {
            return self.src.save(&dir.join(SHARED_FILE));
        }
        self.src.save(&dir.join(SRC_FILE))?;
        self.tgt.save(&dir.join(TGT_FILE))
    }
}
