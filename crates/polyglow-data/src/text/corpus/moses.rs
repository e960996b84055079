//! Parallel text in a zip archive, a member for each side, as OPUS distributes it in Moses format.
//!
//! Nothing is unpacked to disk: each side reads its own part of the archive, and both are read in
//! parallel, line by line.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use zip::read::ZipFileEntry;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::compression::plain_name;
use crate::error::DataError;
use crate::lines::Lines;

/// The folder in which macOS stores attributes of the other members, under their names.
const MAC_ATTRIBUTES: &str = "__MACOSX/";
/// The most members that a message lists.
const MOST_LISTED: usize = 8;

/// A member of an archive, as the directory of the archive describes it.
#[derive(Debug, Clone)]
pub(super) struct Member {
    archive: PathBuf,
    name: String,
    /// The offset of its compressed bytes in the archive.
    start: u64,
    compressed_bytes: u64,
    bytes: u64,
    crc: u32,
    is_deflated: bool,
}

impl Member {
    /// The path of the archive.
    pub(super) fn archive(&self) -> &Path {
        &self.archive
    }

    /// The name that it has in the archive.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Opens the archive once more, to read the lines of this member.
    ///
    /// # Errors
    /// [`DataError::Io`] if the archive cannot be read; as [`Lines::open`].
    pub(super) fn lines(&self) -> Result<Lines, DataError> {
        // The name in messages is of no file, but says where the line is.
        let path = PathBuf::from(format!("{}:{}", self.archive.display(), self.name));
        let content = self.content().map_err(DataError::io(&path))?;
        Lines::from_content(content, &path)
    }

    /// Reads the content of this member.
    fn content(&self) -> io::Result<Checked> {
        let mut archive = File::open(&self.archive)?;
        archive.seek(SeekFrom::Start(self.start))?;
        let compressed = archive.take(self.compressed_bytes);
        let content: Box<dyn Read + Send> = if self.is_deflated {
            Box::new(DeflateDecoder::new(compressed))
        } else {
            Box::new(compressed)
        };
        Ok(Checked {
            content,
            bytes: 0,
            crc: Crc::new(),
            expected: (self.bytes, self.crc),
        })
    }
}

/// Reads the content of a member, and compares its length and its checksum at the end.
struct Checked {
    content: Box<dyn Read + Send>,
    bytes: u64,
    crc: Crc,
    expected: (u64, u32),
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let num_bytes = self.content.read(buffer)?;
        self.bytes += num_bytes as u64;
        self.crc.update(&buffer[..num_bytes]);
        let is_end = num_bytes == 0 && !buffer.is_empty();
        if is_end && self.expected != (self.bytes, self.crc.sum()) {
            let problem = "its length or its checksum differs from the archive's directory: the archive is damaged";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok(num_bytes)
    }
}

/// Finds the member of each language in the archive at `path`: the one whose name ends in a dot and
/// the language, whatever its case. Names with `-` and with `_` are the same, as `pt-BR` and
/// `pt_br`.
///
/// # Errors
/// [`DataError::Io`] if the file cannot be opened; [`DataError::BrokenArchive`] if it is not a
/// complete zip archive; [`DataError::Archive`] if there is no such member or more than one pair of
/// them; [`DataError::ArchiveMember`] if one cannot be read or has a path that leaves the archive.
pub(super) fn find_members(path: &Path, languages: [&str; 2]) -> Result<[Member; 2], DataError> {
    let file = File::open(path).map_err(DataError::io(path))?;
    let mut archive =
        ZipArchive::new(BufReader::new(file)).map_err(|error| unreadable(path, &error))?;
    let mut names = Vec::new();
    for index in 0..archive.len() {
        let entry = archive
            .by_index_data(index)
            .map_err(|error| unreadable(path, &error))?;
        let name = entry.name().map_err(|error| unreadable(path, &error))?;
        if entry.is_file() && !name.starts_with(MAC_ATTRIBUTES) {
            names.push((index, name.into_owned()));
        }
    }
    let [src, tgt] = choose(&names, languages).map_err(|problem| wrong(path, problem))?;
    Ok([
        locate(path, &mut archive, src)?,
        locate(path, &mut archive, tgt)?,
    ])
}

/// A member's number in the archive, and its name.
type Numbered = (usize, String);

