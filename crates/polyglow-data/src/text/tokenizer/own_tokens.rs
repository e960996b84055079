//! Tokens that a run adds to a vocabulary: tags, which are no text, and symbols, which stand in it.
//!
//! A `tokenizer.json` keeps both among its added tokens. Tags are special tokens there that must be
//! single words, and symbols are ordinary ones that take the spaces around them: combinations by
//! which they are told from the added tokens of other programs, whose meaning stays as it was.

use tokenizers::AddedToken;

use super::guard::{guarded, tokenizer_error};
use super::{LibraryTokenizer, Tokenizer};
use crate::error::DataError;
use crate::special::{SpecialIds, TOKENS};

/// The number of tags that an error lists.
const SHOWN_TAGS: usize = 12;

/// The added tokens of a vocabulary but for the four special ones that every one has, by their ids.
#[derive(Debug, Default)]
pub(super) struct OwnTokens {
    /// Every added token but for symbols: models of other programs may have their languages among
    /// them.
    added: Vec<(String, u32)>,
    /// The ids of tags, ascending: no text is encoded to them, and decoding leaves them out.
    tags: Vec<u32>,
    /// The symbols, by their ids.
    symbols: Vec<(String, u32)>,
}

impl OwnTokens {
    /// Finds the added tokens of a tokenizer.
    pub(super) fn find(inner: &LibraryTokenizer, special: SpecialIds) -> Self {
        let mut own = Self::default();
        let mut added: Vec<(u32, AddedToken)> = inner
            .get_added_tokens_decoder()
            .into_iter()
            .filter(|(id, _)| !special.is_silent(*id) && *id != special.unk)
            .collect();
        added.sort_unstable_by_key(|(id, _)| *id);
        for (id, token) in added {
            if !token.special && token.lstrip && token.rstrip {
                own.symbols.push((token.content, id));
                continue;
            }
            if token.special && token.single_word {
                own.tags.push(id);
            }
            own.added.push((token.content, id));
        }
        own
    }

    /// Whether there are symbols.
    pub(super) fn has_symbols(&self) -> bool {
        !self.symbols.is_empty()
    }

    /// Returns the spelling of a symbol; `None` of another token.
    pub(super) fn symbol(&self, id: u32) -> Option<&str> {
        let index = self.symbols.binary_search_by_key(&id, |(_, id)| *id).ok()?;
        Some(&self.symbols[index].0)
    }

    fn is_tag(&self, id: u32) -> bool {
        self.tags.binary_search(&id).is_ok()
    }

    fn id(&self, token: &str) -> Option<u32> {
        let (_, id) = self.added.iter().find(|(known, _)| known == token)?;
        Some(*id)
    }
}

impl Tokenizer {
    /// Returns the tokenizer with these tags as well, each of which gets an id behind all others. An
    /// added token of another program serves as a tag as it is.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] names a tag that is an ordinary token, which a text may have.
    pub fn with_tags(self, tags: &[String]) -> Result<Self, DataError> {
        let mut missing = Vec::new();
        for tag in tags {
            if self
                .own_tokens
                .symbols
                .iter()
                .any(|(symbol, _)| symbol == tag)
            {
                let problem =
                    format!("`{tag}` is in `tokenizer.symbols`, and cannot be a tag, too");
                return Err(tokenizer_error(&self.name, problem));
            }
            if self.own_tokens.id(tag).is_some() {
                continue;
            }
            if self.inner.token_to_id(tag).is_some() {
                let problem = format!(
                    "`{tag}` is an ordinary token, and cannot be a tag: choose one that no text has, such \
                     as `<2{tag}>`"
                );
                return Err(tokenizer_error(&self.name, problem));
            }
            missing.push(AddedToken::from(tag.as_str(), true).single_word(true));
        }
        if missing.is_empty() {
            return Ok(self);
        }
        let Self {
            mut inner, name, ..
        } = self;
        guarded(&name, || inner.add_special_tokens(missing))?;
        Self::new(inner, &name)
    }

    /// Returns the tokenizer with these symbols as well, each of which gets an id behind all others
    /// unless it has one.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if the library cannot add them.
    pub fn with_symbols(self, symbols: &[String]) -> Result<Self, DataError> {
        let is_known = |symbol: &str| {
            let mut known = self.own_tokens.symbols.iter();
            known.any(|(known, _)| known == symbol)
        };
        let missing: Vec<AddedToken> = symbols
            .iter()
            .filter(|symbol| !is_known(symbol))
            .map(|symbol| {
                AddedToken::from(symbol.as_str(), false)
                    .normalized(false)
                    .lstrip(true)
                    .rstrip(true)
            })
            .collect();
        if missing.is_empty() {
            return Ok(self);
        }
        let Self {
            mut inner, name, ..
        } = self;
        guarded(&name, || inner.add_tokens(missing))?;
        Self::new(inner, &name)
    }

    /// Returns the id of a tag.
    ///
    /// # Errors
    /// [`DataError::MissingTag`] if the vocabulary has no such tag.
    pub fn tag_id(&self, tag: &str) -> Result<u32, DataError> {
        self.own_tokens.id(tag).ok_or_else(|| {
            let added = &self.own_tokens.added;
            let shown: Vec<String> = added
                .iter()
                .take(SHOWN_TAGS)
                .map(|(tag, _)| format!("`{tag}`"))
                .collect();
            let known = match (added.len(), shown.join(", ")) {
                (0, _) => "it has none".to_owned(),
                (count, some) if count > SHOWN_TAGS => format!("it has {some} and others"),
                (_, all) => format!("it has {all}"),
            };
            DataError::MissingTag {
                name: self.name.clone(),
                tag: tag.to_owned(),
                known,
            }
        })
    }

    /// Whether `id` is left out of decoded text: padding, begin or end of sentence, or a tag.
    pub fn is_silent(&self, id: u32) -> bool {
        self.special.is_silent(id) || self.own_tokens.is_tag(id)
    }

    /// Whether a word has a symbol in it.
    pub fn has_symbol(&self, word: &str) -> bool {
        let mut symbols = self.own_tokens.symbols.iter();
        symbols.any(|(symbol, _)| word.contains(symbol))
    }
}

/// Says what is wrong with the spelling of a tag or symbol; `None` if nothing is.
pub(crate) fn own_token_problem(token: &str) -> Option<String> {
    if token.is_empty() {
        return Some("has an empty tag or symbol".to_owned());
    }
    if token.contains(char::is_whitespace) {
        return Some(format!("has `{token}`, which is not a single word"));
    }
    TOKENS
        .contains(&token)
        .then(|| format!("has `{token}`, which is a special token of every vocabulary"))
}
