//! The whole words among the tokens of a vocabulary, and how often a text has them.

use std::cmp::Reverse;
use std::collections::HashMap;

use polyglow_data::error::DataError;
use polyglow_data::pair::Pair;
use polyglow_model::Side;
use polyglow_train::Result;

use super::vectors::Lookup;
use super::{Embeddings, bare};

/// The sign of a space in a token as it is shown.
const SPACE: char = '▁';

/// A word that is one token of a vocabulary, or that a file of vectors has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeWord {
    /// The word, without spaces.
    pub text: String,
    /// The side of the text on which the word is more frequent; the source where no text was
    /// counted.
    pub side: Side,
    pub(super) index: usize,
}

/// The number of occurrences of a word on both sides of a text, source first.
type Counts = [u64; 2];

impl Embeddings {
    /// Returns the words of a text that are one token each, the most frequent first, at most
    /// `count`. Words of `sides` of the text are counted.
    ///
    /// A word belongs to the side of which it is a larger share. Words are split at whitespace and
    /// lose the punctuation around them; in scripts without spaces, such as Chinese and Thai, every
    /// token is a word. The list is empty for the vectors of a file, which belong to no text.
    ///
    /// # Errors
    /// The text cannot be read or encoded.
    pub fn frequent_words(
        &self,
        pairs: impl Iterator<Item = Result<Pair, DataError>>,
        sides: &[Side],
        count: usize,
    ) -> Result<Vec<WholeWord>> {
        let Lookup::Tokens(tokenizer, _) = &self.lookup else {
            return Ok(Vec::new());
        };
        let counted = count_words(pairs, sides)?;
        let mut totals = [0; 2];
        let mut token_counts: HashMap<usize, Counts> = HashMap::new();
        let words: Vec<&str> = counted.keys().map(String::as_str).collect();
        for (word, ids) in words.iter().zip(tokenizer.encode_batch(&words)?) {
            let counts = counted[*word];
            add(&mut totals, counts);
            for index in self.words_among(word, &ids) {
                add(token_counts.entry(index).or_default(), counts);
            }
        }
        let mut frequent: Vec<(usize, Counts)> = token_counts.into_iter().collect();
        // Among equals the order of the vocabulary, so that the result is always the same.
        frequent.sort_by_key(|(index, [src, tgt])| (Reverse(src + tgt), *index));
        frequent.truncate(count);
        let mut whole_words = Vec::with_capacity(frequent.len());
        for (index, counts) in frequent {
            whole_words.push(self.whole_word(index, side(counts, totals)));
        }
        Ok(whole_words)
    }

    /// Returns the first whole words in the order of the vocabulary or the file, at most `count`. A
    /// whole word has a letter, and is encoded as one token if it is of a vocabulary.
    ///
    /// # Errors
    /// A token cannot be encoded again.
    pub fn first_words(&self, count: usize) -> Result<Vec<WholeWord>> {
        let mut whole_words = Vec::new();
        for index in 0..self.words.len() {
            if whole_words.len() == count {
                break;
            }
            if self.is_whole(index)? {
                whole_words.push(self.whole_word(index, Side::Src));
            }
        }
        Ok(whole_words)
    }

    /// Returns the vector of a word of these embeddings, scaled to length 1.
    ///
    /// # Panics
    /// The word is of other embeddings, with more words.
    pub fn direction_of(&self, word: &WholeWord) -> &[f32] {
        self.directions.get(word.index)
    }

    fn whole_word(&self, index: usize, side: Side) -> WholeWord {
        WholeWord {
            text: self.words[index].trim_matches(SPACE).to_owned(),
            side,
            index,
        }
    }

    /// Whether a token or a word of a file is a whole word.
    fn is_whole(&self, index: usize) -> Result<bool> {
        let word = &self.words[index];
        let text = word.trim_matches(SPACE);
        if !text.contains(char::is_alphabetic) {
            return Ok(false);
        }
        Ok(match &self.lookup {
            // Files of other programs have special tokens, such as `<unk>` and `[PAD]`.
            Lookup::Spelling(_) => !(text.starts_with(['<', '[']) && text.ends_with(['>', ']'])),
            Lookup::Tokens(tokenizer, _) => {
                let ids = tokenizer.encode(text)?;
                self.words_among(text, &ids).contains(&index)
            }
        })
    }

    /// The tokens of a word that are words: the only one, or in a script without spaces all of that
    /// script. A token that is nothing but a space does not count.
    fn words_among(&self, word: &str, ids: &[u32]) -> Vec<usize> {
        let Lookup::Tokens(_, indices) = &self.lookup else {
            return Vec::new();
        };
        // Unknown tokens have no index, but count as a part of the word.
        let mut tokens: Vec<Option<usize>> = ids.iter().map(|id| indices[*id as usize]).collect();
        tokens.retain(|token| match token {
            Some(index) => !is_space(&self.words[*index]),
            None => true,
        });
        if let [Some(only)] = tokens[..] {
            return vec![only];
        }
        if !word.contains(has_no_spaces) {
            return Vec::new();
        }
        tokens
            .into_iter()
            .flatten()
            .filter(|index| is_unspaced(&self.words[*index]))
            .collect()
    }
}

/// Whether a token stands for nothing but spaces.
fn is_space(token: &str) -> bool {
    token.chars().all(|character| character == SPACE)
}

/// Whether all letters of a token are of scripts that do not divide words by spaces.
fn is_unspaced(token: &str) -> bool {
    token.trim_matches(SPACE).chars().all(has_no_spaces)
}

