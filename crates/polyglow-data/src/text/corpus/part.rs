//! One part of a corpus: a file, a pair of files or of members of an archive, or an embedded split.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
use crate::pair::Pair;
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
}
