//! Zip archives without compression, as PyTorch writes them and Argos reads them (PKWARE's APPNOTE, sections 4.3 and 4.4).
//!
//! By hand, because a crate for all of the format brings a dozen others along.

use flate2::Crc;

use crate::error::{Context, Result, ensure, failed};

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END_64: u32 = 0x0606_4b50;
/// The version of the format that is needed to read an entry without compression.
const VERSION: u16 = 20;
/// 1980-01-01, the first day that the format knows: the same content gives the same archive.
const DATE: u16 = 0x0021;
/// Stands in 32 bits for a number that is in the 64 of the extra field.
const ELSEWHERE: u64 = u32::MAX as u64;

/// An archive that is being written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    /// The list of entries, which follows them.
    directory: Vec<u8>,
    count: u16,
}

impl Writer {
    /// Adds an entry.
    ///
    /// # Errors
    /// The archive would be larger than 4 GiB.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let mut crc = Crc::new();
        crc.update(content);
        let size = u32::try_from(content.len()).map_err(|_| failed!("`{name}` is larger than 4 GiB"))?;
        let offset = u32::try_from(self.bytes.len()).map_err(|_| failed!("the archive is larger than 4 GiB"))?;
        let mut fields = Vec::new();
        // Flags (bit 11: names are UTF-8), method, time, date, checksum, both sizes, length of the name, of extra fields.
        for number in [VERSION, 1 << 11, 0, 0, DATE] {
            fields.extend(number.to_le_bytes());
        }
        for number in [crc.sum(), size, size] {
            fields.extend(number.to_le_bytes());
        }
        fields.extend((name.len() as u16).to_le_bytes());
        fields.extend(0u16.to_le_bytes());
        self.bytes.extend(LOCAL.to_le_bytes());
        self.bytes.extend(&fields);
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(content);
        self.directory.extend(CENTRAL.to_le_bytes());
        self.directory.extend(VERSION.to_le_bytes());
        self.directory.extend(&fields);
        // Length of the comment, number of the disk, attributes of both kinds.
        self.directory.extend([0; 10]);
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.count += 1;
        Ok(())
    }

    /// The archive.
    ///
    /// # Errors
    /// It is larger than 4 GiB.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        let too_large = |_| failed!("the archive is larger than 4 GiB");
        let offset = u32::try_from(self.bytes.len()).map_err(too_large)?;
        let size = u32::try_from(self.directory.len()).map_err(too_large)?;
        self.bytes.append(&mut self.directory);
        self.bytes.extend(END.to_le_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend([self.count, self.count].map(u16::to_le_bytes).as_flattened());
        self.bytes.extend([size, offset].map(u32::to_le_bytes).as_flattened());
        self.bytes.extend([0; 2]);
        Ok(self.bytes)
    }
}

/// The entries of an archive: names and contents, in their order.
///
/// # Errors
/// It is cut off, contradicts itself, or has compressed entries.
pub(super) fn entries(bytes: &[u8]) -> Result<Vec<(&str, &[u8])>> {
    let archive = Archive(bytes);
    let wrong = "it is no whole zip archive";
    // The end is followed by a comment of at most 64 KiB, which PyTorch's have not.
    let end = (0..=bytes.len().saturating_sub(22)).rev().take(1 << 16).find(|&place| archive.u32(place) == Some(END));
    let end = end.context(wrong)?;
    let (mut count, mut place) = (archive.u16(end + 10).map(u64::from), archive.u32(end + 16).map(u64::from));
    if place == Some(ELSEWHERE) || count == Some(u64::from(u16::MAX)) {
        // A locator before the end says where the end of 64 bits is.
        let end_64 =
            end.checked_sub(12).and_then(|place| archive.u64(place)).and_then(|place| usize::try_from(place).ok());
        let end_64 = end_64.filter(|place| archive.u32(*place) == Some(END_64)).context(wrong)?;
        (count, place) = (archive.u64(end_64 + 32), archive.u64(end_64 + 48));
    }
    let mut place = usize::try_from(place.context(wrong)?).ok().context(wrong)?;
    let mut found = Vec::new();
    for _ in 0..count.context(wrong)? {
        let Entry { name, content, next } = archive.entry(place).context(wrong)?;
        let name = str::from_utf8(name).context("the name of an entry is not UTF-8")?;
        let content =
            content.with_context(|| format!("its entry `{name}` is compressed, cut off, or not where it should be"))?;
        found.push((name, content));
        ensure!(found.len() <= bytes.len() / 46 + 1, "{wrong}");
        place = next;
    }
    Ok(found)
}

