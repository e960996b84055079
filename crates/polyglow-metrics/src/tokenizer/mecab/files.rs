//! The files of a compiled dictionary, as MeCab 0.996 writes them on a little-endian machine.

use super::{Category, LONGEST_RUN, Morpheme};

/// The first number of a file is its size, XOR this.
const MAGIC: u32 = 0xef71_8f77;
const VERSION: u32 = 102;
/// The bytes of the name of an encoding, or of a kind of characters.
const NAME: usize = 32;
/// The number of characters whose kind is listed: those below U+FFFF.
const NUM_CHARACTERS: usize = 0xffff;

/// The content of a file, or what is wrong with it.
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

    /// A name, which zeros follow up to its full size.
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

/// Words with their entries: `sys.dic` and `unk.dic`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Words {
    /// The number of words.
    pub(super) len: u32,
    /// A trie from words to entries, as a double array (Aoe, 1989). A cell has a base, to which the
    /// next byte is added to find the next cell, and a check: the base that must have led to it.
    trie: Vec<(i32, u32)>,
    morphemes: Vec<Morpheme>,
}

impl Words {
    /// Parses a file whose words fit into a matrix of costs.
    ///
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
        let mut morphemes = Vec::new();
        for entry in file.take(morphemes_len as usize)?.chunks_exact(16) {
            let morpheme = Morpheme::parse(entry);
            // The matrix is of the right class of a word times the left class of the next.
            if morpheme.right >= costs.left_size || morpheme.left >= costs.right_size {
                return Err("a word does not fit `matrix.bin`");
            }
            morphemes.push(morpheme);
        }
        Ok(Self {
            len,
            trie,
            morphemes,
        })
    }

    /// Turns words that are names of kinds of characters, as those of `unk.dic`, into a list by the
    /// numbers of the kinds, so that no name has to be looked up. Only [`Self::for_kind`] works
    /// afterwards.
    ///
    /// # Errors
    /// A kind has no word.
    pub(super) fn in_order_of(self, kinds: &[&[u8]]) -> Parsed<Self> {
        let mut list = Vec::with_capacity(kinds.len());
        for kind in kinds {
            let mut value = None;
            self.search(kind, |len, prefix_value| {
                if len == kind.len() && value.is_none() {
                    value = Some(prefix_value);
                }
            });
            let value = value.ok_or("a kind of characters has no unknown words")?;
            list.push((0, value));
        }
        Ok(Self { trie: list, ..self })
    }

    /// The entries of a kind of characters, after [`Self::in_order_of`].
    pub(super) fn for_kind(&self, kind: usize) -> &[Morpheme] {
        match self.trie.get(kind) {
            Some((_, value)) => self.morphemes(*value),
            None => &[],
        }
    }

    /// Calls `on_word` for every word that a text begins with, the shortest first, with its length
    /// in bytes and its entries.
    pub(super) fn prefixes(&self, text: &[u8], mut on_word: impl FnMut(usize, &[Morpheme])) {
        self.search(text, |len, value| on_word(len, self.morphemes(value)));
    }

    /// Calls `on_word` for every word that a text begins with, with its value in the trie.
    fn search(&self, text: &[u8], mut on_word: impl FnMut(usize, u32)) {
        let Some(&(mut base, _)) = self.trie.first() else {
            return;
        };
        for len in 0..=text.len() {
            // A word that ends here has a cell without a byte, whose base is its value, negated.
            if let Some(value) = self.next_base(base, 0)
                && value < 0
            {
                on_word(len, (-1 - value) as u32);
            }
            let Some(&byte) = text.get(len) else {
                return;
            };
            match self.next_base(base, usize::from(byte) + 1) {
                Some(next) => base = next,
                None => return,
            }
        }
    }

    /// The base of the cell that a step leads to; `None` if no word goes on so.
    fn next_base(&self, base: i32, step: usize) -> Option<i32> {
        let index = usize::try_from(base).ok()? + step;
        let &(next, check) = self.trie.get(index)?;
        (check == base as u32).then_some(next)
    }

    /// The entries of a value in the trie: 24 bits are the index of the first, 8 bits their number.
    fn morphemes(&self, value: u32) -> &[Morpheme] {
        let start = (value >> 8) as usize;
        let count = (value & 0xff) as usize;
        self.morphemes.get(start..start + count).unwrap_or_default()
    }
}

impl Morpheme {
    /// Parses an entry of 16 bytes, the second half of which is not needed.
    fn parse(bytes: &[u8]) -> Self {
        let [left, right, part_of_speech, cost] =
            [0, 2, 4, 6].map(|offset| u16_of(&bytes[offset..]));
        Self {
            left,
            right,
            part_of_speech,
            cost: cost as i16,
        }
    }
}

