//! Guesses of the language of a text: by its scripts, and by the small words that every sentence
//! has.

pub mod identifier;
pub mod known;
mod ngrams;
mod scripts;
mod words;

use crate::pair::Pair;

pub use scripts::Script;
use scripts::{language_scripts, script};
use words::{LANGUAGES, hits};

/// Letters of a side that are needed to say anything about its script.
const FEW_LETTERS: usize = 3;
/// Different small words of another language that make a sentence foreign, if it has none of its
/// own.
const FOREIGN_WORDS: usize = 3;

/// The languages of both sides, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Languages {
    src: Expected,
    tgt: Expected,
}

impl Languages {
    /// Makes the languages of two sides whose files end in `src` and `tgt`.
    pub fn new(src: &str, tgt: &str) -> Self {
        Self {
            src: Expected::from_ending(src),
            tgt: Expected::from_ending(tgt),
        }
    }

    /// Returns the sides of a pair, each with its expected language.
    pub fn sides<'a>(&'a self, pair: &'a Pair) -> impl Iterator<Item = (&'a Expected, &'a str)> {
        [(&self.src, &*pair.src), (&self.tgt, &*pair.tgt)].into_iter()
    }
}

/// The language and the scripts that the text of a side is expected to have.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    scripts: &'static [Script],
    /// The index in [`LANGUAGES`].
    language: Option<usize>,
}

impl Expected {
    fn from_ending(ending: &str) -> Self {
        let code = code(ending);
        let language = LANGUAGES.iter().position(|language| language.code == code);
        Self {
            scripts: language_scripts(&code),
            language,
        }
    }

    /// Whether nine of ten letters of a text are of other scripts. Names and technical words are no
    /// foreign text: in Chinese they easily have more letters than the sentence around them.
    pub fn is_foreign_script(&self, text: &str) -> bool {
        if self.scripts.is_empty() {
            return false;
        }
        let mut letters = 0;
        let mut foreign = 0;
        for script in text.chars().filter_map(script) {
            letters += 1;
            foreign += usize::from(!self.scripts.contains(&script));
        }
        letters >= FEW_LETTERS && 10 * foreign > 9 * letters
    }

    /// Whether a text has small words of another language, and none of its own.
    pub fn is_foreign_language(&self, text: &str) -> bool {
        let Some(own) = self.language else {
            return false;
        };
        let hits = hits(text);
        hits[own] == 0 && hits.iter().any(|&count| count >= FOREIGN_WORDS)
    }
}

/// Counts of the letters, small words and neighboring characters of a whole side, from which its
/// language is guessed.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The number of letters of each script, and the script once there is a letter.
    scripts: [(u64, Option<Script>); Script::COUNT],
    /// The number of small words of each of [`LANGUAGES`].
    words: Vec<u64>,
    /// The number of occurrences of each of some thousand classes of neighboring characters.
    neighbors: Vec<f64>,
}

/// Number of classes of pairs of characters.
const CLASSES: usize = 1 << 12;

impl Default for Profile {
    fn default() -> Self {
        Self {
            scripts: [(0, None); Script::COUNT],
            words: vec![0; LANGUAGES.len()],
            neighbors: vec![0.0; CLASSES],
        }
    }
}

impl Profile {
    /// Adds a sentence.
    pub fn add(&mut self, text: &str) {
        for (sum, count) in self.words.iter_mut().zip(hits(text)) {
            *sum += count as u64;
        }
        let mut before = ' ';
        for character in text.chars().flat_map(char::to_lowercase) {
            if let Some(script) = script(character) {
                let (count, _) = self.scripts[script as usize];
                self.scripts[script as usize] = (count + 1, Some(script));
            }
            let class = (u32::from(before).wrapping_mul(0x9e37)
                ^ u32::from(character).wrapping_mul(0x85eb)) as usize;
            self.neighbors[class % CLASSES] += 1.0;
            before = character;
        }
    }

    /// Returns the script of most letters, if there are enough of them.
    pub fn script(&self) -> Option<Script> {
        let (count, script) = self.scripts.iter().max_by_key(|(count, _)| *count)?;
        script.filter(|_| *count > 100)
    }

