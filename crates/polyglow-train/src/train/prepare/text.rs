//! The text or the images of a training, as corpora.

use std::sync::Arc;

use polyglow_data::batching::Selection;
use polyglow_data::config::Split;
use polyglow_data::corpus::Corpus;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_predict::error::Result;

use crate::plan::Plan;
use crate::run::{RunDirectory, TextHashes};
use crate::tasks::HeldOut;
use crate::train::resume::{check_same_text, text_hashes};

/// The number of lines by which a script is recognized.
const SOME: usize = 1000;

/// The data of a training: what a config names, or what a program has in memory.
#[derive(Debug)]
pub struct Text {
    /// The training text.
    pub train: Corpus,
    /// The corpus of [`Self::held_out`].
    pub valid: Option<Corpus>,
    /// The examples that training is validated on; empty where there are none.
    pub held_out: Arc<HeldOut>,
}

impl Text {
    /// Makes the data of a training from corpora, such as those of [`Corpus::from_pairs`].
    ///
    /// # Errors
    /// The validation set cannot be read.
    pub fn new(train: Corpus, valid: Option<Corpus>) -> Result<Self> {
        let held_out = valid.as_ref().map(HeldOut::read).transpose()?;
        Ok(Self {
            train,
            valid,
            held_out: Arc::new(held_out.unwrap_or_default()),
        })
    }

    /// Opens the data that a config names, and makes sure that the test sets are there, which are
    /// only read at the end.
    ///
    /// # Errors
    /// A file is missing or cannot be read.
    pub fn open(plan: &Plan) -> Result<Self> {
        let data = &plan.config.data;
        let content = plan.content;
        let all = Corpus::open(data, content, Split::Train)?;
        let train = match plan.selection {
            Selection::V1 => all,
            Selection::V2 => all.with_seed(plan.config.seed),
        };
        let valid = data
            .has_valid()
            .then(|| Corpus::open(data, content, Split::Valid))
            .transpose()?;
        if data.corpus.is_none() {
            for name in data.test_names() {
                Corpus::open(data, content, Split::Test(name))?;
            }
        }
        Self::new(train, valid)
    }

    /// Returns some lines of the target side, by which a script is recognized: of the validation
    /// text, or else of the training text.
    ///
    /// # Errors
    /// The training text cannot be read.
    pub fn some_targets(&self) -> Result<Vec<String>> {
        let valid: Vec<String> = self
            .held_out
            .pairs()
            .iter()
            .take(SOME)
            .map(|pair| pair.tgt.clone())
            .collect();
        if !valid.is_empty() {
            return Ok(valid);
        }
        Ok(self
            .train
            .pairs()
            .take(SOME)
            .map(|pair| pair.map(|pair| pair.tgt))
            .collect::<Result<_, _>>()?)
    }

    /// Makes sure that a run may be resumed with this text and these tokenizers; returns the
    /// tokenizers and the hashes.
    pub(super) fn fit(
        &self,
        run: &RunDirectory,
        tokenizers: Tokenizers,
    ) -> Result<(Tokenizers, TextHashes)> {
        let hashes = self.hashes(&tokenizers)?;
        check_same_text(run, &hashes)?;
        Ok((tokenizers, hashes))
    }

    /// Computes the hashes of the text and the tokenizers.
    pub(super) fn hashes(&self, tokenizers: &Tokenizers) -> Result<TextHashes> {
        text_hashes(&self.train, self.valid.as_ref(), tokenizers)
    }
}
