//! Building the id cache: text is read in chunks and encoded on all cores, and the ids are appended
//! to a file.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::Crc;
use rayon::prelude::*;

use super::format::{HEADER_BYTES, Header, IdWidth, damaged};
use crate::align::AlignProgress;
use crate::alignment::Link;
use crate::config::TargetKind;
use crate::corpus::{Corpus, Part};
use crate::error::DataError;
use crate::example::{
    Candidate, CorpusReport, Example, Filter, PartReport, Reason, SideReport, left_out,
};
use crate::file::NewFile;
use crate::pair::Pair;
use crate::pair_tags::prepend;
use crate::tokenizer::{Progress, Stage, Tokenizer, Tokenizers, WORD_START};

/// Pairs in memory at a time: enough to occupy all cores, and few enough to take little memory.
const PAIRS_PER_CHUNK: usize = 8192;
/// Bytes of text at which a chunk ends with fewer pairs: encoding takes a hundred times the memory
/// of the text.
const BYTES_PER_CHUNK: usize = 1 << 25;
const BUFFER_BYTES: usize = 1 << 20;

/// Writes the cache of `corpus` to `path`; alignments that are to be learned from the text are
/// learned before.
pub(super) fn build(
    path: &Path,
    key: &[u8; 32],
    corpus: &Corpus,
    tokenizers: &Tokenizers,
    filter: Option<&dyn Filter>,
    progress: &mut Progress,
) -> Result<(), DataError> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(DataError::io(dir))?;
    }
    if !corpus.learns_alignments() {
        return encode(path, key, corpus, tokenizers, filter, progress);
    }
    let states = path.with_extension("alignment");
    let (corpus, states) =
        corpus.learn_alignments(&states, |AlignProgress { done, all, .. }| {
            progress(Stage::Aligning, done * 100 / all);
        })?;
    encode(path, key, &corpus, tokenizers, filter, progress)?;
    states.remove()
}

/// Writes the cache of a corpus whose alignments are known.
fn encode(
    path: &Path,
    key: &[u8; 32],
    corpus: &Corpus,
    tokenizers: &Tokenizers,
    filter: Option<&dyn Filter>,
    progress: &mut Progress,
) -> Result<(), DataError> {
    let new = NewFile::create(path).map_err(DataError::io(path))?;
    let output = Output::new(new.file(), path).map_err(DataError::io(path))?;
    let mut builder = Builder::new(corpus, tokenizers, filter, output);
    let sample = corpus.sample();
    for (index, part) in corpus.parts().iter().enumerate() {
        let remaining = match corpus.max_examples() {
            Some(count) => count.saturating_sub(builder.report.pairs),
            None => u64::MAX,
        };
        builder.add_part(
            part,
            remaining,
            |line| sample.as_ref().is_none_or(|sample| sample.has(index, line)),
            progress,
        )?;
    }
    builder.finish(key)?;
    new.commit().map_err(DataError::io(path))
}

/// Encodes the parts of a corpus one after the other, and writes their ids at once. The tables are
/// kept in memory until the end.
struct Builder<'a> {
    tokenizers: &'a Tokenizers,
    filter: Option<&'a dyn Filter>,
    width: IdWidth,
    output: Output<'a>,
    report: CorpusReport,
    src_lens: Vec<u16>,
    tgt_lens: Vec<u16>,
    num_links: Vec<u16>,
    num_ids: u64,
    /// The line of each example in its part, counted from 1.
    lines: Vec<u32>,
    /// Whether links are written: at least one part has alignments, or words have tags.
    aligned: bool,
    /// Whether the targets are tags, each linked to its word.
    is_tagged: bool,
    /// Whether the current part has one side only.
    is_text: bool,
    /// The ids that the sources and the targets of the current part begin with.
    tags: [Vec<u32>; 2],
}

/// A pair as ids, and the links between its tokens.
struct Encoded {
    example: Example,
    links: Vec<Link>,
    /// Why training leaves it out, if it does.
    left_out: Option<Reason>,
}

/// Pairs that are encoded together, on all cores.
struct Chunk {
    /// The line of each pair in its part, counted from 1.
    lines: Vec<u64>,
    pairs: Vec<Pair>,
}