/// The costs between neighbors: `matrix.bin`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Matrix {
    left_size: u16,
    right_size: u16,
    costs: Vec<i16>,
}

impl Matrix {
    /// Parses the file.
    ///
    /// # Errors
    /// The file is not as large as it says.
    pub(super) fn parse(bytes: &[u8]) -> Parsed<Self> {
        let mut file = Reader(bytes);
        let left_size = u16_of(file.take(2)?);
        let right_size = u16_of(file.take(2)?);
        let costs = file.0.chunks_exact(2);
        let costs: Vec<i16> = costs.map(|cost| u16_of(cost) as i16).collect();
        if costs.len() != usize::from(left_size) * usize::from(right_size) || costs.is_empty() {
            return Err("its size is not what it says");
        }
        Ok(Self {
            left_size,
            right_size,
            costs,
        })
    }

    /// The cost of a word of the right class `right` before a word of the left class `left`.
    pub(super) fn between(&self, right: u16, left: u16) -> i64 {
        i64::from(self.costs[usize::from(right) + usize::from(self.left_size) * usize::from(left)])
    }
}

/// The kinds of characters: `char.bin`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Categories {
    /// By character, up to U+FFFF.
    by_character: Vec<Category>,
}

impl Categories {
    /// Parses the file, and returns also the names of the kinds.
    ///
    /// # Errors
    /// The file is not as large as it says.
    pub(super) fn parse(bytes: &[u8]) -> Parsed<(Self, Vec<&[u8]>)> {
        let mut file = Reader(bytes);
        let num_kinds = file.u32()?;
        let mut kinds = Vec::new();
        for _ in 0..num_kinds {
            kinds.push(file.name()?);
        }
        if file.0.len() != 4 * NUM_CHARACTERS {
            return Err("its size is not what it says");
        }
        let cells = file.0.chunks_exact(4);
        let mut by_character: Vec<Category> = cells
            .map(|cell| Category::from_bits(u32_of(cell)))
            .collect();
        // MeCab reads on behind the file for U+FFFF, where the system has put zeros: it is kin to
        // no character.
        by_character.push(Category::from_bits(0));
        Ok((Self { by_character }, kinds))
    }

    /// The category and the number of bytes of the first character. Characters beyond U+FFFF have
    /// the category of U+0000.
    pub(super) fn first(&self, text: &str) -> Option<(Category, usize)> {
        let character = text.chars().next()?;
        let index = if (character as usize) <= NUM_CHARACTERS {
            character as usize
        } else {
            0
        };
        Some((self.by_character[index], character.len_utf8()))
    }

    /// The number of bytes of the spaces that a text begins with.
    pub(super) fn len_of_spaces(&self, text: &str) -> usize {
        let space = self.by_character[usize::from(b' ')];
        let (len, _) = self.run_from(text, space, 0, usize::MAX);
        len
    }

    /// The run of a kind that a text begins with: its number of bytes, and of characters beyond the
    /// first. More of these than [`LONGEST_RUN`] are not counted.
    pub(super) fn run(&self, text: &str, first: Category, first_len: usize) -> (usize, usize) {
        self.run_from(text, first, first_len, LONGEST_RUN + 1)
    }

    /// Continues a run from `len` bytes on, by at most `most` characters. Each character of a run has
    /// a kind in common with the one before it.
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
            before = next;
            len += next_len;
            count += 1;
        }
        (len, count)
    }
}

impl Category {
    /// Takes a category apart, as MeCab packs it into 32 bits.
    fn from_bits(bits: u32) -> Self {
        Self {
            kinds: bits & 0x3_ffff,
            kind: (bits >> 18 & 0xff) as usize,
            longest: (bits >> 26 & 0xf) as usize,
            grouped: bits >> 30 & 1 == 1,
            always: bits >> 31 == 1,
        }
    }
}

/// Parses the penalties `left-space-penalty-factor = part,cost,part,cost...` of a `dicrc`; none if it
/// has no such line.
pub(super) fn space_penalties(settings: &str) -> Vec<(u16, i64)> {
    let mut entries = settings.lines().filter_map(|line| line.split_once('='));
    let Some((_, value)) = entries.find(|(key, _)| key.trim() == "left-space-penalty-factor")
    else {
        return Vec::new();
    };
    let numbers = value.split(',').map(str::trim);
    let numbers: Vec<i64> = numbers.filter_map(|number| number.parse().ok()).collect();
    let mut penalties = Vec::new();
    for pair in numbers.chunks_exact(2) {
        if let Ok(part_of_speech) = u16::try_from(pair[0]) {
            penalties.push((part_of_speech, pair[1]));
        }
    }
    penalties
}
