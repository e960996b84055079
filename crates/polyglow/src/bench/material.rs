//! The material of a measurement: a model's shape, and batches of several lengths.

use std::sync::Arc;

use anyhow::Context;
use polyglow_data::batch::Batch;
use polyglow_data::config::Split;
use polyglow_data::corpus::Corpus;
use polyglow_data::epoch::Epoch;
use polyglow_data::example::Filter;
use polyglow_data::id_cache::IdCache;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::{ModelShape, Vocabulary};
use polyglow_train::config::Config;
use polyglow_train::run::model_shape;
use polyglow_train::train::batching;
use polyglow_train::workload::{BatchShape, SPECIAL};
use tempfile::TempDir;

/// Batch lengths taken from a corpus, from its shortest batches to its longest.
const NUM_BUCKETS: usize = 5;

/// A model's shape, and batches for it.
pub(crate) struct Material {
    /// The shape.
    pub(crate) model: ModelShape,
    /// One batch of each length, the shortest first.
    pub(crate) batches: Vec<Batch>,
    /// The corpus that the batches are from; `None` if they are random.
    pub(crate) cache: Option<Arc<IdCache>>,
    /// Holds the cache's file.
    _directory: Option<TempDir>,
}

impl Material {
    /// Random sentences without padding, for a model with a shared vocabulary.
    ///
    /// # Errors
    /// A size does not fit another.
    pub(crate) fn random(config: &Config, shapes: &[BatchShape], vocab_size: usize) -> anyhow::Result<Self> {
        let longest = shapes.iter().map(|shape| shape.src_len.max(shape.tgt_len)).max().unwrap_or(1);
        let vocabulary = Vocabulary {
            src_size: vocab_size,
            tgt_size: vocab_size,
            shared: true,
            src_pad_id: SPECIAL.pad,
            tgt_pad_id: SPECIAL.pad,
            max_len: longest,
            image: None,
        };
        let batches = shapes.iter().map(|shape| shape.random_batch(vocab_size)).collect();
        let model = config.model.shape(vocabulary)?.with_precision(config.train.precision);
        Ok(Self { model, batches, cache: None, _directory: None })
    }

    /// Batches of the training text that a config names, of lengths that divide an epoch into equal parts.
    ///
    /// # Errors
    /// The text cannot be read, or gives no batch; a size does not fit another.
    pub(crate) fn of_corpus(config: &Config) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
        let corpus = Corpus::open(&config.data, Split::Train)?;
        let tokenizers = Tokenizers::train(&config.tokenizer, &corpus, &mut |_, _| {})?;
        let (path, filter) = (directory.path().join("train.ids"), Filter::new(&config.data));
        let (cache, _) = IdCache::open_or_build(&path, &corpus, &tokenizers, Some(&filter), &mut |_, _| {})?;
        let epoch = Epoch::new(&cache, &batching(config), 0)?;
        let mut places: Vec<usize> = (0..epoch.len()).collect();
        places.sort_by_key(|&place| epoch.shape(&cache, place)[1..].to_vec());
        let last = places.len().checked_sub(1).context("the training text gives no batch")?;
        let mut chosen: Vec<usize> = (0..NUM_BUCKETS).map(|bucket| last * bucket / (NUM_BUCKETS - 1)).collect();
        chosen.dedup();
        let batches = chosen.into_iter().map(|index| epoch.batch(&cache, places[index], None));
        let batches = batches.collect::<Result<_, _>>()?;
        let model = model_shape(config, &tokenizers)?;
        Ok(Self { model, batches, cache: Some(Arc::new(cache)), _directory: Some(directory) })
    }
}
