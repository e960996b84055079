//! An epoch: the order of the examples, or of windows of their text, and the batches that they form.

use crate::batch::Batch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::dropout::BpeDropout;
use crate::error::DataError;
use crate::framing::Framing;
use crate::id_cache::IdCache;
use crate::random::Purpose;
use crate::skip_gram::{SkipGramSampler, SkipGrams};
use crate::window::Windows;

/// The batches of one epoch: a pure function of the id cache, the configuration and the number of the epoch.
#[derive(Debug, Clone)]
pub struct Epoch {
    config: BatchingConfig,
    number: u64,
    /// The plan of the windows if there are any, and otherwise of the examples.
    plan: EpochPlan,
    windows: Option<Windows>,
    /// Draws the rows of an example, if one example becomes several rows.
    sampler: Option<SkipGramSampler>,
}

impl Epoch {
    /// Plans the epoch number `number`, counted from 0.
    ///
    /// # Errors
    /// [`DataError::LargerThanBatch`] if one row alone exceeds `max_tokens`; for windows, the errors of
    /// [`Windows::new`].
    pub fn new(cache: &IdCache, config: &BatchingConfig, number: u64) -> Result<Self, DataError> {
        let windows = match config.framing {
            Framing::Windows { context_len } => Some(Windows::of_epoch(cache, context_len, config.seed, number)?),
            Framing::Pairs | Framing::Labels | Framing::Images { .. } | Framing::Masked | Framing::SkipGrams(_) => None,
        };
        let sampler = match config.framing {
            Framing::SkipGrams(skip_grams) => Some(skip_gram_sampler(skip_grams, cache)?),
            _ => None,
        };
        let plan = match &windows {
            Some(windows) => windows.plan(cache, config, number)?,
            None => plan_examples(cache, config, number)?,
        };
        Ok(Self { config: *config, number, plan, windows, sampler })
    }

    /// Number of batches.
    pub fn len(&self) -> usize {
        self.plan.len()
    }

    /// Whether there is no batch.
    pub fn is_empty(&self) -> bool {
        self.plan.is_empty()
    }

    /// The smallest `max_tokens` for which every example and window of this epoch fits into a batch.
    pub fn least_tokens(&self, cache: &IdCache) -> usize {
        let items = (0..self.len()).flat_map(|position| self.plan.batch(position));
        items
            .map(|&item| self.config.positions(self.lengths(cache, item)))
            .map(|(src, tgt)| src.max(tgt))
            .max()
            .unwrap_or(0)
    }

    /// Maximum number of rows, padded source length and padded target length of the batch at `position`. The real batch
    /// is smaller with BPE dropout, and about a quarter as large with skip-grams, which draw the reach of each window
    /// and leave out frequent words.
    ///
    /// # Panics
    /// If `position` is not less than [`Epoch::len`].
    pub fn shape(&self, cache: &IdCache, position: usize) -> [usize; 3] {
        let rows = self.plan.batch(position).iter().map(|&item| self.config.positions(self.lengths(cache, item)));
        self.config.framing.shape(rows)
    }

    /// Number of source and target positions of the batch at `position` that are not padding, without BPE dropout.
    ///
    /// # Panics
    /// If `position` is not less than [`Epoch::len`].
    pub fn num_real_positions(&self, cache: &IdCache, position: usize) -> usize {
        let rows = self.plan.batch(position).iter();
        let rows = rows.map(|&item| self.config.framing.positions(self.lengths(cache, item)));
        rows.map(|(src, tgt)| src + tgt).sum()
    }