/// Counts how often each word is on each of these sides.
fn count_words(
    pairs: impl Iterator<Item = Result<Pair, DataError>>,
    sides: &[Side],
) -> Result<HashMap<String, Counts>> {
    let mut counted: HashMap<String, Counts> = HashMap::new();
    for pair in pairs {
        let pair = pair?;
        for side in sides {
            let (text, index) = match side {
                Side::Src => (&pair.src, 0),
                Side::Tgt => (&pair.tgt, 1),
            };
            for word in text.split_whitespace().map(bare) {
                if !word.contains(char::is_alphabetic) {
                    continue;
                }
                // Most words were counted before, and need no copy for a key.
                match counted.get_mut(word) {
                    Some(counts) => counts[index] += 1,
                    None => counted.entry(word.to_owned()).or_default()[index] += 1,
                }
            }
        }
    }
    Ok(counted)
}

fn add(sum: &mut Counts, counts: Counts) {
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum += count;
    }
}

/// The side of which a word is a larger share.
fn side(counts: Counts, totals: Counts) -> Side {
    let [src, tgt] = [0, 1].map(|side| counts[side] as f64 / totals[side].max(1) as f64);
    if tgt > src { Side::Tgt } else { Side::Src }
}

/// Whether a letter is of a script that does not divide words by spaces.
fn has_no_spaces(letter: char) -> bool {
    matches!(
        letter,
        // Thai and Lao, Myanmar, Khmer.
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        // Hiragana and Katakana, Han.
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use polyglow_data::tokenizer::{Kind, Tokenizer, TokenizerConfig};

    use super::*;

    fn pairs(lines: &[(&str, &str)]) -> Vec<Pair> {
        lines
            .iter()
            .map(|(src, tgt)| Pair {
                src: (*src).to_owned(),
                tgt: (*tgt).to_owned(),
            })
            .collect()
    }

    /// Vectors of the vocabulary that is learned from both sides, all of them 1.
    fn embeddings(kind: Kind, vocab_size: usize, pairs: &[Pair]) -> Embeddings {
        let config = TokenizerConfig {
            kind,
            vocab_size,
            ..TokenizerConfig::default()
        };
        let lines: Vec<String> = pairs
            .iter()
            .flat_map(|pair| [pair.src.clone(), pair.tgt.clone()])
            .collect();
        let tokenizer =
            Tokenizer::train(&config, lines.into_iter().map(Ok), &mut |_, _| {}).unwrap();
        let table = vec![1.0; tokenizer.vocab_size()];
        Embeddings::from_table(&table, 1, &Arc::new(tokenizer))
    }

    fn frequent(
        embeddings: &Embeddings,
        pairs: &[Pair],
        sides: &[Side],
        count: usize,
    ) -> Vec<(String, Side)> {
        let words = embeddings
            .frequent_words(pairs.iter().cloned().map(Ok), sides, count)
            .unwrap();
        words
            .into_iter()
            .map(|word| (word.text, word.side))
            .collect()
    }

    fn sorted(words: Vec<(String, Side)>) -> Vec<String> {
        let mut words: Vec<String> = words
            .into_iter()
            .map(|(word, side)| format!("{word} {side:?}"))
            .collect();
        words.sort();
        words
    }

    #[test]
    fn whole_words_come_by_frequency_and_pieces_and_punctuation_do_not() {
        // `singing` is rare, so that it is cut into pieces, and `ing` is none but a piece.
        let mut lines = vec![("the dog , 7 in Rom", "der Hund ist 7 in Rom"); 20];
        lines.extend([("the barking", "der Hund"); 5]);
        lines.extend([("singing ringing", "!"); 2]);
        let pairs = pairs(&lines);
        let embeddings = embeddings(Kind::Bpe, 290, &pairs);
        let words = frequent(&embeddings, &pairs, &[Side::Src, Side::Tgt], 5);
        let expected = [
            ("in", Side::Src),
            ("Rom", Side::Src),
            ("the", Side::Src),
            ("der", Side::Tgt),
            ("Hund", Side::Tgt),
        ];
        assert_eq!(
            sorted(words.clone()),
            sorted(expected.map(|(word, side)| (word.to_owned(), side)).into())
        );
        assert!(
            words[..2]
                .iter()
                .all(|(word, _)| ["in", "Rom"].contains(&word.as_str())),
            "{words:?}"
        );
        let of_one_side = frequent(&embeddings, &pairs, &[Side::Tgt], 100);
        assert!(
            of_one_side
                .iter()
                .all(|(word, side)| *side == Side::Tgt && word != "the"),
            "{of_one_side:?}"
        );
        let first: Vec<String> = embeddings
            .first_words(400)
            .unwrap()
            .into_iter()
            .map(|word| word.text)
            .collect();
        assert!(first.contains(&"Hund".to_owned()), "{first:?}");
        assert!(
            !first
                .iter()
                .any(|word| word == "ing" || word == "," || word.contains(SPACE)),
            "{first:?}"
        );
    }

    #[test]
    fn a_script_without_spaces_has_its_tokens_for_words() {
        let pairs = pairs(&[("我们喜欢狗。", "we like dogs"); 9]);
        let embeddings = embeddings(Kind::Unigram, 60, &pairs);
        let words = frequent(&embeddings, &pairs, &[Side::Src], 100);
        assert!(
            !words.is_empty()
                && words
                    .iter()
                    .all(|(word, _)| word.chars().all(has_no_spaces)),
            "{words:?}"
        );
    }
}
