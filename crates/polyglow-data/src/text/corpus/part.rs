//! One part of a corpus: a file, a pair of files, or an embedded split.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::pairs::{Pairs, Reader};
use crate::alignment::{Link, LinkLines};
use crate::config::GOLD;
use crate::error::DataError;
use crate::image_set::ImageSet;
use crate::labeled::LabeledLines;
use crate::lines::Lines;
use crate::pair::{Pair, by_source};
use crate::tagged::TaggedSentences;

/// One part of a corpus, with its weight.
#[derive(Debug, Clone)]
pub struct Part {
    pub(super) source: Source,
    pub(super) weight: f64,
    pub(super) alignments: Option<Alignments>,
    /// Whether only the targets are read.
    pub(super) is_text: bool,
}

/// Where word alignments come from.
#[derive(Debug, Clone)]
pub(super) enum Alignments {
    Embedded(Arc<Vec<Vec<Link>>>),
    File(PathBuf),
}

/// Where pairs come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Embedded {
        name: String,
        pairs: Arc<Vec<Pair>>,
    },
    TwoFiles {
        src: PathBuf,
        tgt: PathBuf,
    },
    Tsv(PathBuf),
    Text(PathBuf),
    Labeled(PathBuf),
    Tagged(PathBuf),
    Images {
        name: String,
        images: Arc<ImageSet>,
    },
    /// The captions of a file, of images that are in others.
    Captions {
        path: PathBuf,
        pairs: Arc<Vec<Pair>>,
    },
}

/// Iterates over the word alignments of one part, one list of links per pair.
pub type AlignmentStream = Box<dyn Iterator<Item = Result<Vec<Link>, DataError>> + Send>;

impl Part {
    /// How often each pair of this part occurs in an epoch.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// The name of this part in messages: its source file, or the name of the embedded split.
    pub fn name(&self) -> String {
        match &self.source {
            Source::Embedded { name, .. } | Source::Images { name, .. } => name.clone(),
            Source::TwoFiles { src: path, .. }
            | Source::Tsv(path)
            | Source::Text(path)
            | Source::Labeled(path)
            | Source::Tagged(path)
            | Source::Captions { path, .. } => path.display().to_string(),
        }
    }

    /// Streams the pairs of this part.
    ///
    /// # Errors
    /// [`DataError::Io`] if a file cannot be opened. The iterator yields errors for wrong content.
    pub fn pairs(&self) -> Result<Pairs, DataError> {
        let reader = match &self.source {
            Source::Embedded { pairs, .. } | Source::Captions { pairs, .. } => Reader::Embedded {
                pairs: Arc::clone(pairs),
                next: 0,
            },
            Source::TwoFiles { src, tgt } => Reader::TwoFiles {
                src: Lines::open(src)?,
                tgt: Lines::open(tgt)?,
            },
            Source::Tsv(path) => Reader::Tsv(Lines::open(path)?),
            Source::Text(path) => Reader::Text(Lines::open(path)?),
            Source::Labeled(path) => Reader::Labeled {
                lines: LabeledLines::open(path)?,
                path: path.clone(),
                any: false,
            },
            Source::Tagged(path) => Reader::Tagged(TaggedSentences::open(path)?),
            Source::Images { images, .. } => Reader::Images {
                images: Arc::clone(images),
                next: 0,
            },
        };
        Ok(Pairs {
            reader,
            is_text: self.is_text,
        })
    }

    /// Streams the word alignment of every pair; `None` if this part has no alignments.
    ///
    /// # Errors
    /// [`DataError::Io`] if the file cannot be opened. The iterator yields errors for wrong
    /// content.
    pub fn alignments(&self) -> Result<Option<AlignmentStream>, DataError> {
        Ok(match &self.alignments {
            None => None,
            Some(Alignments::Embedded(links)) => {
                let links = Arc::clone(links);
                Some(Box::new(
                    (0..links.len()).map(move |pair| Ok(links[pair].clone())),
                ))
            }
            Some(Alignments::File(path)) => Some(Box::new(LinkLines(Lines::open(path)?))),
        })
    }

    /// The error that either the alignments or the pairs end before `line`.
    pub(crate) fn uneven_alignments(&self, line: u64) -> DataError {
        DataError::AlignmentCount {
            path: self.alignments_path(),
            line,
            corpus: self.name(),
        }
    }

    /// The error that a link on `line` refers to a word that the pair does not have.
    pub(crate) fn link_beyond(&self, line: u64) -> DataError {
        DataError::LinkBeyond {
            path: self.alignments_path(),
            line,
            corpus: self.name(),
        }
    }

