//! Sentence pairs from a stream that need not end: text that is generated, drawn, or too large for a
//! disk.
//!
//! An epoch is the pairs that one call of a function gives, so that a training that is resumed asks
//! for the same epoch again, and no pairs before it.

use std::sync::{Arc, Mutex, PoisonError};

use super::{BatchSource, pairs, size_of_rows};
use crate::batch::PairBatch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::error::DataError;
use crate::example::{Example, LengthFilter};
use crate::pair::Pair;
use crate::tokenizer::Tokenizers;

/// Epochs that are kept in memory: the one that is trained on, and the one that is planned next.
const EPOCHS: usize = 2;

/// Batches of pairs that a function gives, epoch by epoch.
///
/// ```
/// use polyglow_data::batching::{BatchingConfig, Selection};
/// use polyglow_data::example::LengthFilter;
/// use polyglow_data::pair::Pair;
/// use polyglow_data::sources::{BatchSource, StreamedSource};
/// # use polyglow_data::corpus::Corpus;
/// # use polyglow_data::error::DataError;
/// # use polyglow_data::tokenizer::{Segmentation, TokenizerConfig, Tokenizers};
///
/// // Numbers and their successors, without an end: the next thousand in each epoch.
/// let pairs = |epoch: u64| {
///     let numbers = 1000 * epoch..1000 * (epoch + 1);
///     numbers.map(|number| Ok(Pair { src: number.to_string(), tgt: (number + 1).to_string() }))
/// };
/// # let config: TokenizerConfig = serde_json::from_str(r#"{ "kind": "char" }"#)?;
/// # let sample = Corpus::from_pairs("sample", pairs(0).filter_map(Result::<_, DataError>::ok));
/// # let tokenizers = Tokenizers::train(&config, &sample, &mut |_, _| {})?;
/// # let batching = BatchingConfig { max_tokens: 400, pad_multiple: 1, seed: 1, segmentation: Segmentation::Fixed, selection: Selection::V2 };
/// let filter = LengthFilter { max_len: 20, max_length_ratio: 9.0 };
/// let source = StreamedSource::new(tokenizers, batching, filter, pairs)?;
/// let plan = source.plan(7)?;
/// let batch = source.batch(7, plan.batch(0))?;
/// assert!(batch.src.num_rows() > 50);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StreamedSource {
    tokenizers: Tokenizers,
    config: BatchingConfig,
    filter: LengthFilter,
    open: Box<OpenEpoch>,
    /// The newest epochs with their examples, in the order in which they were read.
    epochs: Mutex<Vec<(u64, Arc<Vec<Example>>)>>,
}

/// Opens the pairs of an epoch.
type OpenEpoch = dyn Fn(u64) -> Box<dyn Iterator<Item = Result<Pair, DataError>>> + Send + Sync;

impl StreamedSource {
    /// Makes batches of the pairs that `open` gives for the number of an epoch, from 0; it must give
    /// the same pairs whenever it is called with the same number. All examples of an epoch are in
    /// memory, as ids. Pairs that `filter` refuses are left out.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] if `config` asks for new segmentations.
    pub fn new<I>(
        tokenizers: Tokenizers,
        config: BatchingConfig,
        filter: LengthFilter,
        open: impl Fn(u64) -> I + Send + Sync + 'static,
    ) -> Result<Self, DataError>
    where
        I: Iterator<Item = Result<Pair, DataError>> + 'static,
    {
        if !config.segmentation.is_fixed() {
            let problem = "streamed text is segmented once".to_owned();
            return Err(DataError::Segmentation { problem });
        }
        Ok(Self {
            tokenizers,
            config,
            filter,
            open: Box::new(move |epoch| Box::new(open(epoch))),
            epochs: Mutex::default(),
        })
    }

    /// Returns the examples of an epoch, which are read unless they are in memory.
    fn examples(&self, epoch: u64) -> Result<Arc<Vec<Example>>, DataError> {
        // An error while an epoch was read has added nothing.
        let mut epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, examples)) = epochs.iter().find(|(number, _)| *number == epoch) {
            return Ok(Arc::clone(examples));
        }
        let examples = Arc::new(self.read(epoch)?);
        if epochs.len() == EPOCHS {
            epochs.remove(0);
        }
        epochs.push((epoch, Arc::clone(&examples)));
        Ok(examples)
    }

    fn read(&self, epoch: u64) -> Result<Vec<Example>, DataError> {
        let mut examples = Vec::new();
        for pair in (self.open)(epoch) {
            let Pair { src, tgt } = pair?;
            let example = Example {
                src: self.tokenizers.src.encode(&src)?,
                tgt: self.tokenizers.tgt.encode(&tgt)?,
            };
            let refused = self
                .filter
                .reject_lengths(example.src.len(), example.tgt.len());
            if refused.is_none() {
                examples.push(example);
            }
        }
        Ok(examples)
    }
}

fn lengths(example: &Example) -> (usize, usize) {
    (example.src.len(), example.tgt.len())
}

impl BatchSource for StreamedSource {
    type Batch = PairBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        let examples = self.examples(epoch)?;
        let all = [(0..examples.len() as u32, 1.0)];
        let positions = |item: u32| pairs::padded(&self.config, lengths(&examples[item as usize]));
        EpochPlan::new(positions, &all, &self.config, epoch)
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<PairBatch, DataError> {
        let examples = self.examples(epoch)?;
        let chosen: Vec<Example> = items
            .iter()
            .map(|&item| examples[item as usize].clone())
            .collect();
        Ok(PairBatch::new(
            &chosen,
            self.tokenizers.src.special(),
            self.tokenizers.tgt.special(),
            self.config.pad_multiple,
        ))
    }

    fn size(&self, epoch: u64, items: &[u32]) -> ([usize; 3], usize) {
        // A batch is planned before its size is asked, so that its epoch has been read.
        let examples = self.examples(epoch).unwrap_or_default();
        let of = |item: u32| examples.get(item as usize).map_or((0, 0), lengths);
        size_of_rows(
            items,
            |item| pairs::padded(&self.config, of(item)),
            |item| {
                let (src_len, tgt_len) = of(item);
                (src_len + 1, tgt_len + 1)
            },
        )
    }
}
