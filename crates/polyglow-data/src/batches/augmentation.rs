//! Changes that a program makes to examples each time before they are trained on.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use crate::batching::BatchingConfig;
use crate::example::Example;
use crate::id_cache::IdCache;
use crate::random::{Purpose, Random};
use crate::tokenizer::Tokenizers;

/// A change of examples by a function of the caller's own, with a name under which a run keeps it.
///
/// The function is called with an example, with random numbers that follow from the seed of the
/// run, the epoch and the example, so that a training that was stopped makes the same changes when
/// it is resumed, and with the tokenizers. What else it depends on must not change either.
///
/// The tags of an example ([`PairTags`](crate::pair_tags::PairTags)) are kept from the function, and
/// stay.
///
/// Batches are planned by the lengths that examples have in the text. An example that became
/// longer, or empty on a side, is trained on as it was before.
///
/// ```
/// use polyglow_data::augmentation::Augmentation;
///
/// // Every tenth token of the source is replaced by the unknown one (word dropout).
/// Augmentation::new("word dropout of 0.1", |example, random, tokenizers| {
///     for id in &mut example.src {
///         if random.uniform() < 0.1 {
///             *id = tokenizers.src.special().unk;
///         }
///     }
/// });
/// ```
#[derive(Clone)]
pub struct Augmentation {
    name: Arc<str>,
    augment: Arc<Augment>,
}

/// The function of an augmentation.
type Augment = dyn Fn(&mut Example, &mut Random, &Tokenizers) + Send + Sync;

impl Augmentation {
    /// Makes an augmentation of a function. Settings on which the changes depend should stand in
    /// the name: a run is resumed only with an augmentation of the same name.
    pub fn new(
        name: impl Into<Arc<str>>,
        augment: impl Fn(&mut Example, &mut Random, &Tokenizers) + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            augment: Arc::new(augment),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes the example number `index` of a cache for an epoch.
    pub(crate) fn apply(
        &self,
        example: &mut Example,
        index: u32,
        epoch: u64,
        config: &BatchingConfig,
        cache: &IdCache,
    ) {
        let key = Purpose::Augmentation.mix(&[config.seed, epoch, u64::from(index)]);
        let [num_src_tags, num_tgt_tags] = cache.num_tags(index);
        let (src_tags, src) = split_tags(&example.src, num_src_tags);
        let (tgt_tags, tgt) = split_tags(&example.tgt, num_tgt_tags);
        let mut changed = Example {
            src: src.to_vec(),
            tgt: tgt.to_vec(),
        };
        (self.augment)(&mut changed, &mut Random::new(key), cache.tokenizers());
        if fits(&changed.src, src) && fits(&changed.tgt, tgt) {
            *example = Example {
                src: [src_tags, &changed.src].concat(),
                tgt: [tgt_tags, &changed.tgt].concat(),
            };
        }
    }
}

/// Divides a side into its tags and its text; an empty side has no tags.
fn split_tags(ids: &[u32], num_tags: usize) -> (&[u32], &[u32]) {
    ids.split_at(num_tags.min(ids.len()))
}

/// Returns whether a side that was changed still has the room that is planned for it.
fn fits(changed: &[u32], before: &[u32]) -> bool {
    changed.len() <= before.len() && changed.is_empty() == before.is_empty()
}

impl Debug for Augmentation {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Augmentation")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_that_does_not_fit_is_trained_on_as_it_was() {
        let fits = |changed: &[u32]| fits(changed, &[5, 6]);
        assert!(fits(&[6]) && fits(&[7, 7]));
        assert!(!fits(&[]) && !fits(&[5, 6, 7]));
    }
}
