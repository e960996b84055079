//! Scripts that have no spaces between words.

/// Whether a character is of a script that is written without spaces between words, such as
/// Chinese, Japanese, Thai, Lao, Khmer or Burmese, or of its punctuation. Korean has spaces.
pub fn is_unspaced(character: char) -> bool {
    matches!(character,
        // Thai, Lao, Tibetan, Myanmar, Khmer, Tai Le and New Tai Lue, Tai Tham.
        '\u{e00}'..='\u{fff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{1950}'..='\u{19ff}'
        | '\u{1a20}'..='\u{1aaf}'
        // Radicals, ideographic punctuation, kana, Bopomofo, ideographs, Yi.
        | '\u{2e80}'..='\u{312f}' | '\u{31a0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{a4cf}'
        // Myanmar and Tai Viet.
        | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aadf}'
        // Compatibility ideographs, full-width forms but for Korean letters, the rarer ideographs.
        | '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe4f}' | '\u{ff01}'..='\u{ff9f}' | '\u{1b000}'..='\u{1b16f}'
        | '\u{20000}'..='\u{3fffd}')
}

/// Whether a space belongs between two parts of a text that follow each other: not next to a script
/// that has none.
pub fn has_space_between(left: &str, right: &str) -> bool {
    let last = left
        .chars()
        .rev()
        .find(|character| character.is_alphabetic() || is_unspaced(*character));
    let first = right
        .chars()
        .find(|character| character.is_alphabetic() || is_unspaced(*character));
    // After `I said 你好.` a sentence of Latin letters follows with a space.
    let is_spaced_by_punctuation = left.ends_with(|last: char| last.is_ascii_punctuation());
    let is_left_unspaced = last.is_some_and(is_unspaced) && !is_spaced_by_punctuation;
    !is_left_unspaced && !first.is_some_and(is_unspaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_not_beside_scripts_that_have_none() {
        for (left, right, expected) in [
            ("Hallo.", "Welt", true),
            ("你好。", "再见", false),
            ("版本2.0", "发布", false),
            ("こんにちは", "Apple", false),
            ("สวัสดี", "ครับ", false),
            ("안녕.", "하세요", true),
            ("I said 你好.", "Then I left.", true),
            ("1990.", "12", true),
            ("မြန်မာ", "ဘာသာ", false),
            ("ខ្មែរ", "ភាសា", false),
        ] {
            assert_eq!(has_space_between(left, right), expected, "{left} {right}");
        }
    }
}
