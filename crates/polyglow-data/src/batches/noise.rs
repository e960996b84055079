//! Noise in sources: what people type, in place of what was printed, so that a model translates it,
//! too (Belinkov and Bisk, 2018, "Synthetic and natural noise both break neural machine
//! translation").

use serde::{Deserialize, Serialize};

#[cfg(feature = "training")]
use crate::error::DataError;
#[cfg(feature = "training")]
use crate::random::Purpose;
use crate::random::Random;
#[cfg(feature = "training")]
use crate::tokenizer::{Tokenizer, WORD_START};

/// Letters of a word at least, of which one may be mistyped.
const MIN_LETTERS: usize = 4;
/// Sources with noise that are drawn until one is short enough; after these the source stays.
#[cfg(feature = "training")]
const MAX_DRAWS: u64 = 8;

/// Probabilities of changes to sources, drawn anew each time one is trained on; targets stay.
///
/// A source that becomes more than half as long again, in tokens, or longer than any other of the
/// text, is drawn once more, and stays as it is if that happens eight times. So does one with an
/// unknown token, whose text is not known. Symbols (`tokenizer.symbols`) stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Noise {
    /// Probability that a source is written in lower case, in upper case, or with a capital at each
    /// word, one as often as another; default 0.
    pub case: f64,
    /// Probability that a source has no punctuation at its end, or none at all; default 0.
    pub punctuation: f64,
    /// Probability for each word of at least four letters that one is mistyped: two neighbors
    /// exchanged, one left out, one doubled, or one replaced by another of the word; default 0.
    pub typos: f64,
    /// Probability for each word that it is missing; at least one word stays; default 0.
    pub dropped_words: f64,
}

impl Noise {
    /// The probabilities, with the names of their keys.
    #[cfg(feature = "training")]
    pub(crate) fn probabilities(self) -> [(&'static str, f64); 4] {
        [
            ("case", self.case),
            ("punctuation", self.punctuation),
            ("typos", self.typos),
            ("dropped_words", self.dropped_words),
        ]
    }

    /// Returns a text as it may have been typed; `None` if nothing of it is changed. Words for which
    /// `is_fixed` holds stay as they are.
    pub fn apply(
        self,
        text: &str,
        is_fixed: &dyn Fn(&str) -> bool,
        random: &mut Random,
    ) -> Option<String> {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let mut is_changed = self.drop_words(&mut words, is_fixed, random);
        for word in words.iter_mut().filter(|word| !is_fixed(word)) {
            if random.uniform() < self.typos
                && let Some(mistyped) = mistype(word, random)
            {
                *word = mistyped;
                is_changed = true;
            }
        }
        if random.uniform() < self.punctuation {
            let everywhere = random.uniform() < 0.5;
            is_changed |= remove_punctuation(&mut words, is_fixed, everywhere);
        }
        if random.uniform() < self.case {
            let style = random.below(3);
            for word in words.iter_mut().filter(|word| !is_fixed(word)) {
                let other = in_case(word, style);
                is_changed |= other != *word;
                *word = other;
            }
        }
        is_changed.then(|| words.join(" "))
    }

    /// Leaves out words, but never all of them.
    fn drop_words(
        self,
        words: &mut Vec<String>,
        is_fixed: &dyn Fn(&str) -> bool,
        random: &mut Random,
    ) -> bool {
        let before = words.len();
        let mut num_left = before;
        words.retain(|word| {
            let is_drawn = random.uniform() < self.dropped_words;
            let is_dropped = is_drawn && num_left > 1 && !is_fixed(word);
            num_left -= usize::from(is_dropped);
            !is_dropped
        });
        num_left < before
    }
}

/// Returns a word with a typing error; `None` for one without enough letters.
fn mistype(word: &str, random: &mut Random) -> Option<String> {
    let mut letters: Vec<char> = word.chars().collect();
    let letters_at: Vec<usize> = (0..letters.len())
        .filter(|&index| letters[index].is_alphabetic())
        .collect();
    if letters_at.len() < MIN_LETTERS {
        return None;
    }
    let letter = 1 + random.below(letters_at.len() - 1);
    let index = letters_at[letter];
    match random.below(4) {
        0 => letters.swap(letters_at[letter - 1], index),
        1 => {
            letters.remove(index);
        }
        2 => letters.insert(index, letters[index]),
        _ => letters[index] = letters[letters_at[random.below(letters_at.len())]],
    }
    let mistyped: String = letters.into_iter().collect();
    (mistyped != word).then_some(mistyped)
}

/// Removes the punctuation at the end of the last word, or everywhere; a word of nothing else goes,
/// unless none would be left. Returns whether there was any.
fn remove_punctuation(
    words: &mut Vec<String>,
    is_fixed: &dyn Fn(&str) -> bool,
    everywhere: bool,
) -> bool {
    let first = if everywhere {
        0
    } else {
        words.len().saturating_sub(1)
    };
    let mut kept: Vec<String> = words[..first].to_vec();
    for word in &words[first..] {
        let trimmed = if is_fixed(word) {
            word
        } else if everywhere {
            word.trim_matches(is_punctuation)
        } else {
            word.trim_end_matches(is_punctuation)
        };
        if !trimmed.is_empty() {
            kept.push(trimmed.to_owned());
        }
    }
    if kept.is_empty() || kept == *words {
        return false;
    }
    *words = kept;
    true
}

/// Whether a character is punctuation, in any script.
fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation()
        || matches!(
            character,
            '¡' | '«' | '»' | '¿' | '·' | '،' | '؛' | '؟' | '।' | '…'
        )
        || matches!(character, '\u{2010}'..='\u{2027}' | '\u{3001}'..='\u{3011}')
        || matches!(
            character,
            '\u{FF01}'..='\u{FF0F}' | '\u{FF1A}' | '\u{FF1B}' | '\u{FF1F}'
        )
}

