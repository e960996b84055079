//! One part of a corpus: a file, a pair of files or of members of an archive, or an embedded split.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::cleaned::CleanPart;
use super::cut::Cut;
use super::moses::Member;
use super::pairs::{Pairs, Reader};
use super::tmx::{Language, TmxPairs};
use crate::alignment::{Link, LinkLines};
use crate::config::{GOLD, LEARNED, wrong};
use crate::error::DataError;
use crate::file::is_same;
use crate::image_set::ImageSet;
use crate::labeled::LabeledLines;
use crate::lines::Lines;
use crate::noise::Noise;
use crate::pair::{Pair, by_source};
use crate::pair_tags::PairTags;
use crate::tagged::TaggedSentences;

/// One part of a corpus, with its weight.
#[derive(Debug, Clone)]
pub struct Part {
    pub(super) source: Source,
    pub(super) weight: f64,
    pub(super) alignments: Option<Alignments>,
    /// Whether its sources are the text's targets, and the other way round.
    pub(super) is_reversed: bool,
    /// Whether only the targets are read.
    pub(super) is_text: bool,
    /// The text that it is cleaned with, if it is.
    pub(super) clean: Option<CleanPart>,
    /// Whether bytes that are no UTF-8 are kept, for cleaning.
    pub(super) keeps_raw_bytes: bool,
    /// The position at which it ends too early, if that is no error.
    pub(super) cut: Option<Cut>,
    /// The tokens that its sources and targets begin with.
    pub(super) tags: PairTags,
    /// The languages of its sources and targets, where they are named.
    pub(super) languages: Option<[String; 2]>,
    /// The noise in its sources, drawn anew each time they are trained on.
    pub(super) noise: Option<Noise>,
    /// The steps, counted from 0, in which it is trained on.
    pub(super) steps: Range<u64>,
}

/// The origin of word alignments.
#[derive(Debug, Clone)]
pub(super) enum Alignments {
    Embedded(Arc<Vec<Vec<Link>>>),
    File(PathBuf),
    /// They are learned from the text before it is encoded.
    Learned,
}

/// The origin of pairs.
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
    Tmx {
        path: PathBuf,
        languages: [Language; 2],
    },
    /// Two members of one archive.
    Moses {
        src: Member,
        tgt: Member,
    },
    Text(PathBuf),
    Labeled(PathBuf),
    Tagged(PathBuf),
    Images {
        name: String,
        images: Arc<ImageSet>,
    },
    /// The captions of a file, paired with the paths of their images.
    Captions {
        path: PathBuf,
        pairs: Arc<Vec<Pair>>,
    },
}

/// Iterates over the word alignments of one part, one list of links per pair.
pub type AlignmentStream = Box<dyn Iterator<Item = Result<Vec<Link>, DataError>> + Send>;

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

impl Part {
    /// Makes a part whose pairs have two sides and no alignments; an epoch holds each of them
    /// `weight` times.
    pub(super) fn new(source: Source, weight: f64) -> Self {
        Self {
            source,
            weight,
            alignments: None,
            is_reversed: false,
            is_text: false,
            clean: None,
            keeps_raw_bytes: false,
            cut: None,
            tags: PairTags::default(),
            languages: None,
            noise: None,
            steps: 0..u64::MAX,
        }
    }

    /// The tokens that its sources and targets begin with.
    pub fn tags(&self) -> &PairTags {
        &self.tags
    }

    /// The noise in its sources, drawn anew each time they are trained on.
    pub fn noise(&self) -> Option<Noise> {
        self.noise
    }

    /// The steps, counted from 0, in which it is trained on.
    pub fn steps(&self) -> Range<u64> {
        self.steps.clone()
    }

    /// The number of times that each pair of this part occurs in an epoch.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// The name of this part in messages: its source file, or the name of the embedded split.
    pub fn name(&self) -> String {
        match &self.source {
            Source::Embedded { name, .. } | Source::Images { name, .. } => name.clone(),
            _ => self.files()[0].display().to_string(),
        }
    }

    /// The files that it is read from, that of the source first; none of what is embedded, or of images.
    fn files(&self) -> Vec<&Path> {
        match &self.source {
            Source::Embedded { .. } | Source::Images { .. } => Vec::new(),
            Source::TwoFiles { src, tgt } => vec![src, tgt],
            Source::Tsv(path)
            | Source::Tmx { path, .. }
            | Source::Text(path)
            | Source::Labeled(path)
            | Source::Tagged(path)
            | Source::Captions { path, .. } => vec![path],
            Source::Moses { src, .. } => vec![src.archive()],
        }
    }

    /// Returns whether `name` is the name of this part, or a path of one of its files.
    pub fn is_called(&self, name: &str) -> bool {
        let mut files = self.files().into_iter();
        name == self.name() || files.any(|file| is_same(file, Path::new(name)))
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
                src: self.pair_lines(Lines::open(src)?),
                tgt: self.pair_lines(Lines::open(tgt)?),
            },
            Source::Tsv(path) => Reader::Tsv(self.pair_lines(Lines::open(path)?)),
            Source::Tmx { path, languages } => {
                Reader::Tmx(Box::new(TmxPairs::open(path, languages.clone())?))
            }
            Source::Moses { src, tgt } => Reader::TwoFiles {
                src: self.pair_lines(src.lines()?),
                tgt: self.pair_lines(tgt.lines()?),
            },
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
            is_reversed: self.is_reversed,
            is_text: self.is_text,
            cut: self.cut.clone(),
            num_read: 0,
            cleaner: self.clean.as_ref().map(CleanPart::begin).transpose()?,
        })
    }

    /// Returns the lines of a side, or of both, with bytes that are no UTF-8 if they are kept.
    fn pair_lines(&self, lines: Lines) -> Lines {
        lines.keeping_raw_bytes(self.keeps_raw_bytes)
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
            Some(Alignments::Learned) => {
                let problem = format!("is \"{LEARNED}\", and they are not learned yet");
                return Err(wrong("data.alignments", problem));
            }
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

    /// The path of the alignments for messages; `gold` stands for those of an embedded corpus.
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

    /// Whether the alignments of this part are learned from the text.
    pub(super) fn learns_alignments(&self) -> bool {
        matches!(self.alignments, Some(Alignments::Learned))
    }

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

    /// Returns the files of parallel text; none of other content, and of what is in memory.
    pub(super) fn pair_files(&self) -> Vec<&Path> {
        match &self.source {
            Source::TwoFiles { .. }
            | Source::Tsv(_)
            | Source::Tmx { .. }
            | Source::Moses { .. } => self.files(),
            _ => Vec::new(),
        }
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

    /// The number of pairs, if they are in memory.
    pub(super) fn len_in_memory(&self) -> Option<usize> {
        match &self.source {
            Source::Embedded { pairs, .. } | Source::Captions { pairs, .. } => Some(pairs.len()),
            Source::Images { images, .. } => Some(images.len()),
            Source::TwoFiles { .. }
            | Source::Tsv(_)
            | Source::Tmx { .. }
            | Source::Moses { .. }
            | Source::Text(_)
            | Source::Labeled(_)
            | Source::Tagged(_) => None,
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

/// Reads and hashes one image.
fn image_hash(path: &Path) -> Result<FileHash, DataError> {
    let bytes = std::fs::read(path).map_err(DataError::io(path))?;
    Ok((path.to_owned(), Sha256::digest(bytes).into()))
}
