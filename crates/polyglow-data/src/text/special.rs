//! The four special tokens: the only module that fixes their ids, or looks them up.

use crate::error::DataError;

/// Ids of the special tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecialIds {
    /// Padding: fills the rows of a batch up to the longest one.
    pub pad: u32,
    /// Begin of sentence: the first decoder input.
    pub bos: u32,
    /// End of sentence: ends every source and every target.
    pub eos: u32,
    /// Unknown: stands for text that is not in the vocabulary.
    pub unk: u32,
}

/// The special tokens of the tokenizers trained here; the index of a token is its id, as in
/// [`SpecialIds::LEARNED`].
pub(crate) const TOKENS: [&str; 4] = ["<pad>", "<s>", "</s>", "<unk>"];

/// The unknown-word token of the tokenizers trained here.
#[cfg(feature = "training")]
pub(crate) const UNK: &str = TOKENS[3];

const PAD_SPELLINGS: &[&str] = &["<pad>", "[PAD]", "<|pad|>", "<PAD>", "<blank>"];
const BOS_SPELLINGS: &[&str] = &[
    "<s>",
    "[BOS]",
    "<bos>",
    "<BOS>",
    "<|startoftext|>",
    "<|begin_of_text|>",
    "<|bos|>",
    "[CLS]",
    "<sos>",
];
const EOS_SPELLINGS: &[&str] = &[
    "</s>",
    "[EOS]",
    "<eos>",
    "<EOS>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eos|>",
    "[SEP]",
];
const UNK_SPELLINGS: &[&str] = &["<unk>", "[UNK]", "<|unk|>", "<UNK>"];

impl SpecialIds {
    /// The ids in all tokenizers that are trained here.
    pub const LEARNED: Self = Self {
        pad: 0,
        bos: 1,
        eos: 2,
        unk: 3,
    };

    /// Finds the special tokens of the tokenizer called `name` by their usual spellings.
    ///
    /// # Errors
    /// [`DataError::MissingSpecial`] for the first role that no token fills.
    pub(crate) fn find(name: &str, id_of: impl Fn(&str) -> Option<u32>) -> Result<Self, DataError> {
        Ok(Self {
            pad: find_role(name, "padding", PAD_SPELLINGS, &id_of)?,
            bos: find_role(name, "begin-of-sentence", BOS_SPELLINGS, &id_of)?,
            eos: find_role(name, "end-of-sentence", EOS_SPELLINGS, &id_of)?,
            unk: find_role(name, "unknown-word", UNK_SPELLINGS, &id_of)?,
        })
    }

    /// The tokens that a tokenizer lacks, as they are spelled here.
    pub(crate) fn missing(id_of: impl Fn(&str) -> Option<u32>) -> Vec<&'static str> {
        let spellings = [PAD_SPELLINGS, BOS_SPELLINGS, EOS_SPELLINGS, UNK_SPELLINGS];
        let mut missing = Vec::new();
        for (token, spellings) in TOKENS.into_iter().zip(spellings) {
            if spellings.iter().all(|spelling| id_of(spelling).is_none()) {
                missing.push(token);
            }
        }
        missing
    }

    /// Whether `id` is padding, begin or end of sentence, which decoding skips.
    pub fn is_silent(&self, id: u32) -> bool {
        id == self.pad || id == self.bos || id == self.eos
    }
}

/// Finds the token for `role` in the vocabulary of the tokenizer called `name`, by the first of its
/// spellings that has an id.
fn find_role(
    name: &str,
    role: &'static str,
    spellings: &[&str],
    id_of: impl Fn(&str) -> Option<u32>,
) -> Result<u32, DataError> {
    if let Some(id) = spellings.iter().find_map(|spelling| id_of(spelling)) {
        return Ok(id);
    }
    let tried: Vec<String> = spellings
        .iter()
        .map(|spelling| format!("`{spelling}`"))
        .collect();
    Err(DataError::MissingSpecial {
        name: name.to_owned(),
        role,
        tried: tried.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_spellings_are_found() {
        let vocab = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "a"];
        let id_of = |token: &str| {
            vocab
                .iter()
                .position(|known| *known == token)
                .map(|id| id as u32)
        };
        let special = SpecialIds::find("t.json", id_of).unwrap();
        assert_eq!(
            special,
            SpecialIds {
                pad: 3,
                bos: 1,
                eos: 2,
                unk: 0
            }
        );
    }

    #[test]
    fn a_missing_token_is_named_with_what_was_tried() {
        let error = SpecialIds::find("t.json", |token| (token != "</s>").then_some(9))
            .and_then(|_| SpecialIds::find("t.json", |token| (token == "<pad>").then_some(0)));
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains("begin-of-sentence") && message.contains("`<s>`"),
            "{message}"
        );
    }
}
