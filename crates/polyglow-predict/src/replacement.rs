//! Unknown words of translations, replaced by the source words that they are aligned to (Jean et
//! al., 2015; Luong et al., 2015).

use polyglow_data::script::is_unspaced;
use polyglow_model::{Generate, Inspect, Pair, Task};

use crate::attention::{WordAttention, of_words, strongest};
use crate::error::Result;
use crate::runner::Runner;
use crate::translate::Translated;

/// Translations whose attention is computed at a time: that of all layers is in memory until the
/// last is taken.
const AT_A_TIME: usize = 32;

impl<M: Generate + Inspect<Inputs: From<Pair>>> Runner<M> {
    /// Replaces the unknown words of translations by the source words that they look at most in the
    /// last layer, so that no text has an `<unk>`. `translations` are those of each of the
    /// `sources`, in their order.
    ///
    /// Punctuation that a translation has around an unknown word stays, and that of the source word
    /// is left out. Where a model has no attention to the source, the source word at the same share
    /// of the line is taken; without a source word, the unknown one is left out.
    ///
    /// # Errors
    /// A text cannot be encoded.
    pub fn replace_unknown(
        &self,
        sources: &[&str],
        translations: &mut [Vec<Translated>],
    ) -> Result<()> {
        let unknown = self.tgt.token(self.tgt.special().unk).unwrap_or_default();
        let mut affected: Vec<(&str, &mut String)> = Vec::new();
        for (source, hypotheses) in sources.iter().zip(translations) {
            let texts = hypotheses.iter_mut().map(|hypothesis| &mut hypothesis.text);
            affected.extend(
                texts
                    .filter(|text| has_unknown(text, &unknown))
                    .map(|text| (*source, text)),
            );
        }
        for affected in affected.chunks_mut(AT_A_TIME) {
            let attention = self.last_attention(affected)?;
            for ((source, text), attention) in affected.iter_mut().zip(attention) {
                **text = replaced(text, &unknown, source, &attention);
            }
        }
        Ok(())
    }

    /// What the words of each text look at in the last layer; nothing where there is no such
    /// attention.
    fn last_attention(&self, pairs: &[(&str, &mut String)]) -> Result<Vec<WordAttention>> {
        if self.kind() != Task::Translation {
            return Ok(vec![WordAttention::new(); pairs.len()]);
        }
        let pairs: Vec<[&str; 2]> = pairs
            .iter()
            .map(|(source, text)| [*source, text.as_str()])
            .collect();
        let layers = of_words(self, &pairs)?;
        Ok(layers
            .into_iter()
            .map(|mut layers| layers.pop().unwrap_or_default())
            .collect())
    }
}

/// Whether a text has the unknown token: as a word of its own, or within a word if it cannot be
/// mistaken for letters.
fn has_unknown(text: &str, unknown: &str) -> bool {
    text.split_whitespace()
        .any(|word| is_unknown(word, unknown))
}

fn is_unknown(word: &str, unknown: &str) -> bool {
    let is_plain = unknown.chars().all(char::is_alphanumeric);
    if is_plain {
        word == unknown
    } else {
        word.contains(unknown)
    }
}

/// A text with source words in the places of its unknown ones.
fn replaced(text: &str, unknown: &str, source: &str, attention: &WordAttention) -> String {
    let source: Vec<&str> = source.split_whitespace().collect();
    let links = strongest(attention);
    let num_words = text.split_whitespace().count();
    map_unknown(text, unknown, |index, word| {
        let linked = links
            .iter()
            .find(|(_, target)| *target == index)
            .map(|(source, _)| *source);
        let nearest = index * source.len() / num_words;
        let copied = linked
            .and_then(|index| source.get(index))
            .or(source.get(nearest));
        copied.map_or(String::new(), |copied| with_copy(word, unknown, copied))
    })
}

