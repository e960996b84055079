//! Text as Python sees it, since sacreBLEU's `str.split`, `str.rstrip` and `str.lower` decide what
//! a token is.
//!
//! Rust's `str::to_lowercase` is Python's `str.lower`, the final sigma included. Both follow
//! Unicode, so a letter that Unicode added after a Python was released has a lower case here and
//! none there.

pub(crate) mod arithmetic;

/// Splits a file into the lines that sacreBLEU's command reads from it.
///
/// Only `\n` ends a line, and the whitespace at its end is removed, a `\r` too. A byte-order mark
/// is a character of the first line.
pub fn lines(text: &str) -> Vec<&str> {
    text.split_terminator('\n').map(trim_end).collect()
}

/// Whether `str.isspace` holds: Unicode's white space and the four ASCII separators U+001C to
/// U+001F.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Python's `text.split()`.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Python's `text.rstrip()`.
pub(crate) fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// Python's `text.strip()`.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ascii_separators_and_no_zero_width_space_separate_words() {
        let text = "\u{1c}a\u{1f}b\u{85}c\u{3000}d\u{200b}e ";
        assert_eq!(
            words(text).collect::<Vec<_>>(),
            ["a", "b", "c", "d\u{200b}e"]
        );
        assert_eq!(trim_end("a \u{1d}"), "a");
    }

    #[test]
    fn a_final_sigma_is_lowercased_as_in_python() {
        assert_eq!("ΟΔΟΣ ΣΑΣ. İ".to_lowercase(), "οδος σας. i\u{307}");
    }

    #[test]
    fn only_line_feeds_end_lines() {
        assert_eq!(
            lines("a \n\nb\u{2028}c\r\n\rd\re\n"),
            ["a", "", "b\u{2028}c", "\rd\re"]
        );
        assert_eq!(lines("\u{feff}a"), ["\u{feff}a"]);
        assert_eq!(lines("a\n"), ["a"]);
        assert_eq!(lines("\n\n"), ["", ""]);
        assert!(lines("").is_empty());
    }
}
