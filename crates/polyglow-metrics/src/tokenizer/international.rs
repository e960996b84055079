//! `intl`: the tokenization of mteval-v14.pl, which knows all of Unicode's punctuation, symbols and
//! numbers.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

use super::rewrite::{split_off_first, split_off_second, surround};

/// Splits off punctuation except between numbers, then every symbol.
///
/// A mark that ends the line stays with the number before it: no character follows for the second
/// rule to match. sacreBLEU keeps this error of mteval-v14.pl on purpose.
pub(super) fn tokenize(line: &str) -> String {
    let line = split_off_second(line, |first, second| {
        !is_number(first) && is_punctuation(second)
    });
    let line = split_off_first(&line, |first, second| {
        is_punctuation(first) && !is_number(second)
    });
    surround(&line, is_symbol)
}

fn is_number(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_digit()
    } else {
        c.general_category_group() == GeneralCategoryGroup::Number
    }
}

fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_punctuation() && !is_symbol(c)
    } else {
        c.general_category_group() == GeneralCategoryGroup::Punctuation
    }
}

fn is_symbol(c: char) -> bool {
    if c.is_ascii() {
        matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~')
    } else {
        c.general_category_group() == GeneralCategoryGroup::Symbol
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ascii_short_cuts_agree_with_unicode() {
        for c in '\0'..='\u{7f}' {
            let group = c.general_category_group();
            assert_eq!(is_number(c), group == GeneralCategoryGroup::Number, "{c:?}");
            assert_eq!(
                is_punctuation(c),
                group == GeneralCategoryGroup::Punctuation,
                "{c:?}"
            );
            assert_eq!(is_symbol(c), group == GeneralCategoryGroup::Symbol, "{c:?}");
        }
    }
}
