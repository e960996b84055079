//! The files of a compiled dictionary, as MeCab 0.996 writes them on a machine whose bytes begin
//! with the low one.

use super::{Category, LONGEST_RUN, Morpheme};

/// A file's size, seen through this, is its first number.
const MAGIC: u32 = 0xef71_8f77;
const VERSION: u32 = 102;
/// Bytes of a name of an encoding or of a kind of characters.
const NAME: usize = 32;
/// Characters of which a dictionary knows the kind: those of two bytes but the last.
const NUM_CHARACTERS: usize = 0xffff;

/// What is wrong with a file.
type Parsed<T> = Result<T, &'static str>;

/// Takes numbers and names off the front of a file.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Parsed<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("it is cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Parsed<u32> {
        Ok(u32_of(self.take(4)?))
    }

    /// A name that is filled up with zeros.
    fn name(&mut self) -> Parsed<&'a [u8]> {
        let name = self.take(NAME)?;
        Ok(name.split(|&byte| byte == 0).next().unwrap_or_default())
    }
}

fn u16_of(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}

fn u32_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Words with what is known of them: `sys.dic` and `unk.dic`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Words {
    /// Number of words.
    pub(super) len: u32,
    /// A double array (Aoe, 1989) from words to places in `morphemes`: what is added to the next
    /// byte, and which cell that has to come from.
    trie: Vec<(i32, u32)>,
    morphemes: Vec<Morpheme>,
}

impl Words {
    /// # Errors
    /// The file is not of this version and encoding, or not whole.
    pub(super) fn parse(bytes: &[u8], costs: &Matrix) -> Parsed<Self> {
        let mut file = Reader(bytes);
        if (file.u32()? ^ MAGIC) as usize != bytes.len() {
            return Err("its size is not what it says");
        }
        if file.u32()? != VERSION {
            return Err("it is not of MeCab 0.996");
        }
        let [_, len, left_size, right_size] = [file.u32()?, file.u32()?, file.u32()?, file.u32()?];
        let [trie_len, morphemes_len, _, _] = [file.u32()?, file.u32()?, file.u32()?, file.u32()?];
        let encoding = file.name()?.to_ascii_lowercase();
        if encoding != b"utf-8" && encoding != b"utf8" {
            return Err("it is not encoded in UTF-8");
        }
        if [left_size, right_size] != [u32::from(costs.left_size), u32::from(costs.right_size)] {
            return Err("it does not fit `matrix.bin`");
        }
        let cells = file.take(trie_len as usize)?.chunks_exact(8);
        let trie = cells
            .map(|cell| (u32_of(cell) as i32, u32_of(&cell[4..])))
            .collect();
        let morphemes = file
            .take(morphemes_len as usize)?
            .chunks_exact(16)
            .map(|bytes| {
                let [left, right, part_of_speech, cost] =
                    [0, 2, 4, 6].map(|place| u16_of(&bytes[place..]));
                Morpheme {
                    left,
                    right,
                    part_of_speech,
                    cost: cost as i16,
                }
            });
        let morphemes: Vec<Morpheme> = morphemes.collect();
        // The matrix is of the right side of a word times the left side of the next.
        if morphemes
            .iter()
            .any(|word| word.right >= costs.left_size || word.left >= costs.right_size)
        {
            return Err("a word does not fit `matrix.bin`");
        }
        Ok(Self {
            len,
            trie,
            morphemes,
        })
    }

    /// The words as a list of those of each kind, for words that are names of kinds.
    ///
    /// # Errors
    /// A kind has no word.
    pub(super) fn in_order_of(self, kinds: &[&[u8]]) -> Parsed<Self> {
        let mut trie = Vec::with_capacity(kinds.len());
        for kind in kinds {
            let mut found = None;
            self.search(kind, |len, value| {
                found = found.or((len == kind.len()).then_some(value));
            });
            let value = found.ok_or("a kind of characters has no unknown words")?;
            trie.push((0, value));
        }
        Ok(Self { trie, ..self })
    }

    /// What is known of the words of a kind, after [`Self::in_order_of`].
    pub(super) fn of(&self, kind: usize) -> &[Morpheme] {
        self.trie
            .get(kind)
            .map_or(&[], |(_, value)| self.morphemes(*value))
    }

    /// Gives `found` every word that a text begins with, the shortest first: its length in bytes,
    /// and what is known of it.
    pub(super) fn prefixes(&self, text: &[u8], mut found: impl FnMut(usize, &[Morpheme])) {
        self.search(text, |len, value| found(len, self.morphemes(value)));
    }

    fn search(&self, text: &[u8], mut found: impl FnMut(usize, u32)) {
        let cell = |base: i32, step: usize| {
            let index = usize::try_from(base).ok()? + step;
            self.trie
                .get(index)
                .filter(|(_, check)| *check == base as u32)
                .map(|(base, _)| *base)
        };
        let Some(&(mut base, _)) = self.trie.first() else {
            return;
        };
        for len in 0..=text.len() {
            if let Some(value) = cell(base, 0).filter(|value| *value < 0) {
                found(len, (-1 - value) as u32);
            }
            match text
                .get(len)
                .and_then(|&byte| cell(base, usize::from(byte) + 1))
            {
                Some(next) => base = next,
                None => return,
            }
        }
    }

