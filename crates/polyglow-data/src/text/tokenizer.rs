//! Text to ids and back, on top of Hugging Face's `tokenizers`, whose Python library loads the
//! files that are saved here.

use std::ops::Range;
use std::path::Path;

use rayon::prelude::*;
use serde_json::Value;
use tokenizers::{
    AddedToken, DecoderWrapper, EncodeInput, ModelWrapper, PostProcessorWrapper,
    PreTokenizerWrapper, TokenizerImpl,
};

use crate::error::DataError;
use crate::file;
use crate::script::is_unspaced;
use crate::special::SpecialIds;

mod clean_text;
mod config;
mod guard;
#[cfg(feature = "training")]
mod marked;
mod normalizer;
mod own_tokens;
mod segmentation;
mod sentencepiece;
mod shown;
mod sides;
#[cfg(feature = "training")]
mod train;
mod written;

pub use clean_text::{is_cleaned_to_space, is_invisible};
pub use config::{Kind, Normalization, TokenizerConfig, VocabFiles};
pub use guard::is_guarded;
use guard::{guarded, tokenizer_error};
#[cfg(feature = "training")]
pub(crate) use marked::WORD_START;
use normalizer::TextNormalizer;
use own_tokens::OwnTokens;
#[cfg(feature = "training")]
pub(crate) use own_tokens::own_token_problem;
pub use segmentation::Segmentation;
pub use sentencepiece::is_sentencepiece;
use shown::Spelling;
pub use sides::Tokenizers;
#[cfg(feature = "training")]
pub use train::{Progress, Stage};
use written::TextNormalization;

/// The library's tokenizer, with a normalizer of our own.
type LibraryTokenizer = TokenizerImpl<
    ModelWrapper,
    TextNormalizer,
    PreTokenizerWrapper,
    PostProcessorWrapper,
    DecoderWrapper,
>;

/// The number of ids without a token that a vocabulary may have, beyond its number of tokens.
const MOST_UNUSED_IDS: usize = 1024;

/// Turns text of one language into ids, and ids into text.
///
/// ```
/// use polyglow_data::tokenizer::{Kind, Tokenizer, TokenizerConfig};
///
/// let config = TokenizerConfig { kind: Kind::Word, vocab_size: 8, ..TokenizerConfig::default() };
/// let lines = ["a dog sleeps", "a dog"].map(|line| Ok(line.to_owned()));
/// let tokenizer = Tokenizer::train(&config, lines.into_iter(), &mut |_, _| {})?;
///
/// // Ids 0 to 3 are the special tokens, 4 is the most frequent word.
/// assert_eq!(tokenizer.encode("a dog barks")?, [4, 5, tokenizer.special().unk]);
/// assert_eq!(tokenizer.decode(&[4, 6])?, "a sleeps");
///
/// // What a `tokenizer.json` contains, which Python's `tokenizers` reads, too.
/// let again = Tokenizer::parse(tokenizer.to_json()?.as_bytes(), "tokenizer.json")?;
/// assert_eq!(again.vocab_size(), 7);
/// # Ok::<(), polyglow_data::error::DataError>(())
/// ```
pub struct Tokenizer {
    inner: LibraryTokenizer,
    /// The path of the file or the kind of tokenizer, for error messages.
    name: String,
    special: SpecialIds,
    own_tokens: OwnTokens,
    vocab_size: usize,
    spelling: Spelling,
    text_normalization: TextNormalization,
}

impl Tokenizer {
    /// Reads a `tokenizer.json` from a file, as [`Tokenizer::parse`] does.
    ///
    /// # Errors
    /// [`DataError::Io`] if the file cannot be read, and those of [`Tokenizer::parse`].
    pub fn load(path: &Path) -> Result<Self, DataError> {
        let bytes = std::fs::read(path).map_err(DataError::io(path))?;
        Self::parse(&bytes, &path.display().to_string())
    }

    /// Reads a tokenizer that was made elsewhere: a `tokenizer.json`, or a SentencePiece model,
    /// whose name ends in `.spm` or `.model`. Special tokens that it lacks are added to its
    /// vocabulary, behind all others.
    ///
    /// # Errors
    /// As [`Tokenizer::load`] and [`Tokenizer::parse_sentencepiece`].
    pub fn adopt(path: &Path) -> Result<Self, DataError> {
        let bytes = std::fs::read(path).map_err(DataError::io(path))?;
        let name = path.display().to_string();
        if is_sentencepiece(path) {
            return Self::parse_sentencepiece(&bytes, &name);
        }
        Self::adopt_json(&bytes, &name)
    }

    /// Reads a tokenizer as [`Tokenizer::adopt`] does, from the content of a `tokenizer.json`;
    /// `name` appears in error messages.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if the content is not a tokenizer.
    pub fn adopt_json(bytes: &[u8], name: &str) -> Result<Self, DataError> {
        let mut inner = library_tokenizer(bytes, name)?;
        let missing = SpecialIds::missing(|token| inner.token_to_id(token));
        if !missing.is_empty() {
            let tokens: Vec<AddedToken> = missing
                .iter()
                .map(|token| AddedToken::from(*token, true))
                .collect();
            guarded(name, || inner.add_special_tokens(tokens))?;
        }
        Self::new(inner, name)
    }

