//! Rows through models and back: encode, sort, batch, upload, forward, read, reorder, for every
//! command.

use std::cmp::Reverse;
use std::sync::Arc;

use burn::tensor::Device;
use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_model::search::{SearchConfig, SearchRequest};
use polyglow_model::{Model, computes_on_host};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Result, ensure};
use crate::group::Group;
use crate::parallel;
use crate::source::{ImageReader, SourceEncoder};
use crate::tasks::TaskUse;

/// Bytes of the longest line that is encoded as a whole. The tokenizers' library needs a hundred
/// times the size of what it encodes, so longer lines are cut first.
pub const ENCODED_WHOLE: usize = 1 << 16;

/// Padded positions in a batch, times the beam, at most where the CPU searches: then keys, values
/// and scores stay near the cores.
const MOST_ON_HOST: usize = 1024;
/// Where one batch is not enough for the CPU, their number is rounded up to a multiple of this: two
/// cores or four have as many each.
const MULTIPLE: usize = 4;

/// Models in use, one or an ensemble, with all that they need. It owns everything, and threads can
/// share it.
#[derive(Clone)]
pub struct Runner<M = Model> {
    /// The models; at least one, on a device that does not differentiate. Clones share them.
    pub members: Arc<[Member<M>]>,
    /// The target side's tokenizer, the same for all members.
    pub tgt: Arc<Tokenizer>,
    /// What the models were trained for.
    pub task: Arc<dyn TaskUse>,
    /// How hypotheses are searched for where a request leaves it open.
    search: SearchConfig,
    /// Where the models are.
    pub device: Device,
    /// Padded positions in a batch, times the beam, at most; a search on the CPU has 1,024 at most
    /// in any case.
    pub max_tokens: usize,
    /// Whether a few rows become a batch for each core, where the CPU searches. Their numbers then
    /// depend in their last digits on how many cores there are.
    pub spread: bool,
    /// What padded lengths are multiples of.
    pub pad_multiple: usize,
    /// The most tokens of a side that all members can read, without the end mark; as many can be
    /// written.
    pub longest: usize,
    /// The processes that share the work: each runs some of the batches, and all get all results.
    pub group: Arc<dyn Group>,
    /// How sources are encoded.
    pub sources: SourceEncoder,
}

/// A model with the tokenizer of its source side.
#[derive(Clone)]
pub struct Member<M = Model> {
    /// The model.
    pub model: M,
    /// The source side's tokenizer.
    pub src: Arc<Tokenizer>,
}

/// How a [`Runner`] uses its models.
#[derive(Clone)]
pub struct Options {
    /// What the models were trained for.
    pub task: Arc<dyn TaskUse>,
    /// How hypotheses are searched for where a request leaves it open.
    pub search: SearchConfig,
    /// Where the models are.
    pub device: Device,
    /// Padded positions in a batch, times the beam, at most.
    pub max_tokens: usize,
    /// What padded lengths are multiples of.
    pub pad_multiple: usize,
    /// The most tokens of a side that the models read, without the end-of-sentence token.
    pub longest: usize,
    /// The processes that share the work.
    pub group: Arc<dyn Group>,
    /// Reads the images that are described; `None` where no files are opened.
    pub image_reader: Option<ImageReader>,
}

impl<M> Runner<M> {
    /// Makes a runner of one model.
    pub fn new(model: M, tokenizers: &Tokenizers, options: Options) -> Self {
        let member = Member {
            model,
            src: Arc::clone(&tokenizers.src),
        };
        Self::from_members(vec![member], Arc::clone(&tokenizers.tgt), options)
    }

    /// Makes a runner of an ensemble, whose members all write tokens of `tgt`.
    pub fn from_members(members: Vec<Member<M>>, tgt: Arc<Tokenizer>, options: Options) -> Self {
        Self {
            members: members.into(),
            tgt,
            sources: SourceEncoder::new(&*options.task, options.image_reader),
            task: options.task,
            search: options.search,
            device: options.device,
            max_tokens: options.max_tokens,
            spread: false,
            pad_multiple: options.pad_multiple,
            longest: options.longest,
            group: options.group,
        }
    }

