//! Making tokenizers: learned from a corpus, read from a vocabulary, or of labels.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::config::{TokenizerConfig, VocabFiles};
use super::{Tokenizer, Tokenizers};
use crate::config::{SourceKind, TargetKind};
use crate::corpus::Corpus;
use crate::error::DataError;
use crate::labeled::LabelSet;

mod pipeline;
mod vocabulary;

/// The stage of a long operation, for a progress display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Words are counted; the number that comes with it is the lines read so far.
    CountingWords,
    /// A vocabulary is learned; the number is its final size.
    LearningVocabulary,
    /// Words are aligned; the number is the part that is done, in percent.
    Aligning,
    /// Text is encoded; the number is the pairs read so far.
    Encoding,
}

/// A callback that is called now and then during a long operation, with its stage and the number
/// that belongs to the stage.
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
        Self::new(inner, config.kind.name())?.with_symbols(&config.symbols)
    }

    /// Makes the tokenizer of a set of labels: a whole label is one token.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if the set is empty.
    pub fn of_labels(labels: &LabelSet) -> Result<Self, DataError> {
        Self::new(
            vocabulary::whole_texts(labels.names().iter().cloned())?,
            "labels",
        )
    }

    /// Makes the tokenizer of a set of tags: each whitespace-separated word is one token.
    ///
    /// # Errors
    /// [`DataError::Tokenizer`] if the set is empty.
    pub fn of_tags(tags: &LabelSet) -> Result<Self, DataError> {
        Self::new(
            vocabulary::whole_words(tags.names().iter().cloned())?,
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
                return Ok(Self::shared(label_tokenizer(corpus)?));
            }
            (SourceKind::Text, TargetKind::Label | TargetKind::Tags) => {
                return Self::train_labeled(config, corpus, progress);
            }
            (SourceKind::Text | SourceKind::Nothing, TargetKind::Text) => {}
        }
        let [src_tags, tgt_tags] = corpus.tags();
        let all_tags = different(&src_tags, &tgt_tags);
        match &config.path {
            Some(path) => {
                let adopted = Self::adopt(path, &config.symbols)?.in_order(corpus.is_reversed());
                adopted.with_tags([&src_tags, &tgt_tags])
            }
            None if config.shared => {
                let config = config.with_room_for(all_tags.len())?;
                let lines = corpus.pairs().flat_map(|pair| match pair {
                    Ok(pair) => [Some(Ok(pair.src)), Some(Ok(pair.tgt))],
                    Err(error) => [Some(Err(error)), None],
                });
                let tokenizer = Tokenizer::train(&config, lines.flatten(), progress)?;
                Ok(Self::shared(tokenizer.with_tags(&all_tags)?))
            }
            None => {
                let [src_config, tgt_config] = per_side(config, corpus.is_reversed());
                let sources = corpus.pairs().map(|pair| Ok(pair?.src));
                let src_config = src_config.with_room_for(src_tags.len())?;
                let src = Tokenizer::train(&src_config, sources, progress)?;
                let targets = corpus.pairs().map(|pair| Ok(pair?.tgt));
                let tgt_config = tgt_config.with_room_for(tgt_tags.len())?;
                let tgt = Tokenizer::train(&tgt_config, targets, progress)?;
                Ok(Self {
                    src: Arc::new(src.with_tags(&src_tags)?),
                    tgt: Arc::new(tgt.with_tags(&tgt_tags)?),
                })
            }
        }
    }

    /// Reads the tokenizers at a path, a file for both sides or a folder, with these symbols.
    fn adopt(path: &Path, symbols: &[String]) -> Result<Self, DataError> {
        if !path.is_dir() {
            let tokenizer = Tokenizer::adopt(path)?;
            return Ok(Self::shared(tokenizer.with_symbols(symbols)?));
        }
        Self::load(path)?.map(|_, tokenizer| tokenizer.with_symbols(symbols))
    }

    /// Gives both vocabularies the tags of their sides, or a shared one all of them.
    fn with_tags(self, [src, tgt]: [&[String]; 2]) -> Result<Self, DataError> {
        if self.is_shared() {
            let all = different(src, tgt);
            return self.map(|_, tokenizer| tokenizer.with_tags(&all));
        }
        self.map(|is_src, tokenizer| tokenizer.with_tags(if is_src { src } else { tgt }))
    }

    /// Changes the tokenizers: `change` is called with whether it is that of the source, and once for
    /// a shared one.
    fn map(
        self,
        change: impl Fn(bool, Tokenizer) -> Result<Tokenizer, DataError>,
    ) -> Result<Self, DataError> {
        let is_shared = self.is_shared();
        let Self { src, tgt } = self;
        let only = "tokenizers that were just read have no other owner";
        if is_shared {
            drop(tgt);
            return Ok(Self::shared(change(
                true,
                Arc::into_inner(src).expect(only),
            )?));
        }
        Ok(Self {
            src: Arc::new(change(true, Arc::into_inner(src).expect(only))?),
            tgt: Arc::new(change(false, Arc::into_inner(tgt).expect(only))?),
        })
    }

    /// Exchanges the sides if the text is read in reverse.
    fn in_order(self, is_reversed: bool) -> Self {
        if !is_reversed {
            return self;
        }
        Self {
            src: self.tgt,
            tgt: self.src,
        }
    }

    /// Loads or trains the tokenizer of labeled texts, and makes that of the labels that occur.
    fn train_labeled(
        config: &TokenizerConfig,
        corpus: &Corpus,
        progress: &mut Progress,
    ) -> Result<Self, DataError> {
        let src = match &config.path {
            Some(path) if path.is_dir() => {
                // Labels have no symbols.
                return Self::load(path)?.map(|is_src, tokenizer| {
                    let symbols = if is_src { &config.symbols[..] } else { &[] };
                    tokenizer.with_symbols(symbols)
                });
            }
            Some(path) => Tokenizer::adopt(path)?.with_symbols(&config.symbols)?,
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
            tgt: Arc::new(label_tokenizer(corpus)?),
        })
    }
}

/// Makes the tokenizer of all labels or tags that occur in `corpus`.
fn label_tokenizer(corpus: &Corpus) -> Result<Tokenizer, DataError> {
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

/// Returns the tags of both sides, each once.
fn different(src: &[String], tgt: &[String]) -> Vec<String> {
    let only_tgt = tgt.iter().filter(|tag| !src.contains(tag));
    src.iter().chain(only_tgt).cloned().collect()
}

/// The configs for training each side by itself. The vocabularies of a config are of the sides as the
/// text has them.
fn per_side(config: &TokenizerConfig, is_reversed: bool) -> [TokenizerConfig; 2] {
    let mut sides = [config.clone(), config.clone()];
    if let Some(VocabFiles::Sides { src, tgt }) = &config.vocab {
        for (side, vocab) in sides.iter_mut().zip([src, tgt]) {
            side.vocab = Some(VocabFiles::One(vocab.clone()));
        }
    }
    if is_reversed {
        sides.reverse();
    }
    sides
}
