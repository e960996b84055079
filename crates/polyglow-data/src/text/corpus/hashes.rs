//! Hashes of a corpus, by which a run and ids on disk are told to be of the same text.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::part::{Alignments, Part, Source};
use super::{Corpus, SCORES};
use crate::config::CleanConfig;
use crate::error::DataError;
use crate::image_set::ImageSet;
use crate::pair::{Pair, by_source};
use crate::pair_tags::PairTags;

/// The version of what `data.clean` does: ids that were made by another one are made again.
pub const CLEAN_VERSION: u32 = 10;

/// SHA-256 hashes of a corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusHashes {
    /// The hash of the text of all parts together.
    pub whole: [u8; 32],
    /// The hash of the bytes of each file of text, in the order of the parts.
    pub files: Vec<(PathBuf, [u8; 32])>,
    /// The hash of the bytes of each image that has captions.
    pub images: Vec<(PathBuf, [u8; 32])>,
}

impl Corpus {
    /// Returns the SHA-256 hash of the text of every part, but not of the weights. Images with
    /// captions count by their sizes.
    ///
    /// # Errors
    /// [`DataError::Io`] if a file cannot be read.
    pub fn content_hash(&self) -> Result<[u8; 32], DataError> {
        Ok(self.hash_text()?.finish().0)
    }

    /// Returns the hash of [`Self::content_hash`], and one of each file and image, by which the
    /// caller sees which of them has changed.
    ///
    /// # Errors
    /// As [`Self::content_hash`].
    pub fn hashes(&self) -> Result<CorpusHashes, DataError> {
        let (whole, files) = self.hash_text()?.finish();
        let mut images = Vec::new();
        for part in &self.parts {
            images.extend(part.image_hashes()?);
        }
        Ok(CorpusHashes {
            whole,
            files,
            images,
        })
    }

    /// Hashes everything that decides which text is read, and the text.
    fn hash_text(&self) -> Result<TextHasher, DataError> {
        let mut hasher = TextHasher::default();
        match (self.max_examples, self.seed) {
            (None, _) => {}
            (Some(count), None) => hasher.update(format!("the first {count}")),
            (Some(count), Some(seed)) => hasher.update(format!("{count} drawn by the seed {seed}")),
        }
        for part in &self.parts {
            part.hash(&mut hasher)?;
        }
        if let Some(text) = &self.clean {
            hasher.update(format!("cleaned, version {CLEAN_VERSION}"));
            let CleanConfig {
                without,
                scores,
                keep,
            } = text.settings();
            for group in without {
                hasher.update(format!("without {}", group.name()));
            }
            if let (Some(path), Some(keep)) = (scores, keep) {
                hasher.update(format!("the best {keep} by the scores"));
                for part in Self::open_text(SCORES, path)?.parts() {
                    part.hash(&mut hasher)?;
                }
            }
            for part in text.held_out().iter().flat_map(Self::parts) {
                part.hash(&mut hasher)?;
            }
        }
        Ok(hasher)
    }
}

impl Part {
    /// Hashes the text and the alignments, but not the weight; and each file by itself.
    ///
    /// The words in between tell the kinds of parts apart, so that no two of them have the same
    /// hash. They and their order must stay as they are: ids on disk, and the text that a run was
    /// trained on, are recognized by these hashes.
    pub(super) fn hash(&self, hasher: &mut TextHasher) -> Result<(), DataError> {
        if self.is_text {
            hasher.update(b"one side");
        }
        if self.is_reversed {
            hasher.update(b"reversed");
        }
        if !self.tags.is_empty() {
            let PairTags { src, tgt } = &self.tags;
            hasher.update(b"tags");
            for tag in src {
                hasher.update(format!("source {tag}\n"));
            }
            if let Some(tag) = tgt {
                hasher.update(format!("target {tag}\n"));
            }
        }
        match &self.alignments {
            None => {}
            Some(Alignments::Embedded(_)) => hasher.update(b"embedded alignments"),
            Some(Alignments::Learned) => hasher.update(b"learned alignments"),
            Some(Alignments::File(path)) => {
                hasher.update(b"alignments");
                hasher.add_file(path)?;
            }
        }
        self.hash_source(hasher)
    }