    /// Returns how hypotheses are searched for where a request leaves it open.
    pub fn search(&self) -> &SearchConfig {
        &self.search
    }

    /// Returns the runner with another config for what requests leave open.
    #[must_use]
    pub fn with_search(self, search: SearchConfig) -> Self {
        Self { search, ..self }
    }

    /// Returns the config of the search for a request. Every search of a runner is checked here.
    ///
    /// # Errors
    /// The request is out of range, or does not fit the rest of the config.
    pub fn search_for(&self, request: &SearchRequest) -> Result<SearchConfig> {
        let search = self.search.for_request(request, self.tgt.vocab_size());
        Ok(search?)
    }

    /// Runs rows in batches, the longest first, so that the first batch shows whether the memory
    /// suffices, and returns what `run` gives for each row, in the order of `rows`. `width` gives
    /// the positions that one hypothesis for a row takes up, of which a search keeps `beam_size`.
    /// On the CPU several batches run in parallel; `ended` is called after each, in this thread.
    ///
    /// # Errors
    /// The first error of `run`.
    pub fn longest_first<R: Sync, T: Send + Serialize + DeserializeOwned>(
        &self,
        rows: &[R],
        beam_size: usize,
        width: impl Fn(&R) -> usize,
        run: impl Fn(&[&R]) -> Result<Vec<T>> + Sync,
        mut ended: impl FnMut(&[&R]),
    ) -> Result<Vec<T>>
    where
        M: Sync,
    {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&row| Reverse(width(&rows[row])));
        let width = |batch: &[usize]| batch.first().map_or(0, |&row| width(&rows[row]) + 1);
        let cost = |batch: &[usize]| batch.len() * self.padded(width(batch)) * beam_size;
        let on_host = computes_on_host(&self.device);
        let is_parallel = self.group.is_alone() && on_host;
        let threads = if is_parallel {
            rayon::current_num_threads()
        } else {
            1
        };
        let most = if self.spread {
            rows.len().div_ceil(threads)
        } else {
            rows.len()
        };
        let batches = |limit| batches(rows, &order, most, limit, cost);
        // Several processes have the batches of one.
        let even = || {
            even_limit(self.max_tokens.min(MOST_ON_HOST), |limit| {
                batches(limit).len()
            })
        };
        let batches = batches(if on_host { even() } else { self.max_tokens });
        let results = if is_parallel {
            let mut results = Vec::with_capacity(batches.len());
            let take = |index: usize, batch: Vec<T>| {
                ended(&batches[index]);
                results.push(batch);
            };
            // As in a training step, on one of the pool's threads.
            let run = |index: usize| rayon::scope(|_| run(&batches[index]));
            parallel::each(batches.len(), threads, run, take)?;
            results
        } else {
            self.deal(&batches, |batch| run(batch).inspect(|_| ended(batch)))?
        };
        Ok(in_order(&order, results))
    }

    /// Runs rows in batches, the shortest first, each of at most `max_tokens` padded positions, and
    /// returns what `run` gives for each row, in the order of `rows`.
    ///
    /// # Errors
    /// The first error of `run`.
    pub fn shortest_first<R, T: Serialize + DeserializeOwned>(
        &self,
        rows: &[R],
        width: impl Fn(&R) -> usize,
        mut run: impl FnMut(&[&R]) -> Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&row| width(&rows[row]));
        let cost = |batch: &[usize]| {
            batch.len() * self.padded(batch.last().map_or(0, |&row| width(&rows[row])))
        };
        let batches = batches(rows, &order, rows.len(), self.max_tokens, cost);
        let results = self.deal(&batches, |batch| run(batch))?;
        Ok(in_order(&order, results))
    }

    /// What `run` gives for each batch, in their order. The group's processes deal the batches
    /// among each other, one after the other; the batches themselves do not depend on how many
    /// processes there are, and so neither do the results.
    ///
    /// # Errors
    /// The first error of `run`, in every process; another cannot be reached, or has other batches.
    pub fn deal<B, T: Serialize + DeserializeOwned>(
        &self,
        batches: &[B],
        mut run: impl FnMut(&B) -> Result<T>,
    ) -> Result<Vec<T>> {
        let (rank, size) = (self.group.rank(), self.group.size());
        let own: Result<Vec<T>> = batches
            .iter()
            .skip(rank)
            .step_by(size)
            .map(&mut run)
            .collect();
        let dealt = self
            .group
            .gather_results(own)?
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        for (rank, dealt) in dealt.iter().enumerate() {
            let wanted = batches.len().saturating_sub(rank).div_ceil(size);
            ensure!(
                dealt.len() == wanted,
                "{} works on another text than this one",
                self.group.name(rank)
            );
        }
        let mut dealt: Vec<_> = dealt.into_iter().map(Vec::into_iter).collect();
        Ok((0..batches.len())
            .filter_map(|place| dealt[place % size].next())
            .collect())
    }

    pub(super) fn padded(&self, len: usize) -> usize {
        len.next_multiple_of(self.pad_multiple.max(1))
    }
}

