//! Guesses the encoding of a text from its bytes.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};

use super::Encoding;

/// A share of NUL bytes from which a text is in UTF-16: one byte in five. Letters of Latin text
/// have one byte in two.
const NUL_BYTES_IN: usize = 5;
/// Bytes of a beginning that is as likely the whole of a file.
const SHORT: usize = 1 << 12;
/// Fewer NUL bytes or control characters say nothing.
const FEWEST: usize = 2;

/// Finds what is wrong with a text by its first bytes: UTF-16 in either order, with a byte-order
/// mark or by the NUL bytes of its letters.
pub(in crate::text) fn from_start(bytes: &[u8]) -> Option<Encoding> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Some(Encoding::Utf16("UTF-16"));
    }
    // The byte-order mark after a conversion from Latin-1, where it is two letters.
    let converted = bytes.starts_with("ÿþ".as_bytes()) || bytes.starts_with("þÿ".as_bytes());
    let controls = bytes.iter().filter(|byte| is_control(**byte)).count();
    if converted && controls >= FEWEST && controls * NUL_BYTES_IN >= bytes.len() {
        return Some(Encoding::ConvertedUtf16);
    }
    if let Some(order) = order_by_high_bytes(bytes) {
        return Some(Encoding::Utf16(order));
    }
    let nul_bytes = count(bytes.iter(), 0);
    if nul_bytes < FEWEST || nul_bytes * NUL_BYTES_IN < bytes.len() {
        return None;
    }
    // The zero byte of a Latin letter is its second in little-endian order, and its first in
    // big-endian order.
    let first_bytes = count(bytes.iter().step_by(2), 0);
    Some(Encoding::Utf16(if 2 * first_bytes > nul_bytes {
        "UTF-16BE"
    } else {
        "UTF-16LE"
    }))
}

/// Returns the order of the bytes of a text in UTF-16 whose characters are below U+2000, as those of
/// most alphabets: every second byte is then small. Such bytes may be valid UTF-8, as in Cyrillic.
/// `None` if they are not so regular.
fn order_by_high_bytes(bytes: &[u8]) -> Option<&'static str> {
    for (first, order) in [(0, "UTF-16BE"), (1, "UTF-16LE")] {
        let high: Vec<u8> = bytes.iter().skip(first).step_by(2).copied().collect();
        let small = high.iter().filter(|&&byte| byte < 0x20).count();
        let controls = high.iter().filter(|&&byte| is_control(byte)).count();
        // Tabs and line ends alone say nothing: a text may have a letter on each line.
        if controls >= FEWEST && 5 * small >= 4 * high.len() && 5 * controls >= 2 * high.len() {
            return Some(order);
        }
    }
    None
}

