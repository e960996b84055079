//! Parallel text: files or an embedded corpus become a stream of sentence pairs.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::alignment::{Link, LinkLines};
use crate::config::{DataConfig, GOLD, Labeled, Split, WeightedPath, no_such_set, wrong};
use crate::error::DataError;
use crate::labeled::{LabeledLines, LabeledText};
use crate::lines::Lines;
use crate::toy::{Embedded, Toy};

mod labeled;
mod text;

pub use labeled::read_image;

/// A sentence and its translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Source sentence; empty in text that has only one side.
    pub src: String,
    /// Target sentence.
    pub tgt: String,
}

/// The parallel text of one split, opened but not held in memory.
#[derive(Debug, Clone, Default)]
pub struct Corpus {
    parts: Vec<Part>,
    labeled: Option<Labeled>,
    /// How many pairs are trained on, the first ones; none for all.
    max_examples: Option<u64>,
}

/// A corpus file (pair) with its weight.
#[derive(Debug, Clone)]
pub struct Part {
    source: Source,
    weight: f64,
    alignments: Option<Alignments>,
    /// Whether sources are left out.
    is_text: bool,
}

#[derive(Debug, Clone)]
enum Alignments {
    Embedded(Arc<Vec<Vec<Link>>>),
    File(PathBuf),
}

#[derive(Debug, Clone)]
enum Source {
    Embedded { name: String, pairs: Arc<Vec<Pair>> },
    TwoFiles { src: PathBuf, tgt: PathBuf },
    Tsv(PathBuf),
    Text(PathBuf),
    Labeled(PathBuf),
}

impl Corpus {
    /// Finds the files of `split`, or generates it if it is embedded.
    ///
    /// # Errors
    /// [`DataError::MissingFile`] for a file that is not there, [`DataError::Config`] for a split that the
    /// configuration lacks.
    pub fn open(config: &DataConfig, split: Split) -> Result<Self, DataError> {
        let corpus = Self::open_whole(config, split)?;
        let max_examples = if split == Split::Train { config.max_examples } else { None };
        Ok(Self { labeled: config.labeled, max_examples, ..corpus })
    }

    fn open_whole(config: &DataConfig, split: Split) -> Result<Self, DataError> {
        match config.embedded_corpus() {
            Some(Embedded::Pairs(toy)) => {
                let aligned = split == Split::Train && config.alignments.is_some();
                let corpus = Self { parts: vec![embedded(toy, split, aligned)?], ..Self::default() };
                return Ok(if config.one_sided { corpus.target_side() } else { corpus });
            }
            Some(embedded) => return Self::embedded_labeled(embedded, config, split),
            None => {}
        }
        if let Some(labeled) = config.labeled {
            return Self::open_labeled(config, split, labeled);
        }
        if config.one_sided {
            return Self::open_texts(config, split);
        }
        let (src, tgt) = config.languages()?;
        let key = config.key(split);
        let existing = |path: &Path| {
            let missing = || DataError::MissingFile { key: key.clone(), path: path.to_owned() };
            plain_or_compressed(path).ok_or_else(missing)
        };
        let parts = config.files(split)?.into_iter().map(|WeightedPath { path, weight, alignments }| {
            let source = if is_tsv(&path) {
                Source::Tsv(existing(&path)?)
            } else {
                Source::TwoFiles { src: existing(&with_ending(&path, src))?, tgt: existing(&with_ending(&path, tgt))? }
            };
            let found = alignments.map(|path| alignment_file(&path)).transpose()?;
            Ok(Part { source, weight, alignments: found.map(Alignments::File), is_text: false })
        });
        Ok(Self { parts: parts.collect::<Result<_, _>>()?, ..Self::default() })
    }

    /// Whether the targets are labels, and of what.
    pub fn labeled(&self) -> Option<Labeled> {
        self.labeled
    }

    /// How many pairs are trained on, the first ones; none for all. [`Self::pairs`] streams the others, too: tokenizers
    /// and labels come from all.
    pub fn max_examples(&self) -> Option<u64> {
        self.max_examples
    }

    /// The corpora of a weighted list, in its order; otherwise a single one.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Streams all pairs, one part after the other, each part once whatever its weight.
    ///
    /// The stream ends at the first error.
    pub fn pairs(&self) -> impl Iterator<Item = Result<Pair, DataError>> + Send + use<> {
        let mut parts = self.parts.clone().into_iter();
        let mut current: Option<Pairs> = None;
        let mut failed = false;
        std::iter::from_fn(move || {
            while !failed {
                if let Some(item) = current.as_mut().and_then(Iterator::next) {
                    failed = item.is_err();
                    return Some(item);
                }
                match parts.next()?.pairs() {
                    Ok(pairs) => current = Some(pairs),
                    Err(error) => {
                        failed = true;
                        return Some(Err(error));
                    }
                }
            }
            None
        })
    }

