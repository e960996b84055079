//! Ids that are marked where a word begins, which BPE dropout needs to segment the words again.

use tokenizers::EncodeInput;

use super::Tokenizer;
use super::guard::guarded;
use crate::error::DataError;

/// The bit that marks an id whose token begins a word.
pub(crate) const WORD_START: u32 = 1 << 31;

impl Tokenizer {
    /// The ids of `text`, with [`WORD_START`] set on each id that begins a word.
    pub(crate) fn encode_marked(&self, text: &str) -> Result<Vec<u32>, DataError> {
        let encoding = guarded(&self.name, || {
            self.inner.encode(EncodeInput::from(text), false)
        })?;
        let mut previous = None;
        let marked = encoding
            .get_ids()
            .iter()
            .zip(encoding.get_word_ids())
            .map(|(&id, &word)| {
                let starts = previous != Some(word);
                previous = Some(word);
                if starts {
                    self.of_text(id) | WORD_START
                } else {
                    self.of_text(id)
                }
            });
        Ok(marked.collect())
    }
}
