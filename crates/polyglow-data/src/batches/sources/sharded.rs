//! Batches in shards for parallel work.

use std::sync::Arc;

use super::BatchSource;
use crate::batching::EpochPlan;

/// The number of shards that most machines have cores for.
const FEW: usize = 4;
/// Positions that each of a few shards has at least: with fewer, products of matrices and the work
/// that is done once for each shard take longer than another core saves.
const MIN_POSITIONS_OF_FEW: usize = 512;
/// Positions that each of more shards has at least: with fewer, the gradients that every shard adds
/// cost 1 to 8 % of a step. More cores than shards divide the products of a shard among them.
const MIN_POSITIONS_OF_MANY: usize = 1024;

/// A source whose batches come in shards: a CPU works on several of them in parallel, each on a
/// core.
///
/// Their number follows from the size of the batch alone, never from the machine, so that a
/// training gives the same bits on all machines.
pub struct Sharded<S> {
    source: Arc<S>,
    most: usize,
}

impl<S: BatchSource> Sharded<S> {
    /// Makes batches of `source` in at most `most` shards.
    pub fn new(source: Arc<S>, most: usize) -> Self {
        Self { source, most }
    }
}

impl<S: BatchSource> BatchSource for Sharded<S> {
    type Batch = Vec<S::Batch>;
    type Error = S::Error;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, S::Error> {
        self.source.plan(epoch)
    }

    fn plan_in(&self, epoch: u64, step: u64) -> Result<EpochPlan, S::Error> {
        self.source.plan_in(epoch, step)
    }

    fn changes(&self) -> Vec<u64> {
        self.source.changes()
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<Vec<S::Batch>, S::Error> {
        let [rows, src_len, tgt_len] = self.source.size(epoch, items).0;
        let count = num_shards(rows * (src_len + tgt_len), self.most);
        self.source.shards(epoch, items, count)
    }

    fn size(&self, epoch: u64, items: &[u32]) -> ([usize; 3], usize) {
        self.source.size(epoch, items)
    }

    fn examples(&self, epoch: u64, items: &[u32]) -> Vec<u32> {
        self.source.examples(epoch, items)
    }

    fn origin(&self, example: u32) -> String {
        self.source.origin(example)
    }
}

/// Returns the number of shards of a batch with this many padded positions on both sides together:
/// a power of two, but no more than `most`.
pub fn num_shards(positions: usize, most: usize) -> usize {
    let few = power_of_two(positions / MIN_POSITIONS_OF_FEW).min(FEW);
    let many = power_of_two(positions / MIN_POSITIONS_OF_MANY);
    few.max(many).min(most)
}

/// The largest power of two that is no larger than `count`; 1 for 0.
fn power_of_two(count: usize) -> usize {
    1 << count.max(1).ilog2()
}

/// Cuts `items` into `count` runs of neighbors whose lengths differ by at most one; into fewer if
/// there are fewer items, so that no run is empty.
pub(super) fn runs(items: &[u32], count: usize) -> impl Iterator<Item = &[u32]> {
    let count = count.min(items.len()).max(1);
    (0..count).map(move |run| &items[run * items.len() / count..(run + 1) * items.len() / count])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_as_many_shards_as_keep_cores_busy() {
        let shards = [0, 1023, 1024, 2047, 2048, 8191, 8192, 1 << 20]
            .map(|positions| num_shards(positions, 8));
        assert_eq!(shards, [1, 1, 2, 2, 4, 4, 8, 8]);
        assert_eq!(num_shards(1 << 20, 1), 1);
    }

    #[test]
    fn runs_have_every_item_once_and_none_is_empty() {
        let items: Vec<u32> = (0..9).collect();
        for count in 1..12 {
            let runs: Vec<&[u32]> = runs(&items, count).collect();
            assert_eq!((runs.concat(), runs.len()), (items.clone(), count.min(9)));
            assert!(
                runs.iter()
                    .all(|run| run.len() == 9 / runs.len() || run.len() == 9 / runs.len() + 1),
                "{runs:?}"
            );
        }
    }
}
