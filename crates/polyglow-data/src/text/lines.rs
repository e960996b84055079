//! Reading a text file line by line: plain, gzip or zstd, with or without a byte-order mark, Unix or
//! Windows line ends.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use super::compression::decompress;
use super::encoding::guess;
use super::raw_bytes;
use crate::error::DataError;

const BYTE_ORDER_MARK: &str = "\u{feff}";
/// Bytes of the longest line: more than any sentence has, and few enough to be tokenized in
/// seconds, in a hundred times their memory.
pub(super) const MAX_LINE_BYTES: usize = 16 << 20;

/// Iterates over the lines of a file, without their ends, in constant memory.
///
/// Only `\n` and `\r\n` end a line. Other line separators of Unicode are content, as they are for
/// the tools that make parallel corpora: splitting there would shift one side against the other.
pub struct Lines {
    reader: Box<dyn BufRead + Send>,
    path: PathBuf,
    read: u64,
    buffer: Vec<u8>,
    /// Whether a line before had a character beyond ASCII.
    had_accents: bool,
    /// Whether bytes that are no UTF-8 become characters, and are no error.
    keeps_raw_bytes: bool,
}

impl Lines {
    /// Opens a file. Gzip and zstd are recognized by their first bytes, not by the name.
    ///
    /// # Errors
    /// [`DataError::Io`] if the file cannot be opened; [`DataError::CarriageReturns`] and
    /// [`DataError::Encoding`] for a text that is not in lines of UTF-8.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let file = File::open(path).map_err(DataError::io(path))?;
        Self::from_content(file, path)
    }

    /// Reads the lines of the whole content of a file, which is stored in another file; `name`
    /// appears in error messages.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn from_content(
        content: impl Read + Send + 'static,
        name: &Path,
    ) -> Result<Self, DataError> {
        let mut lines = Self::from_reader(content, name)?;
        let start = lines.reader.fill_buf();
        let start = start.map_err(|error| unreadable(name, 1, error))?;
        if guess::has_carriage_returns_alone(start) {
            return Err(DataError::CarriageReturns {
                path: name.to_owned(),
            });
        }
        Ok(lines)
    }

    /// Reads lines from `reader`, for example standard input; `name` appears in error messages.
    ///
    /// # Errors
    /// [`DataError::Io`] if the first bytes cannot be read, [`DataError::Encoding`] if they are
    /// UTF-16.
    pub fn from_reader(reader: impl Read + Send + 'static, name: &Path) -> Result<Self, DataError> {
        let mut reader = decompress(reader, name)?;
        let start = reader.fill_buf();
        let start = start.map_err(|error| unreadable(name, 1, error))?;
        if let Some(encoding) = guess::from_start(start) {
            return Err(DataError::Encoding {
                path: name.to_owned(),
                encoding,
            });
        }
        Ok(Self {
            reader,
            path: name.to_owned(),
            read: 0,
            buffer: Vec::new(),
            had_accents: false,
            keeps_raw_bytes: false,
        })
    }

    /// Reads bytes that are no UTF-8 as characters that stand for them ([`raw_bytes`]) from here on, if
    /// `keeps` says so.
    pub(super) fn keeping_raw_bytes(self, keeps: bool) -> Self {
        Self {
            keeps_raw_bytes: keeps,
            ..self
        }
    }

    /// Number of lines read so far: the line number, counted from 1, of the last one.
    pub fn line(&self) -> u64 {
        self.read
    }

    /// The path that was opened, or the name that was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the bytes of the next line into the buffer, without the line end. Returns whether
    /// there is a line.
    fn fill_buffer(&mut self) -> Result<bool, DataError> {
        self.buffer.clear();
        // One byte more, to tell a line of exactly that length from a longer one.
        let mut reader = (&mut self.reader).take(MAX_LINE_BYTES as u64 + 1);
        let num_bytes = reader
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| unreadable(&self.path, self.read + 1, error))?;
        if num_bytes == 0 {
            return Ok(false);
        }
        if self.read == 0 && self.buffer == BYTE_ORDER_MARK.as_bytes() {
            // A file that contains a byte-order mark and nothing else is empty.
            return Ok(false);
        }
        self.read += 1;
        if self.buffer.ends_with(b"\n") {
            self.buffer.pop();
            if self.buffer.ends_with(b"\r") {
                self.buffer.pop();
            }
        }
        if self.buffer.len() > MAX_LINE_BYTES {
            return Err(DataError::LongLine {
                path: self.path.clone(),
                line: self.read,
                limit: MAX_LINE_BYTES,
            });
        }
        Ok(true)
    }

    /// Reads the next line; `None` at the end of the file.
    fn read_line(&mut self) -> Result<Option<String>, DataError> {
        if !self.fill_buffer()? {
            return Ok(None);
        }
        if self.read == 1 && self.buffer.starts_with(BYTE_ORDER_MARK.as_bytes()) {
            self.buffer.drain(..BYTE_ORDER_MARK.len());
        }
        let text = match str::from_utf8(&self.buffer) {
            Ok(text) => text,
            Err(_) if self.keeps_raw_bytes => return Ok(Some(raw_bytes::keep(&self.buffer))),
            Err(error) => {
                let byte = error.valid_up_to() + 1;
                return Err(self.invalid(byte));
            }
        };
        self.had_accents |= !text.is_ascii();
        Ok(Some(text.to_owned()))
    }

    /// Makes the error of the line in the buffer, whose byte number `byte` is not UTF-8.
    fn invalid(&mut self, byte: usize) -> DataError {
        // The text after the line helps to tell a damaged byte from another encoding. Where it
        // cannot be read, the guess is by the line alone.
        let next = self.reader.fill_buf().unwrap_or_default();
        let sample = [&self.buffer[..], b"\n", next].concat();
        let encoding = guess::from_invalid(&sample, self.had_accents);
        DataError::InvalidUtf8 {
            path: self.path.clone(),
            line: self.read,
            byte,
            encoding,
        }
    }
}

