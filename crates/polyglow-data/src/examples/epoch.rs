//! An epoch: which examples, or windows of their text, form which batch, and these batches.

use crate::batch::Batch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::dropout::BpeDropout;
use crate::error::DataError;
use crate::framing::Framing;
use crate::id_cache::IdCache;
use crate::random::Purpose;
use crate::skip_gram::{SkipGramSampler, SkipGrams};
use crate::window::Windows;

/// The batches of one epoch of an id cache, a pure function of the cache, the configuration and the epoch's number.
#[derive(Debug, Clone)]
pub struct Epoch {
    config: BatchingConfig,
    number: u64,
    /// Of examples, or of windows if there are any.
    plan: EpochPlan,
    windows: Option<Windows>,
    /// Draws the rows of an example, where these are more than one.
    sampler: Option<SkipGramSampler>,
}

impl Epoch {
    /// Plans the epoch number `number`, counted from 0.
    ///
    /// # Errors
    /// [`DataError::LargerThanBatch`] if one row alone exceeds `max_tokens`; and what [`Windows::new`] says.
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

    /// The least `max_tokens` that each row, or all rows of an example together, can be planned with.
    pub fn least_tokens(&self, cache: &IdCache) -> usize {
        let items = (0..self.len()).flat_map(|position| self.plan.batch(position));
        items
            .map(|&item| self.config.positions(self.lengths(cache, item)))
            .map(|(src, tgt)| src.max(tgt))
            .max()
            .unwrap_or(0)
    }

    /// Rows, padded source positions and padded target positions that the batch at `position` has at most. BPE dropout
    /// leaves it smaller, and skip-grams about a quarter as large: of a word's window and of frequent words, only what is
    /// drawn is in it.
    ///
    /// # Panics
    /// If there is no such batch.
    pub fn shape(&self, cache: &IdCache, position: usize) -> [usize; 3] {
        let rows = self.plan.batch(position).iter().map(|&item| self.config.positions(self.lengths(cache, item)));
        self.config.framing.shape(rows)
    }

    /// Source and target positions of the batch at `position` that are no padding, without dropout.
    ///
    /// # Panics
    /// If there is no such batch.
    pub fn num_real_positions(&self, cache: &IdCache, position: usize) -> usize {
        let rows = self.plan.batch(position).iter();
        let rows = rows.map(|&item| self.config.framing.positions(self.lengths(cache, item)));
        rows.map(|(src, tgt)| src + tgt).sum()
    }

    /// The batch at `position`, with other segmentations of its words if there is `dropout`.
    ///
    /// # Errors
    /// As [`IdCache::example`].
    ///
    /// # Panics
    /// If there is no such batch.
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
        let key = |row: usize| Purpose::Masking.mix(&[config.seed, self.number, u64::from(indices[row])]);
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

    /// Source and target ids of an example or a window.
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
