//! The tokenizers of both sides of a corpus.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::config::per_side;
use super::{Progress, Tokenizer, TokenizerConfig};
use crate::config::Labeled;
use crate::corpus::Corpus;
use crate::error::DataError;
use crate::labeled::LabelSet;

const SHARED_FILE: &str = "tokenizer.json";
const SRC_FILE: &str = "tokenizer.src.json";
const TGT_FILE: &str = "tokenizer.tgt.json";

/// The tokenizers of both sides: one and the same where the vocabulary is shared.
#[derive(Clone)]
pub struct Tokenizers {
    /// Source side.
    pub src: Arc<Tokenizer>,
    /// Target side.
    pub tgt: Arc<Tokenizer>,
}

impl Tokenizers {
    /// Loads the tokenizers that the configuration names, or else trains them on `corpus`.
    ///
    /// # Errors
    /// As [`Tokenizer::load`] and [`Tokenizer::train`].
    pub fn train(config: &TokenizerConfig, corpus: &Corpus, progress: &mut Progress) -> Result<Self, DataError> {
        config.validate()?;
        if let Some(labeled) = corpus.labeled() {
            return Self::of_labeled(config, corpus, labeled, progress);
        }
        match &config.path {
            Some(path) if path.is_dir() => return Self::load(path),
            Some(path) => return Ok(Self::shared(Tokenizer::load(path)?)),
            None => {}
        }
        if config.shared {
            let lines = corpus.pairs().flat_map(|pair| match pair {
                Ok(pair) => [Some(Ok(pair.src)), Some(Ok(pair.tgt))],
                Err(error) => [Some(Err(error)), None],
            });
            return Ok(Self::shared(Tokenizer::train(config, lines.flatten(), progress)?));
        }
        let (src_config, tgt_config) = per_side(config);
        let src = Tokenizer::train(&src_config, corpus.pairs().map(|pair| Ok(pair?.src)), progress)?;
        let tgt = Tokenizer::train(&tgt_config, corpus.pairs().map(|pair| Ok(pair?.tgt)), progress)?;
        Ok(Self { src: Arc::new(src), tgt: Arc::new(tgt) })
    }

    /// The tokenizer of labeled texts or images, and that of the labels that there are.
    fn of_labeled(
        config: &TokenizerConfig,
        corpus: &Corpus,
        labeled: Labeled,
        progress: &mut Progress,
    ) -> Result<Self, DataError> {
        let src = match (labeled, &config.path) {
            (Labeled::Images, _) => Tokenizer::of_bytes()?,
            (Labeled::Texts, Some(path)) if path.is_dir() => return Self::load(path),
            (Labeled::Texts, Some(path)) => Tokenizer::load(path)?,
            (Labeled::Texts, None) => Tokenizer::train(config, corpus.pairs().map(|pair| Ok(pair?.src)), progress)?,
        };
        Self::with_labels(Arc::new(src), corpus)
    }

    /// The tokenizer of a source, with that of the labels that a corpus has.
    ///
    /// # Errors
    /// What is wrong with the corpus.
    pub fn with_labels(src: Arc<Tokenizer>, corpus: &Corpus) -> Result<Self, DataError> {
        let labels = corpus.pairs().map(|pair| Ok(pair?.tgt)).collect::<Result<BTreeSet<String>, DataError>>()?;
        Ok(Self { src, tgt: Arc::new(Tokenizer::of_labels(&LabelSet::new(labels))?) })
    }

    /// One tokenizer for both sides.
    pub fn shared(tokenizer: Tokenizer) -> Self {
        let tokenizer = Arc::new(tokenizer);
        Self { src: Arc::clone(&tokenizer), tgt: tokenizer }
    }

    /// Whether both sides have one vocabulary.
    pub fn is_shared(&self) -> bool {
        Arc::ptr_eq(&self.src, &self.tgt)
    }

    /// Reads what [`Tokenizers::save`] wrote.
    ///
    /// # Errors
    /// As [`Tokenizer::load`].
    pub fn load(dir: &Path) -> Result<Self, DataError> {
        if dir.join(SHARED_FILE).is_file() || !dir.join(SRC_FILE).is_file() {
            return Ok(Self::shared(Tokenizer::load(&dir.join(SHARED_FILE))?));
        }
        let src = Tokenizer::load(&dir.join(SRC_FILE))?;
        let tgt = Tokenizer::load(&dir.join(TGT_FILE))?;
        Ok(Self { src: Arc::new(src), tgt: Arc::new(tgt) })
    }

    /// Writes `tokenizer.json` into `dir`, or `tokenizer.src.json` and `tokenizer.tgt.json` if they differ.
    ///
    /// # Errors
    /// As [`Tokenizer::save`].
    pub fn save(&self, dir: &Path) -> Result<(), DataError> {
        if self.is_shared() {
            return self.src.save(&dir.join(SHARED_FILE));
        }
        self.src.save(&dir.join(SRC_FILE))?;
        self.tgt.save(&dir.join(TGT_FILE))
    }
}
