//! What language a text looks like: by its scripts, and by the small words that every sentence has.

mod scripts;
mod words;

use crate::pair::Pair;

pub use scripts::Script;
use scripts::{of_language, script};
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
    /// The languages that go by these endings of files.
    pub fn new(src: &str, tgt: &str) -> Self {
        Self {
            src: Expected::of(src),
            tgt: Expected::of(tgt),
        }
    }

    /// The sides of a pair, each with what is expected of it.
    pub fn sides<'a>(&'a self, pair: &'a Pair) -> impl Iterator<Item = (&'a Expected, &'a str)> {
        [(&self.src, &*pair.src), (&self.tgt, &*pair.tgt)].into_iter()
    }
}

/// What is expected of the text of a side.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    scripts: &'static [Script],
    /// The place in [`LANGUAGES`].
    language: Option<usize>,
}

impl Expected {
    fn of(ending: &str) -> Self {
        let code = code(ending);
        let language = LANGUAGES.iter().position(|language| language.code == code);
        Self {
            scripts: of_language(&code),
            language,
        }
    }

    /// Whether nine of ten letters of a text are of other scripts. Names and technical words are no
    /// foreign text: in Chinese they easily have more letters than the sentence around them.
    pub fn is_foreign_script(&self, text: &str) -> bool {
        if self.scripts.is_empty() {
            return false;
        }
        let (mut letters, mut foreign) = (0, 0);
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

/// What language a whole side looks like, and what it is made of.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Letters of each script, beside it.
    scripts: [(u64, Option<Script>); Script::COUNT],
    /// Small words of each of [`LANGUAGES`].
    words: Vec<u64>,
    /// How often each of some thousand classes of neighboring characters occurs.
    neighbors: Vec<f64>,
}

/// Classes of pairs of characters.
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

    /// The script of most letters, if there are enough of them.
    pub fn script(&self) -> Option<Script> {
        let (count, script) = self.scripts.iter().max_by_key(|(count, _)| *count)?;
        script.filter(|_| *count > 100)
    }

    /// The code and the name of the language that it looks like, if the text is enough to say it,
    /// and the language is one whose words are known here.
    pub fn language(&self) -> Option<(&'static str, &'static str)> {
        let (best, &most) = self
            .words
            .iter()
            .enumerate()
            .max_by_key(|(_, count)| **count)?;
        let next = self
            .words
            .iter()
            .enumerate()
            .filter(|(place, _)| *place != best)
            .map(|(_, count)| *count)
            .max()?;
        // Neighbors such as Danish and Norwegian share many words.
        (most >= 50 && most > next + next / 4).then(|| (LANGUAGES[best].code, LANGUAGES[best].name))
    }

    /// How much two texts are made of the same characters in the same order, 0 to 1: the cosine of
    /// their counts.
    pub fn similarity(&self, other: &Self) -> f64 {
        let product = |a: &[f64], b: &[f64]| {
            a.iter()
                .zip(b)
                .map(|(a, b)| a.sqrt() * b.sqrt())
                .sum::<f64>()
        };
        let (ours, theirs) = (&self.neighbors, &other.neighbors);
        product(ours, theirs)
            / (product(ours, ours) * product(theirs, theirs))
                .sqrt()
                .max(f64::MIN_POSITIVE)
    }
}

/// The language of an ending: `en` of `en`, `en_US` and `eng`; whatever it is in lower case
/// otherwise.
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

/// The scripts that a language is written in; none where it is not known.
pub fn scripts_of(ending: &str) -> &'static [Script] {
    of_language(&code(ending))
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