/// Chooses the members of both languages by their names; returns their numbers, or the problem.
fn choose(names: &[Numbered], languages: [&str; 2]) -> Result<[usize; 2], String> {
    let [src, tgt] = languages.map(|language| {
        let members = names.iter().filter(|(_, name)| ends_in(name, language));
        members.collect::<Vec<_>>()
    });
    for (members, language) in [&src, &tgt].into_iter().zip(languages) {
        if members.is_empty() {
            let there = list(names.iter().map(|(_, name)| format!("`{name}`")));
            return Err(format!(
                "has no member whose name ends in `.{language}`; it has {there}"
            ));
        }
    }
    if let ([(src, _)], [(tgt, _)]) = (&src[..], &tgt[..]) {
        return Ok([*src, *tgt]);
    }
    let mut pairs = Vec::new();
    for src in &src {
        let partners = tgt.iter().filter(|tgt| stem(&tgt.1) == stem(&src.1));
        pairs.extend(partners.map(|tgt| (*src, *tgt)));
    }
    let name_pair = |(src, tgt): &(&Numbered, &Numbered)| format!("`{}` and `{}`", src.1, tgt.1);
    match &pairs[..] {
        [(src, tgt)] => Ok([src.0, tgt.0]),
        [] => {
            let there = list(src.iter().chain(&tgt).map(|(_, name)| format!("`{name}`")));
            Err(format!(
                "has several members of one language, and no two with one name: {there}"
            ))
        }
        _ => Err(format!(
            "has several pairs of members: {}",
            list(pairs.iter().map(name_pair))
        )),
    }
}

/// Whether the last suffix of a member's name is this language.
fn ends_in(name: &str, language: &str) -> bool {
    let Some((_, suffix)) = plain_name(name).rsplit_once('.') else {
        return false;
    };
    let [suffix, language] = [suffix, language].map(|code| code.replace('-', "_"));
    suffix.eq_ignore_ascii_case(&language)
}

/// Returns the name of a member without its language.
fn stem(name: &str) -> &str {
    let plain = plain_name(name);
    plain.rsplit_once('.').map_or(plain, |(stem, _)| stem)
}

/// Joins descriptions of members for a message; it leaves the rest of a long list out.
fn list(members: impl Iterator<Item = String>) -> String {
    let mut members: Vec<String> = members.collect();
    if members.is_empty() {
        return "none".to_owned();
    }
    let more = members.len().saturating_sub(MOST_LISTED);
    members.truncate(MOST_LISTED);
    let listed = members.join(", ");
    if more == 0 {
        listed
    } else {
        format!("{listed} and {more} more")
    }
}

/// Finds where in the archive member number `index` is.
fn locate(
    path: &Path,
    archive: &mut ZipArchive<BufReader<File>>,
    index: usize,
) -> Result<Member, DataError> {
    let entry = archive
        .by_index_data(index)
        .map_err(|error| unreadable(path, &error))?;
    if let Some(problem) = problem_of(&entry) {
        return Err(DataError::ArchiveMember {
            path: path.to_owned(),
            problem,
        });
    }
    let entry = archive
        .by_index_raw(index)
        .map_err(|error| unreadable(path, &error))?;
    let name = entry.name().map_err(|error| unreadable(path, &error))?;
    Ok(Member {
        archive: path.to_owned(),
        name: name.into_owned(),
        start: entry.data_start().unwrap_or_default(),
        compressed_bytes: entry.compressed_size(),
        bytes: entry.size(),
        crc: entry.crc32(),
        is_deflated: entry.compression() == CompressionMethod::DEFLATE,
    })
}

/// Returns why a member cannot be read; `None` if it can.
fn problem_of(entry: &ZipFileEntry) -> Option<String> {
    let name = String::from_utf8_lossy(entry.name_raw());
    if entry.encrypted() {
        return Some(format!("the member `{name}` is encrypted"));
    }
    if entry.enclosed_name().is_none() || name.starts_with(['/', '\\']) {
        return Some(format!(
            "the path of the member `{name}` leads out of the archive"
        ));
    }
    let method = entry.compression();
    let is_known = [CompressionMethod::STORE, CompressionMethod::DEFLATE].contains(&method);
    (!is_known).then(|| {
        format!("the member `{name}` is neither stored nor deflated: its compression is {method}")
    })
}

/// Makes the error of an archive.
fn wrong(path: &Path, problem: String) -> DataError {
    DataError::Archive {
        path: path.to_owned(),
        problem,
    }
}

/// Makes the error of an archive that cannot be read.
fn unreadable(path: &Path, error: &ZipError) -> DataError {
    let problem = error.to_string();
    match error {
        ZipError::UnsupportedArchive(_) => wrong(path, problem),
        _ => DataError::BrokenArchive {
            path: path.to_owned(),
            problem,
        },
    }
}
