//! A reader that counts lines, and ends with an error where it is read further than allowed.

use std::io::{self, BufRead, Read};

/// Reads from `inner` no more bytes than were allowed last.
pub(super) struct Bounded<R> {
    inner: R,
    line_feeds: u64,
    /// Bytes that may still be read.
    left: usize,
}

impl<R> Bounded<R> {
    /// Makes a reader that may not read anything yet.
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            line_feeds: 0,
            left: 0,
        }
    }

    /// Allows `num_bytes` to be read from here on.
    pub(super) fn allow(&mut self, num_bytes: usize) {
        self.left = num_bytes;
    }

    /// The number of the line that is read, counted from 1.
    pub(super) fn line(&self) -> u64 {
        self.line_feeds + 1
    }
}

impl<R: BufRead> Bounded<R> {
    /// Whether there is nothing left to read.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.inner.fill_buf().is_ok_and(<[u8]>::is_empty)
    }
}

impl<R: BufRead> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left == 0 {
            return Err(io::Error::other("a tag or a text is longer than any is"));
        }
        self.inner.fill_buf()
    }

    fn consume(&mut self, num_bytes: usize) {
        // What is consumed is in the buffer, so this reads nothing.
        if let Ok(buffer) = self.inner.fill_buf() {
            let consumed = &buffer[..num_bytes.min(buffer.len())];
            let lines = consumed.split(|&byte| byte == b'\n');
            self.line_feeds += lines.count() as u64 - 1;
        }
        self.left = self.left.saturating_sub(num_bytes);
        self.inner.consume(num_bytes);
    }
}

impl<R: BufRead> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let num_bytes = self.fill_buf()?.read(buffer)?;
        self.consume(num_bytes);
        Ok(num_bytes)
    }
}
