//! The ids of a corpus on disk: written once, read by position, so that memory does not grow with the text.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::alignment::Link;
use crate::corpus::Corpus;
use crate::error::DataError;
use crate::example::{CorpusReport, Example, Filter};
use crate::tokenizer::{Progress, Tokenizers, WORD_START};

mod build;
mod format;

use format::{Header, IdWidth};

/// Examples of a corpus, on disk. In memory are two bytes of length per side and example, and little else.
pub struct IdCache {
    path: PathBuf,
    file: File,
    width: IdWidth,
    src_lens: Vec<u16>,
    tgt_lens: Vec<u16>,
    /// Links of each example; empty where the text is not aligned.
    num_links: Vec<u16>,
    /// Ids in the file, and two for each link.
    num_ids: u64,
    /// For every [`BLOCK`]th example, how many ids lie before it.
    blocks: Vec<u64>,
    report: CorpusReport,
    weights: Vec<f64>,
    tokenizers: Tokenizers,
    vocab_sizes: [usize; 2],
}

/// Examples per entry of the offset table; offsets in between are sums of lengths.
const BLOCK: usize = 64;

impl IdCache {
    /// Opens the cache at `path` if it holds this corpus under these tokenizers, and builds it otherwise.
    ///
    /// Pairs that `filter` rejects are left out and counted; without a filter every pair is kept, empty ones included.
    /// A cache that is stale, cut off or damaged is built again. It is written beside `path` and renamed when it is
    /// complete, so that an interrupted run leaves no half of it behind.
    ///
    /// # Errors
    /// What is wrong with the corpus; [`DataError::Io`] if the cache cannot be written; [`DataError::NothingKept`].
    pub fn open_or_build(
        path: &Path,
        corpus: &Corpus,
        tokenizers: &Tokenizers,
        filter: Option<&Filter>,
        progress: &mut Progress,
    ) -> Result<(Self, CorpusReport), DataError> {
        let key = key(corpus, tokenizers, filter)?;
        let weights: Vec<f64> = corpus.parts().iter().map(crate::corpus::Part::weight).collect();
        let cache = match Self::open(path, &key, tokenizers, weights.clone()) {
            Ok(cache) => cache,
            Err(_stale_or_damaged) => {
                build::build(path, &key, corpus, tokenizers, filter, progress)?;
                Self::open(path, &key, tokenizers, weights)?
            }
        };
        let report = cache.report.clone();
        Ok((cache, report))
    }

