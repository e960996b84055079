//! Characters that good text does not have.

use crate::tokenizer::{is_cleaned_to_space, is_invisible};

/// The number of signs `<` that are looked at, each of which takes a search through the whole text.
const MOST_SIGNS: usize = 64;

/// Whether a text has an entity of HTML (`&amp;`, `&#39;`) or a tag (`<b>`, `</p>`, `<br/>`).
pub(super) fn has_entities(text: &str) -> bool {
    rests(text, '&').any(is_entity)
        || rests(text, '<')
            .take(MOST_SIGNS)
            .any(|rest| is_tag(rest, text))
}

/// The rests of a text behind each sign in it, which is an ASCII character.
fn rests(text: &str, sign: char) -> impl Iterator<Item = &str> {
    text.match_indices(sign)
        .map(|(index, _)| &text[index + 1..])
}

/// Whether what follows `&` is the rest of an entity.
fn is_entity(rest: &str) -> bool {
    let Some((name, _)) = rest.split_once(';') else {
        return false;
    };
    match name.strip_prefix('#') {
        Some(number) => {
            let digits = number.strip_prefix(['x', 'X']).unwrap_or(number);
            (1..=6).contains(&digits.len()) && digits.chars().all(|digit| digit.is_ascii_hexdigit())
        }
        None => {
            (2..=8).contains(&name.len())
                && name.chars().all(|letter| letter.is_ascii_alphanumeric())
        }
    }
}

/// Whether what follows `<` is the rest of a tag: one that ends an element, stands alone, has
/// attributes, or begins an element that ends in the same text. A lone `<f>` or `<i>` is a token of
/// the corpus's own, such as one for a formal or informal sentence.
fn is_tag(rest: &str, text: &str) -> bool {
    let Some((inside, _)) = rest.split_once('>') else {
        return false;
    };
    let ends = inside.starts_with('/');
    let stands_alone = inside.ends_with('/') || matches!(inside, "br" | "hr");
    let inside = inside
        .strip_prefix('/')
        .unwrap_or(inside)
        .trim_end_matches('/')
        .trim_end();
    let name = inside.split(' ').next().unwrap_or_default();
    let is_name = name.len() <= 10
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric());
    let has_attributes = inside.contains('=');
    let is_plain = name.len() == inside.len();
    is_name
        && (has_attributes
            || is_plain && (ends || stands_alone || text.contains(&format!("</{name}>"))))
}

/// Whether a text has UTF-8 that was read as Windows-1252: characters whose bytes in that encoding
/// are one character of UTF-8 that texts have.
pub(super) fn is_mojibake(text: &str) -> bool {
    let characters: Vec<char> = text.chars().collect();
    (0..characters.len()).any(|start| {
        let Some(lead) = byte_1252(characters[start]) else {
            return false;
        };
        let len = match lead {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return false,
        };
        let bytes: Option<Vec<u8>> = characters[start..]
            .get(..len)
            .and_then(|all| all.iter().copied().map(byte_1252).collect());
        let decoded = bytes
            .as_deref()
            .and_then(|bytes| str::from_utf8(bytes).ok())
            .and_then(|text| text.chars().next());
        decoded.is_some_and(is_usual)
    })
}

/// Whether a character is one that texts have. Letters that happen to be the bytes of any other
/// character are rather meant as these letters.
fn is_usual(character: char) -> bool {
    let ranges = [
        '\u{a0}'..='\u{17f}',
        '\u{386}'..='\u{3ce}',
        '\u{400}'..='\u{45f}',
        '\u{5d0}'..='\u{6ff}',
        '\u{900}'..='\u{ffff}',
        '\u{1f300}'..='\u{1faff}',
    ];
    ranges.iter().any(|range| range.contains(&character))
}

/// The characters of Windows-1252 at 0x80 to 0x9f; the five bytes without a character are read as control
/// characters.
const MIDDLE_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// Returns the character of a byte in Windows-1252; `None` of the five bytes without one.
pub(crate) fn character_1252(byte: u8) -> Option<char> {
    let middle = byte.checked_sub(0x80);
    let character = middle.and_then(|index| MIDDLE_1252.get(usize::from(index)));
    let character = character.copied().unwrap_or(char::from(byte));
    (!matches!(character, '\u{80}'..='\u{9f}')).then_some(character)
}

