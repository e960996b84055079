//! The file format of the id cache. All numbers are little-endian.
//!
//! The header:
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 8 | `polyids` and the version of the format |
//! | 8 | 32 | the key: a hash of everything that the content depends on |
//! | 40 | 8 | number of examples |
//! | 48 | 8 | number of ids of all examples, counting a link as two |
//! | 56 | 8 | number of bytes of the report |
//! | 64 | 4 | bytes per id: 2 or 4 |
//! | 68 | 4 | CRC-32 of everything after the header |
//! | 72 | 8 | number of link counts: as many as examples, or 0 |
//!
//! The content that follows:
//!
//! 1. for each example its source ids, its target ids, and its links as pairs of positions, each
//!    in the width of an id;
//! 2. the source lengths of all examples, the target lengths, and the link counts, two bytes each;
//! 3. the line of each example in its corpus, four bytes each;
//! 4. the report as JSON.
//!
//! The tables come after the ids, because a builder streams ids to the disk and knows the lengths
//! only at the end. Only the lengths are held in memory; they give the offset of any example.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::Crc;

use crate::error::DataError;
use crate::example::CorpusReport;
use crate::tokenizer::WORD_START;

const MAGIC: [u8; 8] = *b"polyids\x02";
pub(super) const HEADER_BYTES: usize = 80;
/// The highest bit of a 2-byte id, which is set if the token begins a word.
const NARROW_WORD_START: u16 = 1 << 15;
const LENGTH_BYTES: u64 = 2;
const LINE_BYTES: u64 = 4;
const BUFFER_BYTES: usize = 1 << 20;

/// Bytes per id: two if all ids fit next to the word-start flag, and otherwise four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdWidth {
    Narrow,
    Wide,
}

/// The header of the file, whose fields the module's documentation describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) key: [u8; 32],
    pub(super) width: IdWidth,
    pub(super) examples: u64,
    /// Number of ids of all examples, counting a link as two.
    pub(super) ids: u64,
    /// Number of entries in the table of link counts: as many as examples, or 0 if the text is not
    /// aligned.
    pub(super) aligned: u64,
    pub(super) report_bytes: u64,
    /// CRC-32 of everything after the header.
    pub(super) checksum: u32,
}

/// The content of the file but for the ids and the lines, which stay on disk.
pub(super) struct Tables {
    pub(super) src_lens: Vec<u16>,
    pub(super) tgt_lens: Vec<u16>,
    /// Number of links of each example; empty if the text is not aligned.
    pub(super) num_links: Vec<u16>,
    pub(super) report: CorpusReport,
}

impl IdWidth {
    /// The narrowest width that has room for all ids of a vocabulary and the word-start flag.
    pub(super) fn for_vocab(vocab_size: usize) -> Self {
        if vocab_size <= usize::from(NARROW_WORD_START) {
            Self::Narrow
        } else {
            Self::Wide
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Narrow => 2,
            Self::Wide => 4,
        }
    }

    /// Appends ids to `bytes`.
    pub(super) fn write(self, ids: &[u32], bytes: &mut Vec<u8>) {
        for &id in ids {
            match self {
                Self::Narrow => {
                    let flag = if id & WORD_START == 0 {
                        0
                    } else {
                        NARROW_WORD_START
                    };
                    bytes.extend((id as u16 | flag).to_le_bytes());
                }
                Self::Wide => bytes.extend(id.to_le_bytes()),
            }
        }
    }

    /// Reads all ids in `bytes`.
    fn read(self, bytes: &[u8]) -> Vec<u32> {
        match self {
            Self::Narrow => bytes
                .as_chunks()
                .0
                .iter()
                .map(|&two| widen(u16::from_le_bytes(two)))
                .collect(),
            Self::Wide => bytes
                .as_chunks()
                .0
                .iter()
                .map(|&four| u32::from_le_bytes(four))
                .collect(),
        }
    }
}