/// A text with what `copy` returns for each unknown word, given with its number among all words, in
/// place of the word; an empty one is left out.
fn map_unknown(text: &str, unknown: &str, copy: impl Fn(usize, &str) -> String) -> String {
    let mut mapped = String::with_capacity(text.len());
    let mut rest = text;
    for (index, word) in text.split_whitespace().enumerate() {
        // Only spaces are before it.
        let start = rest.find(word).unwrap_or(0);
        mapped.push_str(&rest[..start]);
        rest = &rest[start + word.len()..];
        if !is_unknown(word, unknown) {
            mapped.push_str(word);
            continue;
        }
        let copied = copy(index, word);
        if copied.is_empty() {
            mapped.truncate(mapped.trim_end().len());
        }
        mapped.push_str(&copied);
    }
    mapped.push_str(rest);
    mapped.trim().to_owned()
}

/// An unknown word with a copy of a source word: in place of the unknown token where only
/// punctuation is around it, or else in place of the whole word. Where a script has no spaces
/// between words, the token alone is replaced, and nothing is copied from a source of such a
/// script.
fn with_copy(word: &str, unknown: &str, copied: &str) -> String {
    let Some((before, after)) = word.split_once(unknown) else {
        return copied.to_owned();
    };
    // Several unknown tokens of a word are parts of one word.
    let after = after.replace(unknown, "");
    if word.contains(is_unspaced) || copied.contains(is_unspaced) {
        // What stands around it are other words, and what would be copied is a whole sentence.
        let copied = if copied.contains(is_unspaced) {
            ""
        } else {
            bare(copied)
        };
        return format!("{before}{copied}{after}");
    }
    let around = || before.chars().chain(after.chars());
    if around().any(char::is_alphanumeric) || around().next().is_none() {
        return copied.to_owned();
    }
    format!("{before}{}{after}", bare(copied))
}

/// A word without the punctuation around it; one that is nothing else as it is.
fn bare(word: &str) -> &str {
    let bare = word.trim_matches(|character: char| !character.is_alphanumeric());
    if bare.is_empty() { word } else { bare }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_become_the_source_words_that_they_look_at_most() {
        let attention = vec![
            vec![0.1, 0.2, 0.7],
            vec![0.8, 0.1, 0.1],
            vec![0.2, 0.5, 0.3],
        ];
        for (text, source, expected) in [
            ("die <unk> <unk>", "Anna Brown the", "die Anna Brown"),
            (
                "die  Katze\u{a0}<unk>",
                "Anna Brown the",
                "die  Katze\u{a0}Brown",
            ),
            // Punctuation is that of the translation, once.
            (
                "die (<unk>) <unk>,",
                "Anna, Brown. the",
                "die (Anna) Brown,",
            ),
            // What is known of a word in part is left out.
            (
                "die un<unk>n <unk><unk>!",
                "Anna, Brown the",
                "die Anna, Brown!",
            ),
            ("die <unk>. a", "-- Brown the", "die --. a"),
            ("<unk>", "", ""),
            ("a <unk> b", " ", "a b"),
        ] {
            assert_eq!(
                replaced(text, "<unk>", source, &attention),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn without_attention_the_source_word_at_the_same_share_of_the_line_is_taken() {
        let none = WordAttention::new();
        assert_eq!(
            replaced("<unk> b <unk> <unk>", "<unk>", "one two", &none),
            "one b two two"
        );
        // The words beyond the longest that the model reads have no weights.
        assert_eq!(
            replaced("a <unk>", "<unk>", "one two", &vec![vec![1.0, 0.0]]),
            "a two"
        );
    }

    #[test]
    fn in_scripts_without_spaces_the_token_alone_is_replaced() {
        let attention = vec![vec![0.1, 0.2, 0.7]];
        assert_eq!(
            replaced("我喜欢<unk>的狗。", "<unk>", "I like Rex", &attention),
            "我喜欢Rex的狗。"
        );
        assert_eq!(
            replaced(
                "the <unk> sleeps",
                "<unk>",
                "我喜欢的狗",
                &WordAttention::new()
            ),
            "the sleeps"
        );
    }

    #[test]
    fn a_token_of_letters_is_unknown_as_a_word_alone() {
        assert!(has_unknown("the UNK sleeps", "UNK") && !has_unknown("JUNK", "UNK"));
        assert!(has_unknown("a[UNK]b", "[UNK]") && !has_unknown("the dog", "<unk>"));
    }
}