    /// Reads the content of a `tokenizer.json`, written by this crate or by Hugging Face's
    /// `tokenizers`; `name` appears in error messages.
    ///
    /// Truncation, padding and dropout are switched off if the file asks for them: here they belong
    /// to batches and training.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if the content is not a tokenizer, [`DataError::MissingSpecial`] if
    /// it lacks a special token.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Self, DataError> {
        Self::new(library_tokenizer(bytes, name)?, name)
    }

    /// Takes over a tokenizer of the library; `name` appears in error messages.
    fn new(mut inner: LibraryTokenizer, name: &str) -> Result<Self, DataError> {
        inner.set_encode_special_tokens(true);
        let special = SpecialIds::find(name, |token| inner.token_to_id(token))?;
        let vocab = guarded(name, || Ok(inner.get_vocab(true)))?;
        let vocab_size = vocab.values().max().map_or(0, |&id| id as usize + 1);
        // A model has a row of weights for every id, used or not.
        if vocab_size > vocab.len() * 2 + MOST_UNUSED_IDS {
            let problem = format!(
                "its ids go up to {}, but it has only {} tokens",
                vocab_size - 1,
                vocab.len()
            );
            return Err(tokenizer_error(name, problem));
        }
        let (spelling, text_normalization) =
            text_rules(&inner).map_err(|error| tokenizer_error(name, error.to_string()))?;
        let own_tokens = OwnTokens::find(&inner, special);
        Ok(Self {
            inner,
            name: name.to_owned(),
            special,
            own_tokens,
            vocab_size,
            spelling,
            text_normalization,
        })
    }

    /// Writes the `tokenizer.json` to `path`.
    ///
    /// # Errors
    /// [`DataError::Io`] if the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), DataError> {
        file::replace(path, self.to_json()?.as_bytes()).map_err(DataError::io(path))
    }

    /// Returns the content of the `tokenizer.json`.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if the library cannot write it.
    pub fn to_json(&self) -> Result<String, DataError> {
        guarded(&self.name, || self.inner.to_string(true))
    }

    /// Returns the ids of `text`, without begin or end of sentence.
    ///
    /// A special token that is spelled out in `text`, such as `</s>`, is ordinary text: no text
    /// encodes to the ids of padding, begin or end of sentence.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if a foreign tokenizer has no id for some text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        let encoding = guarded(&self.name, || {
            self.inner.encode_fast(EncodeInput::from(text), false)
        })?;
        Ok(encoding
            .get_ids()
            .iter()
            .map(|&id| self.text_id(id))
            .collect())
    }

    /// Returns the ids of all `texts`, computed on all cores.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_batch<S: AsRef<str> + Sync>(
        &self,
        texts: &[S],
    ) -> Result<Vec<Vec<u32>>, DataError> {
        texts
            .par_iter()
            .map(|text| self.encode(text.as_ref()))
            .collect()
    }

    /// Returns the ids of `text`, and for each id the index of the whitespace-separated word that
    /// it belongs to.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_words(&self, text: &str) -> Result<(Vec<u32>, Vec<usize>), DataError> {
        let encoding = guarded(&self.name, || {
            self.inner.encode(EncodeInput::from(text), false)
        })?;
        let starts: Vec<usize> = word_starts(text).collect();
        let mut words = Vec::with_capacity(encoding.len());
        for &(start, end) in encoding.get_offsets() {
            let last = last_byte(start, end);
            let num_begun = starts.partition_point(|start| *start <= last);
            words.push(num_begun.saturating_sub(1));
        }
        let ids = encoding
            .get_ids()
            .iter()
            .map(|&id| self.text_id(id))
            .collect();
        Ok((ids, words))
    }

    /// Returns the ids of `text`, for each id the index of its unit, and the bytes of each unit: a
    /// whitespace-separated word, or in a word of a script that has no spaces a token.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_units(&self, text: &str) -> Result<EncodedUnits, DataError> {
        let encoding = guarded(&self.name, || {
            self.inner.encode(EncodeInput::from(text), false)
        })?;
        let words = words(text);
        let mut encoded = EncodedUnits::default();
        for (&id, &(start, end)) in encoding.get_ids().iter().zip(encoding.get_offsets()) {
            let last = last_byte(start, end);
            let num_begun = words.partition_point(|word| word.bytes.start <= last);
            let word = &words[num_begun.saturating_sub(1)];
            let unit = if word.is_unspaced {
                start.max(word.bytes.start)..end.min(word.bytes.end)
            } else {
                word.bytes.clone()
            };
            encoded.push(self.text_id(id), unit);
        }
        Ok(encoded)
    }

    /// Returns the text of `ids`. Padding, begin and end of sentence and tags are skipped; an unknown
    /// word reads `<unk>`.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if a foreign decoder fails.
    pub fn decode(&self, ids: &[u32]) -> Result<String, DataError> {
        let ids: Vec<u32> = ids
            .iter()
            .copied()
            .filter(|&id| !self.is_silent(id))
            .collect();
        if !self.own_tokens.has_symbols() {
            return self.decode_text(&ids);
        }
        // Each symbol is a word, and so is what stands between two of them.
        let is_symbol = |id: u32| self.own_tokens.symbol(id).is_some();
        let mut words: Vec<String> = Vec::new();
        for part in ids.chunk_by(|left, right| !is_symbol(*left) && !is_symbol(*right)) {
            let word = match self.own_tokens.symbol(part[0]) {
                Some(symbol) => symbol.to_owned(),
                None => self.decode_text(part)?.trim().to_owned(),
            };
            words.push(word);
        }
        words.retain(|word| !word.is_empty());
        Ok(words.join(" "))
    }

    /// Returns the text of ids without silent ones and without symbols.
    fn decode_text(&self, ids: &[u32]) -> Result<String, DataError> {
        if ids.is_empty() {
            // Some of the library's decoders panic on an empty sequence.
            return Ok(String::new());
        }
        guarded(&self.name, || self.inner.decode(ids, false))
    }

    /// The size of the vocabulary: the largest id plus 1.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The ids of the special tokens.
    pub fn special(&self) -> SpecialIds {
        self.special
    }

    /// The spelling of the token `id` in the vocabulary; `None` if there is no such token.
    /// [`Self::shown`] is the token as people read it.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Returns the id that stands for a token of a text: unknown for one that is spelled as
    /// padding, begin or end of sentence, or a tag.
    fn text_id(&self, id: u32) -> u32 {
        if self.is_silent(id) {
            self.special.unk
        } else {
            id
        }
    }
}

