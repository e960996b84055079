//! The ids of a corpus on disk: written once and read by position, so that memory hardly grows with
//! the text.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::alignment::Link;
use crate::corpus::Corpus;
use crate::error::DataError;
use crate::example::{CorpusReport, Example, Filter};
use crate::noise::Noise;
use crate::tokenizer::{Progress, Tokenizers, WORD_START};

mod build;
mod format;

use format::{Header, IdWidth};

/// The examples of a corpus, on disk. In memory are the lengths, two bytes for each side of an
/// example, and little else.
pub struct IdCache {
    path: PathBuf,
    file: File,
    width: IdWidth,
    src_lens: Vec<u16>,
    tgt_lens: Vec<u16>,
    /// Number of links of each example; empty if the text is not aligned.
    num_links: Vec<u16>,
    /// Number of ids in the file, counting a link as two.
    num_ids: u64,
    /// For every [`BLOCK`]th example, the number of ids before it.
    blocks: Vec<u64>,
    report: CorpusReport,
    /// The options of each corpus of a weighted list.
    options: Vec<PartOptions>,
    tokenizers: Tokenizers,
    vocab_sizes: [usize; 2],
}

/// The options of a corpus.
#[derive(Debug, Clone)]
struct PartOptions {
    /// The number of times that an epoch has each of its examples.
    weight: f64,
    /// The numbers of tags that its sources and its targets begin with.
    num_tags: [usize; 2],
    /// The noise in its sources, drawn anew each time.
    noise: Option<Noise>,
    /// The steps in which it is trained on.
    steps: Range<u64>,
}

/// Examples per entry of the offset table. Offsets in between are computed from the lengths.
const BLOCK: usize = 64;

impl IdCache {
    /// Opens the cache at `path` if it was built from this corpus with these tokenizers, and
    /// otherwise builds it.
    ///
    /// Pairs that `filter` rejects are left out and counted. Without a filter every pair is kept,
    /// even if a side is empty. A cache that is stale, truncated or damaged is built again. It is
    /// written as [`crate::file`] describes, so that an interrupted run leaves no incomplete cache
    /// behind.
    ///
    /// # Errors
    /// The errors of [`Corpus::pairs`]; [`DataError::Io`] if the cache cannot be written;
    /// [`DataError::NothingKept`] if the filter rejects every pair; those of a wrong alignment.
    pub fn open_or_build(
        path: &Path,
        corpus: &Corpus,
        tokenizers: &Tokenizers,
        filter: Option<&dyn Filter>,
        progress: &mut Progress,
    ) -> Result<(Self, CorpusReport), DataError> {
        let key = key(corpus, tokenizers, filter)?;
        let options: Vec<PartOptions> = corpus
            .parts()
            .iter()
            .map(|part| PartOptions {
                weight: part.weight(),
                num_tags: [part.tags().src.len(), part.tags().tgt.iter().len()],
                noise: part.noise(),
                steps: part.steps(),
            })
            .collect();
        let cache = match Self::open(path, &key, tokenizers, options.clone()) {
            Ok(cache) => cache,
            Err(_stale_or_damaged) => {
                build::build(path, &key, corpus, tokenizers, filter, progress)?;
                Self::open(path, &key, tokenizers, options)?
            }
        };
        let report = cache.report.clone();
        Ok((cache, report))
    }

