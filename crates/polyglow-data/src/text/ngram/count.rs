//! Counting n-grams: ids and count are packed into one integer, so that sorting integers brings
//! equal n-grams together.
//!
//! With `b` bits for an id, the n-gram `w1 w2 w3` with the count `c` is
//! `w1 << (32 + 2b) | w2 << (32 + b) | w3 << 32 | c`. Sorted, all n-grams that begin with the same
//! ids are neighbors, whatever their last ids are: the order in which a level needs them.
//! Sixteen bytes for an n-gram are less than a hash map takes, and sorting runs on all cores.

use rayon::prelude::*;

use crate::error::DataError;
use crate::special::SpecialIds;

/// Low bits that hold the count.
const COUNT_BITS: u32 = 32;
/// N-grams that are sorted at a time: 64 MiB.
const CHUNK: usize = 1 << 22;

/// An n-gram, its first id in the highest bits, and its count in the lowest.
pub(super) type Counted = u128;

/// The layout of an n-gram in an integer: `id_bits` for each id, the first id in the highest bits.
pub(super) struct Packing {
    order: usize,
    vocab_size: usize,
    special: SpecialIds,
    id_bits: u32,
}

impl Packing {
    pub(super) fn new(
        order: usize,
        vocab_size: usize,
        special: SpecialIds,
    ) -> Result<Self, DataError> {
        let largest = vocab_size
            .saturating_sub(1)
            .max(special.bos as usize)
            .max(special.eos as usize);
        let id_bits = (usize::BITS - largest.leading_zeros()).max(1);
        let fitting = ((u128::BITS - COUNT_BITS) / id_bits) as usize;
        if order == 0 || order > fitting {
            let problem =
                format!("its order must lie in 1..={fitting} for {vocab_size} ids, and is {order}");
            return Err(DataError::Ngram { problem });
        }
        if special.bos == special.eos || special.eos as usize >= vocab_size {
            let SpecialIds { bos, eos, .. } = special;
            let problem = format!(
                "end of sentence {eos} must be one of {vocab_size} ids, and another than begin {bos}"
            );
            return Err(DataError::Ngram { problem });
        }
        Ok(Self {
            order,
            vocab_size,
            special,
            id_bits,
        })
    }

    /// The last id of an n-gram.
    pub(super) fn last_id(&self, ngram: Counted) -> u32 {
        ((ngram >> COUNT_BITS) & self.mask(1)) as u32
    }

    /// Whether `longer` is `shorter` with one more id at its end.
    pub(super) fn extends(&self, longer: Counted, shorter: Counted) -> bool {
        longer >> (COUNT_BITS + self.id_bits) == shorter >> COUNT_BITS
    }

    /// Returns the last `len - 1` ids of each n-gram of `len` ids, with the number of different ids
    /// that precede them, or after begin of sentence with the number of occurrences.
    pub(super) fn shorten(&self, ngrams: &[Counted], len: usize) -> Vec<Counted> {
        let Some(shorter) = len.checked_sub(1) else {
            return Vec::new();
        };
        let mut shortened: Vec<Counted> = ngrams
            .iter()
            .map(|&ngram| {
                let ids = (ngram >> COUNT_BITS) & self.mask(shorter);
                let begins = shorter > 0
                    && ids >> (self.id_bits as usize * (shorter - 1))
                        == u128::from(self.special.bos);
                // Nothing can precede the begin of a sentence, so that occurrences are counted
                // there; elsewhere each n-gram of `len` ids stands for a different preceding id.
                ids << COUNT_BITS
                    | if begins {
                        u128::from(count_of(ngram))
                    } else {
                        1
                    }
            })
            .collect();
        if shorter == 1 {
            // Begin of sentence has no count because it is never predicted, but it is the context
            // of what follows.
            shortened.push(u128::from(self.special.bos) << COUNT_BITS);
        }
        shortened.par_sort_unstable();
        collapse(&mut shortened);
        shortened
    }

    /// Removes the n-grams of `len` ids that contain begin of sentence more than once.
    pub(super) fn keep_complete(&self, ngrams: &mut Vec<Counted>, len: usize) {
        if len >= 2 {
            let shift = COUNT_BITS as usize + self.id_bits as usize * (len - 2);
            ngrams.retain(|ngram| (ngram >> shift) & self.mask(1) != u128::from(self.special.bos));
        }
        ngrams.shrink_to_fit();
    }

    /// A mask of the lowest bits, as many as this number of ids takes.
    fn mask(&self, ids: usize) -> u128 {
        (1 << (self.id_bits as usize * ids)) - 1
    }

    /// Refuses an id that may not be part of a sequence.
    fn check(&self, id: u32) -> Result<(), DataError> {
        let problem = if id as usize >= self.vocab_size {
            format!("id {id} lies outside the vocabulary of {}", self.vocab_size)
        } else if id != self.special.eos && (id == self.special.bos || id == self.special.pad) {
            format!("id {id}, which stands for begin of sentence or padding, is part of a sequence")
        } else {
            return Ok(());
        };
        Err(DataError::Ngram { problem })
    }
}

/// The count of an n-gram.
pub(super) fn count_of(ngram: Counted) -> u32 {
    ngram as u32
}

/// Counts the n-grams of full length of all sequences, sorted. Each sequence is preceded by `order`
/// begins of sentence.
pub(super) fn count<S: AsRef<[u32]>>(
    sequences: impl IntoIterator<Item = S>,
    packing: &Packing,
) -> Result<Vec<Counted>, DataError> {
    let mut counted = Vec::new();
    let mut chunk = Vec::new();
    let mut num_ids = 0_u64;
    let before = (0..packing.order).fold(0, |ids, _| {
        ids << packing.id_bits | u128::from(packing.special.bos)
    });
    for sequence in sequences {
        let mut ids = before;
        let sequence = sequence.as_ref();
        for &id in sequence.iter().chain([&packing.special.eos]) {
            packing.check(id)?;
            ids = (ids << packing.id_bits | u128::from(id)) & packing.mask(packing.order);
            chunk.push(ids << COUNT_BITS | 1);
        }
        num_ids += sequence.len() as u64 + 1;
        // Most n-grams of a chunk repeat, so that merging keeps the memory small.
        if chunk.len() >= CHUNK {
            counted = merge(counted, &mut chunk);
        }
    }
    if num_ids == 0 || num_ids > u64::from(u32::MAX) {
        let problem = format!(
            "it is learned from 1 to {} ids, not from {num_ids}",
            u32::MAX
        );
        return Err(DataError::Ngram { problem });
    }
    Ok(merge(counted, &mut chunk))
}

/// Merges the n-grams of `chunk` into `counted`, and empties `chunk`.
fn merge(counted: Vec<Counted>, chunk: &mut Vec<Counted>) -> Vec<Counted> {
    chunk.par_sort_unstable();
    collapse(chunk);
    let mut merged = Vec::with_capacity(counted.len() + chunk.len());
    let mut left = counted.into_iter().peekable();
    let mut right = chunk.drain(..).peekable();
    // Both are sorted, so that equal n-grams become neighbors.
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        merged.extend(if one <= other {
            left.next()
        } else {
            right.next()
        });
    }
    merged.extend(left);
    merged.extend(right);
    collapse(&mut merged);
    merged
}

/// Adds up the counts of equal neighbors.
fn collapse(ngrams: &mut Vec<Counted>) {
    ngrams.dedup_by(|next, kept| {
        let equal = *next >> COUNT_BITS == *kept >> COUNT_BITS;
        if equal {
            *kept += u128::from(count_of(*next));
        }
        equal
    });
}
