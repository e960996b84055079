//! Texts in which some tokens are hidden.

use std::sync::Arc;

use super::{BatchSource, Cached, size_of_rows};
use crate::batching::{BatchingConfig, EpochPlan};
use crate::dropout::BpeDropout;
use crate::error::DataError;
use crate::id_cache::IdCache;
use crate::masking::Masked;
use crate::padded::Padded;
use crate::random::Purpose;
use crate::special::SpecialIds;

/// Padded texts with hidden tokens, and these tokens at their positions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MaskedBatch {
    /// What is to be seen, each with its end mark, `[batch, len]`.
    pub shown: Padded,
    /// What stood there where it is asked for, and padding elsewhere, `[batch, len]` row by row.
    pub asked: Vec<i32>,
    /// How many tokens are asked for.
    pub num_asked: usize,
}

impl MaskedBatch {
    /// Pads texts to multiples of `pad_multiple`.
    pub fn new(texts: &[Masked], special: SpecialIds, pad_multiple: usize) -> Self {
        let rows: Vec<&[u32]> = texts.iter().map(|text| &*text.shown).collect();
        let shown = Padded::ended(&rows, special.eos, special.pad, pad_multiple);
        let mut asked = Padded::with_room(texts.len(), shown.len, 1);
        for text in texts {
            asked.push(&[&text.asked], special.pad);
        }
        let num_asked = texts.iter().map(|text| text.num_asked(special)).sum();
        Self {
            shown,
            asked: asked.ids,
            num_asked,
        }
    }
}

/// Batches of texts with hidden tokens from an id cache of text that has one side; other tokens in
/// each epoch.
pub struct MaskedSource {
    cached: Cached,
    dropout: Option<BpeDropout>,
}

impl MaskedSource {
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
        let len = config.padded(config.planned_len(cache.lengths(example).1) + 1);
        (len, len)
    }
}

impl BatchSource for MaskedSource {
    type Batch = MaskedBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        self.cached.plan(epoch, |example| self.padded(example))
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<MaskedBatch, DataError> {
        let examples = self.cached.examples(self.dropout.as_ref(), epoch, items)?;
        let Cached { cache, config } = &self.cached;
        let tokenizer = &cache.tokenizers().tgt;
        let (special, vocab_size) = (tokenizer.special(), tokenizer.vocab_size());
        let texts = examples.iter().zip(items).map(|(example, &item)| {
            let key = Purpose::Row.mix(&[config.seed, epoch, u64::from(item)]);
            Masked::new(&example.tgt, special, vocab_size, key)
        });
        Ok(MaskedBatch::new(
            &texts.collect::<Vec<_>>(),
            special,
            config.pad_multiple,
        ))
    }

    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        let real = |item| {
            (
                self.cached.cache.lengths(item).1 + 1,
                self.cached.cache.lengths(item).1 + 1,
            )
        };
        size_of_rows(items, |item| self.padded(item), real)
    }

    fn origin(&self, example: u32) -> String {
        self.cached.origin(example)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_tokens_are_the_targets_at_their_places() {
        let texts = [
            Masked {
                shown: vec![10, 1, 12],
                asked: vec![0, 11, 0],
            },
            Masked {
                shown: vec![13],
                asked: vec![13],
            },
        ];
        let batch = MaskedBatch::new(
            &texts,
            SpecialIds {
                pad: 0,
                bos: 1,
                eos: 2,
                unk: 3,
            },
            1,
        );
        assert_eq!(batch.shown.ids, [10, 1, 12, 2, 13, 2, 0, 0]);
        assert_eq!(batch.asked, [0, 11, 0, 0, 13, 0, 0, 0]);
        assert_eq!((batch.num_asked, batch.shown.num_real()), (2, 6));
    }
}