struct Archive<'a>(&'a [u8]);

/// An entry of the list.
struct Entry<'a> {
    name: &'a [u8],
    /// None if it is compressed, cut off, or not where it should be.
    content: Option<&'a [u8]>,
    /// Where the next one is.
    next: usize,
}

impl<'a> Archive<'a> {
    fn array<const N: usize>(&self, place: usize) -> Option<[u8; N]> {
        self.0.get(place..place.checked_add(N)?)?.try_into().ok()
    }

    fn u16(&self, place: usize) -> Option<u16> {
        self.array(place).map(u16::from_le_bytes)
    }

    fn u32(&self, place: usize) -> Option<u32> {
        self.array(place).map(u32::from_le_bytes)
    }

    fn u64(&self, place: usize) -> Option<u64> {
        self.array(place).map(u64::from_le_bytes)
    }

    fn slice(&self, place: usize, len: usize) -> Option<&'a [u8]> {
        self.0.get(place..place.checked_add(len)?)
    }

    /// An entry of the list at `place`.
    fn entry(&self, place: usize) -> Option<Entry<'a>> {
        if self.u32(place)? != CENTRAL {
            return None;
        }
        let len = |field: usize| self.u16(place.checked_add(field)?).map(usize::from);
        let (name_len, extra_len, comment_len) = (len(28)?, len(30)?, len(32)?);
        let name = self.slice(place + 46, name_len)?;
        let extra = self.slice(place + 46 + name_len, extra_len)?;
        let next = place + 46 + name_len + extra_len + comment_len;
        Some(Entry { name, content: self.content(place, extra), next })
    }

    fn content(&self, place: usize, extra: &[u8]) -> Option<&'a [u8]> {
        let (method, size, offset) = (self.u16(place + 10)?, self.u32(place + 24)?, self.u32(place + 42)?);
        if method != 0 {
            return None;
        }
        // Those of size, compressed size and offset that do not fit into 32 bits, in this order.
        let mut wide =
            wide(extra).unwrap_or_default().as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let compressed = self.u32(place + 20)?;
        let mut full = |number: u32| if u64::from(number) == ELSEWHERE { wide.next() } else { Some(number.into()) };
        let size = full(size)?;
        full(compressed)?;
        let offset = usize::try_from(full(offset)?).ok()?;
        if self.u32(offset)? != LOCAL {
            return None;
        }
        let name_len = self.u16(offset.checked_add(26)?).map(usize::from)?;
        let extra_len = self.u16(offset.checked_add(28)?).map(usize::from)?;
        self.slice(offset + 30 + name_len + extra_len, usize::try_from(size).ok()?)
    }
}

/// The numbers of 64 bits in an entry's extra fields.
fn wide(mut extra: &[u8]) -> Option<&[u8]> {
    loop {
        let (head, rest) = extra.split_first_chunk::<4>()?;
        let [kind, len] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_le_bytes);
        let (field, rest) = rest.split_at_checked(len.into())?;
        if kind == 1 {
            return Some(field);
        }
        extra = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_cut_off_is_an_error() {
        let mut writer = Writer::default();
        writer.add("a/b.txt", b"one").expect("it fits");
        writer.add("ä", b"").expect("it fits");
        let bytes = writer.finish().expect("it fits");
        assert_eq!(entries(&bytes).expect("it is whole"), [("a/b.txt", &b"one"[..]), ("ä", b"")]);
        for end in 0..bytes.len() {
            assert!(entries(&bytes[..end]).is_err(), "{end}");
        }
        for place in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[place] ^= 0xff;
            // Whatever comes of it, no panic.
            let _ = entries(&bytes);
        }
    }
}
