//! Texts with a label each.

use std::sync::Arc;

use super::{BatchSource, Cached, size_of_rows};
use crate::batching::{BatchingConfig, EpochPlan};
use crate::dropout::BpeDropout;
use crate::error::DataError;
use crate::example::Example;
use crate::id_cache::IdCache;
use crate::padded::Padded;
use crate::special::SpecialIds;

/// Padded texts and their labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LabelBatch {
    /// The texts, each with its end mark, `[batch, len]`.
    pub texts: Padded,
    /// The label of each, as an id of the labels' tokenizer.
    pub labels: Vec<i32>,
}

impl LabelBatch {
    /// Texts in the sources of examples, and labels in their targets; `unknown` stands for a label
    /// that is missing.
    pub fn new(examples: &[Example], text: SpecialIds, unknown: u32, pad_multiple: usize) -> Self {
        let texts: Vec<&[u32]> = examples.iter().map(|example| &*example.src).collect();
        let label = |example: &Example| example.tgt.first().map_or(unknown, |&label| label) as i32;
        Self {
            texts: Padded::ended(&texts, text.eos, text.pad, pad_multiple),
            labels: examples.iter().map(label).collect(),
        }
    }
}

/// Batches of labeled texts from an id cache.
pub struct LabelSource {
    cached: Cached,
    dropout: Option<BpeDropout>,
}

impl LabelSource {
    /// The texts of `cache`.
    ///
    /// # Errors
    /// [`DataError::Dropout`] if the tokenizer is not plain BPE and `config` asks for BPE dropout.
    pub fn new(cache: Arc<IdCache>, config: BatchingConfig) -> Result<Self, DataError> {
        let cached = Cached { cache, config };
        let dropout = cached.dropout()?;
        Ok(Self { cached, dropout })
    }

    fn padded(&self, example: u32) -> (usize, usize) {
        let Cached { cache, config } = &self.cached;
        (
            config.padded(config.planned_len(cache.lengths(example).0) + 1),
            config.padded(1),
        )
    }
}

impl BatchSource for LabelSource {
    type Batch = LabelBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        self.cached.plan(epoch, |example| self.padded(example))
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<LabelBatch, DataError> {
        let examples = self.cached.examples(self.dropout.as_ref(), epoch, items)?;
        let Cached { cache, config } = &self.cached;
        let (texts, labels) = (
            cache.tokenizers().src.special(),
            cache.tokenizers().tgt.special(),
        );
        Ok(LabelBatch::new(
            &examples,
            texts,
            labels.unk,
            config.pad_multiple,
        ))
    }

    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        let real = |item| (self.cached.cache.lengths(item).0 + 1, 1);
        size_of_rows(items, |item| (self.padded(item).0, 1), real)
    }

    fn origin(&self, example: u32) -> String {
        self.cached.origin(example)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_the_only_target() {
        let example = |src: &[u32], label| Example {
            src: src.to_vec(),
            tgt: vec![label],
        };
        let examples = [
            example(&[10, 11, 12], 20),
            example(&[13], 21),
            Example::default(),
        ];
        let batch = LabelBatch::new(
            &examples,
            SpecialIds {
                pad: 0,
                bos: 1,
                eos: 2,
                unk: 3,
            },
            6,
            1,
        );
        assert_eq!(batch.texts.ids, [10, 11, 12, 2, 13, 2, 0, 0, 2, 0, 0, 0]);
        assert_eq!(batch.labels, [20, 21, 6]);
    }
}
