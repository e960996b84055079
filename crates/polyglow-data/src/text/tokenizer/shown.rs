//! Tokens as people read them: `▁très`, where a byte-level vocabulary spells `ĠtrÃ¨s`.

use serde_json::Value;

use super::Tokenizer;

/// Stands for a space, which shows where words begin.
const SPACE: char = '▁';

/// The spelling of text in a vocabulary, read from the decoder that undoes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spelling {
    /// Each character stands for a byte, in the alphabet of GPT-2.
    is_bytes: bool,
    /// A token such as `<0xE5>` is that byte.
    has_byte_tokens: bool,
    /// The strings that stand for a space, such as `</w>`.
    spaces: Vec<String>,
}

impl Spelling {
    /// Reads the decoder of a `tokenizer.json`.
    pub(super) fn new(decoder: &Value) -> Self {
        let mut spelling = Self::default();
        spelling.add(decoder);
        spelling
    }

    /// Adds what one decoder undoes, or each decoder of a sequence.
    fn add(&mut self, decoder: &Value) {
        let space = match decoder["type"].as_str() {
            Some("Sequence") => {
                decoder["decoders"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .for_each(|decoder| self.add(decoder));
                None
            }
            Some("ByteLevel") => {
                self.is_bytes = true;
                None
            }
            Some("ByteFallback") => {
                self.has_byte_tokens = true;
                None
            }
            Some("Metaspace") => decoder["replacement"].as_str(),
            Some("BPEDecoder") => decoder["suffix"].as_str(),
            Some("Replace") if decoder["content"] == " " => decoder["pattern"]["String"].as_str(),
            _ => None,
        };
        self.spaces
            .extend(space.filter(|space| !space.is_empty()).map(str::to_owned));
    }

    /// The bytes of text that a token stands for.
    fn bytes(&self, token: &str) -> Vec<u8> {
        if self.is_bytes
            && let Some(bytes) = token.chars().map(byte).collect()
        {
            return bytes;
        }
        let digits = token
            .strip_prefix("<0x")
            .and_then(|rest| rest.strip_suffix('>'));
        if self.has_byte_tokens
            && let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())
        {
            return vec![byte];
        }
        self.spaces
            .iter()
            .fold(token.to_owned(), |text, space| text.replace(space, " "))
            .into_bytes()
    }
}

impl Tokenizer {
    /// Returns the token `id` as people read it: a space is `▁`, a byte that is no character
    /// `⟨E5⟩`, and a character that cannot be seen `⟨U+200B⟩`. An id without a token is `#` and its
    /// number.
    ///
    /// ```
    /// use polyglow_data::tokenizer::{Tokenizer, TokenizerConfig};
    ///
    /// let config = TokenizerConfig { vocab_size: 270, ..TokenizerConfig::default() };
    /// let lines = ["très", "très"].map(|line| Ok(line.to_owned()));
    /// let tokenizer = Tokenizer::train(&config, lines.into_iter(), &mut |_, _| {})?;
    /// let [id] = tokenizer.encode("très")?[..] else { panic!("it is one token") };
    /// assert_eq!(tokenizer.token(id).as_deref(), Some("ĠtrÃ¨s"));
    /// assert_eq!(tokenizer.shown(id), "▁très");
    /// # Ok::<(), polyglow_data::error::DataError>(())
    /// ```
    pub fn shown(&self, id: u32) -> String {
        visible(&self.bytes(id))
    }

    /// Returns the tokens `ids` as [`Self::shown`] does, each with the number of its ids: tokens
    /// that are parts of one character are shown together.
    pub fn shown_together(&self, ids: &[u32]) -> Vec<(String, usize)> {
        let mut groups: Vec<(Vec<u8>, usize)> = Vec::new();
        for &id in ids {
            let bytes = self.bytes(id);
            let open = groups
                .last_mut()
                .filter(|(before, _)| continues(before, &bytes));
            match open {
                Some((before, count)) => {
                    before.extend(bytes);
                    *count += 1;
                }
                None => groups.push((bytes, 1)),
            }
        }
        groups
            .into_iter()
            .map(|(bytes, count)| (visible(&bytes), count))
            .collect()
    }

