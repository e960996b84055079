//! A new file of text, compressed or not.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::file::NewFile;

/// Bytes of text in a frame of zstd.
const FRAME_BYTES: usize = 1 << 20;

/// The compression of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Packing {
    #[default]
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    pub(super) const ALL: [Self; 3] = [Self::Plain, Self::Gzip, Self::Zstd];

    /// Returns the ending of the names of such files.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
        }
    }
}

/// A new file, which is compressed while it is written.
pub(super) enum Packed {
    Plain(BufWriter<NewFile>),
    Gzip(Box<GzEncoder<BufWriter<NewFile>>>),
    Zstd(ZstdWriter),
}

impl Packed {
    /// Creates the file under a temporary name.
    ///
    /// # Errors
    /// It cannot be created.
    pub(super) fn create(path: &Path, packing: Packing) -> io::Result<Self> {
        let file = BufWriter::new(NewFile::create(path)?);
        Ok(match packing {
            Packing::Plain => Self::Plain(file),
            Packing::Gzip => Self::Gzip(Box::new(GzEncoder::new(file, Compression::default()))),
            Packing::Zstd => Self::Zstd(ZstdWriter {
                file,
                frame: Vec::with_capacity(FRAME_BYTES),
            }),
        })
    }

    /// Completes the file, and gives it its name.
    ///
    /// # Errors
    /// The disk refuses.
    pub(super) fn commit(self) -> io::Result<()> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Zstd(mut writer) => {
                writer.end_frame()?;
                writer.file
            }
        };
        file.into_inner()?.commit()
    }
}

impl Write for Packed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(writer) => writer.file.flush(),
        }
    }
}

/// Compresses text in frames, one after the other, which makes a file of zstd: the library's own writer
/// of a stream panics on a full disk.
pub(super) struct ZstdWriter {
    file: BufWriter<NewFile>,
    /// The text of the next frame.
    frame: Vec<u8>,
}

impl ZstdWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = FRAME_BYTES - self.frame.len();
        let taken = &bytes[..room.min(bytes.len())];
        self.frame.extend_from_slice(taken);
        if self.frame.len() == FRAME_BYTES {
            self.end_frame()?;
        }
        Ok(taken.len())
    }

    fn end_frame(&mut self) -> io::Result<()> {
        let frame = compress_to_vec(&self.frame[..], CompressionLevel::Fastest);
        self.frame.clear();
        self.file.write_all(&frame)
    }
}