    fn alignments_path(&self) -> PathBuf {
        match &self.alignments {
            Some(Alignments::File(path)) => path.clone(),
            _ => PathBuf::from(GOLD),
        }
    }

    /// Whether the pairs of this part have word alignments.
    pub fn is_aligned(&self) -> bool {
        self.alignments.is_some()
    }

    /// Hashes the text and the alignments, but not the weight; and each file by itself.
    pub(super) fn add_to(
        &self,
        hash: &mut Sha256,
        files: &mut Vec<(PathBuf, [u8; 32])>,
    ) -> Result<(), DataError> {
        if self.is_text {
            hash.update(b"one side");
        }
        match &self.alignments {
            None => {}
            Some(Alignments::Embedded(_)) => hash.update(b"embedded alignments"),
            Some(Alignments::File(path)) => {
                hash.update(b"alignments");
                add_file(hash, files, path)?;
            }
        }
        match &self.source {
            Source::Embedded { pairs, .. } => {
                hash.update(b"embedded");
                for pair in pairs.iter() {
                    hash.update([pair.src.as_bytes(), b"\t", pair.tgt.as_bytes(), b"\n"].concat());
                }
                Ok(())
            }
            Source::TwoFiles { src, tgt } => {
                hash.update(b"two files");
                add_file(hash, files, src)?;
                add_file(hash, files, tgt)
            }
            Source::Tsv(path) => {
                hash.update(b"tsv");
                add_file(hash, files, path)
            }
            Source::Text(path) => add_file(hash, files, path),
            Source::Labeled(path) => {
                hash.update(b"labels and texts");
                add_file(hash, files, path)
            }
            Source::Tagged(path) => {
                hash.update(b"tagged");
                add_file(hash, files, path)
            }
            Source::Captions { path, pairs } => {
                hash.update(b"captions");
                add_file(hash, files, path)?;
                // Their sizes tell most images that were replaced, without reading all of them: see
                // `image_hashes`.
                for (image, _) in by_source(pairs) {
                    let bytes = std::fs::metadata(image)
                        .map_err(DataError::io(Path::new(image)))?
                        .len();
                    hash.update(bytes.to_le_bytes());
                }
                Ok(())
            }
            Source::Images { images, .. } => {
                hash.update(b"images");
                hash.update(&images.pixels);
                for &label in &images.label_ids {
                    hash.update(images.labels.names()[label as usize].as_bytes());
                    hash.update(b"\n");
                }
                Ok(())
            }
        }
    }
}

impl Part {
    /// How many pairs it has, if they are in memory.
    pub(super) fn len_in_memory(&self) -> Option<usize> {
        match &self.source {
            Source::Embedded { pairs, .. } | Source::Captions { pairs, .. } => Some(pairs.len()),
            Source::Images { images, .. } => Some(images.len()),
            Source::TwoFiles { .. }
            | Source::Tsv(_)
            | Source::Text(_)
            | Source::Labeled(_)
            | Source::Tagged(_) => None,
        }
    }

    /// SHA-256 of every image that has captions here, in the order in which they occur; nothing of
    /// other parts.
    pub(super) fn image_hashes(&self) -> Result<Vec<(PathBuf, [u8; 32])>, DataError> {
        let Source::Captions { pairs, .. } = &self.source else {
            return Ok(Vec::new());
        };
        by_source(pairs)
            .into_par_iter()
            .map(|(image, _)| image_hash(Path::new(image)))
            .collect()
    }
}

fn image_hash(path: &Path) -> Result<(PathBuf, [u8; 32]), DataError> {
    let bytes = std::fs::read(path).map_err(DataError::io(path))?;
    Ok((path.to_owned(), Sha256::digest(bytes).into()))
}

fn add_file(
    hash: &mut Sha256,
    files: &mut Vec<(PathBuf, [u8; 32])>,
    path: &Path,
) -> Result<(), DataError> {
    let mut file = File::open(path).map_err(DataError::io(path))?;
    let mut buffer = vec![0; 1 << 18];
    let (mut total, mut own) = (0_u64, Sha256::new());
    loop {
        let read = file.read(&mut buffer).map_err(DataError::io(path))?;
        if read == 0 {
            // The length marks where one file ends, so that text moved from one file to the next
            // changes the hash.
            hash.update(total.to_le_bytes());
            files.push((path.to_owned(), own.finalize().into()));
            return Ok(());
        }
        hash.update(&buffer[..read]);
        own.update(&buffer[..read]);
        total += read as u64;
    }
}