    /// The batch at `position`, with `dropout` in new segmentations.
    ///
    /// # Errors
    /// As [`IdCache::example`].
    ///
    /// # Panics
    /// If `position` is not less than [`Epoch::len`].
    pub fn batch(&self, cache: &IdCache, position: usize, dropout: Option<&BpeDropout>) -> Result<Batch, DataError> {
        let items = self.plan.batch(position);
        let batch = match (&self.windows, &self.sampler) {
            (Some(windows), _) => self.batch_of_windows(cache, windows, items)?,
            (None, Some(sampler)) => self.batch_of_skip_grams(cache, sampler, items)?,
            (None, None) => self.batch_of_examples(cache, items, dropout)?,
        };
        Ok(Batch { epoch: self.number, position, epoch_len: self.len(), ..batch })
    }

    fn batch_of_examples(
        &self,
        cache: &IdCache,
        indices: &[u32],
        dropout: Option<&BpeDropout>,
    ) -> Result<Batch, DataError> {
        let config = &self.config;
        let examples = indices.iter().map(|&example| match dropout {
            Some(dropout) => dropout.sample(cache, config, example, self.number),
            None => cache.example(example),
        });
        let examples: Vec<_> = examples.collect::<Result<_, _>>()?;
        let tokenizers = cache.tokenizers();
        let key = |row: usize| Purpose::Row.mix(&[config.seed, self.number, u64::from(indices[row])]);
        let sides = (&*tokenizers.src, &*tokenizers.tgt);
        let mut batch = config.framing.batch(&examples, key, sides, config.pad_multiple);
        if config.links && dropout.is_none() && cache.is_aligned() {
            let links = indices.iter().map(|&example| cache.links(example));
            batch = batch.with_links(&links.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(Batch { example_indices: indices.to_vec(), ..batch })
    }

    fn batch_of_windows(&self, cache: &IdCache, windows: &Windows, indices: &[u32]) -> Result<Batch, DataError> {
        let read: Vec<_> = indices.iter().map(|&window| windows.read(cache, window)).collect::<Result<_, _>>()?;
        let (example_indices, rows): (_, Vec<_>) = read.into_iter().unzip();
        let batch = Batch::of_windows(&rows, cache.tokenizers().tgt.special(), self.config.pad_multiple);
        Ok(Batch { example_indices, ..batch })
    }

    fn batch_of_skip_grams(
        &self,
        cache: &IdCache,
        sampler: &SkipGramSampler,
        indices: &[u32],
    ) -> Result<Batch, DataError> {
        let (mut example_indices, mut rows) = (Vec::new(), Vec::new());
        for &index in indices {
            let drawn = sampler.rows(&cache.example(index)?.tgt, &[self.config.seed, self.number, u64::from(index)]);
            example_indices.resize(example_indices.len() + drawn.len(), index);
            rows.extend(drawn);
        }
        if rows.is_empty() {
            (example_indices, rows) = (indices[..1].to_vec(), vec![sampler.nothing()]);
        }
        Ok(Batch { example_indices, ..Batch::of_skip_grams(&rows) })
    }

    /// Numbers of source and target ids of an example or a window.
    fn lengths(&self, cache: &IdCache, item: u32) -> (usize, usize) {
        match &self.windows {
            None => cache.lengths(item),
            Some(windows) => windows.lengths(item),
        }
    }
}

/// Counts the target ids of an id cache, which are the only ones of text that has one side.
fn skip_gram_sampler(config: SkipGrams, cache: &IdCache) -> Result<SkipGramSampler, DataError> {
    let tokenizer = &cache.tokenizers().tgt;
    let lines = (0..cache.len() as u32).map(|example| Ok(cache.example(example)?.tgt));
    SkipGramSampler::count(config, tokenizer.special(), tokenizer.vocab_size(), lines)
}

fn plan_examples(cache: &IdCache, config: &BatchingConfig, epoch: u64) -> Result<EpochPlan, DataError> {
    EpochPlan::new(|example| cache.lengths(example), &cache.parts(), config, epoch).map_err(|mut error| {
        if let DataError::LargerThanBatch { example, place, .. } = &mut error
            && let Ok((file, line)) = cache.origin(*example)
        {
            *place = format!("`{file}` line {line}");
        }
        error
    })
}
