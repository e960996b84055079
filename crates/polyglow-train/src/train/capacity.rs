//! The largest batch that fits, for `train.max_tokens = "auto"`.

use std::cmp::Reverse;

use polyglow_data::batching::EpochPlan;
use polyglow_data::sources::BatchSource;
use polyglow_model::{Model, ModelShape};
use polyglow_predict::device::has_own_memory;
use polyglow_predict::error::{Result, TrainError, failed, with_hint};
use polyglow_predict::settings::DEFAULT_MAX_TOKENS;

use super::memory::{MemoryEstimate, available_memory};
use super::try_step;
use crate::observer::Observer;
use crate::plan::Plan;
use crate::tasks::{Setting, Task, TrainingData, configured};
use crate::workload::BatchShape;

/// The largest size that is tried: a GPU is busy long before, and larger batches hardly make it
/// faster.
const MOST: usize = 1 << 16;
/// Bisections between a size that fits and one that does not.
const HALVINGS: usize = 2;
/// The part of the largest fitting size that is used: memory gets fragmented in a long training.
const KEPT: f64 = 0.9;
/// The result is a multiple of this, unless it is smaller.
const MULTIPLE: usize = 64;

/// Finds the largest `train.max_tokens` for this model, data and device.
///
/// On a GPU with memory of its own, steps on batches of its longest examples are tried: from the
/// default on, each twice as large as the one before as long as they fit, up to 65536, and then in
/// between; a tenth of what fits is left free. On everything else memory is shared with the rest of
/// the machine, and nothing is tried: it is the default, or halved until the formula of
/// [`MemoryEstimate`] comes to half of the memory that is free.
///
/// # Errors
/// The device cannot do what the plan asks; not even one example fits.
pub fn find_max_tokens(
    setting: Setting,
    shape: &ModelShape,
    data: &TrainingData,
    observer: &mut dyn Observer,
) -> Result<usize> {
    let plan = setting.plan.clone();
    // All examples are in one batch then, however long they are.
    let setting = Setting {
        plan: setting.plan.with_max_tokens(usize::MAX),
        ..setting
    };
    let task = configured(setting, data)?;
    search(&task, &plan, shape, observer).map_err(|error| {
        let error =
            error.context("`train.max_tokens = \"auto\"`: not even one of the longest examples fits into memory");
        with_hint(error, "a smaller model, a lower `data.max_len`, or `train.gradient_checkpointing = true` may help")
    })
}

/// As [`find_max_tokens`], for batches of a task.
fn search<T: Task<Model = Model>>(
    task: &T,
    plan: &Plan,
    shape: &ModelShape,
    observer: &mut dyn Observer,
) -> Result<usize> {
    let source = &**task.source();
    let longest = LongestItems::new(source)?;
    let least = longest.tokens;
    let start = DEFAULT_MAX_TOKENS.max(least);
    if !has_own_memory(&plan.config.device)? {
        return Ok(halved(
            least,
            start,
            fits_in_memory(plan, shape, source, &longest),
        ));
    }
    let fresh = shape.init(plan.config.seed, &plan.training_device()?);
    let best = largest(least, start, |tokens| {
        observer.activity(&format!("looking for the largest batch: {tokens} tokens"));
        let items = longest.batch(tokens);
        let fits = try_step(task, plan, fresh.clone(), || {
            Ok(vec![source.batch(0, &items).map_err(Into::into)?])
        });
        // The next size must find the memory that this one has used.
        plan.device.memory_cleanup();
        if let Err(error) = &fits {
            tracing::info!("{tokens} tokens do not fit: {error}");
        }
        fits.map(drop)
    });
    observer.idle();
    let best = best?;
    if plan.config.tokenizer.segmentation().is_fixed() {
        return Ok(best);
    }
    // With new segmentations what was tried is one draw; another may be as long as what was planned.
    let items = longest.batch(best);
    let planned = BatchShape::from(source.size(0, &items).0).positions();
    let drawn = source.batch(0, &items).map_err(Into::into)?;
    let drawn = task.size(&drawn).shape.positions();
    Ok((best * drawn / planned.max(1)).max(least))
}

/// The items that make the largest batches: they are repeated until a batch is full.
struct LongestItems {
    /// The item with the longest source and the one with the longest target, the larger one first.
    items: [u32; 2],
    /// Tokens of the larger one, as `max_tokens` counts them.
    tokens: usize,
}

impl LongestItems {
    /// Finds them in the first epoch of a source.
    fn new<S: BatchSource<Error: Into<TrainError>>>(source: &S) -> Result<Self> {
        let epoch = source.plan(0).map_err(Into::into)?;
        let mut items = [1, 2].map(|side| widest_item(source, &epoch, side));
        items.sort_by_key(|&item| Reverse(tokens(source, item)));
        Ok(Self {
            items,
            tokens: tokens(source, items[0]).max(1),
        })
    }

    /// Returns the items of a batch of `tokens` tokens, and at least one item.
    fn batch(&self, tokens: usize) -> Vec<u32> {
        let len = (tokens / self.tokens).max(1);
        self.items.into_iter().cycle().take(len).collect()
    }
}

