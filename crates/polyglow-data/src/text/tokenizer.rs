//! Text to ids and back, on top of Hugging Face's `tokenizers`: whatever is saved here, its Python library loads.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use rayon::prelude::*;
use serde_json::Value;
use tokenizers::{EncodeInput, Tokenizer as HuggingFaceTokenizer};

use crate::error::DataError;
use crate::labeled::LabelSet;
use crate::special::SpecialIds;

mod config;
mod guard;
mod pipeline;
mod sides;
mod train;

pub use config::{Kind, Normalization, TokenizerConfig, VocabFiles};
use guard::guarded;
pub use guard::is_guarded;
pub use sides::Tokenizers;
use train::failed;

/// Ids without a token that a vocabulary may have, beside as many as it has tokens.
const MOST_UNUSED_IDS: usize = 1024;

/// Values of a byte, and the id of the first of them behind the special tokens.
const BYTES: usize = 256;
const BYTES_BEGIN: u32 = 4;
/// The character that stands for a byte of 0; it and those after it are letters, which no reader of text touches.
const FIRST_BYTE: u32 = 0x100;

/// Bit of a marked id that says that the token begins a word.
pub(crate) const WORD_START: u32 = 1 << 31;

/// What long work is busy with, for a progress display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Words are counted; the number with it is lines read.
    CountingWords,
    /// A vocabulary is learned; the number with it is the size it will have.
    LearningVocabulary,
    /// Text is encoded; the number with it is pairs read.
    Encoding,
}

/// Is told now and then how far long work has come.
pub type Progress<'a> = dyn FnMut(Stage, u64) + 'a;

/// Turns text of one language into ids, and ids into text.
pub struct Tokenizer {
    inner: HuggingFaceTokenizer,
    /// The file or the kind, for messages.
    name: String,
    special: SpecialIds,
    vocab_size: usize,
    /// The id of the first byte, if the vocabulary is that of [`Self::of_bytes`].
    first_byte: Option<u32>,
}

impl Tokenizer {
    /// Learns a vocabulary from `lines`, which are read once and not kept.
    ///
    /// The result is a pure function of the configuration and the text. For `kind = "whitespace"` no line is read.
    ///
    /// # Errors
    /// The first error of `lines`; [`DataError::Tokenizer`] if the text gives no vocabulary.
    pub fn train(
        config: &TokenizerConfig,
        lines: impl Iterator<Item = Result<String, DataError>>,
        progress: &mut Progress,
    ) -> Result<Self, DataError> {
        config.validate()?;
        let inner = match &config.vocab {
            Some(VocabFiles::One(path) | VocabFiles::Sides { src: path, .. }) => train::from_vocabulary(config, path)?,
            None => train::train(config, lines, progress)?,
        };
        Self::new(inner, Path::new(config.kind.name()))
    }