    /// Hashes the content of every part, which identifies the text but not its weights.
    ///
    /// # Errors
    /// [`DataError::Io`] if a file cannot be read.
    pub fn content_hash(&self) -> Result<[u8; 32], DataError> {
        let mut hash = Sha256::new();
        if let Some(max_examples) = self.max_examples {
            hash.update(format!("the first {max_examples}"));
        }
        for part in &self.parts {
            part.add_to(&mut hash)?;
        }
        Ok(hash.finalize().into())
    }
}

impl Part {
    /// How often an epoch holds each pair of this part.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// What to call this part in messages: its source file, or the name of the embedded split.
    pub fn name(&self) -> String {
        match &self.source {
            Source::Embedded { name, .. } => name.clone(),
            Source::TwoFiles { src: path, .. } | Source::Tsv(path) | Source::Text(path) | Source::Labeled(path) => {
                path.display().to_string()
            }
        }
    }

    /// Streams the pairs of this part.
    ///
    /// # Errors
    /// [`DataError::Io`] if a file cannot be opened. The stream itself yields errors for what is wrong inside.
    pub fn pairs(&self) -> Result<Pairs, DataError> {
        let reader = match &self.source {
            Source::Embedded { pairs, .. } => Reader::Embedded { pairs: Arc::clone(pairs), next: 0 },
            Source::TwoFiles { src, tgt } => Reader::TwoFiles { src: Lines::open(src)?, tgt: Lines::open(tgt)? },
            Source::Tsv(path) => Reader::Tsv(Lines::open(path)?),
            Source::Text(path) => Reader::Text(Lines::open(path)?),
            Source::Labeled(path) => {
                Reader::Labeled { lines: LabeledLines::open(path)?, path: path.clone(), any: false }
            }
        };
        Ok(Pairs { reader, is_text: self.is_text })
    }

    /// Streams the word alignment of every pair; none if this part has no alignments.
    ///
    /// # Errors
    /// [`DataError::Io`] if the file cannot be opened. The stream itself yields errors for what is wrong inside.
    pub fn alignments(&self) -> Result<Option<AlignmentStream>, DataError> {
        Ok(match &self.alignments {
            None => None,
            Some(Alignments::Embedded(links)) => {
                let links = Arc::clone(links);
                Some(Box::new((0..links.len()).map(move |pair| Ok(links[pair].clone()))))
            }
            Some(Alignments::File(path)) => Some(Box::new(LinkLines(Lines::open(path)?))),
        })
    }

    /// The error that only the alignments or only the pairs have a line `line`.
    pub(crate) fn uneven_alignments(&self, line: u64) -> DataError {
        DataError::AlignmentCount { path: self.alignments_path(), line, corpus: self.name() }
    }

    /// The error that a link of a line names a word that its pair does not have.
    pub(crate) fn link_beyond(&self, line: u64) -> DataError {
        DataError::LinkBeyond { path: self.alignments_path(), line, corpus: self.name() }
    }

    fn alignments_path(&self) -> PathBuf {
        match &self.alignments {
            Some(Alignments::File(path)) => path.clone(),
            _ => PathBuf::from(GOLD),
        }
    }

    /// Whether the pairs of this part have word alignments.
    pub fn is_aligned(&self) -> bool {
        self.alignments.is_some()
    }

    fn add_to(&self, hash: &mut Sha256) -> Result<(), DataError> {
        if self.is_text {
            hash.update(b"one side");
        }
        match &self.alignments {
            None => {}
            Some(Alignments::Embedded(_)) => hash.update(b"embedded alignments"),
            Some(Alignments::File(path)) => {
                hash.update(b"alignments");
                add_file(hash, path)?;
            }
        }
        match &self.source {
            Source::Embedded { pairs, .. } => {
                hash.update(b"embedded");
                for pair in pairs.iter() {
                    hash.update([pair.src.as_bytes(), b"\t", pair.tgt.as_bytes(), b"\n"].concat());
                }
                Ok(())
            }
            Source::TwoFiles { src, tgt } => {
                hash.update(b"two files");
                add_file(hash, src)?;
                add_file(hash, tgt)
            }
            Source::Tsv(path) => {
                hash.update(b"tsv");
                add_file(hash, path)
            }
            Source::Text(path) => add_file(hash, path),
            Source::Labeled(path) => {
                hash.update(b"labels and texts");
                add_file(hash, path)
            }
        }
    }
}

/// The word alignments of one part, in bounded memory.
pub type AlignmentStream = Box<dyn Iterator<Item = Result<Vec<Link>, DataError>> + Send>;

/// The pairs of one part, in bounded memory.
pub struct Pairs {
    reader: Reader,
    is_text: bool,
}

enum Reader {
    Embedded { pairs: Arc<Vec<Pair>>, next: usize },
    TwoFiles { src: Lines, tgt: Lines },
    Tsv(Lines),
    Text(Lines),
    Labeled { lines: LabeledLines, path: PathBuf, any: bool },
}

