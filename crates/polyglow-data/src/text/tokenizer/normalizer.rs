//! The normalizer of a tokenizer, with a short way for text that needs no cleaning.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value as Json, json};
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper};

use super::clean_text;

/// All normalization steps of a `tokenizer.json`, which is what it reads and writes.
///
/// Cleaning searches a text with regular expressions, which takes longer than all other steps
/// together. Most lines have nothing to clean, so that the steps after cleaning alone give the same
/// result.
pub(super) struct TextNormalizer {
    all: NormalizerWrapper,
    /// The steps after cleaning; `None` if the normalizer does not begin with cleaning.
    after_cleaning: Option<NormalizerWrapper>,
}

impl TextNormalizer {
    /// Takes over the library's normalizer.
    ///
    /// # Errors
    /// The library does not write its steps, or does not read them again.
    pub(super) fn new(all: NormalizerWrapper) -> serde_json::Result<Self> {
        let json = serde_json::to_value(&all)?;
        let after_cleaning = steps(&json).strip_prefix(&clean_text::steps());
        Ok(Self {
            after_cleaning: after_cleaning.map(sequence).transpose()?,
            all,
        })
    }
}

/// Returns the steps of a normalizer: those of a sequence, or the normalizer as the only one.
pub(super) fn steps(normalizer: &Json) -> &[Json] {
    match &normalizer["normalizers"] {
        Json::Array(steps) => steps,
        _ => std::slice::from_ref(normalizer),
    }
}

/// Returns the normalizer that takes these steps in their order.
fn sequence(steps: &[Json]) -> serde_json::Result<NormalizerWrapper> {
    serde_json::from_value(json!({"type": "Sequence", "normalizers": steps}))
}

impl Normalizer for TextNormalizer {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers::Result<()> {
        match &self.after_cleaning {
            Some(rest) if clean_text::is_clean(text.get()) => rest.normalize(text),
            _ => self.all.normalize(text),
        }
    }
}

impl Serialize for TextNormalizer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.all.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TextNormalizer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = NormalizerWrapper::deserialize(deserializer)?;
        Self::new(all).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_changes_no_text() {
        let cleaning = sequence(&clean_text::steps()).unwrap();
        let cleaned = |text: &str| {
            let mut string = NormalizedString::from(text);
            cleaning.normalize(&mut string).unwrap();
            string.get().to_owned()
        };
        let (clean, changed): (Vec<char>, Vec<char>) =
            ('\0'..=char::MAX).partition(|c| *c != ' ' && clean_text::is_clean(&c.to_string()));
        for characters in clean.chunks(1000) {
            let text: String = characters.iter().collect();
            assert!(clean_text::is_clean(&text));
            assert_eq!(cleaned(&text), text);
        }
        assert!(changed.len() > 300);
        for character in changed {
            assert!(!clean_text::is_clean(&format!("a{character}")));
        }
        for text in ["", "a", "a b", "ä ß — 漢字 d", "क्ष त्र", "😀 ☃"] {
            assert!(clean_text::is_clean(text), "{text:?}");
            assert_eq!(cleaned(text), text);
        }
        for text in [
            " ",
            " a",
            "a ",
            "a  b",
            "a\tb",
            "a\u{a0}b",
            "1\u{fe0f}\u{20e3}",
        ] {
            assert!(!clean_text::is_clean(text), "{text:?}");
        }
    }

    #[test]
    fn a_normalizer_that_does_not_begin_with_cleaning_has_no_short_way() {
        let [removed, spaces, strip] = clean_text::steps();
        let nfc = json!({"type": "NFC"});
        for (steps, is_short) in [
            (vec![&removed, &spaces, &strip, &nfc], true),
            (vec![&removed, &spaces, &strip], true),
            (vec![&nfc, &removed, &spaces, &strip], false),
            (vec![&removed, &spaces, &nfc], false),
        ] {
            let json = json!({"type": "Sequence", "normalizers": steps});
            let normalizer: TextNormalizer = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(normalizer.after_cleaning.is_some(), is_short, "{json}");
            assert_eq!(serde_json::to_value(&normalizer).unwrap(), json);
        }
    }
}
