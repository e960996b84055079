//! Words that a model's vocabulary lacks, and so cannot tell apart.

use std::collections::BTreeSet;

use polyglow_data::tokenizer::Tokenizer;

use crate::runner::ENCODED_WHOLE;

/// Words that a message names, and those that are counted.
const SHOWN: usize = 5;
const COUNTED: usize = 1000;
/// Letters of a word that are shown.
const LETTERS: usize = 40;

/// The different unknown words of some texts.
#[derive(Clone, Debug, Default)]
pub struct UnknownWords(BTreeSet<String>);

impl UnknownWords {
    /// Looks at a text that a model reads with this tokenizer; words are what whitespace divides. A
    /// text that is too long to be encoded as a whole is passed over, and one that cannot be
    /// encoded fails where it is used.
    pub fn look_at(&mut self, tokenizer: &Tokenizer, text: &str) {
        if self.0.len() >= COUNTED || text.len() > ENCODED_WHOLE {
            return;
        }
        let Ok((ids, numbers)) = tokenizer.encode_words(text) else {
            return;
        };
        let unk = tokenizer.special().unk;
        let words: Vec<&str> = text.split_whitespace().collect();
        let unknown = ids.iter().zip(numbers).filter(|(id, _)| **id == unk);
        self.0
            .extend(unknown.filter_map(|(_, number)| Some(shortened(words.get(number)?))));
    }

    /// Says which there are, if there are any, and forgets them.
    pub fn warn(&mut self) {
        if let Some(message) = self.message() {
            tracing::warn!("{message}");
        }
        self.0.clear();
    }

    fn message(&self) -> Option<String> {
        let words: Vec<&str> = self.0.iter().take(SHOWN).map(String::as_str).collect();
        let (listed, rest) = (words.join("`, `"), self.0.len() - words.len());
        let at_least = if self.0.len() >= COUNTED {
            "at least "
        } else {
            ""
        };
        let others = if rest > 0 {
            format!(" and {at_least}{rest} more")
        } else {
            String::new()
        };
        let is_lacking =
            format!("the model's vocabulary lacks `{listed}`{others}, which it reads as `<unk>`");
        (!words.is_empty()).then_some(is_lacking)
    }
}

/// A word as a message shows it.
fn shortened(word: &str) -> String {
    match word.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use polyglow_data::tokenizer::{Kind, TokenizerConfig};

    use super::*;

    #[test]
    fn what_the_vocabulary_lacks_is_named_once() {
        let config = TokenizerConfig {
            kind: Kind::Word,
            ..TokenizerConfig::default()
        };
        let lines = ["the dog sleeps ."]
            .map(|line| Ok(line.to_owned()))
            .into_iter();
        let tokenizer = Tokenizer::train(&config, lines, &mut |_, _| ()).unwrap();
        let mut unknown = UnknownWords::default();
        unknown.look_at(&tokenizer, "the dog sleeps .");
        assert_eq!(unknown.message(), None);
        unknown.look_at(&tokenizer, "The dog  sleeps.");
        unknown.look_at(&tokenizer, "The cat");
        let message =
            "the model's vocabulary lacks `The`, `cat`, `sleeps.`, which it reads as `<unk>`";
        assert_eq!(unknown.message().unwrap(), message);
        unknown.look_at(&tokenizer, "a b c");
        assert!(
            unknown
                .message()
                .unwrap()
                .contains("`The`, `a`, `b`, `c`, `cat` and 1 more,")
        );
        unknown.warn();
        assert_eq!(unknown.message(), None);
        unknown.look_at(&tokenizer, &"x ".repeat(ENCODED_WHOLE));
        assert_eq!(unknown.message(), None);
        let words: Vec<String> = (0..2 * COUNTED)
            .map(|number| format!("w{number}"))
            .collect();
        unknown.look_at(&tokenizer, &words[..COUNTED].join(" "));
        unknown.look_at(&tokenizer, &words[COUNTED..].join(" "));
        assert!(
            unknown
                .message()
                .unwrap()
                .contains(" and at least 995 more,"),
            "{:?}",
            unknown.message()
        );
    }
}