impl<'a> Builder<'a> {
    fn new(
        corpus: &Corpus,
        tokenizers: &'a Tokenizers,
        filter: Option<&'a dyn Filter>,
        output: Output<'a>,
    ) -> Self {
        let is_tagged = corpus.content().target == TargetKind::Tags;
        let aligned = is_tagged || corpus.parts().iter().any(Part::is_aligned);
        // A link position may be as large as a length, which does not fit into the 15 bits that the
        // word-start flag leaves.
        let width = if aligned {
            IdWidth::Wide
        } else {
            IdWidth::for_vocab(tokenizers.src.vocab_size().max(tokenizers.tgt.vocab_size()))
        };
        Self {
            tokenizers,
            filter,
            width,
            output,
            report: CorpusReport::default(),
            src_lens: Vec::new(),
            tgt_lens: Vec::new(),
            num_links: Vec::new(),
            num_ids: 0,
            lines: Vec::new(),
            aligned,
            is_tagged,
            is_text: false,
            tags: [Vec::new(), Vec::new()],
        }
    }

    /// Adds the first `limit` pairs of a part whose lines, counted from 1, are drawn.
    fn add_part(
        &mut self,
        part: &Part,
        limit: u64,
        is_drawn: impl Fn(u64) -> bool,
        progress: &mut Progress,
    ) -> Result<(), DataError> {
        self.report.parts.push(PartReport {
            name: part.name(),
            pairs: 0,
            kept: 0,
        });
        self.is_text = part.is_text();
        self.tags = part.tags().ids(self.tokenizers)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let drawn = (1..).zip(part.pairs()?).filter(|(line, _)| is_drawn(*line));
        let mut pairs = drawn.take(limit).peekable();
        // A part with alignments is never sampled, so its links and its pairs advance together.
        let mut alignments = part.alignments()?.map(|alignments| alignments.take(limit));
        while pairs.peek().is_some() {
            let chunk = Chunk::read(&mut pairs)?;
            let encoded = match &mut alignments {
                Some(alignments) => self.encode_aligned_chunk(&chunk, alignments, part)?,
                None if self.is_tagged => self.encode_tagged_chunk(&chunk, part)?,
                None => self.encode_chunk(&chunk)?,
            };
            let mut bytes = Vec::new();
            for (line, encoded) in chunk.lines.into_iter().zip(&encoded) {
                self.add(line, encoded, &mut bytes);
            }
            self.output.write(&bytes)?;
            progress(Stage::Encoding, self.report.pairs);
        }
        // A file with more lines than the corpus belongs to another corpus, or is shifted.
        if alignments.is_some_and(|mut alignments| alignments.next().is_some()) {
            return Err(part.uneven_alignments(self.pairs_of_part() + 1));
        }
        // Examples are numbered with 32 bits.
        if self.src_lens.len() > u32::MAX as usize {
            return Err(damaged(
                self.output.path,
                "it would hold more than 2^32 examples",
            ));
        }
        Ok(())
    }

    /// The number of pairs of the current part that were added so far.
    fn pairs_of_part(&self) -> u64 {
        self.report.parts.last().map_or(0, |part| part.pairs)
    }

    fn encode_chunk(&self, chunk: &Chunk) -> Result<Vec<Encoded>, DataError> {
        chunk
            .pairs
            .par_iter()
            .map(|pair| self.encode(pair))
            .collect()
    }

    fn encode_tagged_chunk(&self, chunk: &Chunk, part: &Part) -> Result<Vec<Encoded>, DataError> {
        chunk
            .pairs
            .par_iter()
            .zip(&chunk.lines)
            .map(|(pair, sentence)| self.encode_tagged(pair, *sentence, part))
            .collect()
    }

    /// Encodes pairs with the links that `alignments` yields next, one list for each pair.
    fn encode_aligned_chunk(
        &self,
        chunk: &Chunk,
        alignments: &mut impl Iterator<Item = Result<Vec<Link>, DataError>>,
        part: &Part,
    ) -> Result<Vec<Encoded>, DataError> {
        let links: Vec<Vec<Link>> = alignments
            .take(chunk.pairs.len())
            .collect::<Result<_, _>>()?;
        let first_line = self.pairs_of_part() + 1;
        if links.len() < chunk.pairs.len() {
            return Err(part.uneven_alignments(first_line + links.len() as u64));
        }
        let aligned = chunk.pairs.par_iter().zip(&links).enumerate();
        aligned
            .map(|(index, (pair, links))| {
                self.encode_aligned(pair, links)?
                    .ok_or_else(|| part.link_beyond(first_line + index as u64))
            })
            .collect()
    }