/// Returns the item of an epoch that is the longest on a side: 1 for the source, 2 for the target.
fn widest_item<S: BatchSource>(source: &S, epoch: &EpochPlan, side: usize) -> u32 {
    let items = (0..epoch.len()).flat_map(|batch| epoch.batch(batch).iter().copied());
    items
        .max_by_key(|&item| (source.size(0, &[item]).0[side], tokens(source, item)))
        .unwrap_or(0)
}

/// Counts the tokens of an item as `max_tokens` does.
fn tokens<S: BatchSource>(source: &S, item: u32) -> usize {
    let [rows, src_len, tgt_len] = source.size(0, &[item]).0;
    rows * src_len.max(tgt_len)
}

/// Makes a function that returns whether a step on batches of a number of tokens takes no more than
/// half of the memory that is free, by the formula of [`MemoryEstimate`].
fn fits_in_memory<S: BatchSource>(
    plan: &Plan,
    shape: &ModelShape,
    source: &S,
    longest: &LongestItems,
) -> impl Fn(usize) -> bool {
    let fresh = shape.init(plan.config.seed, &plan.device);
    let processes = plan.group.local_size() as u64;
    let room = available_memory().map_or(u64::MAX, |free| free / 2 / processes);
    move |tokens| {
        // With a row less a batch may have fewer shards, of each of which more is held at once.
        [tokens, tokens - longest.tokens].into_iter().all(|tokens| {
            let batch = BatchShape::from(source.size(0, &longest.batch(tokens)).0);
            MemoryEstimate::new(plan, shape, &fresh, batch).total <= room
        })
    }
}

/// Returns the first of `start` and its halves that fits, and at least `least`.
fn halved(least: usize, start: usize, fits: impl Fn(usize) -> bool) -> usize {
    let sizes = std::iter::successors(Some(start), |tokens| Some(tokens / 2));
    sizes
        .take_while(|tokens| *tokens > least)
        .find(|tokens| fits(*tokens))
        .unwrap_or(least)
}

/// Returns the largest size that fits on a GPU by trial, between `least` and [`MOST`]; `start` is
/// tried first.
///
/// # Errors
/// The error of the smallest size, if none fits.
fn largest(least: usize, start: usize, mut fits: impl FnMut(usize) -> Result<()>) -> Result<usize> {
    let mut good = None;
    let mut bad = None;
    // Upwards, until one does not fit.
    let mut tokens = start;
    while bad.is_none() && tokens <= MOST {
        match fits(tokens) {
            Ok(()) => good = Some(tokens),
            Err(_) => bad = Some(tokens),
        }
        tokens *= 2;
    }
    // Downwards, if not even the first fits.
    while good.is_none() {
        let smaller = (bad.unwrap_or(start) / 2).max(least);
        match fits(smaller) {
            Ok(()) => good = Some(smaller),
            Err(error) if smaller == least => return Err(error),
            Err(_) => bad = Some(smaller),
        }
    }
    let mut good = good.ok_or_else(|| failed!("no size was tried"))?;
    for _ in 0..HALVINGS {
        let Some(limit) = bad else { break };
        let middle = good.midpoint(limit);
        match fits(middle) {
            Ok(()) => good = middle,
            Err(_) => bad = Some(middle),
        }
    }
    let kept = (good as f64 * KEPT) as usize;
    Ok((kept - if kept > MULTIPLE { kept % MULTIPLE } else { 0 }).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyglow_predict::error::ensure;

    /// A device that holds this many tokens, and what is tried on it.
    fn found(capacity: usize, least: usize) -> (Option<usize>, Vec<usize>) {
        let mut tried = Vec::new();
        let found = largest(least, 4096, |tokens| {
            tried.push(tokens);
            ensure!(tokens <= capacity, "out of memory");
            Ok(())
        });
        (found.ok(), tried)
    }

    #[test]
    fn the_largest_batch_is_found_between_doublings_and_a_tenth_is_left_free() {
        let (tokens, tried) = found(13_000, 100);
        assert_eq!(tried, [4096, 8192, 16384, 12288, 14336]);
        // 0.9 times 12288 is 11059, and 172 times 64 is 11008.
        assert_eq!(tokens, Some(11_008));
    }

    #[test]
    fn a_small_device_is_found_downwards_and_a_large_one_has_an_end() {
        assert_eq!(
            found(600, 100),
            (Some(448), vec![4096, 2048, 1024, 512, 768, 640])
        );
        assert_eq!(found(1 << 30, 100).0, Some(58_944));
        assert_eq!(found(120, 100).0, Some(100));
        assert_eq!(found(99, 100).0, None);
    }

    #[test]
    fn where_memory_is_shared_nothing_is_tried_and_the_default_is_halved() {
        assert_eq!(halved(100, 4096, |_| true), 4096);
        assert_eq!(halved(100, 4096, |tokens| tokens < 2000), 1024);
        assert_eq!(halved(100, 4096, |_| false), 100);
    }
}
