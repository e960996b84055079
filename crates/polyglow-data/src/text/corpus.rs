//! Parallel text: files or a generated corpus become a stream of sentence pairs.

use std::path::Path;
use std::sync::Arc;

use crate::clean::report::CleanReport;
use crate::config::{
    CleanConfig, Content, DataConfig, Direction, LEARNED, SourceKind, Split, TargetKind,
    no_such_set, wrong,
};
use crate::error::DataError;
use crate::noise::Noise;
use crate::pair::Pair;
use crate::pair_tags::PairTags;
use crate::toy::{Embedded, Toy};

mod captions;
mod cleaned;
mod cut;
mod files;
mod hashes;
mod images;
mod labeled;
mod learned;
mod moses;
mod pairs;
mod part;
mod sample;
mod text;
mod tmx;

use cleaned::{CleanPart, CleanText};
pub(in crate::text) use files::existing;
pub use files::has_both_sides;
use files::{alignment_file, parallel_source, plain_or_compressed, with_ending};
pub(crate) use files::{compressed_names, is_tsv};
pub use hashes::{CLEAN_VERSION, CorpusHashes};
pub use images::{read_image, read_images};
pub use pairs::Pairs;
pub use part::{AlignmentStream, Part};
use part::{Alignments, Source};
pub use sample::Sample;

/// The key of the config that names a file of scores.
pub const SCORES: &str = "data.clean.scores";

/// The text of one split: its files exist, but are not yet read. Embedded corpora and images are
/// held in memory.
///
/// ```
/// use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
/// use polyglow_data::corpus::Corpus;
/// use polyglow_data::pair::Pair;
///
/// let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("train.en"), "the dog sleeps .\nthe cat eats .\n")?;
/// std::fs::write(dir.path().join("train.de"), "der Hund schläft .\ndie Katze frisst .\n")?;
/// let config = DataConfig {
///     train: Some(TrainFiles::One(dir.path().join("train"))),
///     src: Some("en".to_owned()),
///     tgt: Some("de".to_owned()),
///     ..DataConfig::default()
/// };
/// let corpus = Corpus::open(&config, Content::PAIRS, Split::Train)?;
/// let pairs: Vec<Pair> = corpus.pairs().collect::<Result<_, _>>()?;
/// assert_eq!(pairs[1], Pair { src: "the cat eats .".to_owned(), tgt: "die Katze frisst .".to_owned() });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Corpus {
    parts: Vec<Part>,
    content: Content,
    /// The number of pairs that are trained on, the first ones, or a sample if there is a seed;
    /// `None` for all.
    max_examples: Option<u64>,
    /// The seed by which a sample is drawn.
    seed: Option<u64>,
    /// The text that its parts are cleaned with, if they are.
    clean: Option<Arc<CleanText>>,
}

impl Corpus {
    /// Finds the files of `split`, or generates an embedded corpus.
    ///
    /// # Errors
    /// [`DataError::MissingFile`] for a file that does not exist, [`DataError::Config`] for a split
    /// that the configuration lacks.
    pub fn open(config: &DataConfig, content: Content, split: Split) -> Result<Self, DataError> {
        let mut corpus = Self::open_whole(config, content, split)?;
        if let Some(settings) = config.clean.as_ref().filter(|_| split == Split::Train) {
            if let Some(path) = &settings.scores {
                // They are read when the text is, after minutes of work.
                Self::open_text(SCORES, path)?;
            }
            corpus = corpus.cleaned(held_out(config, content)?, settings.clone());
        }
        let max_examples = if split == Split::Train {
            config.max_examples
        } else {
            None
        };
        Ok(Self {
            content,
            max_examples,
            ..corpus
        })
    }

    /// Returns the corpus without what is no translation, and without sentences of held-out sets. The
    /// text is read, all of it and three times, when its pairs are asked for.
    fn cleaned(self, held_out: Vec<Self>, settings: CleanConfig) -> Self {
        let mut corpus = self.for_cleaning();
        let text = Arc::new(CleanText::new(corpus.clone(), held_out, settings));
        for (part, number) in corpus.parts.iter_mut().zip(0..) {
            part.clean = Some(CleanPart {
                text: Arc::clone(&text),
                part: number,
            });
        }
        corpus.clean = Some(text);
        corpus
    }

    /// Returns the corpus for [`Cleaning`](crate::clean::cleaning::Cleaning): bytes that are no UTF-8 are
    /// read as characters that stand for them ([`raw_bytes`](crate::raw_bytes)), of which cleaning makes
    /// what can be read. Of other corpora they are an error.
    #[must_use]
    pub fn for_cleaning(self) -> Self {
        self.keeping_raw_bytes(true)
    }

