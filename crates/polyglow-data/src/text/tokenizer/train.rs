//! Making tokenizers: learned from a corpus, read from a vocabulary, or of labels.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::config::{TokenizerConfig, VocabFiles};
use super::{Tokenizer, Tokenizers};
use crate::config::{SourceKind, TargetKind};
use crate::corpus::Corpus;
use crate::error::DataError;
use crate::labeled::LabelSet;

mod pipeline;
mod vocabulary;

/// What a long operation is doing, for a progress display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Words are counted; the number that comes with it is the lines read so far.
    CountingWords,
    /// A vocabulary is learned; the number is its final size.
    LearningVocabulary,
    /// Text is encoded; the number is the pairs read so far.
    Encoding,
}

/// Called now and then during a long operation, with what it is doing and how far it is.
pub type Progress<'a> = dyn FnMut(Stage, u64) + 'a;

impl Tokenizer {
    /// Learns a vocabulary from `lines`, which are read once and not kept in memory.
    ///
    /// The result depends on the configuration and the text alone. With `kind = "whitespace"` the
    /// vocabulary comes from a file and no line is read.
    ///
    /// # Errors
    /// The first error of `lines`; [`DataError::Tokenizer`] if the text contains no words;
    /// [`DataError::Config`] if the configuration is not valid.
    pub fn train(
        config: &TokenizerConfig,
        lines: impl Iterator<Item = Result<String, DataError>>,
        progress: &mut Progress,
    ) -> Result<Self, DataError> {
        config.validate()?;
        let inner = match &config.vocab {
            Some(VocabFiles::One(path) | VocabFiles::Sides { src: path, .. }) => {
                vocabulary::from_file(config, path)?
            }
            None => vocabulary::learn(config, lines, progress)?,
        };
        Self::new(inner, config.kind.name())
    }

    /// Makes the tokenizer of a set of labels: a whole label is one token.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if the set is empty.
    pub fn of_labels(labels: &LabelSet) -> Result<Self, DataError> {
        Self::new(
            vocabulary::of_whole_texts(labels.names().iter().cloned())?,
            "labels",
        )
    }
}

impl Tokenizer {
    /// Makes the tokenizer of a set of tags: each whitespace-separated word is one token.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if the set is empty.
    pub fn of_tags(tags: &LabelSet) -> Result<Self, DataError> {
        Self::new(
            vocabulary::of_whole_words(tags.names().iter().cloned())?,
            "tags",
        )
    }
}

impl Tokenizers {
    /// Loads the tokenizers that the configuration names, or trains them on `corpus`.
    ///
    /// # Errors
    /// As [`Tokenizer::load`] and [`Tokenizer::train`].
    pub fn train(
        config: &TokenizerConfig,
        corpus: &Corpus,
        progress: &mut Progress,
    ) -> Result<Self, DataError> {
        config.validate()?;
        let content = corpus.content();
        match (content.source, content.target) {
            // Names of images are no text.
            (SourceKind::Image, TargetKind::Text) => {
                return Self::train(config, &corpus.clone().target_side(), progress);
            }
            // Only the labels of images are tokens.
            (SourceKind::Image | SourceKind::Nothing, TargetKind::Label | TargetKind::Tags) => {
                return Ok(Self::shared(Self::of_labels(corpus)?));
            }
            (SourceKind::Text, TargetKind::Label | TargetKind::Tags) => {
                return Self::of_labeled(config, corpus, progress);
            }
            (SourceKind::Text | SourceKind::Nothing, TargetKind::Text) => {}
        }
        match &config.path {
            Some(path) if path.is_dir() => return Self::load(path),
            Some(path) => return Ok(Self::shared(Tokenizer::adopt(path)?)),
            None => {}
        }
        if config.shared {
            let lines = corpus.pairs().flat_map(|pair| match pair {
                Ok(pair) => [Some(Ok(pair.src)), Some(Ok(pair.tgt))],
                Err(error) => [Some(Err(error)), None],
            });
            return Ok(Self::shared(Tokenizer::train(
                config,
                lines.flatten(),
                progress,
            )?));
        }
        let (src_config, tgt_config) = per_side(config);
        let src = Tokenizer::train(
            &src_config,
            corpus.pairs().map(|pair| Ok(pair?.src)),
            progress,
        )?;
        let tgt = Tokenizer::train(
            &tgt_config,
            corpus.pairs().map(|pair| Ok(pair?.tgt)),
            progress,
        )?;
        Ok(Self {
            src: Arc::new(src),
            tgt: Arc::new(tgt),
        })
    }

    /// The tokenizers of labeled texts, and of the labels that occur.
    fn of_labeled(
        config: &TokenizerConfig,
        corpus: &Corpus,
        progress: &mut Progress,
    ) -> Result<Self, DataError> {
        let src = match &config.path {
            Some(path) if path.is_dir() => return Self::load(path),
            Some(path) => Tokenizer::adopt(path)?,
            None => Tokenizer::train(config, corpus.pairs().map(|pair| Ok(pair?.src)), progress)?,
        };
        Self::with_labels(Arc::new(src), corpus)
    }

    /// Pairs the tokenizer of the sources with one of all labels that occur in `corpus`.
    ///
    /// # Errors
    /// The first error of [`Corpus::pairs`]; [`DataError::Tokenizer`] if there are no labels.
    pub fn with_labels(src: Arc<Tokenizer>, corpus: &Corpus) -> Result<Self, DataError> {
        Ok(Self {
            src,
            tgt: Arc::new(Self::of_labels(corpus)?),
        })
    }

    fn of_labels(corpus: &Corpus) -> Result<Tokenizer, DataError> {
        let is_tagged = corpus.content().target == TargetKind::Tags;
        let mut labels = BTreeSet::new();
        for pair in corpus.pairs() {
            let tgt = pair?.tgt;
            if is_tagged {
                labels.extend(tgt.split_whitespace().map(str::to_owned));
            } else {
                labels.insert(tgt);
            }
        }
        let labels = LabelSet::new(labels);
        if is_tagged {
            Tokenizer::of_tags(&labels)
        } else {
            Tokenizer::of_labels(&labels)
        }
    }
}

/// The configurations for training each side separately.
fn per_side(config: &TokenizerConfig) -> (TokenizerConfig, TokenizerConfig) {
    let (mut src, mut tgt) = (config.clone(), config.clone());
    if let Some(VocabFiles::Sides {
        src: src_vocab,
        tgt: tgt_vocab,
    }) = &config.vocab
    {
        src.vocab = Some(VocabFiles::One(src_vocab.clone()));
        tgt.vocab = Some(VocabFiles::One(tgt_vocab.clone()));
    }
    (src, tgt)
}