    /// A number from the trie is a place and a count.
    fn morphemes(&self, value: u32) -> &[Morpheme] {
        let (start, count) = ((value >> 8) as usize, (value & 0xff) as usize);
        self.morphemes.get(start..start + count).unwrap_or_default()
    }
}

/// What it costs that a word follows another: `matrix.bin`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Matrix {
    left_size: u16,
    right_size: u16,
    costs: Vec<i16>,
}

impl Matrix {
    /// # Errors
    /// The file is not as large as it says.
    pub(super) fn parse(bytes: &[u8]) -> Parsed<Self> {
        let mut file = Reader(bytes);
        let (left_size, right_size) = (u16_of(file.take(2)?), u16_of(file.take(2)?));
        let costs: Vec<i16> = file
            .0
            .chunks_exact(2)
            .map(|cost| u16_of(cost) as i16)
            .collect();
        if costs.len() != usize::from(left_size) * usize::from(right_size) || costs.is_empty() {
            return Err("its size is not what it says");
        }
        Ok(Self {
            left_size,
            right_size,
            costs,
        })
    }

    /// Of a word that is `right` to the next, which is `left` to it.
    pub(super) fn between(&self, right: u16, left: u16) -> i64 {
        i64::from(self.costs[usize::from(right) + usize::from(self.left_size) * usize::from(left)])
    }
}

/// The kinds of characters: `char.bin`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Categories {
    of_character: Vec<Category>,
}

impl Categories {
    /// The categories, and the names of their kinds.
    ///
    /// # Errors
    /// The file is not as large as it says.
    pub(super) fn parse(bytes: &[u8]) -> Parsed<(Self, Vec<&[u8]>)> {
        let mut file = Reader(bytes);
        let num_kinds = file.u32()?;
        let kinds: Vec<&[u8]> = (0..num_kinds)
            .map(|_| file.name())
            .collect::<Result<_, _>>()?;
        if file.0.len() != 4 * NUM_CHARACTERS {
            return Err("its size is not what it says");
        }
        let of_character = file.0.chunks_exact(4).map(|bytes| {
            let bits = u32_of(bytes);
            Category {
                kinds: bits & 0x3_ffff,
                kind: (bits >> 18 & 0xff) as usize,
                longest: (bits >> 26 & 0xf) as usize,
                grouped: bits >> 30 & 1 == 1,
                always: bits >> 31 == 1,
            }
        });
        // MeCab reads on behind the file for U+FFFF, where the system has put zeros: it is kin to
        // no character.
        let last = Category {
            kinds: 0,
            kind: 0,
            longest: 0,
            grouped: false,
            always: false,
        };
        Ok((
            Self {
                of_character: of_character.chain([last]).collect(),
            },
            kinds,
        ))
    }

    /// The category and the bytes of the first character; those of more than two bytes in UTF-16
    /// are all as the first.
    pub(super) fn first(&self, text: &str) -> Option<(Category, usize)> {
        let character = text.chars().next()?;
        let index = if (character as usize) <= NUM_CHARACTERS {
            character as usize
        } else {
            0
        };
        Some((self.of_character[index], character.len_utf8()))
    }

    /// Bytes of the spaces that a text begins with.
    pub(super) fn len_of_spaces(&self, text: &str) -> usize {
        self.run_from(text, self.of_character[usize::from(b' ')], 0, usize::MAX)
            .0
    }

    /// Bytes of the run of a kind that a text begins with, and its characters beyond the first,
    /// counted no further than is of interest.
    pub(super) fn run(&self, text: &str, first: Category, first_len: usize) -> (usize, usize) {
        self.run_from(text, first, first_len, LONGEST_RUN + 1)
    }

    /// Each character of a run is kin to the one before it.
    fn run_from(
        &self,
        text: &str,
        mut before: Category,
        mut len: usize,
        most: usize,
    ) -> (usize, usize) {
        let mut count = 0;
        while count < most
            && let Some((next, next_len)) = self.first(&text[len..])
            && before.is_kin(next)
        {
            (before, len, count) = (next, len + next_len, count + 1);
        }
        (len, count)
    }
}

/// The penalties `left-space-penalty-factor = part,cost,part,cost...` of a `dicrc`.
pub(super) fn space_penalties(settings: &str) -> Vec<(u16, i64)> {
    let value = settings
        .lines()
        .filter_map(|line| line.split_once('='))
        .find_map(|(key, value)| (key.trim() == "left-space-penalty-factor").then_some(value));
    let numbers: Vec<i64> = value
        .unwrap_or_default()
        .split(',')
        .filter_map(|number| number.trim().parse().ok())
        .collect();
    numbers
        .chunks_exact(2)
        .filter_map(|pair| Some((u16::try_from(pair[0]).ok()?, pair[1])))
        .collect()
}