    /// Reads a `tokenizer.json`, ours or another's.
    ///
    /// Truncation, padding and dropout that it may ask for are switched off: they belong to batches and training here.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if the file is no tokenizer, [`DataError::MissingSpecial`] if a special token lacks.
    pub fn load(path: &Path) -> Result<Self, DataError> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(DataError::io(path))?;
        let mut json: Value = serde_json::from_slice(&bytes).map_err(|error| failed(&name)(error.into()))?;
        if json.pointer("/model/type").or(json.pointer("/model/vocab")).is_none_or(Value::is_null) {
            return Err(failed(&name)("it is JSON, but no `tokenizer.json`: it has no `model`".into()));
        }
        for pointer in ["/truncation", "/padding", "/model/dropout"] {
            if let Some(value) = json.pointer_mut(pointer) {
                *value = Value::Null;
            }
        }
        let inner = guarded(&name, || HuggingFaceTokenizer::from_bytes(json.to_string()))?;
        Self::new(inner, path)
    }

    fn new(mut inner: HuggingFaceTokenizer, path: &Path) -> Result<Self, DataError> {
        inner.set_encode_special_tokens(true);
        let name = path.display().to_string();
        let special = SpecialIds::find(path, |token| inner.token_to_id(token))?;
        let vocab = guarded(&name, || Ok(inner.get_vocab(true)))?;
        let vocab_size = vocab.values().max().map_or(0, |&id| id as usize + 1);
        // A model has a row of weights for every id, used or not.
        if vocab_size > vocab.len() * 2 + MOST_UNUSED_IDS {
            let problem = format!("its ids go up to {}, but it has only {} tokens", vocab_size - 1, vocab.len());
            return Err(failed(&name)(problem.into()));
        }
        let mut bytes = (0..=u8::MAX).zip(BYTES_BEGIN..);
        let is_bytes = vocab_size == BYTES_BEGIN as usize + BYTES
            && bytes.all(|(byte, id)| inner.token_to_id(&text_of_bytes(&[byte])) == Some(id));
        Ok(Self { inner, name, special, vocab_size, first_byte: is_bytes.then_some(BYTES_BEGIN) })
    }

    /// The tokenizer of labels, each of which is a token as a whole.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if there is none.
    pub fn of_labels(labels: &LabelSet) -> Result<Self, DataError> {
        Self::new(train::whole(labels.names().iter().cloned())?, Path::new("labels"))
    }

    /// The tokenizer of images, as [`text_of_bytes`] writes them: a token for each byte, the last 256 ids.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if the library refuses it.
    pub fn of_bytes() -> Result<Self, DataError> {
        Self::new(train::bytes((0..=u8::MAX).map(|byte| text_of_bytes(&[byte])))?, Path::new("bytes"))
    }

    /// Writes the `tokenizer.json` to `path`.
    ///
    /// # Errors
    /// [`DataError::Io`] if the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), DataError> {
        let (beside, json) = (path.with_extension("json.tmp"), self.to_json()?);
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(json.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&beside, path)
        };
        write().map_err(DataError::io(path))
    }

    /// The content of the `tokenizer.json`.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if the library cannot write it.
    pub fn to_json(&self) -> Result<String, DataError> {
        guarded(&self.name, || self.inner.to_string(true))
    }

    /// The ids of `text`, without begin or end of sentence.
    ///
    /// Text that spells a special token is text: no text gives the ids of padding, begin or end.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if a foreign tokenizer has no id for some text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        if let Some(first) = self.first_byte {
            return Ok(self.encode_bytes(text, first));
        }
        let encoding = guarded(&self.name, || self.inner.encode_fast(EncodeInput::from(text), false))?;
        Ok(encoding.get_ids().iter().map(|&id| self.of_text(id)).collect())
    }

    /// The ids of all `texts`, computed on all cores.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_batch<S: AsRef<str> + Sync>(&self, texts: &[S]) -> Result<Vec<Vec<u32>>, DataError> {
        texts.par_iter().map(|text| self.encode(text.as_ref())).collect()
    }

    /// The ids of `text`, and for each the number of the word that it belongs to, counted from zero; words are what
    /// whitespace divides.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_words(&self, text: &str) -> Result<(Vec<u32>, Vec<usize>), DataError> {
        let encoding = guarded(&self.name, || self.inner.encode(EncodeInput::from(text), false))?;
        let starts: Vec<usize> = word_starts(text).collect();
        // A token may begin with the space before its word, so its last byte tells more than its first.
        let word = |&(start, end): &(usize, usize)| {
            let last = end.saturating_sub(1).max(start);
            starts.partition_point(|start| *start <= last).saturating_sub(1)
        };
        let ids = encoding.get_ids().iter().map(|&id| self.of_text(id)).collect();
        Ok((ids, encoding.get_offsets().iter().map(word).collect()))
    }

    /// The ids of `text`, with [`WORD_START`] set in those that begin a word.
    pub(crate) fn encode_marked(&self, text: &str) -> Result<Vec<u32>, DataError> {
        if let Some(first) = self.first_byte {
            return Ok(self.encode_bytes(text, first));
        }
        let encoding = guarded(&self.name, || self.inner.encode(EncodeInput::from(text), false))?;
        let mut previous = None;
        let marked = encoding.get_ids().iter().zip(encoding.get_word_ids()).map(|(&id, &word)| {
            let starts = previous != Some(word);
            previous = Some(word);
            if starts { self.of_text(id) | WORD_START } else { self.of_text(id) }
        });
        Ok(marked.collect())
    }

    /// What the library would say, a thousand times as fast: an image has thousands of bytes.
    fn encode_bytes(&self, text: &str, first: u32) -> Vec<u32> {
        let id = |character: char| match u32::from(character).checked_sub(FIRST_BYTE) {
            Some(byte @ 0..=255) => first + byte,
            _ => self.special.unk,
        };
        text.chars().map(id).collect()
    }

    /// The text of `ids`. Padding, begin and end of sentence are skipped; an unknown word reads `<unk>`.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if a foreign decoder fails.
    pub fn decode(&self, ids: &[u32]) -> Result<String, DataError> {
        let ids: Vec<u32> = ids.iter().copied().filter(|&id| !self.special.is_silent(id)).collect();
        if ids.is_empty() {
            // Some of the library's decoders do not expect an empty sequence.
            return Ok(String::new());
        }
        guarded(&self.name, || self.inner.decode(&ids, false))
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The ids that do not stand for text.
    pub fn special(&self) -> SpecialIds {
        self.special
    }

    /// How the token `id` is spelled in the vocabulary.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    fn of_text(&self, id: u32) -> u32 {
        if self.special.is_silent(id) { self.special.unk } else { id }
    }
}

/// Where the words of `text` begin, in bytes.
fn word_starts(text: &str) -> impl Iterator<Item = usize> {
    let mut after_space = true;
    text.char_indices().filter_map(move |(place, character)| {
        let begins = after_space && !character.is_whitespace();
        after_space = character.is_whitespace();
        begins.then_some(place)
    })
}

/// Bytes as a text of one character each, which [`Tokenizer::of_bytes`] encodes.
pub fn text_of_bytes(bytes: &[u8]) -> String {
    bytes.iter().filter_map(|&byte| char::from_u32(FIRST_BYTE + u32::from(byte))).collect()
}