    /// Encodes both sides, behind the tags of the part. A side that consists of whitespace is empty,
    /// even if the tokenizer has tokens for spaces.
    fn encode(&self, pair: &Pair) -> Result<Encoded, DataError> {
        let [src_tags, tgt_tags] = &self.tags;
        let example = Example {
            src: encode_side(&pair.src, &self.tokenizers.src, src_tags)?,
            tgt: encode_side(&pair.tgt, &self.tokenizers.tgt, tgt_tags)?,
        };
        let tgt_len = example.tgt.len();
        let candidate = Candidate {
            pair,
            src_len: if self.is_text {
                tgt_len
            } else {
                example.src.len()
            },
            tgt_len,
        };
        Ok(Encoded {
            left_out: left_out(self.filter, &candidate),
            example,
            links: Vec::new(),
        })
    }

    /// Encodes a pair, and turns links between words into links between all their tokens, sorted by
    /// target position.
    ///
    /// `None` if a link refers to a word that does not exist. A pair that is left out gets no
    /// links.
    fn encode_aligned(&self, pair: &Pair, links: &[Link]) -> Result<Option<Encoded>, DataError> {
        let encoded = self.encode(pair)?;
        let num_src = pair.src.split_whitespace().count();
        let num_tgt = pair.tgt.split_whitespace().count();
        if links
            .iter()
            .any(|&(src, tgt)| src >= num_src || tgt >= num_tgt)
        {
            return Ok(None);
        }
        if encoded.left_out.is_some() {
            return Ok(Some(encoded));
        }
        let [src_tags, tgt_tags] = &self.tags;
        let src_tokens = tokens_of_words(&pair.src, num_src, &self.tokenizers.src, src_tags.len())?;
        let tgt_tokens = tokens_of_words(&pair.tgt, num_tgt, &self.tokenizers.tgt, tgt_tags.len())?;
        let mut token_links = Vec::new();
        for &(src, tgt) in links {
            for &tgt in &tgt_tokens[tgt] {
                token_links.extend(src_tokens[src].iter().map(|&src| (src, tgt)));
            }
        }
        token_links.sort_unstable_by_key(|&(src, tgt)| (tgt, src));
        token_links.dedup();
        Ok(Some(Encoded {
            links: token_links,
            ..encoded
        }))
    }

    /// Encodes a tagged sentence, and links the tokens of each word to its tag.
    fn encode_tagged(&self, pair: &Pair, sentence: u64, part: &Part) -> Result<Encoded, DataError> {
        let words = pair.src.split_whitespace().count();
        let tags = pair.tgt.split_whitespace().count();
        if words == tags {
            let links: Vec<Link> = (0..words).map(|word| (word, word)).collect();
            // Each link is between words that exist, so the pair is always encoded.
            if let Some(encoded) = self.encode_aligned(pair, &links)? {
                return Ok(encoded);
            }
        }
        Err(DataError::UnpairedTags {
            corpus: part.name(),
            sentence,
            words,
            tags,
        })
    }

    /// Counts an encoded pair, and appends what is kept of it to `bytes`: source ids, target ids,
    /// links.
    fn add(&mut self, line: u64, encoded: &Encoded, bytes: &mut Vec<u8>) {
        let Encoded {
            example: Example { src, tgt },
            links,
            left_out,
        } = encoded;
        let report = &mut self.report;
        report.pairs += 1;
        let part = report
            .parts
            .last_mut()
            .expect("`add_part` begins a part before it adds to it");
        part.pairs += 1;
        if let Some(reason) = left_out {
            *report.left_out.entry(reason.key.to_owned()).or_default() += 1;
            return;
        }
        part.kept += 1;
        report.kept += 1;
        count_tokens(&mut report.src, src, &self.tokenizers.src);
        count_tokens(&mut report.tgt, tgt, &self.tokenizers.tgt);
        self.width.write(src, bytes);
        self.width.write(tgt, bytes);
        self.num_ids += (src.len() + tgt.len()) as u64;
        if self.aligned {
            self.add_links(links, bytes);
        }
        // The filter has left out longer sides, so that the lengths fit.
        self.src_lens.push(src.len() as u16);
        self.tgt_lens.push(tgt.len() as u16);
        self.lines.push(line as u32);
    }

    /// Appends the links of an example, and their count to its table.
    fn add_links(&mut self, links: &[Link], bytes: &mut Vec<u8>) {
        // Two bytes per count keep the table small. More links in one sentence carry no
        // information: drop them.
        let count = u16::try_from(links.len()).unwrap_or(0);
        for &(src, tgt) in &links[..usize::from(count)] {
            self.width.write(&[src as u32, tgt as u32], bytes);
        }
        self.num_links.push(count);
        self.num_ids += 2 * u64::from(count);
    }