/// Returns a word in lower case, in upper case, or with a capital at its start.
fn in_case(word: &str, style: usize) -> String {
    match style {
        0 => word.to_lowercase(),
        1 => word.to_uppercase(),
        _ => {
            let mut letters = word.chars();
            let first = letters.next().into_iter().flat_map(char::to_uppercase);
            first.chain(letters).collect()
        }
    }
}

/// The noise in the sources of examples.
#[cfg(feature = "training")]
pub(crate) struct SourceNoise<'a> {
    pub(crate) noise: Noise,
    pub(crate) tokenizer: &'a Tokenizer,
    /// The number of tags before the text.
    pub(crate) num_tags: usize,
    /// The most tokens of a source.
    pub(crate) limit: usize,
    /// The seed, the epoch and the example.
    pub(crate) row: [u64; 3],
}

#[cfg(feature = "training")]
impl SourceNoise<'_> {
    /// Returns the ids of a source as noise leaves its text; both with a flag at each id that begins
    /// a word.
    ///
    /// # Errors
    /// A foreign tokenizer fails.
    pub(crate) fn apply(&self, marked: Vec<u32>) -> Result<Vec<u32>, DataError> {
        let tokenizer = self.tokenizer;
        let (tags, ids) = marked.split_at(self.num_tags.min(marked.len()));
        let plain: Vec<u32> = ids.iter().map(|id| id & !WORD_START).collect();
        if plain.contains(&tokenizer.special().unk) {
            return Ok(marked);
        }
        let text = tokenizer.decode(&plain)?;
        let is_fixed = |word: &str| tokenizer.has_symbol(word);
        let [seed, epoch, example] = self.row;
        for draw in 0..MAX_DRAWS {
            let key = Purpose::Noise.mix(&[seed, epoch, example, draw]);
            let Some(noisy) = self.noise.apply(&text, &is_fixed, &mut Random::new(key)) else {
                break;
            };
            let noisy = tokenizer.encode_marked(&noisy)?;
            if !noisy.is_empty() && tags.len() + noisy.len() <= self.limit {
                return Ok([tags, &noisy].concat());
            }
        }
        Ok(marked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "The old dog, sleeps (under) a tree.";

    fn samples(noise: Noise) -> Vec<Option<String>> {
        let draw = |key| noise.apply(TEXT, &|_| false, &mut Random::new(key));
        (0..400).map(draw).collect()
    }

    #[test]
    fn each_kind_comes_as_often_as_it_says_and_changes_nothing_else() {
        let none = Noise::default();
        assert!(samples(none).iter().all(Option::is_none));
        let share = |noise| {
            let changed: Vec<String> = samples(noise).into_iter().flatten().collect();
            let share = changed.len() as f64 / 400.0;
            (share, changed)
        };
        let (often, texts) = share(Noise { case: 0.5, ..none });
        assert!((0.4..0.6).contains(&often), "{often}");
        assert!(
            texts
                .iter()
                .all(|text| text.to_lowercase() == TEXT.to_lowercase())
        );
        assert!(texts.contains(&TEXT.to_uppercase()));

        let (often, texts) = share(Noise {
            punctuation: 0.5,
            ..none
        });
        assert!((0.4..0.6).contains(&often), "{often}");
        assert!(texts.contains(&"The old dog, sleeps (under) a tree".to_owned()));
        assert!(texts.contains(&"The old dog sleeps under a tree".to_owned()));

        // Three words have four letters.
        let (often, texts) = share(Noise { typos: 0.1, ..none });
        assert!((0.15..0.35).contains(&often), "{often}");
        assert!(
            texts.iter().all(|text| text.starts_with("The old dog,")),
            "{texts:?}"
        );

        let (_, texts) = share(Noise {
            dropped_words: 0.9,
            ..none
        });
        assert!(texts.iter().all(|text| {
            let mut words = TEXT.split(' ');
            !text.is_empty() && text.split(' ').all(|word| words.any(|other| other == word))
        }));
    }

    #[test]
    fn the_same_numbers_give_the_same_noise() {
        let noise = Noise {
            case: 0.2,
            punctuation: 0.2,
            typos: 0.3,
            dropped_words: 0.1,
        };
        assert_eq!(samples(noise), samples(noise));
        for text in ["", "..."] {
            assert_eq!(noise.apply(text, &|_| false, &mut Random::new(3)), None);
        }
    }

    #[test]
    fn fixed_words_stay() {
        let noise = Noise {
            case: 0.9,
            punctuation: 0.9,
            typos: 0.9,
            dropped_words: 0.5,
        };
        let is_fixed = |word: &str| word == "<symbol>";
        for key in 0..100 {
            let text = "the <symbol> dog sleeps.";
            if let Some(noisy) = noise.apply(text, &is_fixed, &mut Random::new(key)) {
                assert!(noisy.contains("<symbol>"), "{noisy}");
            }
        }
    }
}
