//! How large a batch may be: what stands behind `train.max_tokens = "auto"`.

use std::fs;

use burn::tensor::Device;
use polyglow_data::batching::BatchingConfig;
use polyglow_data::epoch::Epoch;
use polyglow_data::id_cache::IdCache;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::{Model, ModelShape};

use super::memory::MemoryEstimate;
use super::{has_kernels, try_step};
use crate::config::Config;
use crate::config::MaxTokens;
use crate::device::has_own_memory;
use crate::error::{Result, failed, with_hint};
use crate::observer::Observer;
use crate::run::model_shape;
use crate::train::{batching, training_device};
use crate::workload::BatchShape;

/// Where a GPU is tried beyond which it hardly gets faster: its cores have been busy long before.
const MOST: usize = 1 << 16;
/// Halvings of what lies between a size that fits and one that does not.
const HALVINGS: usize = 2;
/// What is left of the largest size that fits: memory falls into pieces in a long training.
const KEPT: f64 = 0.9;
/// Sizes are multiples of this, where they are larger.
const MULTIPLE: usize = 64;

/// The largest `train.max_tokens` for this model, text and device.
///
/// On a GPU with memory of its own, steps on batches of its longest sentences are tried: from the default on, each twice
/// as large as the one before as long as they fit, up to 65536, and then in between; a tenth of what fits is left free. On
/// everything else memory is shared with the rest of the machine, and nothing is tried: it is the default, or halved until
/// the formula of [`MemoryEstimate`] comes to half of the memory that is free.
///
/// # Errors
/// The device cannot do what the configuration asks; not even one sentence fits.
pub fn find_max_tokens(
    config: &Config,
    tokenizers: &Tokenizers,
    cache: &IdCache,
    device: &Device,
    observer: &mut dyn Observer,
) -> Result<usize> {
    let model = model_shape(config, tokenizers)?;
    let training = training_device(config, device)?;
    let every = Epoch::new(cache, &BatchingConfig { max_tokens: usize::MAX, ..batching(config) }, 0)?;
    let least = every.least_tokens(cache).max(1);
    let start = MaxTokens::default().tokens().max(least);
    // Both sides as long as the longer one: a batch may have two long sides.
    let tgt_len = if config.model.task().is_classification() { 1 } else { least };
    let shape = |tokens: usize| BatchShape { rows: (tokens / least).max(1), src_len: least, tgt_len };
    let found = if has_own_memory(&config.device)? {
        let fresh = model.init(config.seed, &training);
        let found = largest(least, start, |tokens| {
            observer.activity(&format!("looking for the largest batch: {tokens} tokens"));
            let batch = shape(tokens).random_batch_for(&fresh);
            let fits = try_step(config, fresh.clone(), &batch, &training);
            device.memory_cleanup();
            if let Err(error) = &fits {
                tracing::info!("{tokens} tokens do not fit: {error}");
            }
            fits.map(drop)
        });
        observer.idle();
        found
    } else {
        let fresh = model.init(config.seed, device);
        let room = available_memory().map_or(u64::MAX, |free| free / 2);
        Ok(halved(least, start, |tokens| estimate(config, &model, &fresh, shape(tokens)) <= room))
    };
    found.map_err(|error| {
        let error = error.context("`train.max_tokens = \"auto\"`: not even one of the longest sentences fits");
        with_hint(error, "a smaller model, a lower `data.max_len`, or `train.gradient_checkpointing = true` may do")
    })
}

fn estimate(config: &Config, shape: &ModelShape, model: &Model, batch: BatchShape) -> u64 {
    MemoryEstimate::new(shape, &config.train, model, batch, has_kernels(config)).total
}

/// The first of `start` and its halves that fits, and at least `least`.
fn halved(least: usize, start: usize, fits: impl Fn(usize) -> bool) -> usize {
    let sizes = std::iter::successors(Some(start), |tokens| Some(tokens / 2));
    sizes.take_while(|tokens| *tokens > least).find(|tokens| fits(*tokens)).unwrap_or(least)
}

/// What [`find_max_tokens`] says of a GPU.
///
/// # Errors
/// The error of the smallest size, if none fits.
fn largest(least: usize, start: usize, mut fits: impl FnMut(usize) -> Result<()>) -> Result<usize> {
    let mut fails = |tokens| fits(tokens).err();
    let (mut good, mut bad) = (None, None);
    let mut tokens = start;
    while bad.is_none() && tokens <= MOST {
        match fails(tokens) {
            None => good = Some(tokens),
            Some(_) => bad = Some(tokens),
        }
        tokens *= 2;
    }
    while good.is_none() {
        let smaller = (bad.unwrap_or(start) / 2).max(least);
        match fails(smaller) {
            None => good = Some(smaller),
            Some(error) if smaller == least => return Err(error),
            Some(_) => bad = Some(smaller),
        }
    }
    let mut good = good.ok_or_else(|| failed!("no size was tried"))?;
    for _ in 0..HALVINGS {
        let Some(limit) = bad else { break };
        let middle = good.midpoint(limit);
        match fails(middle) {
            None => good = middle,
            Some(_) => bad = Some(middle),
        }
    }
    let kept = (good as f64 * KEPT) as usize;
    Ok((kept - if kept > MULTIPLE { kept % MULTIPLE } else { 0 }).max(least))
}

/// Memory that the system could give to a process, in bytes; none where it does not tell.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ensure;

    /// A device that holds so many tokens, and what is tried on it.
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
        assert_eq!(found(600, 100), (Some(448), vec![4096, 2048, 1024, 512, 768, 640]));
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