    /// Hashes the kind of the source, and its content.
    fn hash_source(&self, hasher: &mut TextHasher) -> Result<(), DataError> {
        match &self.source {
            Source::Embedded { pairs, .. } => {
                hasher.update(b"embedded");
                for pair in pairs.iter() {
                    let line = [pair.src.as_bytes(), b"\t", pair.tgt.as_bytes(), b"\n"];
                    hasher.update(line.concat());
                }
                Ok(())
            }
            Source::TwoFiles { src, tgt } => {
                hasher.update(b"two files");
                hasher.add_file(src)?;
                hasher.add_file(tgt)
            }
            Source::Tsv(path) => {
                hasher.update(b"tsv");
                hasher.add_file(path)
            }
            Source::Tmx { path, languages } => {
                let [src, tgt] = languages;
                hasher.update(b"tmx");
                hasher.update(format!("{src}\n{tgt}\n"));
                hasher.add_file(path)
            }
            Source::Moses { src, tgt } => {
                hasher.update(b"moses");
                hasher.update(format!("{}\n{}\n", src.name(), tgt.name()));
                hasher.add_file(src.archive())
            }
            Source::Text(path) => hasher.add_file(path),
            Source::Labeled(path) => {
                hasher.update(b"labels and texts");
                hasher.add_file(path)
            }
            Source::Tagged(path) => {
                hasher.update(b"tagged");
                hasher.add_file(path)
            }
            Source::Captions { path, pairs } => {
                hasher.update(b"captions");
                hasher.add_file(path)?;
                hasher.add_image_sizes(pairs)
            }
            Source::Images { images, .. } => {
                hasher.update(b"images");
                hasher.add_images(images);
                Ok(())
            }
        }
    }

    /// Reads and hashes every image that has captions here, in the order in which they occur; a
    /// part without captions has none.
    pub(super) fn image_hashes(&self) -> Result<Vec<FileHash>, DataError> {
        let Source::Captions { pairs, .. } = &self.source else {
            return Ok(Vec::new());
        };
        by_source(pairs)
            .into_par_iter()
            .map(|(image, _)| image_hash(Path::new(image)))
            .collect()
    }
}

/// The hash of the text of a corpus while it is computed, and those of its files.
#[derive(Default)]
pub(super) struct TextHasher {
    whole: Sha256,
    files: Vec<FileHash>,
}

/// A file and the SHA-256 of its bytes.
type FileHash = (PathBuf, [u8; 32]);

impl TextHasher {
    pub(super) fn update(&mut self, bytes: impl AsRef<[u8]>) {
        self.whole.update(bytes);
    }

    /// Hashes a file, as a part of the whole and by itself.
    fn add_file(&mut self, path: &Path) -> Result<(), DataError> {
        // The bytes of the file, not its text: a compressed file is not decompressed for its hash.
        let mut file = File::open(path).map_err(DataError::io(path))?;
        let mut buffer = vec![0; 1 << 18];
        let mut own = Sha256::new();
        let mut len = 0_u64;
        loop {
            let read = file.read(&mut buffer).map_err(DataError::io(path))?;
            if read == 0 {
                break;
            }
            self.whole.update(&buffer[..read]);
            own.update(&buffer[..read]);
            len += read as u64;
        }
        // With the length, text that is moved from one file to the next changes the hash.
        self.whole.update(len.to_le_bytes());
        self.files.push((path.to_owned(), own.finalize().into()));
        Ok(())
    }

    /// Hashes the sizes of the images of captions, which tell most images that were replaced,
    /// without reading all of them: see [`Part::image_hashes`].
    fn add_image_sizes(&mut self, captions: &[Pair]) -> Result<(), DataError> {
        for (image, _) in by_source(captions) {
            let metadata = std::fs::metadata(image).map_err(DataError::io(Path::new(image)))?;
            self.update(metadata.len().to_le_bytes());
        }
        Ok(())
    }

    /// Hashes pixels, and labels by their names, because ids depend on the other labels of the set.
    fn add_images(&mut self, images: &ImageSet) {
        self.update(&images.pixels);
        for &label in &images.label_ids {
            self.update(images.labels.names()[label as usize].as_bytes());
            self.update(b"\n");
        }
    }

    /// Returns the hash of the whole text, and of each file in the order in which it was read.
    pub(super) fn finish(self) -> ([u8; 32], Vec<FileHash>) {
        (self.whole.finalize().into(), self.files)
    }
}

/// Reads and hashes one image.
fn image_hash(path: &Path) -> Result<FileHash, DataError> {
    let bytes = std::fs::read(path).map_err(DataError::io(path))?;
    Ok((path.to_owned(), Sha256::digest(bytes).into()))
}
