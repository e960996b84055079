//! The normalization of a text before it is cut: characters become others, and spaces become visible.

use super::model::NormalizerSettings;

/// The sign of a space in pieces.
const VISIBLE_SPACE: &str = "\u{2581}";

/// Normalizes text by the rules of a model.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Normalizer {
    settings: NormalizerSettings,
    rules: Rules,
    /// Pieces that users have defined, the longest first: no rule changes them in a text.
    user_defined: Vec<String>,
}

impl Normalizer {
    /// Makes a normalizer of a model's settings and its user-defined pieces.
    ///
    /// # Errors
    /// The rules for characters are damaged.
    pub(super) fn new(
        mut settings: NormalizerSettings,
        mut user_defined: Vec<String>,
    ) -> Result<Self, &'static str> {
        let rules = Rules::parse(&settings.characters)?;
        // They are in `rules` now.
        settings.characters = Vec::new();
        user_defined.retain(|piece| !piece.is_empty());
        user_defined.sort_by_key(|piece| std::cmp::Reverse(piece.len()));
        Ok(Self {
            settings,
            rules,
            user_defined,
        })
    }

    /// Returns the text that is cut into pieces.
    pub(super) fn normalize(&self, text: &str) -> String {
        let NormalizerSettings {
            dummy_prefix,
            single_spaces,
            visible_spaces,
            spaces_behind,
            ..
        } = self.settings;
        let space = if visible_spaces { VISIBLE_SPACE } else { " " };
        let mut rest = text;
        if single_spaces {
            while let Some((" ", len)) = self.next(rest) {
                rest = &rest[len..];
            }
        }
        let mut normalized = String::with_capacity(3 * rest.len());
        if rest.is_empty() {
            return normalized;
        }
        if dummy_prefix && !spaces_behind {
            normalized.push_str(space);
        }
        // After a space, and at the beginning, further spaces are left out.
        let mut after_space = single_spaces;
        while let Some((mut new, len)) = self.next(rest) {
            if after_space {
                new = new.trim_start_matches(' ');
            }
            if !new.is_empty() {
                normalized.push_str(&new.replace(' ', space));
                after_space = single_spaces && new.ends_with(' ');
            }
            rest = &rest[len..];
        }
        if single_spaces {
            normalized.truncate(normalized.trim_end_matches(space).len());
        }
        if dummy_prefix && spaces_behind {
            normalized.push_str(space);
        }
        normalized
    }

    /// Normalizes the beginning of a text: returns what it becomes, and its length in bytes.
    fn next<'a>(&'a self, text: &'a str) -> Option<(&'a str, usize)> {
        let character = text.chars().next()?;
        let mut user_defined = self.user_defined.iter();
        if let Some(piece) = user_defined.find(|piece| text.starts_with(piece.as_str())) {
            return Some((&text[..piece.len()], piece.len()));
        }
        if let Some(normalized) = self.rules.longest(text) {
            return Some(normalized);
        }
        let len = character.len_utf8();
        Some((&text[..len], len))
    }
}

/// The rules for characters: sequences of them, with what they become.
#[derive(Clone, Default, PartialEq, Eq)]
struct Rules {
    /// A trie from sequences of bytes to positions in `results`, as a double array of Darts-clone;
    /// empty if nothing changes.
    trie: Vec<u32>,
    /// The results, each with a zero byte behind it.
    results: String,
}

impl Rules {
    /// Parses the compiled rules: the size of the trie, the trie, and the results.
    fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let damaged = "its rules for characters are damaged";
        let (len, rest) = bytes.split_at_checked(4).ok_or(damaged)?;
        let (trie, results) = rest.split_at_checked(u32_of(len) as usize).ok_or(damaged)?;
        let results = String::from_utf8(results.to_vec()).map_err(|_| damaged)?;
        Ok(Self {
            trie: trie.chunks_exact(4).map(u32_of).collect(),
            results,
        })
    }

    /// Applies the rule for the longest beginning of a text that has one: returns the result, and
    /// the length of the beginning in bytes.
    fn longest(&self, text: &str) -> Option<(&str, usize)> {
        let mut longest = None;
        let mut position = offset(*self.trie.first()?);
        for (index, byte) in text.bytes().enumerate() {
            position ^= usize::from(byte);
            let Some(&cell) = self.trie.get(position) else {
                break;
            };
            // A cell holds the byte that leads to it; the highest bit is set in cells that hold a
            // value.
            if cell & 0x8000_00ff != u32::from(byte) {
                break;
            }
            position ^= offset(cell);
            let has_value = cell >> 8 & 1 == 1;
            if has_value && let Some(value) = self.trie.get(position) {
                longest = Some((value & 0x7fff_ffff, index + 1));
            }
        }
        let (start, len) = longest?;
        let result = self.results.get(start as usize..)?.split('\0').next()?;
        // After a rule that ended within a character, the rest would be no text.
        text.is_char_boundary(len).then_some((result, len))
    }
}

/// The distance from a cell to its children, as Darts-clone packs it: 22 bits, which bit 9 shifts by
/// another eight.
fn offset(cell: u32) -> usize {
    ((cell >> 10) << ((cell & 1 << 9) >> 6)) as usize
}

fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
