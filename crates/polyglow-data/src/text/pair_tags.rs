//! Tags: tokens of their own that the sources or the targets of a corpus begin with, such as the
//! language to translate into, or the kind of a text.

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::tokenizer::{Tokenizer, Tokenizers};

/// The tokens that each source, and each target, of a corpus begins with.
///
/// They are no part of the text: they have ids that no text is encoded to, and decoding leaves them
/// out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PairTags {
    /// Tokens before a source, in their order.
    pub src: Vec<String>,
    /// Token before a target, with which every search begins.
    pub tgt: Option<String>,
}

impl PairTags {
    /// Whether neither side has a tag.
    pub fn is_empty(&self) -> bool {
        self.src.is_empty() && self.tgt.is_none()
    }

    /// Returns the ids of the tags of the source and of the target.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] names a tag that the vocabulary of its side lacks.
    pub fn ids(&self, tokenizers: &Tokenizers) -> Result<[Vec<u32>; 2], DataError> {
        Ok([
            self.src_ids(&tokenizers.src)?,
            self.tgt_ids(&tokenizers.tgt)?,
        ])
    }

    /// Returns the ids of the tags of the source.
    ///
    /// # Errors
    /// As [`Self::ids`].
    pub fn src_ids(&self, src: &Tokenizer) -> Result<Vec<u32>, DataError> {
        self.src.iter().map(|tag| src.tag_id(tag)).collect()
    }

    /// Returns the ids of the tags of the target: at most one.
    ///
    /// # Errors
    /// As [`Self::ids`].
    pub fn tgt_ids(&self, tgt: &Tokenizer) -> Result<Vec<u32>, DataError> {
        self.tgt.iter().map(|tag| tgt.tag_id(tag)).collect()
    }
}

/// Puts the ids of tags before those of a text; a text without ids stays empty.
pub fn prepend(tags: &[u32], ids: &mut Vec<u32>) {
    if !ids.is_empty() {
        ids.splice(..0, tags.iter().copied());
    }
}