impl Header {
    pub(super) fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..40].copy_from_slice(&self.key);
        bytes[40..48].copy_from_slice(&self.examples.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.ids.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.report_bytes.to_le_bytes());
        bytes[64..68].copy_from_slice(&(self.width.bytes() as u32).to_le_bytes());
        bytes[68..72].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[72..].copy_from_slice(&self.aligned.to_le_bytes());
        bytes
    }

    /// Reads the header, and checks that it has this `key` and fits the length of the file.
    pub(super) fn read(file: &File, path: &Path, key: &[u8; 32]) -> Result<Self, DataError> {
        let mut bytes = [0; HEADER_BYTES];
        read_at(file, &mut bytes, 0).map_err(DataError::io(path))?;
        let width = match u32_at(&bytes, 64) {
            2 => IdWidth::Narrow,
            4 => IdWidth::Wide,
            _ => return Err(damaged(path, "its header is not ours")),
        };
        let header = Self {
            key: *key,
            width,
            examples: u64_at(&bytes, 40),
            ids: u64_at(&bytes, 48),
            aligned: u64_at(&bytes, 72),
            report_bytes: u64_at(&bytes, 56),
            checksum: u32_at(&bytes, 68),
        };
        if header.aligned != 0 && header.aligned != header.examples {
            return Err(damaged(path, "only a part of it is aligned"));
        }
        // The bytes that were not read above: the magic number and the key.
        if header.to_bytes() != bytes {
            return Err(damaged(
                path,
                "it belongs to another corpus, tokenizer or version",
            ));
        }
        let length = file.metadata().map_err(DataError::io(path))?.len();
        if header.file_bytes() != Some(length) {
            return Err(damaged(path, "its length does not fit its header"));
        }
        Ok(header)
    }

    /// The length of the whole file; `None` if the numbers in the header overflow.
    fn file_bytes(&self) -> Option<u64> {
        let ids = self.ids.checked_mul(self.width.bytes() as u64)?;
        let num_lengths = self.examples.checked_mul(2)?.checked_add(self.aligned)?;
        let lengths = num_lengths.checked_mul(LENGTH_BYTES)?;
        let lines = self.examples.checked_mul(LINE_BYTES)?;
        (HEADER_BYTES as u64)
            .checked_add(ids)?
            .checked_add(lengths)?
            .checked_add(lines)?
            .checked_add(self.report_bytes)
    }
}

fn u64_at(bytes: &[u8], start: usize) -> u64 {
    bytes[start..]
        .first_chunk()
        .map_or(0, |eight| u64::from_le_bytes(*eight))
}

fn u32_at(bytes: &[u8], start: usize) -> u32 {
    bytes[start..]
        .first_chunk()
        .map_or(0, |four| u32::from_le_bytes(*four))
}

/// Reads everything after the header once, verifies its checksum, and returns the small tables.
pub(super) fn read_tables(
    mut file: &File,
    path: &Path,
    header: &Header,
) -> Result<Tables, DataError> {
    file.seek(SeekFrom::Start(HEADER_BYTES as u64))
        .map_err(DataError::io(path))?;
    let mut body = Body {
        reader: BufReader::with_capacity(BUFFER_BYTES, file),
        crc: Crc::new(),
        path,
    };
    body.skip(header.ids * header.width.bytes() as u64)?;
    let src_lens = body.lengths(header.examples)?;
    let tgt_lens = body.lengths(header.examples)?;
    let num_links = body.lengths(header.aligned)?;
    body.skip(header.examples * LINE_BYTES)?;
    let mut report = vec![0; header.report_bytes as usize];
    body.read(&mut report)?;
    if body.crc.sum() != header.checksum {
        return Err(damaged(path, "its checksum does not fit"));
    }
    let report =
        serde_json::from_slice(&report).map_err(|_| damaged(path, "its report cannot be read"))?;
    Ok(Tables {
        src_lens,
        tgt_lens,
        num_links,
        report,
    })
}

