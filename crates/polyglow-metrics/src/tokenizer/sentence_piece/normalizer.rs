//! What SentencePiece does to a text before it cuts it: characters become others, and spaces become
//! visible.

use super::model::NormalizerSettings;

/// What stands for a space.
const VISIBLE_SPACE: &str = "\u{2581}";

/// Rewrites a text by the rules of a model.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Normalizer {
    settings: NormalizerSettings,
    rules: Rules,
    /// Text that is left as it is, the longest first.
    marks: Vec<String>,
}

impl Normalizer {
    /// # Errors
    /// The rules for characters are damaged.
    pub(super) fn new(
        mut settings: NormalizerSettings,
        mut marks: Vec<String>,
    ) -> Result<Self, &'static str> {
        let rules = Rules::parse(&settings.characters)?;
        settings.characters = Vec::new();
        marks.retain(|mark| !mark.is_empty());
        marks.sort_by_key(|mark| std::cmp::Reverse(mark.len()));
        Ok(Self {
            settings,
            rules,
            marks,
        })
    }

    /// The text as pieces are made of it.
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
        let mut after_space = single_spaces;
        while let Some((mut new, len)) = self.next(rest) {
            if after_space {
                new = new.trim_start_matches(' ');
            }
            if !new.is_empty() {
                normalized.extend(new.split_inclusive(' ').flat_map(|part| {
                    match part.strip_suffix(' ') {
                        Some(part) => [part, space],
                        None => [part, ""],
                    }
                }));
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

    /// What the beginning of a text becomes, and its length in bytes.
    fn next<'a>(&'a self, text: &'a str) -> Option<(&'a str, usize)> {
        let character = text.chars().next()?;
        if let Some(mark) = self
            .marks
            .iter()
            .find(|mark| text.starts_with(mark.as_str()))
        {
            return Some((&text[..mark.len()], mark.len()));
        }
        Some(self.rules.longest(text).unwrap_or_else(|| {
            let len = character.len_utf8();
            (&text[..len], len)
        }))
    }
}

/// Characters and what they become.
#[derive(Clone, Default, PartialEq, Eq)]
struct Rules {
    /// A double array of Darts-clone from characters to places in `results`; empty if nothing
    /// changes.
    trie: Vec<u32>,
    /// Text, each with a zero behind it.
    results: String,
}

impl Rules {
    fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let damaged = "its rules for characters are damaged";
        let (len, rest) = bytes.split_at_checked(4).ok_or(damaged)?;
        let number = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let (trie, results) = rest.split_at_checked(number(len) as usize).ok_or(damaged)?;
        let results = String::from_utf8(results.to_vec()).map_err(|_| damaged)?;
        Ok(Self {
            trie: trie.chunks_exact(4).map(number).collect(),
            results,
        })
    }

    /// What the longest beginning of a text that has a rule becomes, and its length in bytes.
    fn longest(&self, text: &str) -> Option<(&str, usize)> {
        let offset = |cell: u32| ((cell >> 10) << ((cell & 1 << 9) >> 6)) as usize;
        let mut found = None;
        let mut place = offset(*self.trie.first()?);
        for (index, byte) in text.bytes().enumerate() {
            place ^= usize::from(byte);
            // A cell holds the byte that leads to it; the highest bit marks cells that hold a
            // value.
            let Some(&cell) = self
                .trie
                .get(place)
                .filter(|&&cell| cell & 0x8000_00ff == u32::from(byte))
            else {
                break;
            };
            place ^= offset(cell);
            if cell >> 8 & 1 == 1 {
                found = self
                    .trie
                    .get(place)
                    .map(|value| (value & 0x7fff_ffff, index + 1))
                    .or(found);
            }
        }
        let (start, len) = found?;
        let result = self.results.get(start as usize..)?.split('\0').next()?;
        // A rule that ended within a character could not be gone on from.
        text.is_char_boundary(len).then_some((result, len))
    }
}
