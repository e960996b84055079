//! N-gram language models with interpolated modified Kneser-Ney smoothing, the baseline for neural
//! language models.

use crate::error::DataError;
use crate::special::SpecialIds;

mod count;
mod level;

use count::{Counted, Packing, count};
use level::{Discounts, Level};

/// Predicts an id from the `order - 1` ids before it.
///
/// `p(w | u) = (c(uw) - D(c(uw))) / sum_v c(uv) + left_over(u) p(w | u')`, where `u'` is the
/// context `u` without its first id, and `left_over(u)` is the mass that the discounts took away
/// (Chen and Goodman, 1998, section 3). The shortest context is followed by the uniform
/// distribution. In the longest n-grams `c` counts occurrences; in shorter ones it counts the
/// different ids that precede the n-gram, unless the n-gram begins a sentence, where nothing can
/// precede it. The probabilities equal those of `KenLM`'s `lmplz`.
///
/// The discounts of each length follow from how many n-grams have the counts 1 to 4 (equation 26 of
/// the technical report). Small or artificial text may lack one of these, or give a discount that
/// is not positive; then the discounts are 0.5, 1 and 1.5, as with `lmplz --discount_fallback`.
///
/// Each sequence is framed by begin and end of sentence; only the end is predicted. The model takes
/// about 8 bytes of memory for each of the longest n-grams and 24 for each shorter one.
#[derive(Debug, Clone, PartialEq)]
pub struct NgramModel {
    order: usize,
    vocab_size: usize,
    special: SpecialIds,
    /// The n-grams of each length, from the empty one to those of `order` ids.
    levels: Vec<Level>,
    /// The discounts of each length, from 1 on.
    discounts: Vec<Discounts>,
}

impl NgramModel {
    /// Learns from `sequences` of ids without begin and end of sentence. `order` is the length of
    /// the longest n-grams.
    ///
    /// # Errors
    /// [`DataError::Ngram`] if `order` is 0, or if an n-gram does not fit into 96 bits: each id
    /// takes as many bits as the largest id (for example 5 ids below 524 288). Also if an id lies
    /// outside the vocabulary, or is that of padding or begin of sentence, or if there is no
    /// sequence.
    pub fn train<S: AsRef<[u32]>>(
        sequences: impl IntoIterator<Item = S>,
        order: usize,
        vocab_size: usize,
        special: SpecialIds,
    ) -> Result<Self, DataError> {
        let packing = Packing::new(order, vocab_size, special)?;
        let mut ngrams = count(sequences, &packing)?;
        let mut levels = Vec::new();
        let mut discounts = Vec::new();
        // The longest n-grams come first, because the counts of shorter ones follow from them.
        let mut longer: Option<(Vec<Counted>, Discounts)> = None;
        for len in (0..=order).rev() {
            let shorter = packing.shorten(&ngrams, len);
            packing.keep_complete(&mut ngrams, len);
            levels.push(Level::new(
                &ngrams,
                longer.as_ref().map(|(ngrams, taken)| (&**ngrams, *taken)),
                &packing,
            ));
            discounts.push(Discounts::new(&ngrams));
            longer = Some((
                std::mem::replace(&mut ngrams, shorter),
                discounts[discounts.len() - 1],
            ));
        }
        levels.reverse();
        // The empty n-gram has no discounts.
        discounts.pop();
        discounts.reverse();
        Ok(Self {
            order,
            vocab_size,
            special,
            levels,
            discounts,
        })
    }

    /// The length of the longest n-grams.
    pub fn order(&self) -> usize {
        self.order
    }

    /// Number of distinct n-grams of each length, from single ids (with begin of sentence) to the
    /// longest.
    pub fn num_ngrams(&self) -> Vec<usize> {
        self.levels[1..].iter().map(Level::len).collect()
    }

    /// Returns `ln p(next | context)`, in nats.
    ///
    /// `context` holds the ids before `next`, oldest first, and starts with begin of sentence if it
    /// reaches back that far. Only its last `order - 1` ids matter. The probabilities of all ids
    /// add up to 1; those of padding, begin of sentence and ids outside the vocabulary are 0, with
    /// a logarithm of negative infinity.
    pub fn log_prob(&self, context: &[u32], next: u32) -> f64 {
        if self.is_never_next(next) {
            return f64::NEG_INFINITY;
        }
        let context = &context[context.len().saturating_sub(self.order - 1)..];
        let mut prob = 1.0 / self.num_candidates() as f64;
        for len in 0..=context.len() {
            // If a context was never seen, longer contexts that end in it were not seen either.
            let Some(index) = self.find(&context[context.len() - len..]) else {
                break;
            };
            let count = self
                .child(len, index, next)
                .map_or(0, |child| self.levels[len + 1].count(child));
            prob = self.levels[len].interpolate(index, count, &self.discounts[len], prob);
        }
        prob.ln()
    }

    /// Returns the negative log-likelihood of a whole sequence in nats, and the number of ids that
    /// were predicted: those of `sequence`, and end of sentence.
    pub fn score(&self, sequence: &[u32]) -> (f64, usize) {
        let framed = [&[self.special.bos], sequence, &[self.special.eos]].concat();
        let nats = (1..framed.len())
            .map(|position| -self.log_prob(&framed[..position], framed[position]))
            .sum();
        (nats, framed.len() - 1)
    }

    /// Whether the probability of an id is 0 in every context.
    fn is_never_next(&self, id: u32) -> bool {
        id as usize >= self.vocab_size
            || (id != self.special.eos && (id == self.special.bos || id == self.special.pad))
    }

    /// The number of ids that may come next: all but begin of sentence and padding.
    fn num_candidates(&self) -> usize {
        let special = [self.special.bos, self.special.pad];
        // One id may play both roles, and counts once.
        let never = if special[0] == special[1] {
            &special[..1]
        } else {
            &special
        };
        let num_never = never
            .iter()
            .filter(|&&id| (id as usize) < self.vocab_size && self.is_never_next(id))
            .count();
        self.vocab_size - num_never
    }

    /// The index of an n-gram among those of its length.
    fn find(&self, ngram: &[u32]) -> Option<usize> {
        ngram
            .iter()
            .enumerate()
            .try_fold(0, |index, (len, &id)| self.child(len, index, id))
    }

    /// The index of the n-gram that extends the one at `index`, of `len` ids, by `id`.
    fn child(&self, len: usize, index: usize, id: u32) -> Option<usize> {
        let children = self.levels[len].children(index);
        self.levels.get(len + 1)?.find(children, id)
    }
}
