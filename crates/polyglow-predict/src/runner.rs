//! Rows through models and back: encode, sort, batch, upload, forward, read, reorder, for every
//! command.

use std::cmp::Reverse;
use std::sync::Arc;

use burn::tensor::Device;
use polyglow_data::pair_tags::PairTags;
use polyglow_data::tokenizer::{Tokenizer, Tokenizers};
use polyglow_model::search::{SearchConfig, SearchRequest};
use polyglow_model::{Model, computes_on_host};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Result, ensure, usage};
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
/// If one batch is not enough for the CPU, the number of batches is rounded up to a multiple of
/// this: two cores or four have as many each.
const MULTIPLE: usize = 4;

/// Models in use, one or an ensemble, with all that they need. It owns everything, and threads can
/// share it.
#[derive(Clone)]
pub struct Runner<M = Model> {
    /// The models; at least one, on a device that does not differentiate. Clones share them.
    pub members: Arc<[Member<M>]>,
    /// The target side's tokenizer, the same for all members.
    pub tgt: Arc<Tokenizer>,
    /// The task that the models were trained for.
    pub task: Arc<dyn TaskUse>,
    /// The settings of the search; a request may override each of them.
    search: SearchConfig,
    /// The tokens that every source and every output begin with.
    tags: PairTags,
    /// The device that the models are on.
    pub device: Device,
    /// Padded positions in a batch, times the beam, at most; a search on the CPU has 1,024 at most
    /// in any case.
    pub max_tokens: usize,
    /// Whether a few rows become a batch for each core, where the CPU searches. Their numbers then
    /// depend in their last digits on how many cores there are.
    pub spread: bool,
    /// Padded lengths are multiples of this.
    pub pad_multiple: usize,
    /// The most tokens of a side that all members can read, without the end mark; as many can be
    /// written.
    pub longest: usize,
    /// The processes that share the work: each runs some of the batches, and all get all results.
    pub group: Arc<dyn Group>,
    /// The encoder of sources.
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

/// The options of a [`Runner`].
#[derive(Clone)]
pub struct Options {
    /// The task that the models were trained for.
    pub task: Arc<dyn TaskUse>,
    /// The settings of the search; a request may override each of them.
    pub search: SearchConfig,
    /// The tokens that every source and every output begin with.
    pub tags: PairTags,
    /// The device that the models are on.
    pub device: Device,
    /// Padded positions in a batch, times the beam, at most.
    pub max_tokens: usize,
    /// Padded lengths are multiples of this.
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
            tags: options.tags,
            device: options.device,
            max_tokens: options.max_tokens,
            spread: false,
            pad_multiple: options.pad_multiple,
            longest: options.longest,
            group: options.group,
        }
    }

    /// Returns the settings of the search, each of which a request may override.
    pub fn search(&self) -> &SearchConfig {
        &self.search
    }

    /// Returns the runner with another config for what requests leave open.
    #[must_use]
    pub fn with_search(self, search: SearchConfig) -> Self {
        Self { search, ..self }
    }

    /// Returns the tokens that every source and every output begin with.
    pub fn tags(&self) -> &PairTags {
        &self.tags
    }

    /// Returns the runner with other tags, such as those of another pair of languages that the models
    /// know.
    ///
    /// # Errors
    /// A vocabulary has no such tag (exit code 2).
    pub fn with_tags(self, tags: PairTags) -> Result<Self> {
        let runner = Self { tags, ..self };
        for member in &*runner.members {
            runner.src_tags(member).map_err(usage)?;
        }
        runner.tgt_tags().map_err(usage)?;
        Ok(runner)
    }

    /// Returns the ids that every source of a member begins with.
    ///
    /// # Errors
    /// Its vocabulary has no such tag.
    pub fn src_tags(&self, member: &Member<M>) -> Result<Vec<u32>> {
        Ok(self.tags.src_ids(&member.src)?)
    }

    /// Returns the ids that every output begins with.
    ///
    /// # Errors
    /// The vocabulary has no such tag.
    pub fn tgt_tags(&self) -> Result<Vec<u32>> {
        Ok(self.tags.tgt_ids(&self.tgt)?)
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
        // The first row of a batch is the longest, and one more token ends it.
        let cost = |batch: &[usize]| {
            let longest = batch.first().map_or(0, |&row| width(&rows[row]) + 1);
            batch.len() * self.padded(longest) * beam_size
        };
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
        let limit = if on_host {
            // Also where several processes share the batches: they have those of one.
            even_limit(self.max_tokens.min(MOST_ON_HOST), |limit| {
                batches(rows, &order, most, limit, cost).len()
            })
        } else {
            self.max_tokens
        };
        let batches = batches(rows, &order, most, limit, cost);
        if !is_parallel {
            let results = self.deal(&batches, |batch| run(batch).inspect(|_| ended(batch)))?;
            return Ok(in_order(&order, results));
        }
        let mut results = Vec::with_capacity(batches.len());
        parallel::each(
            batches.len(),
            threads,
            // On one of the pool's threads: from another, each small operation would wake one and
            // wait for it.
            |index| rayon::scope(|_| run(&batches[index])),
            |index, batch| {
                ended(&batches[index]);
                results.push(batch);
            },
        )?;
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
        let batches = batches(rows, &order, rows.len(), self.max_tokens, |batch| {
            let longest = batch.last().map_or(0, |&row| width(&rows[row]));
            batch.len() * self.padded(longest)
        });
        let results = self.deal(&batches, |batch| run(batch))?;
        Ok(in_order(&order, results))
    }

    /// Returns the result of `run` for each batch, in their order. The group's processes deal the
    /// batches among each other, one after the other; the batches themselves do not depend on the
    /// number of processes, and so neither do the results.
    ///
    /// # Errors
    /// The first error of `run`, in every process; another cannot be reached, or has other batches.
    pub fn deal<B, T: Serialize + DeserializeOwned>(
        &self,
        batches: &[B],
        mut run: impl FnMut(&B) -> Result<T>,
    ) -> Result<Vec<T>> {
        let size = self.group.size();
        let own_batches = batches.iter().skip(self.group.rank()).step_by(size);
        // An error is exchanged, too: the other processes would wait for this one.
        let own: Result<Vec<T>> = own_batches.map(&mut run).collect();
        let gathered = self.group.gather_results(own)?;
        let dealt = gathered.into_iter().collect::<Result<Vec<_>>>()?;
        for (rank, dealt) in dealt.iter().enumerate() {
            let expected = batches.len().saturating_sub(rank).div_ceil(size);
            ensure!(
                dealt.len() == expected,
                "{} works on another text than this one",
                self.group.name(rank)
            );
        }
        let mut dealt: Vec<_> = dealt.into_iter().map(Vec::into_iter).collect();
        Ok((0..batches.len())
            .filter_map(|index| dealt[index % size].next())
            .collect())
    }

    pub(super) fn padded(&self, len: usize) -> usize {
        len.next_multiple_of(self.pad_multiple.max(1))
    }
}

