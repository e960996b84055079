//! What is usual on one side of a corpus, learned from the text itself: rules draw their limits
//! from it, and not from a table of languages.

use crate::clean::language::Script;

/// A script is one of a side's own if at least this share of its letters is of it.
const OWN_SHARE: f64 = 0.001;

/// The usual text of a side.
#[derive(Clone, Debug, Default)]
pub struct SideProfile {
    /// The scripts that the side is written in.
    scripts: Vec<Script>,
    /// The median share of blanks among the characters of a sentence.
    blank_share: f64,
}

impl SideProfile {
    /// Learns from the sentences of a side, of which some thousands are enough.
    pub fn learn<'t>(sentences: impl IntoIterator<Item = &'t str>) -> Self {
        let mut letters = [0_u64; Script::COUNT];
        let mut shares = Vec::new();
        for sentence in sentences {
            let mut num_blanks = 0_u32;
            let mut num_characters = 0_u32;
            for character in sentence.chars() {
                num_characters += 1;
                num_blanks += u32::from(character == ' ');
                if let Some(script) = Script::of(character) {
                    letters[script as usize] += 1;
                }
            }
            if num_characters > 0 {
                shares.push(f64::from(num_blanks) / f64::from(num_characters));
            }
        }
        shares.sort_by(f64::total_cmp);
        let all: u64 = letters.iter().sum();
        let is_own = |script: &Script| {
            letters[*script as usize] as f64 >= OWN_SHARE * all as f64
                && letters[*script as usize] > 0
        };
        Self {
            scripts: Script::ALL.into_iter().filter(is_own).collect(),
            blank_share: shares.get(shares.len() / 2).copied().unwrap_or(0.0),
        }
    }

    /// Returns whether the side is written in a script.
    pub fn has(&self, script: Script) -> bool {
        self.scripts.contains(&script)
    }

    /// Returns whether words have blanks between them.
    pub fn is_spaced(&self) -> bool {
        self.blank_share > 0.08
    }

    /// Returns whether sentences hardly have any blank.
    pub fn is_unspaced(&self) -> bool {
        self.blank_share < 0.02
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_has_the_scripts_and_blanks_of_its_text() {
        let japanese = SideProfile::learn(["これはペンです。", "私はTomです。"]);
        assert!(japanese.has(Script::Kana) && japanese.has(Script::Latin));
        assert!(japanese.is_unspaced() && !japanese.is_spaced());
        let english = SideProfile::learn(["this is a pen .", "I am Tom ."]);
        assert!(english.is_spaced() && !english.has(Script::Hangul));
    }
}