    /// Writes the tables behind the ids, the report and the header.
    fn finish(mut self, key: &[u8; 32]) -> Result<(), DataError> {
        if self.report.kept == 0 {
            return Err(DataError::NothingKept {
                reasons: self.report.to_string(),
            });
        }
        for counts in [&self.src_lens, &self.tgt_lens, &self.num_links] {
            for chunk in counts.chunks(BUFFER_BYTES) {
                let bytes: Vec<u8> = chunk.iter().flat_map(|count| count.to_le_bytes()).collect();
                self.output.write(&bytes)?;
            }
        }
        for chunk in self.lines.chunks(BUFFER_BYTES) {
            let bytes: Vec<u8> = chunk.iter().flat_map(|line| line.to_le_bytes()).collect();
            self.output.write(&bytes)?;
        }
        let path = self.output.path;
        let report = serde_json::to_vec(&self.report)
            .map_err(|error| DataError::io(path)(std::io::Error::other(error)))?;
        self.output.write(&report)?;
        let header = Header {
            key: *key,
            width: self.width,
            examples: self.report.kept,
            ids: self.num_ids,
            aligned: self.num_links.len() as u64,
            report_bytes: report.len() as u64,
            checksum: self.output.crc.sum(),
        };
        self.output.finish(&header).map_err(DataError::io(path))
    }
}

impl Chunk {
    /// Reads the next pairs with their lines, as many as are encoded at a time.
    fn read(
        numbered: &mut impl Iterator<Item = (u64, Result<Pair, DataError>)>,
    ) -> Result<Self, DataError> {
        let mut lines = Vec::new();
        let mut pairs = Vec::new();
        let mut bytes = 0;
        while pairs.len() < PAIRS_PER_CHUNK && bytes < BYTES_PER_CHUNK {
            let Some((line, pair)) = numbered.next() else {
                break;
            };
            let pair = pair?;
            bytes += pair.src.len() + pair.tgt.len();
            lines.push(line);
            pairs.push(pair);
        }
        Ok(Self { lines, pairs })
    }
}

/// The file of a cache, and the checksum of everything behind its header.
struct Output<'a> {
    writer: BufWriter<&'a File>,
    crc: Crc,
    path: &'a Path,
}

impl<'a> Output<'a> {
    /// Begins a file with zeros, which [`Self::finish`] replaces with the header.
    fn new(file: &'a File, path: &'a Path) -> std::io::Result<Self> {
        let mut writer = BufWriter::with_capacity(BUFFER_BYTES, file);
        writer.write_all(&[0; HEADER_BYTES])?;
        Ok(Self {
            writer,
            crc: Crc::new(),
            path,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.crc.update(bytes);
        self.writer
            .write_all(bytes)
            .map_err(DataError::io(self.path))
    }

    /// Writes the header, which is only known now, over the zeros at the start.
    fn finish(mut self, header: &Header) -> std::io::Result<()> {
        self.writer.seek(SeekFrom::Start(0))?;
        self.writer.write_all(&header.to_bytes())?;
        self.writer.flush()
    }
}

/// Adds a sentence to the statistics of its side.
fn count_tokens(side: &mut SideReport, ids: &[u32], tokenizer: &Tokenizer) {
    let unk = tokenizer.special().unk;
    side.tokens += ids.len() as u64;
    side.unknown += ids.iter().filter(|&id| id & !WORD_START == unk).count() as u64;
    side.longest = side.longest.max(ids.len());
}

/// Returns the ids of a side behind `tags`, with the flag at each id that begins a word.
fn encode_side(text: &str, tokenizer: &Tokenizer, tags: &[u32]) -> Result<Vec<u32>, DataError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut ids = tokenizer.encode_marked(text)?;
    // A tag is a word of its own, which new segmentations leave as it is.
    let tags: Vec<u32> = tags.iter().map(|tag| tag | WORD_START).collect();
    prepend(&tags, &mut ids);
    Ok(ids)
}

/// Returns for each word the positions of its tokens, behind `num_tags` tags.
fn tokens_of_words(
    text: &str,
    num_words: usize,
    tokenizer: &Tokenizer,
    num_tags: usize,
) -> Result<Vec<Vec<usize>>, DataError> {
    let mut tokens = vec![Vec::new(); num_words];
    let words = tokenizer.encode_words(text)?.1;
    for (token, word) in (num_tags..).zip(words) {
        // Text that consists of whitespace may have tokens, but has no words.
        if let Some(tokens) = tokens.get_mut(word) {
            tokens.push(token);
        }
    }
    Ok(tokens)
}