    /// Guesses the language by its small words, and returns its code and name. `None` if the text
    /// has too few of them, or the language is not one whose words are known here.
    pub fn language(&self) -> Option<(&'static str, &'static str)> {
        let counts = self.words.iter().copied().enumerate();
        let (best, most) = counts.clone().max_by_key(|(_, count)| *count)?;
        let others = counts.filter(|(language, _)| *language != best);
        let next = others.map(|(_, count)| count).max()?;
        // Neighbors such as Danish and Norwegian share many words.
        (most >= 50 && most > next + next / 4).then(|| (LANGUAGES[best].code, LANGUAGES[best].name))
    }

    /// Returns how similar the neighboring characters of two texts are, 0 to 1: the cosine of the
    /// square roots of their counts.
    pub fn similarity(&self, other: &Self) -> f64 {
        let ours = &self.neighbors;
        let theirs = &other.neighbors;
        root_product(ours, theirs)
            / (root_product(ours, ours) * root_product(theirs, theirs))
                .sqrt()
                .max(f64::MIN_POSITIVE)
    }
}

/// The dot product of the square roots of two vectors.
fn root_product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.sqrt() * b.sqrt()).sum()
}

/// Returns the code of the language of a file's ending: `en` for `en`, `en_US` and `eng`; for an
/// unknown language the ending itself in lower case.
pub fn code(ending: &str) -> String {
    let first = ending
        .split(['-', '_', '.'])
        .next()
        .unwrap_or_default()
        .to_lowercase();
    let long = LANGUAGES
        .iter()
        .find(|language| language.long.contains(&&*first));
    long.map_or(first, |language| language.code.to_owned())
}

/// Returns the scripts in which the language of a file's ending is written; none where it is not
/// known.
pub fn scripts_of(ending: &str) -> &'static [Script] {
    language_scripts(&code(ending))
}

/// Whether the words of a language are known here.
pub fn is_known(ending: &str) -> bool {
    let code = code(ending);
    LANGUAGES.iter().any(|language| language.code == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_languages() {
        assert_eq!(
            ["en", "EN", "en_US", "eng", "de-AT", "fra", "xx"].map(code),
            ["en", "en", "en", "en", "de", "fr", "xx"]
        );
        assert!(is_known("deu") && !is_known("ja") && scripts_of("ja").contains(&Script::Kana));
    }

    #[test]
    fn a_side_is_told_by_its_small_words_and_a_swapped_one_by_its_characters() {
        let profile = |text: &str| {
            let mut profile = Profile::default();
            (0..20).for_each(|_| profile.add(text));
            profile
        };
        let english = profile("the cat is not in the house and it was here");
        let german = profile("die Katze ist nicht in dem Haus und sie war auch hier");
        let more = profile("it is the house of the dog and that was not with him");
        assert_eq!(english.language(), Some(("en", "English")));
        assert_eq!(german.language(), Some(("de", "German")));
        assert_eq!(english.script(), Some(Script::Latin));
        assert!(more.similarity(&english) > more.similarity(&german) + 0.05);
        assert!((english.similarity(&english) - 1.0).abs() < 1e-9);
        assert_eq!(Profile::default().language(), None);
    }

    #[test]
    fn a_name_among_other_letters_makes_no_sentence_foreign() {
        let languages = Languages::new("en", "de");
        let foreign = |text: &str| {
            (
                languages.src.is_foreign_script(text),
                languages.src.is_foreign_language(text),
            )
        };
        assert_eq!(foreign("The word собака means dog"), (false, false));
        assert_eq!(foreign("собака в саду"), (true, false));
        assert_eq!(foreign("Le chien est dans la maison"), (false, true));
        // Titles and names have no small words, and say nothing.
        assert_eq!(foreign("Rio de Janeiro"), (false, false));
        assert_eq!(foreign("42"), (false, false));
        let chinese = Languages::new("en", "zh");
        assert!(
            !chinese.tgt.is_foreign_script("11.5.2.1. smbclient 程序")
                && chinese.tgt.is_foreign_script("The smbclient program")
        );
    }
}