    fn open(path: &Path, key: &[u8; 32], tokenizers: &Tokenizers, weights: Vec<f64>) -> Result<Self, DataError> {
        let file = File::open(path).map_err(DataError::io(path))?;
        let header = Header::read(&file, path, key)?;
        let tables = format::read_tables(&file, path, &header)?;
        let mut blocks = Vec::with_capacity(tables.src_lens.len() / BLOCK + 1);
        let mut before = 0;
        let num_links = |example: usize| tables.num_links.get(example).copied().unwrap_or(0);
        for (example, (&src, &tgt)) in tables.src_lens.iter().zip(&tables.tgt_lens).enumerate() {
            if example % BLOCK == 0 {
                blocks.push(before);
            }
            before += u64::from(src) + u64::from(tgt) + 2 * u64::from(num_links(example));
        }
        if before != header.ids || tables.report.parts.len() != weights.len() {
            return Err(format::damaged(path, "its tables contradict each other"));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            width: header.width,
            src_lens: tables.src_lens,
            tgt_lens: tables.tgt_lens,
            num_links: tables.num_links,
            num_ids: header.ids,
            blocks,
            report: tables.report,
            weights,
            vocab_sizes: [tokenizers.src.vocab_size(), tokenizers.tgt.vocab_size()],
            tokenizers: tokenizers.clone(),
        })
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.src_lens.len()
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.src_lens.is_empty()
    }

    /// Source and target length of `example`, in tokens.
    pub fn lengths(&self, example: u32) -> (usize, usize) {
        let example = example as usize;
        (usize::from(self.src_lens[example]), usize::from(self.tgt_lens[example]))
    }

    /// The examples of each corpus of a weighted list, with its weight.
    pub fn parts(&self) -> Vec<(Range<u32>, f64)> {
        let mut start = 0;
        let ranges = self.report.parts.iter().map(|part| {
            let range = start..start + part.kept as u32;
            start = range.end;
            range
        });
        ranges.zip(self.weights.iter().copied()).collect()
    }

    /// The account of the corpus, as it was when the cache was built.
    pub fn report(&self) -> &CorpusReport {
        &self.report
    }

    /// The tokenizers that the ids belong to.
    pub fn tokenizers(&self) -> &Tokenizers {
        &self.tokenizers
    }

    /// Reads one example.
    ///
    /// # Errors
    /// [`DataError::Io`] or [`DataError::Cache`] if the file changed since it was opened.
    pub fn example(&self, example: u32) -> Result<Example, DataError> {
        let mut marked = self.marked_example(example)?;
        for id in marked.src.iter_mut().chain(&mut marked.tgt) {
            *id &= !WORD_START;
        }
        Ok(marked)
    }

    /// Reads one example whose ids carry [`WORD_START`] where a word begins.
    pub(crate) fn marked_example(&self, example: u32) -> Result<Example, DataError> {
        let (src_len, tgt_len) = self.lengths(example);
        let before = self.ids_before(example);
        let mut src = format::read_ids(&self.file, &self.path, self.width, before, src_len + tgt_len)?;
        let tgt = src.split_off(src_len);
        for (ids, vocab_size) in [&src, &tgt].into_iter().zip(self.vocab_sizes) {
            if ids.iter().any(|id| (id & !WORD_START) as usize >= vocab_size) {
                return Err(format::damaged(&self.path, "an id lies outside the vocabulary"));
            }
        }
        Ok(Example { src, tgt })
    }

    /// Whether the text came with word alignments.
    pub fn is_aligned(&self) -> bool {
        !self.num_links.is_empty()
    }

    /// How many links all examples have together; none where the text is not aligned.
    pub fn num_links(&self) -> Option<u64> {
        self.is_aligned().then(|| self.num_links.iter().copied().map(u64::from).sum())
    }

    /// The links of an example between tokens, source and target counted from 0; none where the text is not aligned.
    ///
    /// # Errors
    /// As [`Self::example`].
    pub fn links(&self, example: u32) -> Result<Vec<Link>, DataError> {
        let Some(&count) = self.num_links.get(example as usize) else { return Ok(Vec::new()) };
        let (src_len, tgt_len) = self.lengths(example);
        let before = self.ids_before(example) + (src_len + tgt_len) as u64;
        let places = format::read_ids(&self.file, &self.path, self.width, before, 2 * usize::from(count))?;
        let links = places.as_chunks().0.iter().map(|&[src, tgt]| (src as usize, tgt as usize)).collect::<Vec<_>>();
        if links.iter().any(|&(src, tgt)| src >= src_len || tgt >= tgt_len) {
            return Err(format::damaged(&self.path, "a link lies outside its sentences"));
        }
        Ok(links)
    }

    /// How many ids lie before those of `example`.
    fn ids_before(&self, example: u32) -> u64 {
        let block = example as usize / BLOCK;
        let between = block * BLOCK..example as usize;
        let links = self.num_links.get(between.clone()).unwrap_or_default();
        let sum = |counts: &[u16]| counts.iter().copied().map(u64::from).sum::<u64>();
        self.blocks[block] + sum(&self.src_lens[between.clone()]) + sum(&self.tgt_lens[between]) + 2 * sum(links)
    }

    /// How many target positions lie before those of `example`: a target has one more than ids, for its end.
    ///
    /// # Panics
    /// If the corpus has sources or links, for then this is not known without reading all lengths.
    pub(crate) fn positions_before(&self, example: u32) -> u64 {
        assert!(self.is_text(), "positions are counted in text of one side");
        let ids = if (example as usize) < self.len() { self.ids_before(example) } else { self.num_ids };
        ids + u64::from(example)
    }

    /// The example that has the target position `position` of all, which must be less than those of all examples.
    pub(crate) fn example_at(&self, position: u64) -> u32 {
        let in_block = |block: usize| self.blocks[block] + (block * BLOCK) as u64;
        let (mut first, mut after) = (0, self.blocks.len());
        while after - first > 1 {
            let middle = usize::midpoint(first, after);
            if in_block(middle) <= position { first = middle } else { after = middle }
        }
        let mut end = in_block(first);
        let lens = &self.tgt_lens[first * BLOCK..];
        let before = lens.iter().take_while(|&&len| {
            end += u64::from(len) + 1;
            end <= position
        });
        (first * BLOCK + before.count()) as u32
    }

    /// Whether no example has a source.
    pub fn is_text(&self) -> bool {
        self.report.src.tokens == 0 && !self.is_aligned()
    }

    /// Where `example` comes from: the name of its corpus, and its line there, counted from 1.
    ///
    /// # Errors
    /// [`DataError::Io`] if the file cannot be read any more.
    pub fn origin(&self, example: u32) -> Result<(&str, u64), DataError> {
        let lengths = (2 * self.src_lens.len() + self.num_links.len()) as u64;
        let line = format::read_line(&self.file, &self.path, self.width, self.num_ids, lengths, example)?;
        let parts = self.parts();
        let part = parts.iter().position(|(range, _)| range.contains(&example));
        Ok((part.map_or("", |part| &self.report.parts[part].name), line))
    }
}

/// Hashes everything that the content of the cache follows from.
fn key(corpus: &Corpus, tokenizers: &Tokenizers, filter: Option<&Filter>) -> Result<[u8; 32], DataError> {
    let mut hash = Sha256::new();
    hash.update(corpus.content_hash()?);
    for part in corpus.parts() {
        // Names appear in the report; without them a copy of a corpus would be reported under its old name.
        hash.update(part.name().as_bytes());
        hash.update([0]);
    }
    hash.update(tokenizers.src.to_json()?);
    hash.update(tokenizers.tgt.to_json()?);
    hash.update(format!("{filter:?}"));
    Ok(hash.finalize().into())
}