/// Returns the byte of a character in Windows-1252, above ASCII.
pub(crate) fn byte_1252(character: char) -> Option<u8> {
    match character {
        '\u{80}'..='\u{ff}' => u8::try_from(u32::from(character)).ok(),
        _ => MIDDLE_1252
            .iter()
            .position(|&middle| middle == character)
            .map(|index| 0x80 + index as u8),
    }
}

/// Whether a text has U+FFFD, which replaces characters that could not be read.
pub(super) fn lost_characters(text: &str) -> bool {
    text.contains('\u{fffd}')
}

/// Whether a text has characters that cannot be seen, and that its language does not need. Text
/// from right to left has direction marks next to names and numbers in other scripts.
pub(super) fn has_hidden(text: &str) -> bool {
    text.chars().any(|character| {
        is_hidden(character) && !(is_direction_mark(character) && text.contains(is_right_to_left))
    })
}

fn is_direction_mark(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}')
}

/// Whether a character is of a script that is written from right to left.
fn is_right_to_left(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fefc}')
}

/// Whether a text has a space that is not the plain one, such as a no-break space or an ideographic
/// one.
pub(super) fn has_other_spaces(text: &str) -> bool {
    text.chars().any(|character| {
        // U+FFFD is cleaned to a space as well, but has a finding of its own.
        is_cleaned_to_space(character)
            && !matches!(character, ' ' | '\u{fffd}')
            && !is_hidden(character)
    })
}

/// Whether a character cannot be seen: a control character, or one that cleaning removes. Joiners
/// are letters of some languages.
pub(super) fn is_hidden(character: char) -> bool {
    // Line and paragraph separators are spaces to the cleaning, and move the cursor of a terminal.
    character.is_control()
        || is_invisible(character)
        || matches!(character, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_and_tags_are_told_from_signs() {
        for html in [
            "a &amp; b",
            "&#39;",
            "&#x27;",
            "<b>x</b>",
            "</p>",
            "<br/>",
            "<a href=\"x\">",
            "&quot;so&quot;",
        ] {
            assert!(has_entities(html), "{html}");
        }
        // `&D;` has one letter, and no entity has.
        for text in [
            "<f> How are you?",
            "<i> Hi",
            "<2de> a house",
            "R&D; no",
            "a < b > c",
            "AT&T",
            "<3",
            "1 <2> 3",
            "x & y; z",
            "<unknown word here>",
        ] {
            assert!(!has_entities(text), "{text}");
        }
    }

    #[test]
    fn utf_8_that_was_read_as_windows_1252_is_told_from_accents() {
        for text in [
            "Ã©tÃ©",
            "schÃ¶n",
            "donâ€™t",
            "Ð¿Ñ€Ð¸Ð²ÐµÑ‚",
            "Â« oui Â»",
            "æ—¥æœ¬",
            "Ã\u{a0} la",
        ] {
            assert!(is_mojibake(text), "{text}");
        }
        for text in [
            "été",
            "À « Paris »",
            "CAFÉ’S",
            "São Paulo",
            "naïve",
            "ÃO",
            "Ñandú",
            "über”",
            "привет",
            "日本",
        ] {
            assert!(!is_mojibake(text), "{text}");
        }
    }

    #[test]
    fn joiners_are_letters_and_no_hidden_marks() {
        assert!(!has_hidden("می\u{200c}خواهم क\u{94d}\u{200d}ष a\u{a0}b"));
        assert!(!has_hidden("\u{200f}RAID وLVM") && has_hidden("\u{200f}RAID"));
        for hidden in [
            '\t', '\u{7}', '\u{85}', '\u{200b}', '\u{202e}', '\u{feff}', '\u{61c}', '\u{206a}',
            '\u{fff9}',
        ] {
            assert!(is_hidden(hidden), "{hidden:?}");
        }
    }
}
