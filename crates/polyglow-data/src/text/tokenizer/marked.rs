//! Ids with a flag where a word begins, so that words can be segmented again.
//!
//! The flag is a bit of the id, so that the id cache needs no second table. No vocabulary has 2^31
//! tokens.

use tokenizers::EncodeInput;

use super::Tokenizer;
use super::guard::guarded;
use crate::error::DataError;

/// The bit of an id that is set if its token begins a word.
pub(crate) const WORD_START: u32 = 1 << 31;

impl Tokenizer {
    /// Returns the ids of `text`, with [`WORD_START`] set on each id that begins a word.
    pub(crate) fn encode_marked(&self, text: &str) -> Result<Vec<u32>, DataError> {
        let encoding = guarded(&self.name, || {
            self.inner.encode(EncodeInput::from(text), false)
        })?;
        let mut marked = Vec::with_capacity(encoding.len());
        let mut previous = None;
        for (&id, &word) in encoding.get_ids().iter().zip(encoding.get_word_ids()) {
            let flag = if previous == Some(word) {
                0
            } else {
                WORD_START
            };
            marked.push(self.text_id(id) | flag);
            previous = Some(word);
        }
        Ok(marked)
    }
}