/// Makes the error that a file cannot be read from a line on.
fn unreadable(path: &Path, line: u64, error: io::Error) -> DataError {
    if error.kind() != io::ErrorKind::UnexpectedEof {
        return DataError::io(path)(error);
    }
    DataError::CutOff {
        path: path.to_owned(),
        line,
        problem: "cannot be read: the compressed data ends too early".to_owned(),
    }
}

impl Iterator for Lines {
    type Item = Result<String, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read_line().transpose()
    }
}

/// Reads all of `reader`, plain, gzip or zstd, and keeps every character, including a byte-order mark and
/// the line ends.
///
/// `name` appears in error messages.
///
/// # Errors
/// [`DataError::Io`] if it cannot be read, [`DataError::InvalidUtf8`] if it is not UTF-8.
pub fn read_text(reader: impl Read + Send + 'static, name: &Path) -> Result<String, DataError> {
    let mut bytes = Vec::new();
    decompress(reader, name)?
        .read_to_end(&mut bytes)
        .map_err(DataError::io(name))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line_start = valid
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |end| end + 1);
        let line = valid.split(|&byte| byte == b'\n').count() as u64;
        let encoding = guess::from_invalid(&error.as_bytes()[line_start..], !valid.is_ascii());
        DataError::InvalidUtf8 {
            path: name.to_owned(),
            line,
            byte: valid.len() - line_start + 1,
            encoding,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn lines(bytes: &[u8]) -> Result<Vec<String>, DataError> {
        Lines::from_reader(std::io::Cursor::new(bytes.to_vec()), Path::new("text"))?.collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn only_line_feeds_end_lines() {
        let text = "a\u{2028}b\u{85}c\u{a0}d\te\x0bf\x0cg\rh\r\n\r\ni";
        assert_eq!(
            lines(text.as_bytes()).unwrap(),
            ["a\u{2028}b\u{85}c\u{a0}d\te\x0bf\x0cg\rh", "", "i"]
        );
    }

    #[test]
    fn a_byte_order_mark_is_no_content_but_only_at_the_start() {
        assert_eq!(
            lines("\u{feff}a\n\u{feff}b\n".as_bytes()).unwrap(),
            ["a", "\u{feff}b"]
        );
        assert_eq!(lines("\u{feff}\n".as_bytes()).unwrap(), [""]);
        assert!(lines("\u{feff}".as_bytes()).unwrap().is_empty());
    }

    #[test]
    fn every_member_of_a_gzip_file_is_read() {
        let bytes = [gzip(b"a\nb"), gzip(b"c\n")].concat();
        assert_eq!(lines(&bytes).unwrap(), ["a", "bc"]);
    }

    #[test]
    fn a_truncated_gzip_file_is_an_error() {
        let bytes = gzip(&b"some words\n".repeat(1000));
        let error = lines(&bytes[..bytes.len() - 9]).unwrap_err();
        assert!(error.is_early_end(), "{error}");
    }

    #[test]
    fn invalid_utf8_is_named_by_line_and_byte() {
        let error = lines(b"fine\nab\xff\n").unwrap_err().to_string();
        assert_eq!(error, "`text` line 2: invalid UTF-8 at byte 3 of the line");
    }

    #[test]
    fn bytes_that_are_no_utf8_can_be_kept() {
        let bytes = std::io::Cursor::new(b"\xef\xbb\xbfa\xe9\nab\xff\n\xc3\xa9".to_vec());
        let lines = Lines::from_reader(bytes, Path::new("text")).unwrap();
        let lines: Vec<String> = lines.keeping_raw_bytes(true).map(Result::unwrap).collect();
        assert_eq!(lines, ["a\u{10ffe9}", "ab\u{10ffff}", "é"]);
    }

    #[test]
    fn a_text_in_utf_16_is_no_text_of_nul_characters() {
        let bytes: Vec<u8> = "The dog sleeps.\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        for bytes in [bytes.clone(), gzip(&bytes)] {
            let error = lines(&bytes).unwrap_err();
            assert_eq!(error.to_string(), "`text` is in UTF-16, not in UTF-8");
            assert!(
                error
                    .hint()
                    .is_some_and(|hint| hint.contains("iconv -f UTF-16LE -t UTF-8")),
                "{error}"
            );
        }
    }

    #[test]
    fn lines_that_end_in_carriage_returns_alone_are_an_error_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        for bytes in [&b"one\rtwo\rthree"[..], b"one\r"] {
            std::fs::write(&path, bytes).unwrap();
            let error = Lines::open(&path).map(drop).unwrap_err();
            assert!(
                error
                    .to_string()
                    .ends_with("text` has no line feed: its lines end in carriage returns alone"),
                "{error}"
            );
            assert!(
                error
                    .hint()
                    .is_some_and(|hint| hint.contains("tr '\\r' '\\n'")),
                "{error}"
            );
        }
        std::fs::write(&path, b"one\rtwo\r\nthree").unwrap();
        assert_eq!(
            Lines::open(&path)
                .unwrap()
                .collect::<Result<Vec<_>, _>>()
                .unwrap(),
            ["one\rtwo", "three"]
        );
    }

    #[test]
    fn a_line_without_end_is_not_read_to_its_end() {
        let longest = "a".repeat(MAX_LINE_BYTES - 1);
        let text = format!("b\n{longest}\nc\n");
        assert_eq!(lines(text.as_bytes()).unwrap(), ["b", &*longest, "c"]);
        // A terabyte of one line, of which only the limit is read.
        let endless = std::io::repeat(b'a').take(1 << 40);
        let error = Lines::from_reader(endless, Path::new("text"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap_err();
        assert_eq!(error.to_string(), "`text` line 1: longer than 16 MiB");
    }

    #[test]
    fn a_whole_text_keeps_its_marks_and_names_the_place_of_a_wrong_byte() {
        let read = |bytes: Vec<u8>| read_text(std::io::Cursor::new(bytes), Path::new("text"));
        let text = "\u{feff}a\r\nb \n";
        assert_eq!(read(text.into()).unwrap(), text);
        assert_eq!(read(gzip(text.as_bytes())).unwrap(), text);
        for (bytes, place) in [
            (&b"fine\nab\xff\n"[..], "line 2: invalid UTF-8 at byte 3"),
            (b"\xff", "line 1: invalid UTF-8 at byte 1"),
        ] {
            let error = read(bytes.to_vec()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`text` {place}")), "{error}");
        }
    }
}
