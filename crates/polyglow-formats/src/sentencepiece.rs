//! The tokenizers of a run alone, as models of SentencePiece.

use std::path::Path;

use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_model::registry::Named;
use polyglow_predict::error::{Result, usage};
use polyglow_predict::runner::Runner;
use polyglow_predict::tasks::TaskFacts;
use polyglow_train::Plan;

use crate::folder;
use crate::format::{Format, Writing};
use crate::portable::Portable;

/// The format `sentencepiece`.
#[derive(Debug)]
pub(crate) struct Sentencepiece;

impl Named for Sentencepiece {
    fn name(&self) -> &'static str {
        "sentencepiece"
    }
}

impl Format for Sentencepiece {
    fn title(&self) -> &'static str {
        "SentencePiece"
    }

    fn usage(&self, _: &TaskFacts, _: bool) -> &'static str {
        include_str!("usage/sentencepiece.md")
    }

    fn has_weights(&self) -> bool {
        false
    }

    fn needs_unigram(&self) -> bool {
        true
    }

    fn check(&self, model: &Portable) -> Result<()> {
        for (_, tokenizer) in named(&model.tokenizers) {
            tokenizer.to_sentencepiece().map_err(usage)?;
        }
        Ok(())
    }

    fn write(&self, writing: &Writing, dir: &Path) -> Result<()> {
        for (name, tokenizer) in named(&writing.model.tokenizers) {
            let bytes = tokenizer.to_sentencepiece().map_err(usage)?;
            folder::write_file(dir, name, &bytes)?;
        }
        Ok(())
    }

    fn runners(&self, _: &Writing, _: &Plan, _: &Path) -> Result<Option<[Runner; 2]>> {
        // Tokenizers translate nothing.
        Ok(None)
    }
}

/// Returns the tokenizers with the names of their files.
fn named(tokenizers: &Tokenizers) -> Vec<(&'static str, &Tokenizer)> {
    let Tokenizers { src, tgt } = tokenizers;
    if tokenizers.is_shared() {
        vec![("sentencepiece.model", src)]
    } else {
        vec![("source.spm", src), ("target.spm", tgt)]
    }
}