/// Reads `count` ids after the first `before` ones.
pub(super) fn read_ids(
    file: &File,
    path: &Path,
    width: IdWidth,
    before: u64,
    count: usize,
) -> Result<Vec<u32>, DataError> {
    let mut bytes = vec![0; count * width.bytes()];
    read_at(
        file,
        &mut bytes,
        HEADER_BYTES as u64 + before * width.bytes() as u64,
    )
    .map_err(DataError::io(path))?;
    Ok(width.read(&bytes))
}

/// Reads the line numbers of `examples` examples from `first` on. Before the table of them the file
/// holds this many ids and lengths.
pub(super) fn read_lines(
    file: &File,
    path: &Path,
    width: IdWidth,
    (ids, lengths): (u64, u64),
    first: u32,
    examples: usize,
) -> Result<Vec<u32>, DataError> {
    let start = HEADER_BYTES as u64 + ids * width.bytes() as u64 + lengths * LENGTH_BYTES;
    let mut bytes = vec![0; examples * LINE_BYTES as usize];
    read_at(file, &mut bytes, start + u64::from(first) * LINE_BYTES)
        .map_err(DataError::io(path))?;
    Ok(bytes
        .as_chunks()
        .0
        .iter()
        .map(|&line| u32::from_le_bytes(line))
        .collect())
}

/// Makes the error that the file at `path` cannot be used, which leads to a new one.
pub(super) fn damaged(path: &Path, problem: &str) -> DataError {
    DataError::Cache {
        path: path.to_owned(),
        problem: problem.to_owned(),
    }
}

/// Everything after the header, read in order, with its checksum so far.
struct Body<'a> {
    reader: BufReader<&'a File>,
    crc: Crc,
    path: &'a Path,
}

impl Body<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), DataError> {
        self.reader
            .read_exact(bytes)
            .map_err(DataError::io(self.path))?;
        self.crc.update(bytes);
        Ok(())
    }

    /// Reads `count` bytes for the checksum alone.
    fn skip(&mut self, mut count: u64) -> Result<(), DataError> {
        let mut buffer = vec![0; BUFFER_BYTES];
        while count > 0 {
            let part = count.min(BUFFER_BYTES as u64) as usize;
            self.read(&mut buffer[..part])?;
            count -= part as u64;
        }
        Ok(())
    }

    /// Reads a table of two-byte numbers.
    fn lengths(&mut self, count: u64) -> Result<Vec<u16>, DataError> {
        let mut lengths = Vec::with_capacity(count as usize);
        let mut buffer = vec![0; BUFFER_BYTES];
        while lengths.len() < count as usize {
            let part = (count as usize - lengths.len()).min(BUFFER_BYTES / 2) * 2;
            self.read(&mut buffer[..part])?;
            lengths.extend(
                buffer[..part]
                    .as_chunks()
                    .0
                    .iter()
                    .map(|&two| u16::from_le_bytes(two)),
            );
        }
        Ok(lengths)
    }
}

/// Returns a 2-byte id as four bytes, with the word-start flag at its highest bit again.
fn widen(id: u16) -> u32 {
    let flag = if id & NARROW_WORD_START == 0 {
        0
    } else {
        WORD_START
    };
    u32::from(id & !NARROW_WORD_START) | flag
}

/// Reads bytes at an offset, without the position of the file, which threads would have to share.
#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => {
                bytes = &mut bytes[read..];
                offset += read as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_their_marks_survive_both_widths() {
        for (vocab_size, width) in [(32_768, IdWidth::Narrow), (32_769, IdWidth::Wide)] {
            assert_eq!(IdWidth::for_vocab(vocab_size), width);
            let largest = vocab_size as u32 - 1;
            let ids = [0, WORD_START, 7, largest, largest | WORD_START];
            let mut bytes = Vec::new();
            width.write(&ids, &mut bytes);
            assert_eq!(bytes.len(), ids.len() * width.bytes());
            assert_eq!(width.read(&bytes), ids);
        }
    }
}
