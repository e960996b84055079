//! The form in which text comes out of a tokenizer, as far as that matters to scores: its case, and words in pieces.

use std::borrow::Cow;

use tokenizers::{NormalizedString, Normalizer};

use super::Tokenizer;
use super::guard::guarded;
use crate::error::DataError;

/// Stands for a space in the pieces of `SentencePiece`.
const SPACE: char = '▁';
/// Marks a piece that goes on in the next one, in those of `subword-nmt`.
const GOES_ON: &str = "@@";

impl Tokenizer {
    /// Whether text is lower-cased, so that none that is decoded has capitals.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if a foreign normalizer fails.
    pub fn lower_cases(&self) -> Result<bool, DataError> {
        let Some(normalizer) = self.inner.get_normalizer() else { return Ok(false) };
        let mut text = NormalizedString::from("A");
        guarded(&self.name, || normalizer.normalize(&mut text))?;
        Ok(text.get().contains('a'))
    }

    /// Text in whole words. A tokenizer of ready-made subwords decodes ids to these subwords, with spaces between them; here
    /// they are joined. That of any other is left alone.
    pub fn in_words<'t>(&self, text: &'t str) -> Cow<'t, str> {
        // Where there is a decoder, it has put words together.
        if self.inner.get_decoder().is_some() { Cow::Borrowed(text) } else { join(text) }
    }
}

/// Joins subwords as `sed -E 's/@@( |$)//g'` does, or pieces where a `▁` begins each word. Other text stays as it is.
fn join(text: &str) -> Cow<'_, str> {
    if text.split_whitespace().any(|piece| piece.starts_with(SPACE)) {
        let joined: String = text.split_whitespace().collect();
        return joined.replace(SPACE, " ").trim().to_owned().into();
    }
    if !text.contains(GOES_ON) {
        return text.into();
    }
    let text = text.trim_end();
    text.strip_suffix(GOES_ON).unwrap_or(text).replace(&format!("{GOES_ON} "), "").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subwords_of_both_kinds_become_words_and_other_text_stays() {
        for (pieces, words) in [
            ("die un@@ gewöhn@@ liche Katze .", "die ungewöhnliche Katze ."),
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
