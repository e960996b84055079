//! Planning an epoch: which examples form which batch, as a pure function of their lengths, the
//! seed and the epoch.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::DataError;
use crate::random::{Purpose, below, shuffle};
use crate::tokenizer::Segmentation;

/// The longest length, in tokens, that sorting tells apart from others: 20 bits.
const MAX_SORTED_LEN: usize = 0xF_FFFF;

/// The settings by which examples are grouped into batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchingConfig {
    /// Maximum number of tokens in a batch: rows times the longest padded side, source or target.
    pub max_tokens: usize,
    /// Padded lengths are rounded up to multiples of this: 1 wastes least, 8 suits GPUs.
    pub pad_multiple: usize,
    /// Seed of the order and of everything random in the rows.
    pub seed: u64,
    /// The segmentation of words. New segmentations make rows longer; batches leave room for that.
    pub segmentation: Segmentation,
    /// The rules by which an epoch selects examples.
    pub selection: Selection,
}

/// The version of the rules that select what a run is trained on. A run keeps the rules that it
/// began with, so that it resumes with the same examples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Selection {
    /// Every epoch rounds the size of a weighted part by itself, and `data.max_examples` takes the
    /// first images.
    V1,
    /// The sizes of a weighted part are rounded over all epochs together, and `data.max_examples`
    /// draws images by the seed.
    #[default]
    V2,
}

impl Selection {
    /// The rules of runs that were made before a run recorded its rules.
    pub fn unrecorded() -> Self {
        Self::V1
    }
}

/// The batches of one epoch, in their order.
///
/// Examples are sorted by their padded lengths, in random order among equals, and cut into batches;
/// then the batches are shuffled. Any position can be accessed directly, so a run can be resumed in
/// the middle of an epoch.
///
/// # How random that is
///
/// The order of the batches is new in every epoch, and no example is left out. Who shares a batch
/// is new only as far as there are ties: examples of equal lengths on both sides are dealt anew,
/// those of other lengths stay where their lengths put them. The more examples there are of each
/// pair of lengths, the more is mixed. On 30 000 pairs of 4 to 40 tokens in batches of 4 096, 72 %
/// of an example's neighbors in a batch are its neighbors again in the next epoch, on 3 000 such
/// pairs 96 % (a test counts them). In return there is hardly any padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochPlan {
    order: Vec<u32>,
    batches: Vec<Range<u32>>,
}

impl BatchingConfig {
    /// Returns the length for which a side of `len` tokens is planned: see
    /// [`Segmentation::planned_len`].
    pub fn planned_len(&self, len: usize) -> usize {
        self.segmentation.planned_len(len)
    }

    /// A length rounded up to a multiple of `pad_multiple`.
    pub fn padded(&self, len: usize) -> usize {
        len.next_multiple_of(self.pad_multiple.max(1))
    }
}

impl EpochPlan {
    /// Plans the epoch number `epoch`, counted from 0.
    ///
    /// `positions` gives the padded source and target positions that an example takes up. `parts`
    /// are the examples of each corpus and how often an epoch holds each of them: 2.0 is twice, 0.5
    /// a random half that differs between epochs. By [`Selection::V2`], what is no whole number of
    /// examples is rounded over all epochs together, so that even a part of one example with the
    /// weight 0.1 comes every tenth epoch.
    ///
    /// # Errors
    /// [`DataError::LargerThanBatch`] if one example alone exceeds `max_tokens`.
    pub fn new(
        positions: impl Fn(u32) -> (usize, usize) + Sync,
        parts: &[(Range<u32>, f64)],
        config: &BatchingConfig,
        epoch: u64,
    ) -> Result<Self, DataError> {
        let chosen = choose(parts, config, epoch);
        let mut keyed: Vec<(u64, u32)> = chosen
            .into_par_iter()
            .enumerate()
            .map(|(entry, example)| {
                let tie = Purpose::Ties.mix(&[config.seed, epoch, entry as u64]);
                (sort_key(positions(example), tie), example)
            })
            .collect();
        keyed.par_sort_unstable();
        let order: Vec<u32> = keyed.into_iter().map(|(_, example)| example).collect();
        let mut batches = cut(&order, &positions, config)?;
        // Otherwise training would go from short sentences to long ones in every epoch.
        shuffle(&mut batches, Purpose::BatchOrder.mix(&[config.seed, epoch]));
        Ok(Self { order, batches })
    }