/// The lowest limit that gives as few batches as `most` does, their number rounded up for the
/// cores: then all of them have about the same size. `count` is how many a limit gives, which a
/// higher one never makes more.
fn even_limit(most: usize, count: impl Fn(usize) -> usize) -> usize {
    let fewest = count(most);
    // What is more than half a batch keeps two cores busy.
    let wanted = if fewest > 1 {
        fewest.next_multiple_of(MULTIPLE)
    } else {
        count(most / 2).min(2)
    };
    let (mut too_low, mut enough) = (0, most);
    while enough - too_low > 1 {
        let middle = too_low.midpoint(enough);
        if count(middle) > wanted {
            too_low = middle;
        } else {
            enough = middle;
        }
    }
    enough
}

/// Rows in this order, at a time as many as cost no more than the limit, and `most` of them at
/// most.
fn batches<'a, R>(
    rows: &'a [R],
    order: &[usize],
    most: usize,
    limit: usize,
    cost: impl Fn(&[usize]) -> usize,
) -> Vec<Vec<&'a R>> {
    let (mut rest, mut batches) = (order, Vec::new());
    while !rest.is_empty() {
        let fits = |count: &usize| cost(&rest[..*count]) <= limit;
        let count = (2..=rest.len().min(most))
            .take_while(fits)
            .last()
            .unwrap_or(1);
        let (batch, later) = rest.split_at(count);
        batches.push(batch.iter().map(|&row| &rows[row]).collect());
        rest = later;
    }
    batches
}

/// Returns the results of batches, whose rows have this order, in the order of the rows.
fn in_order<T>(order: &[usize], batches: Vec<Vec<T>>) -> Vec<T> {
    let results = batches.into_iter().flatten();
    let mut numbered: Vec<(usize, T)> = order.iter().copied().zip(results).collect();
    numbered.sort_by_key(|(row, _)| *row);
    numbered.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared<T: Send + Sync>() {}

    #[test]
    fn batches_on_the_host_have_one_size_and_come_in_fours() {
        let costs = |widths: &[usize]| -> Vec<usize> {
            let order: Vec<usize> = (0..widths.len()).collect();
            let cost = |batch: &[usize]| batch.len() * widths[batch[0]];
            let batches = |limit| batches(widths, &order, widths.len(), limit, cost);
            let batches = batches(even_limit(MOST_ON_HOST, |limit| batches(limit).len()));
            assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), widths.len());
            batches
                .iter()
                .map(|batch| batch.len() * *batch[0])
                .collect()
        };
        assert!(costs(&[]).is_empty());
        assert_eq!(costs(&[12; 20]), [240]);
        assert_eq!(costs(&[12; 50]), [300, 300]);
        assert_eq!(costs(&[12; 90]), [276, 276, 276, 252]);
        // One row alone costs more than a batch may.
        assert_eq!(costs(&[2000, 20, 20, 20]), [2000, 20, 20, 20]);
        // Of all widths, each of which is padded to the longest of its batch.
        let mixed = costs(
            &(1..=50)
                .rev()
                .flat_map(|width| [width; 6])
                .collect::<Vec<_>>(),
        );
        assert!(
            mixed.len() == 12 && mixed.iter().all(|cost| (600..=720).contains(cost)),
            "{mixed:?}"
        );
    }

    #[test]
    fn a_runner_can_be_shared_between_threads() {
        shared::<Runner>();
    }
}
