//! N-gram language models with interpolated modified Kneser-Ney smoothing: what every neural one has to beat.

use crate::error::DataError;
use crate::special::SpecialIds;

mod count;
mod level;

use count::{Counted, Packing, count};
use level::{Discounts, Level};

/// The probability of an id after the `order - 1` ids before it.
///
/// `p(w | u) = (c(uw) - D(c(uw))) / sum_v c(uv) + left_over(u) p(w | u')`, where `u'` is the context `u` without its
/// first id, and `left_over(u)` is the mass that the discounts took away (Chen and Goodman, 1998, section 3). The shortest
/// context is followed by the uniform distribution. In the longest n-grams `c` counts occurrences; in shorter ones it
/// counts the different ids that precede the n-gram, unless the n-gram begins a sentence, where nothing can precede it.
/// All this is as in `KenLM`'s `lmplz`, whose probabilities these are.
///
/// The discounts of each length follow from how many n-grams have the counts 1 to 4 (equation 26 of the technical
/// report). Small or artificial text may lack one of these, or give a discount that is not positive; then
/// the discounts are 0.5, 1 and 1.5, which `lmplz --discount_fallback` takes, too.
///
/// A sequence stands between begin and end of sentence, of which only the end is predicted. In memory are about 8
/// bytes for each of the longest n-grams and 24 for each shorter one.
#[derive(Debug, Clone, PartialEq)]
pub struct NgramModel {
    order: usize,
    vocab_size: usize,
    special: SpecialIds,
    /// The n-grams of each length, from the empty one to those of `order` ids.
    levels: Vec<Level>,
    /// Of each length from 1 on.
    discounts: Vec<Discounts>,
}

impl NgramModel {
    /// Learns from `sequences` of ids without begin and end of sentence. `order` is the length of the longest n-grams.
    ///
    /// # Errors
    /// [`DataError::Ngram`] if `order` is 0, or so large that it does not fit together with `vocab_size`: each id needs
    /// as many bits as the largest, and all ids of an n-gram together may have 96 (5 ids below 524 288). Also if an id
    /// lies outside the vocabulary or is the one of padding or begin of sentence, or if there is no sequence.
    pub fn train<S: AsRef<[u32]>>(
        sequences: impl IntoIterator<Item = S>,
        order: usize,
        vocab_size: usize,
        special: SpecialIds,
    ) -> Result<Self, DataError> {
        let packing = Packing::new(order, vocab_size, special)?;
        let mut ngrams = count(sequences, &packing)?;
        let (mut levels, mut discounts) = (Vec::new(), Vec::new());
        let mut longer: Option<(Vec<Counted>, Discounts)> = None;
        for len in (0..=order).rev() {
            let shorter = packing.shorten(&ngrams, len);
            packing.keep_complete(&mut ngrams, len);
            levels.push(Level::new(&ngrams, longer.as_ref().map(|(ngrams, taken)| (&**ngrams, *taken)), &packing));
            discounts.push(Discounts::new(&ngrams));
            longer = Some((std::mem::replace(&mut ngrams, shorter), discounts[discounts.len() - 1]));
        }
        levels.reverse();
        discounts.pop();
        discounts.reverse();
        Ok(Self { order, vocab_size, special, levels, discounts })
    }

    /// The length of the longest n-grams.
    pub fn order(&self) -> usize {
        self.order
    }

    /// How many n-grams of each length were found, from single ids (with begin of sentence) to the longest.
    pub fn num_ngrams(&self) -> Vec<usize> {
        self.levels[1..].iter().map(Level::len).collect()
    }

    /// `ln p(next | context)`, in nats.
    ///
    /// `context` is what precedes, oldest first, and begins with begin of sentence where the sentence does; of more than
    /// `order - 1` ids only the last count. The probabilities of all ids add up to 1; padding, begin of sentence and
    /// what lies outside the vocabulary have none, so that the logarithm is negative infinity.
    pub fn log_prob(&self, context: &[u32], next: u32) -> f64 {
        if self.is_never_next(next) {
            return f64::NEG_INFINITY;
        }
        let context = &context[context.len().saturating_sub(self.order - 1)..];
        let mut prob = 1.0 / self.num_candidates() as f64;
        for len in 0..=context.len() {
            // What follows no text is not found, and then longer contexts that end in it are not found either.
            let Some(place) = self.find(&context[context.len() - len..]) else { break };
            let count = self.child(len, place, next).map_or(0, |child| self.levels[len + 1].count(child));
            prob = self.levels[len].interpolate(place, count, &self.discounts[len], prob);
        }
        prob.ln()
    }

    /// The negative log-likelihood of a whole sequence in nats, and the ids that were predicted for it: its own, and end
    /// of sentence. `sequence` is without both ends.
    pub fn score(&self, sequence: &[u32]) -> (f64, usize) {
        let framed: Vec<u32> =
            [self.special.bos].into_iter().chain(sequence.iter().copied()).chain([self.special.eos]).collect();
        let nats = (1..framed.len()).map(|place| -self.log_prob(&framed[..place], framed[place])).sum();
        (nats, framed.len() - 1)
    }

    fn is_never_next(&self, id: u32) -> bool {
        id as usize >= self.vocab_size || (id != self.special.eos && (id == self.special.bos || id == self.special.pad))
    }

    fn num_candidates(&self) -> usize {
        let special = [self.special.bos, self.special.pad];
        let never = if special[0] == special[1] { &special[..1] } else { &special };
        self.vocab_size - never.iter().filter(|&&id| (id as usize) < self.vocab_size && self.is_never_next(id)).count()
    }

    /// The place of an n-gram among those of its length.
    fn find(&self, ngram: &[u32]) -> Option<usize> {
        ngram.iter().enumerate().try_fold(0, |place, (len, &id)| self.child(len, place, id))
    }

    /// The place of the n-gram of `len` ids at `place`, and `id` after it.
    fn child(&self, len: usize, place: usize, id: u32) -> Option<usize> {
        let children = self.levels[len].children(place);
        self.levels.get(len + 1)?.find(children, id)
    }
}
