//! Compressed files of text: gzip and zstd, both recognized by their first bytes.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::error::DataError;

/// The endings of the names of compressed files, in the order in which they are looked for.
pub(crate) const ENDINGS: [&str; 2] = ["gz", "zst"];
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The last three bytes of the magic number of a frame without content, which a file may begin
/// with; the first is 0x50 to 0x5f.
const ZSTD_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];
const BUFFER_BYTES: usize = 1 << 16;

/// Returns the name that a file has before it is compressed: `train.en` for `train.en.gz`,
/// `train.en.zst` and `train.en`.
///
/// ```
/// use polyglow_data::compression::plain_name;
///
/// assert_eq!(plain_name("train.en.zst"), "train.en");
/// assert_eq!(plain_name("train.en"), "train.en");
/// ```
pub fn plain_name(name: &str) -> &str {
    name.rsplit_once('.')
        .filter(|(_, ending)| ENDINGS.contains(ending))
        .map_or(name, |(plain, _)| plain)
}

/// Decompresses `reader` if its first bytes are those of gzip or zstd; `name` appears in error
/// messages.
pub(crate) fn decompress(
    reader: impl Read + Send + 'static,
    name: &Path,
) -> Result<Box<dyn BufRead + Send>, DataError> {
    let mut plain = BufReader::with_capacity(BUFFER_BYTES, reader);
    let start = plain.fill_buf().map_err(DataError::io(name))?;
    Ok(if start.starts_with(&GZIP_MAGIC) {
        buffered(MultiGzDecoder::new(plain))
    } else if is_zstd(start) {
        buffered(ZstdDecoder::new(plain))
    } else {
        Box::new(plain)
    })
}

/// Puts a buffer before a decoder.
fn buffered(decoder: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder))
}

/// Whether a file that begins with these bytes is in zstd.
fn is_zstd(start: &[u8]) -> bool {
    let is_skippable =
        matches!(start.first(), Some(0x50..=0x5f)) && start[1..].starts_with(&ZSTD_SKIPPABLE);
    start.starts_with(&ZSTD_MAGIC) || is_skippable
}

/// Reads all frames of a file in zstd.
struct ZstdDecoder<R> {
    source: R,
    frame: FrameDecoder,
    is_in_frame: bool,
}

impl<R: BufRead> ZstdDecoder<R> {
    fn new(source: R) -> Self {
        Self {
            source,
            frame: FrameDecoder::new(),
            is_in_frame: false,
        }
    }

    /// Goes to the next frame, or past one without content. Returns whether there is one.
    fn next_frame(&mut self) -> io::Result<bool> {
        if self.source.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.frame.reset(&mut self.source) {
            Ok(()) => self.is_in_frame = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => self.skip(length.into())?,
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(true)
    }

    /// Skips `length` bytes of the source.
    fn skip(&mut self, length: u64) -> io::Result<()> {
        let mut skipped = (&mut self.source).take(length);
        if io::copy(&mut skipped, &mut io::sink())? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Reads content of the open frame; nothing at its end.
    fn read_frame(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.frame.can_collect() == 0 && !self.frame.is_finished() {
            let one_block = BlockDecodingStrategy::UptoBlocks(1);
            if let Err(error) = self.frame.decode_blocks(&mut self.source, one_block) {
                // The decoder does not tell a file that ends from one that is damaged.
                return Err(if self.source.fill_buf()?.is_empty() {
                    io::ErrorKind::UnexpectedEof.into()
                } else {
                    io::Error::other(error)
                });
            }
        }
        let num_bytes = self.frame.read(buffer)?;
        if num_bytes == 0 {
            self.is_in_frame = false;
            let stored = self.frame.get_checksum_from_data();
            if stored.is_some() && stored != self.frame.get_calculated_checksum() {
                return Err(io::Error::other(
                    "the checksum of a zstd frame differs: the file is damaged",
                ));
            }
        }
        Ok(num_bytes)
    }
}

impl<R: BufRead> Read for ZstdDecoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.is_in_frame {
                let num_bytes = self.read_frame(buffer)?;
                if num_bytes > 0 {
                    return Ok(num_bytes);
                }
            }
            if !self.next_frame()? {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn zstd(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    fn read(bytes: Vec<u8>) -> Result<Vec<u8>, DataError> {
        let name = Path::new("text");
        let mut content = Vec::new();
        decompress(Cursor::new(bytes), name)?
            .read_to_end(&mut content)
            .map_err(DataError::io(name))?;
        Ok(content)
    }

    #[test]
    fn every_frame_of_a_zstd_file_is_read_and_frames_without_content_are_skipped() {
        let long = "The dog sleeps.\n".repeat(50_000).into_bytes();
        let skippable = b"\x53\x2a\x4d\x18\x04\x00\x00\x00\xff\xff\xff\xff".to_vec();
        let frames = [
            skippable.clone(),
            zstd(&long),
            zstd(b""),
            zstd(b"one\ntw"),
            skippable,
            zstd(b"o\n"),
        ];
        assert_eq!(
            read(frames.concat()).unwrap(),
            [&long, &b"one\ntwo\n"[..]].concat()
        );
    }

    #[test]
    fn a_file_that_the_zstd_program_has_written_is_read() {
        // `printf 'The dog sleeps.\nDer Hund schläft.\n' | zstd`, with its checksum.
        let file = b"\x28\xb5\x2f\xfd\x04\x58\x19\x01\x00The dog sleeps.\nDer Hund schl\xc3\xa4ft.\n\xba\x60\x18\x6c";
        let text = "The dog sleeps.\nDer Hund schläft.\n";
        assert_eq!(read(file.to_vec()).unwrap(), text.as_bytes());
        let mut damaged = file.to_vec();
        damaged[12] = b'T';
        let error = format!("{:?}", read(damaged).unwrap_err());
        assert!(
            error.contains("the checksum of a zstd frame differs"),
            "{error}"
        );
    }

    #[test]
    fn a_truncated_zstd_file_is_an_error() {
        let file = zstd(&b"some words\n".repeat(1000));
        for end in 4..file.len() {
            assert!(read(file[..end].to_vec()).is_err(), "{end} bytes");
        }
        let cut_skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00\xff".to_vec();
        assert!(read(cut_skippable).is_err());
        let behind = [zstd(b"a\n"), b"no frame".to_vec()].concat();
        assert!(read(behind).is_err());
    }

    #[test]
    fn only_the_last_ending_is_one_of_compression() {
        for (name, plain) in [
            ("a.en.gz", "a.en"),
            ("a.tmx.zst", "a.tmx"),
            ("a.gz.en", "a.gz.en"),
            ("a.gz.gz", "a.gz"),
            ("gz", "gz"),
            ("a.zip", "a.zip"),
        ] {
            assert_eq!(plain_name(name), plain);
        }
    }
}