/// A text in ids, with the units that they are parts of, from [`Tokenizer::encode_units`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedUnits {
    /// The ids.
    pub ids: Vec<u32>,
    /// For each id the index of its unit.
    pub unit_of: Vec<usize>,
    /// The bytes of each unit, in order.
    pub units: Vec<Range<usize>>,
}

impl EncodedUnits {
    /// Adds an id. Tokens that are parts of one character, and so have bytes in common, are one
    /// unit, and spaces belong to the unit before them, or at the start of a text to the first.
    fn push(&mut self, id: u32, unit: Range<usize>) {
        match self.units.last_mut() {
            Some(last) if last.start >= last.end => *last = unit,
            Some(last) if unit.start < last.end || unit.is_empty() => {
                last.end = last.end.max(unit.end);
            }
            _ => self.units.push(unit),
        }
        self.ids.push(id);
        self.unit_of.push(self.units.len() - 1);
    }
}

/// Reads the rules by which a tokenizer spells and normalizes text.
fn text_rules(
    inner: &LibraryTokenizer,
) -> Result<(Spelling, TextNormalization), serde_json::Error> {
    let decoder = serde_json::to_value(inner.get_decoder())?;
    let normalizer = serde_json::to_value(inner.get_normalizer())?;
    Ok((
        Spelling::new(&decoder),
        TextNormalization::new(&normalizer)?,
    ))
}

/// Reads the library's tokenizer from a `tokenizer.json`, without truncation, padding and dropout,
/// which belong to batches and training.
fn library_tokenizer(bytes: &[u8], name: &str) -> Result<LibraryTokenizer, DataError> {
    let mut json: Value =
        serde_json::from_slice(bytes).map_err(|error| tokenizer_error(name, error.to_string()))?;
    if json
        .pointer("/model/type")
        .or(json.pointer("/model/vocab"))
        .is_none_or(Value::is_null)
    {
        let problem = "it is JSON, but not a `tokenizer.json`: it has no `model`";
        return Err(tokenizer_error(name, problem));
    }
    for pointer in ["/truncation", "/padding", "/model/dropout"] {
        if let Some(value) = json.pointer_mut(pointer) {
            *value = Value::Null;
        }
    }
    guarded(name, || LibraryTokenizer::from_bytes(json.to_string()))
}

/// A whitespace-separated word of a text.
struct Word {
    bytes: Range<usize>,
    /// Whether it has characters of a script without spaces between words.
    is_unspaced: bool,
}

/// Cuts a text into words; one without words is a single word.
fn words(text: &str) -> Vec<Word> {
    let mut ends: Vec<usize> = word_starts(text).skip(1).collect();
    ends.push(text.len());
    let mut start = word_starts(text).next().unwrap_or(0);
    let mut words = Vec::with_capacity(ends.len());
    for end in ends {
        let len = text[start..end].trim_end().len();
        words.push(Word {
            bytes: start..start + len,
            is_unspaced: text[start..end].contains(is_unspaced),
        });
        start = end;
    }
    words
}

/// The byte of a token that says which word it belongs to: the last one, because a token may begin
/// with the space before its word.
fn last_byte(start: usize, end: usize) -> usize {
    end.saturating_sub(1).max(start)
}

/// The byte offsets at which the words of `text` begin.
fn word_starts(text: &str) -> impl Iterator<Item = usize> {
    let mut after_space = true;
    text.char_indices().filter_map(move |(index, character)| {
        let begins = after_space && !character.is_whitespace();
        after_space = character.is_whitespace();
        begins.then_some(index)
    })
}