    /// Makes a plan of these batches, in this order, such as those of a source of one's own.
    pub fn of_batches(batches: impl IntoIterator<Item = Vec<u32>>) -> Self {
        let mut plan = Self {
            order: Vec::new(),
            batches: Vec::new(),
        };
        for items in batches {
            let start = plan.order.len() as u32;
            plan.order.extend(items);
            plan.batches.push(start..plan.order.len() as u32);
        }
        plan
    }

    /// Number of batches.
    pub fn len(&self) -> usize {
        self.batches.len()
    }

    /// Whether there is no batch.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns the examples of the batch at `position`.
    ///
    /// # Panics
    /// If `position` is not less than [`EpochPlan::len`].
    pub fn batch(&self, position: usize) -> &[u32] {
        let Range { start, end } = self.batches[position];
        &self.order[start as usize..end as usize]
    }
}

/// Returns the examples of an epoch, selected by the weights of their corpora.
fn choose(parts: &[(Range<u32>, f64)], config: &BatchingConfig, epoch: u64) -> Vec<u32> {
    let mut chosen = Vec::new();
    for (range, weight) in parts {
        for _ in 0..weight.floor() as u64 {
            chosen.extend(range.clone());
        }
        let share = weight.fract();
        if share > 0.0 {
            let count = num_drawn(range.len() as u64, share, config.selection, epoch);
            draw(range.clone(), count, config.seed, epoch, &mut chosen);
        }
    }
    chosen
}

/// Draws `count` examples of a range, and appends them to `chosen` in their order.
fn draw(range: Range<u32>, count: u64, seed: u64, epoch: u64, chosen: &mut Vec<u32>) {
    // Selection sampling (Knuth, TAOCP 3.4.2, algorithm S) draws exactly that many in one pass.
    let mut num_examples = range.len() as u64;
    let mut num_to_draw = count;
    for example in range {
        let key = Purpose::Selection.mix(&[seed, epoch, u64::from(example)]);
        if below(key, num_examples) < num_to_draw {
            chosen.push(example);
            num_to_draw -= 1;
        }
        num_examples -= 1;
    }
}

/// The number of examples that an epoch draws of `len` examples, where `share` of them is due.
fn num_drawn(len: u64, share: f64, selection: Selection, epoch: u64) -> u64 {
    match selection {
        Selection::V1 => num_drawn_before(1, len, share),
        Selection::V2 => {
            num_drawn_before(epoch + 1, len, share) - num_drawn_before(epoch, len, share)
        }
    }
}

/// The number of examples that all epochs before `epoch` draw together.
fn num_drawn_before(epoch: u64, len: u64, share: f64) -> u64 {
    (epoch as f64 * len as f64 * share).round() as u64
}

/// Packs padded lengths into a key by whose order examples with similar lengths on both sides are
/// neighbors: by source length, and then by target length, which ascends for even source lengths
/// and descends for odd ones. The highest bits of `tie` decide among equals.
fn sort_key((src, tgt): (usize, usize), tie: u64) -> u64 {
    // Images and windows may be longer than 20 bits can express; those count as equally long.
    let src = src.min(MAX_SORTED_LEN);
    let tgt = tgt.min(MAX_SORTED_LEN);
    let tgt = if src % 2 == 0 {
        tgt
    } else {
        MAX_SORTED_LEN - tgt
    };
    (src as u64) << 44 | (tgt as u64) << 24 | tie >> 40
}

/// Cuts sorted examples into batches of at most `max_tokens` padded tokens.
fn cut(
    order: &[u32],
    positions: impl Fn(u32) -> (usize, usize),
    config: &BatchingConfig,
) -> Result<Vec<Range<u32>>, DataError> {
    let mut batches = Vec::new();
    let mut start = 0;
    let mut longest = 0;
    for (end, &example) in order.iter().enumerate() {
        let (src, tgt) = positions(example);
        let tokens = src.max(tgt);
        if tokens > config.max_tokens {
            return Err(DataError::LargerThanBatch {
                example,
                name: format!("example {example}"),
                tokens,
                max_tokens: config.max_tokens,
            });
        }
        longest = tokens.max(longest);
        if (end - start + 1) * longest > config.max_tokens {
            batches.push(start as u32..end as u32);
            start = end;
            longest = tokens;
        }
    }
    // The last batch may be smaller than the others.
    if start < order.len() {
        batches.push(start as u32..order.len() as u32);
    }
    Ok(batches)
}