    /// Opens a cache that has this key and is undamaged.
    fn open(
        path: &Path,
        key: &[u8; 32],
        tokenizers: &Tokenizers,
        options: Vec<PartOptions>,
    ) -> Result<Self, DataError> {
        let file = File::open(path).map_err(DataError::io(path))?;
        let header = Header::read(&file, path, key)?;
        let tables = format::read_tables(&file, path, &header)?;
        let mut blocks = Vec::with_capacity(tables.src_lens.len() / BLOCK + 1);
        let mut before = 0;
        for (example, (&src, &tgt)) in tables.src_lens.iter().zip(&tables.tgt_lens).enumerate() {
            if example % BLOCK == 0 {
                blocks.push(before);
            }
            let num_links = tables.num_links.get(example).copied().unwrap_or(0);
            before += u64::from(src) + u64::from(tgt) + 2 * u64::from(num_links);
        }
        if before != header.ids || tables.report.parts.len() != options.len() {
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
            options,
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

    /// Source and target length of `example`, in ids.
    pub fn lengths(&self, example: u32) -> (usize, usize) {
        let example = example as usize;
        (
            usize::from(self.src_lens[example]),
            usize::from(self.tgt_lens[example]),
        )
    }

    /// Returns the examples of each corpus of a weighted list, and its weight.
    pub fn parts(&self) -> Vec<(Range<u32>, f64)> {
        self.ranges()
            .map(|(range, options)| (range, options.weight))
            .collect()
    }

    /// Returns what [`Self::parts`] does of the corpora that are trained on in this step, counted
    /// from 0.
    pub fn parts_in(&self, step: u64) -> Vec<(Range<u32>, f64)> {
        self.ranges()
            .filter(|(_, options)| options.steps.contains(&step))
            .map(|(range, options)| (range, options.weight))
            .collect()
    }

    /// Returns the steps, ascending, before which a corpus joins or leaves those that are trained
    /// on.
    pub fn changes(&self) -> Vec<u64> {
        let mut changes = Vec::new();
        for PartOptions { steps, .. } in &self.options {
            changes.extend([steps.start, steps.end]);
        }
        changes.retain(|step| ![0, u64::MAX].contains(step));
        changes.sort_unstable();
        changes.dedup();
        changes
    }

    /// Returns how many tags the source and the target of `example` begin with.
    pub fn num_tags(&self, example: u32) -> [usize; 2] {
        self.options(example)
            .map_or([0, 0], |options| options.num_tags)
    }

    /// Returns how the source of `example` is changed each time before it is trained on.
    pub fn noise(&self, example: u32) -> Option<Noise> {
        self.options(example)?.noise
    }

    /// The options of the corpus that has `example`.
    fn options(&self, example: u32) -> Option<&PartOptions> {
        if let [only] = &self.options[..] {
            return Some(only);
        }
        let (_, options) = self.ranges().find(|(range, _)| range.contains(&example))?;
        Some(options)
    }

    /// The examples of each corpus of a weighted list, with its options.
    fn ranges(&self) -> impl Iterator<Item = (Range<u32>, &PartOptions)> {
        let mut start = 0;
        self.report
            .parts
            .iter()
            .zip(&self.options)
            .map(move |(part, options)| {
                let range = start..start + part.kept as u32;
                start = range.end;
                (range, options)
            })
    }

    /// Statistics of the corpus, from when the cache was built.
    pub fn report(&self) -> &CorpusReport {
        &self.report
    }

    /// The tokenizers that made the ids.
    pub fn tokenizers(&self) -> &Tokenizers {
        &self.tokenizers
    }

    /// Reads one example.
    ///
    /// # Errors
    /// [`DataError::Io`] or [`DataError::Cache`] if the file was changed after it was opened.
    pub fn example(&self, example: u32) -> Result<Example, DataError> {
        let mut marked = self.marked_example(example)?;
        for id in marked.src.iter_mut().chain(&mut marked.tgt) {
            *id &= !WORD_START;
        }
        Ok(marked)
    }

    /// Reads one example, with [`WORD_START`] set on each id that begins a word.
    pub(crate) fn marked_example(&self, example: u32) -> Result<Example, DataError> {
        let (src_len, tgt_len) = self.lengths(example);
        let before = self.ids_before(example);
        let mut src = format::read_ids(
            &self.file,
            &self.path,
            self.width,
            before,
            src_len + tgt_len,
        )?;
        let tgt = src.split_off(src_len);
        // The checksum was verified when the cache was opened; since then another program may have
        // written to the file, and an embedding would be read out of bounds.
        for (ids, vocab_size) in [&src, &tgt].into_iter().zip(self.vocab_sizes) {
            if ids
                .iter()
                .any(|id| (id & !WORD_START) as usize >= vocab_size)
            {
                return Err(format::damaged(
                    &self.path,
                    "an id lies outside the vocabulary",
                ));
            }
        }
        Ok(Example { src, tgt })
    }

    /// Whether the text has word alignments.
    pub fn is_aligned(&self) -> bool {
        !self.num_links.is_empty()
    }

    /// Number of links of all examples together; `None` if the text is not aligned.
    pub fn num_links(&self) -> Option<u64> {
        self.is_aligned()
            .then(|| self.num_links.iter().copied().map(u64::from).sum())
    }

    /// Reads the links of an example between source and target tokens, counted from 0; empty if the
    /// text is not aligned.
    ///
    /// # Errors
    /// As [`Self::example`].
    pub fn links(&self, example: u32) -> Result<Vec<Link>, DataError> {
        let Some(&count) = self.num_links.get(example as usize) else {
            return Ok(Vec::new());
        };
        let (src_len, tgt_len) = self.lengths(example);
        let before = self.ids_before(example) + (src_len + tgt_len) as u64;
        let positions = format::read_ids(
            &self.file,
            &self.path,
            self.width,
            before,
            2 * usize::from(count),
        )?;
        let (two_by_two, _) = positions.as_chunks();
        let links: Vec<Link> = two_by_two
            .iter()
            .map(|&[src, tgt]| (src as usize, tgt as usize))
            .collect();
        if links
            .iter()
            .any(|&(src, tgt)| src >= src_len || tgt >= tgt_len)
        {
            return Err(format::damaged(
                &self.path,
                "a link lies outside its sentences",
            ));
        }
        Ok(links)
    }

    /// The number of ids in the file before those of `example`.
    fn ids_before(&self, example: u32) -> u64 {
        let block = example as usize / BLOCK;
        let between = block * BLOCK..example as usize;
        let links = self.num_links.get(between.clone()).unwrap_or_default();
        self.blocks[block]
            + sum(&self.src_lens[between.clone()])
            + sum(&self.tgt_lens[between])
            + 2 * sum(links)
    }

    /// The number of target positions before the examples of a block, in text of one side.
    fn positions_before_block(&self, block: usize) -> u64 {
        self.blocks[block] + (block * BLOCK) as u64
    }

    /// The number of target positions before those of `example`. A target has one position more
    /// than ids, for its end.
    ///
    /// # Panics
    /// If the corpus has sources or links, because then the offsets do not count target ids alone.
    pub(crate) fn positions_before(&self, example: u32) -> u64 {
        assert!(self.is_text(), "positions are counted in text of one side");
        let ids = if (example as usize) < self.len() {
            self.ids_before(example)
        } else {
            self.num_ids
        };
        ids + u64::from(example)
    }

    /// The example at the target position `position`, counted over all examples; it must be less
    /// than their sum.
    pub(crate) fn example_at(&self, position: u64) -> u32 {
        // The last block that begins at the position or before it, by bisection.
        let mut first = 0;
        let mut after = self.blocks.len();
        while after - first > 1 {
            let middle = usize::midpoint(first, after);
            if self.positions_before_block(middle) <= position {
                first = middle;
            } else {
                after = middle;
            }
        }
        let mut end = self.positions_before_block(first);
        let lens = &self.tgt_lens[first * BLOCK..];
        let before = lens.iter().take_while(|&&len| {
            end += u64::from(len) + 1;
            end <= position
        });
        (first * BLOCK + before.count()) as u32
    }

    /// Whether the text is one-sided: no example has a source.
    pub(crate) fn is_text(&self) -> bool {
        self.report.src.tokens == 0 && !self.is_aligned()
    }

    /// Reads the line of every example in its corpus, counted from 1, for one corpus after the
    /// other.
    ///
    /// # Errors
    /// [`DataError::Io`] if the cache can no longer be read.
    pub fn lines(&self) -> Result<Vec<u32>, DataError> {
        self.lines_from(0, self.len())
    }

    /// Reads the origin of `example`: the name of its corpus, and its line there, counted from 1.
    ///
    /// # Errors
    /// [`DataError::Io`] if the cache can no longer be read.
    pub fn origin(&self, example: u32) -> Result<(&str, u64), DataError> {
        let line = self.lines_from(example, 1)?[0];
        let parts = self.parts();
        let part = parts.iter().position(|(range, _)| range.contains(&example));
        Ok((
            part.map_or("", |part| &self.report.parts[part].name),
            u64::from(line),
        ))
    }

    /// Reads the lines of some examples from `first` on.
    fn lines_from(&self, first: u32, examples: usize) -> Result<Vec<u32>, DataError> {
        let lengths = (2 * self.src_lens.len() + self.num_links.len()) as u64;
        format::read_lines(
            &self.file,
            &self.path,
            self.width,
            (self.num_ids, lengths),
            first,
            examples,
        )
    }
}

fn sum(counts: &[u16]) -> u64 {
    counts.iter().copied().map(u64::from).sum()
}

/// Hashes everything that determines the content of the cache. What is hashed must stay as it is,
/// or caches of earlier runs are built anew.
fn key(
    corpus: &Corpus,
    tokenizers: &Tokenizers,
    filter: Option<&dyn Filter>,
) -> Result<[u8; 32], DataError> {
    let mut hash = Sha256::new();
    hash.update(corpus.content_hash()?);
    for part in corpus.parts() {
        // The report contains the names; without them a copy of a corpus would be reported under
        // its old name.
        hash.update(part.name().as_bytes());
        hash.update([0]);
    }
    hash.update(tokenizers.src.to_json()?);
    hash.update(tokenizers.tgt.to_json()?);
    let settings = filter.map(Filter::settings);
    hash.update(settings.map_or_else(|| "None".to_owned(), |settings| format!("Some({settings})")));
    Ok(hash.finalize().into())
}