    /// Makes sure that files are in UTF-8.
    ///
    /// # Errors
    /// [`DataError::InvalidUtf8`] for the first line that is not; a file cannot be read.
    pub(crate) fn check_utf8(&self) -> Result<(), DataError> {
        let mut pairs = self.clone().keeping_raw_bytes(false).pairs();
        pairs.try_for_each(|pair| pair.map(drop))
    }

    fn keeping_raw_bytes(mut self, keeps: bool) -> Self {
        for part in &mut self.parts {
            part.keeps_raw_bytes = keeps;
        }
        self
    }

    /// Returns how many pairs `data.clean` leaves out, if the text has been read; `None` if not, or if
    /// it is not cleaned.
    pub fn clean_report(&self) -> Option<CleanReport> {
        self.clean.as_ref()?.report()
    }

    /// Opens a split without a limit on its examples.
    fn open_whole(config: &DataConfig, content: Content, split: Split) -> Result<Self, DataError> {
        match config.embedded_corpus() {
            Some(Embedded::Pairs(toy)) => {
                let alignments = config.alignments.as_deref();
                let alignments = alignments.filter(|_| split == Split::Train);
                let corpus = Self::from_parts(vec![embedded(toy, split, alignments)?]);
                let noise = config.noise.filter(|_| split == Split::Train);
                let mut corpus = corpus.with_tags(&config.tags()).with_noise(noise);
                corpus.parts[0].is_reversed = config.reverse;
                return Ok(if content.has_source() {
                    corpus
                } else {
                    corpus.target_side()
                });
            }
            Some(embedded) => return Self::embedded_labeled(embedded, config, content, split),
            None => {}
        }
        match (content.source, content.target) {
            (SourceKind::Text, TargetKind::Text) => Self::open_pairs(config, split),
            (SourceKind::Text, TargetKind::Label) => Self::open_labeled(config, split),
            (SourceKind::Text, TargetKind::Tags) => Self::open_tagged(config, split),
            (SourceKind::Image, TargetKind::Label | TargetKind::Tags) => {
                Self::open_images(config, split)
            }
            (SourceKind::Image, TargetKind::Text) => Self::open_captions(config, split),
            (SourceKind::Nothing, _) => Self::open_texts(config, split),
        }
    }

    /// Finds the files of parallel text.
    fn open_pairs(config: &DataConfig, split: Split) -> Result<Self, DataError> {
        let languages = config.written_languages()?;
        let key = config.key(split);
        let mut parts = Vec::new();
        for entry in config.files(split)? {
            let source = parallel_source(&key, &entry.path, entry.languages(languages))?;
            let alignments = match entry.alignments.clone() {
                Some(path) if path == Path::new(LEARNED) => Some(Alignments::Learned),
                Some(path) => Some(Alignments::File(alignment_file(&path)?)),
                None => None,
            };
            parts.push(Part {
                alignments,
                is_reversed: config.reverse,
                tags: config.tags_of(&entry),
                languages: Some(config.in_order(entry.languages(languages).map(str::to_owned))),
                noise: entry
                    .noise
                    .or(config.noise)
                    .filter(|_| split == Split::Train),
                steps: entry.from..entry.until.unwrap_or(u64::MAX),
                ..Part::new(source, entry.weight)
            });
        }
        Ok(Self::from_parts(parts))
    }

    /// Makes a corpus of pairs of lines, whatever the files are called.
    ///
    /// # Errors
    /// [`DataError::Io`] if a file cannot be opened.
    pub fn from_files(src: &Path, tgt: &Path) -> Result<Self, DataError> {
        for path in [src, tgt] {
            std::fs::File::open(path).map_err(DataError::io(path))?;
        }
        let source = Source::TwoFiles {
            src: src.to_owned(),
            tgt: tgt.to_owned(),
        };
        Ok(Self::from_parts(vec![Part::new(source, 1.0)]))
    }

    /// Makes a corpus of pairs in memory, such as those of an iterator; `name` stands for it in
    /// messages.
    pub fn from_pairs(name: impl Into<String>, pairs: impl IntoIterator<Item = Pair>) -> Self {
        let source = Source::Embedded {
            name: name.into(),
            pairs: Arc::new(pairs.into_iter().collect()),
        };
        Self::from_parts(vec![Part::new(source, 1.0)])
    }

    /// Makes a corpus of these parts, all of whose pairs are trained on.
    fn from_parts(parts: Vec<Part>) -> Self {
        Self {
            parts,
            ..Self::default()
        }
    }

    /// Gives all its pairs the same tags.
    #[must_use]
    pub fn with_tags(mut self, tags: &PairTags) -> Self {
        for part in &mut self.parts {
            part.tags = tags.clone();
        }
        self
    }

