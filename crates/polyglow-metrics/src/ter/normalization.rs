//! The normalization of Tercom, which makes words of punctuation marks or removes them.

use crate::tokenizer::{
    replace_entities, split_periods_and_dashes, split_western_symbols, surround,
};

/// Joins lines, puts XML entities back, and makes words of punctuation marks and possessives.
///
/// With `asian_support`, each Chinese character and each Japanese mark becomes a word too. Kana
/// stay together: sacreBLEU's rules for them match only at the start of the text, which is always a
/// space by then.
pub(super) fn normalize(line: &str, asian_support: bool) -> String {
    let line = replace_entities(line.replace("\n-", "").replace('\n', " "));
    let line = split_western_symbols(&format!(" {line} ")).replace("'s ", " 's ");
    let line = split_periods_and_dashes(&line);
    if asian_support {
        surround(&line, |c| is_asian_character(c) || is_asian_punctuation(c))
    } else {
        line
    }
}

/// Removes nine ASCII punctuation marks and, with `asian_support`, Chinese and Japanese ones.
pub(super) fn remove_punctuation(line: &str, asian_support: bool) -> String {
    let mut kept = String::with_capacity(line.len());
    for c in line.chars() {
        let is_removed = is_removed_punctuation(c) || asian_support && is_asian_punctuation(c);
        if !is_removed {
            kept.push(c);
        }
    }
    kept
}

/// The nine ASCII punctuation marks that are removed.
fn is_removed_punctuation(c: char) -> bool {
    matches!(c, '.' | ',' | '?' | ':' | ';' | '!' | '"' | '(' | ')')
}

/// Chinese characters, their radicals, strokes and compatibility forms, and enclosed letters.
fn is_asian_character(c: char) -> bool {
    matches!(c,
        '\u{2e80}'..='\u{2eff}'
        | '\u{31c0}'..='\u{31ef}'
        | '\u{3200}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe4f}')
}

/// Ideographic and full-width punctuation.
fn is_asian_punctuation(c: char) -> bool {
    matches!(c,
        '\u{3001}'
        | '\u{3002}'
        | '\u{3008}'..='\u{3011}'
        | '\u{3014}'..='\u{301f}'
        | '\u{30fb}'
        | '\u{ff61}'..='\u{ff65}'
        | '\u{ff01}'
        | '\u{ff02}'
        | '\u{ff08}'
        | '\u{ff09}'
        | '\u{ff0c}'
        | '\u{ff0e}'
        | '\u{ff1a}'
        | '\u{ff1b}'
        | '\u{ff1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn possessives_and_marks_become_words() {
        let normalized = normalize("it's 1.5 (or &lt;2-3).", false);
        let words: Vec<_> = normalized.split_whitespace().collect();
        assert_eq!(
            words,
            ["it", "'s", "1.5", "(", "or", "<", "2", "-", "3", ")", "."]
        );
    }

    #[test]
    fn asian_support_concerns_asian_characters_only() {
        assert_eq!(remove_punctuation("a(b)、c。", false), "ab、c。");
        assert_eq!(remove_punctuation("a(b)、c。", true), "abc");
        assert_eq!(normalize("中文かな", true).split_whitespace().count(), 3);
    }
}