    /// The bytes of text that the token `id` stands for; those of `#` and its number if there is no
    /// such token.
    fn bytes(&self, id: u32) -> Vec<u8> {
        match self.token(id) {
            Some(token) => self.spelling.bytes(&token),
            None => format!("#{id}").into_bytes(),
        }
    }
}

/// The byte that a character stands for in the alphabet of GPT-2: those that can be seen stand for
/// themselves, and the characters from U+0100 on for all others, in their order.
fn byte(character: char) -> Option<u8> {
    match u32::from(character) {
        code @ ..256 => u8::try_from(code)
            .ok()
            .filter(|byte| is_visible_byte(*byte)),
        code => (0..=255)
            .filter(|byte| !is_visible_byte(*byte))
            .nth(code as usize - 256),
    }
}

/// Whether a byte is a character of Latin-1 that can be seen.
fn is_visible_byte(byte: u8) -> bool {
    matches!(byte, 33..=126 | 161..=172 | 174..=255)
}

/// Whether `before` ends inside a character, and `after` continues it.
fn continues(before: &[u8], after: &[u8]) -> bool {
    let open = before
        .utf8_chunks()
        .last()
        .map_or(&[][..], |chunk| chunk.invalid());
    if open.is_empty() || after.is_empty() {
        return false;
    }
    str::from_utf8(&[open, after].concat()).map_or_else(
        |error| error.valid_up_to() > 0 || error.error_len().is_none(),
        |_| true,
    )
}

/// Returns text in which everything can be seen.
fn visible(bytes: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                ' ' => shown.push(SPACE),
                _ if is_invisible(character) => {
                    shown.extend([format!("⟨U+{:04X}⟩", u32::from(character))]);
                }
                _ => shown.push(character),
            }
        }
        shown.extend(chunk.invalid().iter().map(|byte| format!("⟨{byte:02X}⟩")));
    }
    shown
}

/// Whether a character cannot be seen, or moves others: controls, spaces of other widths, and
/// direction marks. Joiners, which shape their neighbors, are left as they are.
fn is_invisible(character: char) -> bool {
    let has_no_width = matches!(
        character,
        '\u{ad}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    character.is_control() || character.is_whitespace() || has_no_width
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let all: Vec<u8> = (0..=0x2ff)
            .filter_map(char::from_u32)
            .filter_map(byte)
            .collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..=255).collect::<Vec<u8>>());
        assert_eq!(
            ['Ġ', 'Ċ', 'A', 'é', 'Ń', ' '].map(byte),
            [Some(32), Some(10), Some(65), Some(0xe9), Some(173), None]
        );
    }

    #[test]
    fn what_cannot_be_seen_is_spelled_out() {
        assert_eq!(
            visible("a b\u{200b}\t\u{a0}".as_bytes()),
            "a▁b⟨U+200B⟩⟨U+0009⟩⟨U+00A0⟩"
        );
        assert_eq!(visible(b"\xe5\xbdx\xff"), "⟨E5⟩⟨BD⟩x⟨FF⟩");
        // Both are needed to write Persian and Hindi.
        assert_eq!(
            visible("می\u{200c}خواهم क्\u{200d}ष".as_bytes()),
            "می\u{200c}خواهم▁क्\u{200d}ष"
        );
    }

    #[test]
    fn the_decoder_says_how_text_is_spelled() {
        let llama = json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        ]});
        let llama = Spelling::new(&llama);
        assert_eq!(llama.bytes("▁a"), b" a");
        assert_eq!(llama.bytes("<0xE5>"), [0xe5]);
        assert_eq!(
            Spelling::new(&json!({"type": "BPEDecoder", "suffix": "</w>"})).bytes("dog</w>"),
            b"dog "
        );
        assert_eq!(
            Spelling::new(&Value::Null).bytes("<0xE5>Ġ"),
            "<0xE5>Ġ".as_bytes()
        );
    }

    #[test]
    fn only_what_completes_a_character_goes_on_with_it() {
        for (before, after, expected) in [
            (&b"a\xe5"[..], &b"\xbd"[..], true),
            (b"\xe5\xbd", b"\xbc\xe5", true),
            (b"\xe5", b"a", false),
            (b"\xe5", b"", false),
            (b"a", b"\xbd", false),
            (b"\xff", b"\xbd", false),
        ] {
            assert_eq!(continues(before, after), expected, "{before:x?} {after:x?}");
        }
    }
}