/// Whether a byte is a control character that no text has.
fn is_control(byte: u8) -> bool {
    byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Guesses the encoding of a text with a byte that UTF-8 does not allow. `bytes` are its line and
/// the text after it; `had_accents` says whether the lines before had characters beyond ASCII,
/// which were valid UTF-8.
pub(in crate::text) fn from_invalid(bytes: &[u8], had_accents: bool) -> Encoding {
    if let Some(encoding) = from_start(bytes) {
        return encoding;
    }
    let mut characters = 0;
    let mut damaged = 0;
    for chunk in bytes.utf8_chunks() {
        characters += chunk
            .valid()
            .chars()
            .filter(|character| !character.is_ascii())
            .count();
        damaged += usize::from(!chunk.invalid().is_empty());
    }
    // The end of what was read may cut a character. By chance, hardly any two bytes of another
    // encoding are valid UTF-8.
    if characters > damaged || had_accents && damaged_lines(bytes) < 2 {
        return Encoding::Damaged;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    let name = detector.guess(None, Utf8Detection::Deny).name();
    if had_accents {
        Encoding::Changed(name)
    } else {
        Encoding::Legacy(name)
    }
}

/// Whether lines that are no UTF-8 are probably in Windows-1252.
pub(crate) fn is_windows_1252(lines: &[u8]) -> bool {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(lines, true);
    detector.guess(None, Utf8Detection::Deny).name() == "windows-1252"
}

/// Counts the lines that are not UTF-8; the last may be cut inside a character.
fn damaged_lines(bytes: &[u8]) -> usize {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines
        .filter(|line| str::from_utf8(line).is_err_and(|error| error.error_len().is_some()))
        .count()
}

/// Whether the lines of a text that begins so end in carriage returns alone, as on Macs before
/// 2001.
pub(in crate::text) fn has_carriage_returns_alone(bytes: &[u8]) -> bool {
    let returns = count(bytes.iter(), b'\r');
    // A single one may stand in a long line whose end was not read yet.
    let are_ends = returns > 1 || returns == 1 && bytes.len() < SHORT;
    are_ends && !bytes.contains(&b'\n')
}

/// Counts the bytes with a value.
fn count<'b>(bytes: impl Iterator<Item = &'b u8>, value: u8) -> usize {
    bytes.map(|byte| usize::from(*byte == value)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(to_bytes).collect()
    }

    #[test]
    fn utf_16_is_recognized_by_its_mark_or_its_nul_bytes_and_when_it_was_converted_wrongly() {
        let text = "Der Hund schläft.\nDie Katze auch.\n";
        let orders = [
            (u16::to_le_bytes as fn(u16) -> [u8; 2], "UTF-16LE"),
            (u16::to_be_bytes, "UTF-16BE"),
        ];
        for (to_bytes, order) in orders {
            assert_eq!(
                from_start(&utf16(text, to_bytes)),
                Some(Encoding::Utf16(order))
            );
            for text in [
                format!("\u{feff}{text}"),
                format!("\u{feff}{}", "犬は寝る。\n"),
            ] {
                assert_eq!(
                    from_start(&utf16(&text, to_bytes)),
                    Some(Encoding::Utf16("UTF-16")),
                    "{text}"
                );
            }
            // As `iconv -f LATIN1 -t UTF-8` makes of it.
            let converted: String = utf16(&format!("\u{feff}{text}"), to_bytes)
                .into_iter()
                .map(char::from)
                .collect();
            assert_eq!(
                from_start(converted.as_bytes()),
                Some(Encoding::ConvertedUtf16)
            );
        }
        for text in [
            text,
            "",
            "a\0b c d e f g h\n",
            "ÿþ is no mark here\n",
            "\0",
            "a\nb\nc\nd\n",
            "1\t2\t3\t4\n",
        ] {
            assert_eq!(from_start(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn utf_16_is_recognized_in_alphabets_whose_bytes_are_valid_utf_8() {
        let text = "Собака спит.\nКошка тоже.\n";
        let orders = [
            (u16::to_le_bytes as fn(u16) -> [u8; 2], "UTF-16LE"),
            (u16::to_be_bytes, "UTF-16BE"),
        ];
        for (to_bytes, order) in orders {
            let bytes = utf16(text, to_bytes);
            assert!(str::from_utf8(&bytes).is_ok());
            assert_eq!(from_start(&bytes), Some(Encoding::Utf16(order)));
            let converted: String = utf16(&format!("\u{feff}{text}"), to_bytes)
                .into_iter()
                .map(char::from)
                .collect();
            assert_eq!(
                from_start(converted.as_bytes()),
                Some(Encoding::ConvertedUtf16)
            );
        }
        assert_eq!(from_start(text.as_bytes()), None);
    }

    #[test]
    fn an_encoding_that_changes_within_a_file_is_no_damage() {
        let latin = b"Die M\xe4dchen h\xf6ren \xfcber die Stra\xdfe, wo es gr\xfc\xdft.\n";
        assert_eq!(from_invalid(latin, true), Encoding::Damaged);
        let two_lines = latin.repeat(2);
        assert_eq!(
            from_invalid(&two_lines, true),
            Encoding::Changed("windows-1252")
        );
    }

    #[test]
    fn one_bad_byte_in_utf_8_is_no_other_encoding() {
        let damaged = [&b"ab\xff\n"[..], "größer als Käse\n".as_bytes()].concat();
        assert_eq!(from_invalid(&damaged, false), Encoding::Damaged);
        assert_eq!(from_invalid(b"ab\xff\n", true), Encoding::Damaged);
        assert_eq!(
            from_invalid("犬は\n寝る".as_bytes().split_last().unwrap().1, false),
            Encoding::Damaged
        );
    }

    #[test]
    fn encodings_of_eight_bits_and_of_asia_are_named() {
        let latin = b"Die M\xe4dchen h\xf6ren \xfcber die Stra\xdfe, wo es gr\xfc\xdft.\n";
        assert_eq!(from_invalid(latin, false), Encoding::Legacy("windows-1252"));
        // "Собака спит, кошка тоже." in Windows-1251.
        let cyrillic =
            b"\xd1\xee\xe1\xe0\xea\xe0 \xf1\xef\xe8\xf2, \xea\xee\xf8\xea\xe0 \xf2\xee\xe6\xe5.\n";
        assert_eq!(
            from_invalid(cyrillic, false),
            Encoding::Legacy("windows-1251")
        );
        // "犬が寝ています。" in Shift JIS.
        let japanese = b"\x8c\xa2\x82\xaa\x90\x51\x82\xc4\x82\xa2\x82\xdc\x82\xb7\x81\x42\n";
        assert_eq!(from_invalid(japanese, false), Encoding::Legacy("Shift_JIS"));
    }
}
