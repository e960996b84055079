//! The form of the text that a tokenizer writes, as far as it matters to scores: its normal form,
//! its case, and words in pieces.

use std::borrow::Cow;

use serde_json::{Value as Json, json};
use tokenizers::{NormalizedString, Normalizer};

use super::guard::guarded;
use super::normalizer::{TextNormalizer, steps};
use super::{Tokenizer, clean_text};
use crate::error::DataError;

/// Stands for a space in the pieces of `SentencePiece`.
const SPACE: char = '▁';
/// Ends a piece of `subword-nmt` whose word continues in the next piece.
const CONTINUED: &str = "@@";

/// The normalization steps of a tokenizer after which a text still reads as a text. These leave out
/// lower-casing, for which there is [`Tokenizer::lower_cases`], and steps that only prepare the
/// cutting, such as a space that is put in front.
pub(super) struct TextNormalization {
    normalizer: Option<TextNormalizer>,
    name: String,
}

impl TextNormalization {
    /// Picks the steps out of the normalizer of a `tokenizer.json`.
    ///
    /// # Errors
    /// The library does not read them again.
    pub(super) fn new(normalizer: &Json) -> serde_json::Result<Self> {
        let cleaning = clean_text::steps();
        let mut picked = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        let mut rest = steps(normalizer);
        while let Some((step, after)) = rest.split_first() {
            if let Some(after_cleaning) = rest.strip_prefix(&cleaning) {
                picked.extend(&cleaning);
                names.push("clean");
                rest = after_cleaning;
                continue;
            }
            if let Some(name) = step_name(step) {
                picked.push(step);
                names.push(name);
            }
            rest = after;
        }
        let sequence = json!({"type": "Sequence", "normalizers": picked});
        let normalizer = if picked.is_empty() {
            None
        } else {
            Some(serde_json::from_value(sequence)?)
        };
        Ok(Self {
            normalizer,
            name: names.join("+"),
        })
    }
}

/// The name in signatures of a step that changes characters.
fn step_name(step: &Json) -> Option<&'static str> {
    Some(match step["type"].as_str()? {
        "NFC" => "nfc",
        "NFD" => "nfd",
        "NFKC" => "nfkc",
        "NFKD" => "nfkd",
        "StripAccents" => "strip-accents",
        "Nmt" => "nmt",
        // The table of a SentencePiece model.
        "Precompiled" => "charsmap",
        _ => return None,
    })
}

impl Tokenizer {
    /// Returns the text as the tokenizer's normalization leaves it, apart from its case: cleaned,
    /// and in a normal form of Unicode. Text that is encoded and decoded again is in this form, so
    /// two texts are compared fairly after this.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if a foreign normalizer fails.
    pub fn normalized<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, DataError> {
        let Some(normalizer) = &self.text_normalization.normalizer else {
            return Ok(Cow::Borrowed(text));
        };
        let mut string = NormalizedString::from(text);
        guarded(&self.name, || normalizer.normalize(&mut string))?;
        let result = string.get();
        Ok(if result == text {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(result.to_owned())
        })
    }

    /// Names the steps of [`Self::normalized`] for signatures, such as `clean+nfc`; `None` if it
    /// changes no text.
    pub fn normalization(&self) -> Option<&str> {
        let name = &*self.text_normalization.name;
        (!name.is_empty()).then_some(name)
    }

    /// Whether text is cleaned before anything else, as
    /// [`TokenizerConfig::clean_text`](super::TokenizerConfig::clean_text) says.
    pub fn cleans_text(&self) -> bool {
        self.normalization()
            .is_some_and(|name| name.split('+').any(|step| step == "clean"))
    }

    /// Whether text is lower-cased, so that none that is decoded has capitals.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if a foreign normalizer fails.
    pub fn lower_cases(&self) -> Result<bool, DataError> {
        let Some(normalizer) = self.inner.get_normalizer() else {
            return Ok(false);
        };
        let mut text = NormalizedString::from("A");
        guarded(&self.name, || normalizer.normalize(&mut text))?;
        Ok(text.get().contains('a'))
    }

    /// Returns decoded text in whole words. A tokenizer of ready-made subwords decodes ids to these
    /// subwords, with spaces between them; here they are joined. The text of other tokenizers stays
    /// as it is.
    pub fn in_words<'t>(&self, text: &'t str) -> Cow<'t, str> {
        // Where there is a decoder, it has put words together.
        if self.inner.get_decoder().is_some() {
            Cow::Borrowed(text)
        } else {
            join(text)
        }
    }
}

/// Joins subwords as `sed -E 's/@@( |$)//g'` does, or pieces where a `▁` begins each word. Other
/// text stays as it is.
fn join(text: &str) -> Cow<'_, str> {
    if text
        .split_whitespace()
        .any(|piece| piece.starts_with(SPACE))
    {
        let joined: String = text.split_whitespace().collect();
        return joined.replace(SPACE, " ").trim().to_owned().into();
    }
    if !text.contains(CONTINUED) {
        return text.into();
    }
    let text = text.trim_end();
    text.strip_suffix(CONTINUED)
        .unwrap_or(text)
        .replace(&format!("{CONTINUED} "), "")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subwords_of_both_kinds_become_words_and_other_text_stays() {
        for (pieces, words) in [
            (
                "die un@@ gewöhn@@ liche Katze .",
                "die ungewöhnliche Katze .",
            ),
            ("sie schl@@", "sie schl"),
            ("@@ a@@ ", "a"),
            ("▁die ▁un gewöhn liche ▁Katze .", "die ungewöhnliche Katze."),
            ("ung ▁Katze", "ung Katze"),
            ("▁", ""),
            ("a  b@c .", "a  b@c ."),
            ("x@@y", "x@@y"),
            ("", ""),
        ] {
            assert_eq!(join(pieces), words, "{pieces}");
        }
    }
}