/// Returns the lowest limit that gives as few batches as `most` does, their number rounded up for
/// the cores: then all of them have about the same size. `count` returns the number of batches of a
/// limit, which does not grow with it.
fn even_limit(most: usize, count: impl Fn(usize) -> usize) -> usize {
    let fewest = count(most);
    // A single batch is cut in two if it is more than half full, to keep two cores busy.
    let allowed = if fewest > 1 {
        fewest.next_multiple_of(MULTIPLE)
    } else {
        count(most / 2).min(2)
    };
    let mut too_low = 0;
    let mut enough = most;
    while enough - too_low > 1 {
        let middle = too_low.midpoint(enough);
        if count(middle) > allowed {
            too_low = middle;
        } else {
            enough = middle;
        }
    }
    enough
}

/// Cuts rows in this order into batches, each as large as the limit of its cost allows, of `most`
/// rows at most, and of one at least.
fn batches<'a, R>(
    rows: &'a [R],
    order: &[usize],
    most: usize,
    limit: usize,
    cost: impl Fn(&[usize]) -> usize,
) -> Vec<Vec<&'a R>> {
    let mut rest = order;
    let mut batches = Vec::new();
    while !rest.is_empty() {
        let mut count = 1;
        while count < rest.len().min(most) && cost(&rest[..=count]) <= limit {
            count += 1;
        }
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