impl Iterator for Pairs {
    type Item = Result<Pair, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut next = match &mut self.reader {
            Reader::Embedded { pairs, next } => {
                *next += 1;
                pairs.get(*next - 1).cloned().map(Ok)
            }
            Reader::TwoFiles { src, tgt } => next_of_two(src, tgt).transpose(),
            Reader::Tsv(lines) => next_of_tsv(lines).transpose(),
            Reader::Text(lines) => text::next(lines).transpose(),
            Reader::Labeled { lines, path, any } => {
                let next =
                    lines.next().map(|line| line.map(|LabeledText { label, text }| Pair { src: text, tgt: label }));
                let is_first = !std::mem::replace(any, true);
                next.or_else(|| is_first.then(|| Err(DataError::Empty { path: path.clone() })))
            }
        };
        if let (true, Some(Ok(pair))) = (self.is_text, &mut next) {
            pair.src.clear();
        }
        next
    }
}

fn next_of_two(src: &mut Lines, tgt: &mut Lines) -> Result<Option<Pair>, DataError> {
    match (src.next().transpose()?, tgt.next().transpose()?) {
        (Some(src), Some(tgt)) => Ok(Some(Pair { src, tgt })),
        (None, None) if src.line() == 0 => Err(DataError::Empty { path: src.path().to_owned() }),
        (None, None) => Ok(None),
        _ => {
            // Both counts tell more than the place of the break: an odd line out differs from a cut-off file.
            let count = |lines: &mut Lines| lines.try_for_each(|line| line.map(drop));
            count(src)?;
            count(tgt)?;
            Err(DataError::LineCount {
                src: src.path().to_owned(),
                src_lines: src.line(),
                tgt: tgt.path().to_owned(),
                tgt_lines: tgt.line(),
            })
        }
    }
}

fn next_of_tsv(lines: &mut Lines) -> Result<Option<Pair>, DataError> {
    let Some(line) = lines.next().transpose()? else {
        return if lines.line() == 0 { Err(DataError::Empty { path: lines.path().to_owned() }) } else { Ok(None) };
    };
    match *line.split('\t').collect::<Vec<_>>() {
        [src, tgt] => Ok(Some(Pair { src: src.to_owned(), tgt: tgt.to_owned() })),
        ref columns => {
            let (path, line) = (lines.path().to_owned(), lines.line());
            Err(DataError::Columns { path, line, found: columns.len() })
        }
    }
}

fn embedded(toy: Toy, split: Split, aligned: bool) -> Result<Part, DataError> {
    let split = split_name(split);
    let pairs = toy.split(split).ok_or_else(|| wrong("data.corpus", no_such_set(split, toy.splits())))?;
    let alignments = aligned.then(|| pairs.iter().map(|pair| pair.alignment.clone()).collect());
    let alignments = alignments.map(|links| Alignments::Embedded(Arc::new(links)));
    let pairs = pairs.into_iter().map(|pair| Pair { src: pair.src, tgt: pair.tgt }).collect();
    let name = format!("{} {split}", toy.name());
    Ok(Part { source: Source::Embedded { name, pairs: Arc::new(pairs) }, weight: 1.0, alignments, is_text: false })
}

/// What a split of an embedded corpus is called.
fn split_name(split: Split<'_>) -> &str {
    match split {
        Split::Train => "train",
        Split::Valid => "valid",
        Split::Test(name) => name,
    }
}

/// Whether a path names a file with both sides.
pub(crate) fn is_tsv(path: &Path) -> bool {
    let name = path.to_string_lossy();
    Path::new(name.strip_suffix(".gz").unwrap_or(&name)).extension().is_some_and(|ending| ending == "tsv")
}

fn plain_or_compressed(path: &Path) -> Option<PathBuf> {
    [path.to_owned(), with_ending(path, "gz")].into_iter().find(|candidate| candidate.is_file())
}

fn alignment_file(path: &Path) -> Result<PathBuf, DataError> {
    plain_or_compressed(path).ok_or_else(|| {
        let name = path.display();
        let problem = if path == Path::new(GOLD) {
            format!("is \"{GOLD}\", which stands for the alignments of an embedded corpus")
        } else {
            format!("names `{name}`, but there is no such file, nor `{name}.gz`")
        };
        wrong("data.alignments", problem)
    })
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn add_file(hash: &mut Sha256, path: &Path) -> Result<(), DataError> {
    let mut file = File::open(path).map_err(DataError::io(path))?;
    let mut buffer = vec![0; 1 << 18];
    let mut total = 0_u64;
    loop {
        let read = file.read(&mut buffer).map_err(DataError::io(path))?;
        if read == 0 {
            // The length keeps two files apart that are cut differently.
            hash.update(total.to_le_bytes());
            return Ok(());
        }
        hash.update(&buffer[..read]);
        total += read as u64;
    }
}