    /// Whether its sources are the text's targets, and the other way round.
    pub fn is_reversed(&self) -> bool {
        self.parts.iter().any(|part| part.is_reversed)
    }

    /// Keeps the parts of a pair of languages; also those whose languages are not named.
    #[must_use]
    pub fn in_direction(mut self, direction: &Direction) -> Self {
        let Direction { src, tgt, tags } = direction;
        self.parts.retain(|part| {
            let named = part.languages.as_ref();
            let has_languages = named.is_none_or(|[from, to]| from == src && to == tgt);
            // Behind the tag of a language may be one of the kind of a text.
            has_languages && part.tags.tgt == tags.tgt && part.tags.src.starts_with(&tags.src)
        });
        self
    }

    /// Gives all its sources the same noise.
    #[must_use]
    pub fn with_noise(mut self, noise: Option<Noise>) -> Self {
        for part in &mut self.parts {
            part.noise = noise;
        }
        self
    }

    /// The different tags of its sources, and of its targets, in the order in which the parts have
    /// them.
    pub fn tags(&self) -> [Vec<String>; 2] {
        let mut tags = [Vec::new(), Vec::new()];
        for part in &self.parts {
            let PairTags { src, tgt } = &part.tags;
            for (known, tags) in tags.iter_mut().zip([&src[..], tgt.as_slice()]) {
                for tag in tags {
                    if !known.contains(tag) {
                        known.push(tag.clone());
                    }
                }
            }
        }
        tags
    }

    /// The kinds of its sides.
    pub fn content(&self) -> Content {
        self.content
    }

    /// The number of pairs to train on, from the first on, or those of [`Self::sample`]; `None` for
    /// all. [`Self::pairs`] streams all of them anyway, because tokenizers and labels are made from
    /// the whole text.
    pub fn max_examples(&self) -> Option<u64> {
        self.max_examples
    }

    /// The corpora of a weighted list, in its order, or a single one.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Streams all pairs, one part after the other. Each part is read once, whatever its weight.
    ///
    /// The stream ends after its first error.
    pub fn pairs(&self) -> impl Iterator<Item = Result<Pair, DataError>> + Send + use<> {
        let mut parts = self.parts.clone().into_iter();
        let mut current: Option<Pairs> = None;
        let mut failed = false;
        std::iter::from_fn(move || {
            // The files of a part are opened when the one before it has ended, so that a long list
            // of corpora does not exhaust the file descriptors.
            while !failed {
                if let Some(item) = current.as_mut().and_then(Iterator::next) {
                    failed = item.is_err();
                    return Some(item);
                }
                match parts.next()?.pairs() {
                    Ok(pairs) => current = Some(pairs),
                    Err(error) => {
                        failed = true;
                        return Some(Err(error));
                    }
                }
            }
            None
        })
    }

    /// Returns the files that parallel text is read from, without reading them.
    pub fn pair_files(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().flat_map(Part::pair_files)
    }
}

/// Opens the validation and test sets, whose sentences must not be trained on.
///
/// # Errors
/// As [`Corpus::open`].
pub fn held_out(config: &DataConfig, content: Content) -> Result<Vec<Corpus>, DataError> {
    let mut splits: Vec<Split> = config.test_names().into_iter().map(Split::Test).collect();
    splits.extend(config.has_valid().then_some(Split::Valid));
    let open = |split| Corpus::open(config, content, split);
    splits.into_iter().map(open).collect()
}

/// Generates a split of parallel text; with the word alignments that `data.alignments` names.
fn embedded(toy: Toy, split: Split, alignments: Option<&Path>) -> Result<Part, DataError> {
    let split = split_name(split);
    let pairs = toy
        .split(split)
        .ok_or_else(|| wrong("data.corpus", no_such_set(split, toy.splits())))?;
    let alignments = alignments.map(|path| {
        if path == Path::new(LEARNED) {
            return Alignments::Learned;
        }
        let links = pairs.iter().map(|pair| pair.alignment.clone());
        Alignments::Embedded(Arc::new(links.collect()))
    });
    let pairs = pairs
        .into_iter()
        .map(|pair| Pair {
            src: pair.src,
            tgt: pair.tgt,
        })
        .collect();
    let name = format!("{} {split}", toy.name());
    let source = Source::Embedded {
        name,
        pairs: Arc::new(pairs),
    };
    Ok(Part {
        alignments,
        ..Part::new(source, 1.0)
    })
}

/// The name of a split in an embedded corpus.
fn split_name(split: Split<'_>) -> &str {
    match split {
        Split::Train => "train",
        Split::Valid => "valid",
        Split::Test(name) => name,
    }
}
