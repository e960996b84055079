//! One Markov chain: the links of one direction, drawn again and again, one word after the other
//! (Gibbs sampling; Östling and Tiedemann, 2016).
//!
//! A chain begins as IBM model 1, which looks at words alone, continues as the HMM, which also
//! looks at the jumps between neighbors, and ends with fertilities. Word `f` at `j` is linked to
//! word `e` at `i` in proportion to
//!
//! ```text
//! (1 - p0) (n(e, f) + 0.001) / (n(e) + 0.001 V) J(i - before) J(behind - i) F(e, n + 1) / F(e, n)
//! ```
//!
//! and to nothing in proportion to `p0 (n(null, f) + 0.001) / (n(null) + 0.001 V) J(behind -
//! before)`. The counts are those of all other words, `before` and `behind` are the positions of
//! the nearest linked neighbors, and `n` is the number of the other links of `i`. Model 1 has
//! `1 / I` in place of all that follows the words. Jumps and fertilities are estimated once an
//! iteration.

#[cfg(feature = "training")]
mod state;

use super::bitext::{Bitext, Side};
use super::cells::Cells;
use super::counts::WordCounts;
use super::draw::{Draw, Scratch};
use super::fertility::Fertilities;
use super::jumps::Jumps;
use super::schedule::{Schedule, Stage};
use super::{Aligner, ChainId, Direction};
use crate::random::{Purpose, Random, mix};

/// The link of a word that nothing generates.
pub(super) const NULL: u16 = u16::MAX;

/// The state of a chain between two iterations.
pub(super) struct Chain<'a> {
    text: DirectedText<'a>,
    schedule: Schedule,
    /// The prior probability of a word without a link.
    null: f32,
    /// The seed, the number of the chain and its direction, which begin the keys of its random
    /// numbers.
    key: [u64; 3],
    /// Iterations that are done.
    iteration: usize,
    /// For each generated word the position of its condition, or [`NULL`].
    links: Vec<u16>,
    counts: WordCounts,
    /// The sums of the probabilities of each cell, in units of [`Schedule::unit`]: for each
    /// generated word of each pair a row with a sum for each condition. Empty before the first
    /// iteration that adds to them.
    marginals: Vec<u16>,
}

/// A text one side of which generates the other.
#[derive(Clone, Copy)]
struct DirectedText<'a> {
    conditions: &'a Side,
    generated: &'a Side,
    cells: &'a Cells,
    direction: Direction,
}

/// A pair, as a chain sees it.
pub(super) struct DirectedPair<'a> {
    pub(super) conditions: &'a [u32],
    pub(super) generated: &'a [u32],
    /// The counter of each cell.
    pub(super) counters: &'a [u32],
    /// Cells from one generated word to the next, and from one condition to the next.
    pub(super) strides: [usize; 2],
    /// Whether a word stands more than once among the conditions.
    pub(super) repeats: bool,
}

impl DirectedPair<'_> {
    /// The counter of a generated word with one condition.
    pub(super) fn counter(&self, word: usize, condition: u16) -> u32 {
        self.counters[word * self.strides[0] + usize::from(condition) * self.strides[1]]
    }

    /// Counts the link of a word.
    pub(super) fn include(&self, counts: &mut WordCounts, word: usize, link: u16) {
        if link == NULL {
            counts.add_null(self.generated[word]);
        } else {
            let condition = self.conditions[usize::from(link)];
            counts.add(condition, self.counter(word, link));
        }
    }

    /// Takes the link of a word out of the counts.
    pub(super) fn exclude(&self, counts: &mut WordCounts, word: usize, link: u16) {
        if link == NULL {
            counts.remove_null(self.generated[word]);
        } else {
            let condition = self.conditions[usize::from(link)];
            counts.remove(condition, self.counter(word, link));
        }
    }
}

impl<'a> DirectedText<'a> {
    fn new(text: &'a Bitext, cells: &'a Cells, direction: Direction) -> Self {
        let (conditions, generated) = match direction {
            Direction::Forwards => (&text.src, &text.tgt),
            Direction::Backwards => (&text.tgt, &text.src),
        };
        Self {
            conditions,
            generated,
            cells,
            direction,
        }
    }

    fn pair(&self, index: usize) -> DirectedPair<'a> {
        let conditions = self.conditions.sentence(index);
        let generated = self.generated.sentence(index);
        DirectedPair {
            conditions,
            generated,
            counters: &self.cells.counters[self.cells.of_pair(index)],
            strides: match self.direction {
                Direction::Forwards => [conditions.len(), 1],
                Direction::Backwards => [1, generated.len()],
            },
            repeats: self.conditions.repeats[index],
        }
    }

    /// The conditions of each sentence, with the links of the words that they generate.
    fn linked(self, links: &[u16]) -> impl Iterator<Item = (&'a [u32], &[u16])> {
        (0..self.generated.len()).map(move |index| {
            let words = self.generated.of_sentence(index);
            (self.conditions.sentence(index), &links[words])
        })
    }
}

impl<'a> Chain<'a> {
    /// Begins a chain with links at random.
    pub(super) fn new(aligner: &'a Aligner<'_>, id: ChainId) -> Self {
        let mut chain = Self::without_links(aligner, id);
        chain.begin();
        chain.count();
        chain
    }

    /// Makes a chain before its first iteration.
    fn without_links(aligner: &'a Aligner<'_>, id: ChainId) -> Self {
        let text = DirectedText::new(aligner.text, &aligner.cells, id.direction);
        let num_counters = aligner.cells.num_counters;
        let seed = aligner.options.seed;
        Self {
            text,
            schedule: aligner.schedule,
            null: aligner.options.null as f32,
            key: [seed, id.number as u64, id.direction as u64],
            iteration: 0,
            links: vec![NULL; text.generated.words.len()],
            counts: WordCounts::new(num_counters, text.conditions, text.generated),
            marginals: Vec::new(),
        }
    }

    /// Links each word at random.
    fn begin(&mut self) {
        let key = self.iteration_key();
        for index in 0..self.text.generated.len() {
            let mut random = Random::new(mix(&[key, index as u64]));
            let num_conditions = self.text.conditions.sentence(index).len();
            for link in &mut self.links[self.text.generated.of_sentence(index)] {
                let is_null = random.uniform() < f64::from(self.null);
                if num_conditions > 0 && !is_null {
                    *link = random.below(num_conditions) as u16;
                }
            }
        }
    }

    /// Counts all links. The words of a pair with an empty side have none to choose from, and say
    /// nothing about words without a link.
    fn count(&mut self) {
        for index in 0..self.text.generated.len() {
            let pair = self.text.pair(index);
            if pair.conditions.is_empty() {
                continue;
            }
            let links = &self.links[self.text.generated.of_sentence(index)];
            for (word, &link) in links.iter().enumerate() {
                pair.include(&mut self.counts, word, link);
            }
        }
    }

    /// The beginning of the keys of this iteration, which the number of a pair completes. The keys
    /// of the first links are those of an iteration before the first.
    fn iteration_key(&self) -> u64 {
        let [seed, chain, direction] = self.key;
        Purpose::Alignment.mix(&[seed, chain, direction, self.iteration as u64])
    }

    /// Whether all iterations are done.
    pub(super) fn is_done(&self) -> bool {
        self.iteration >= self.schedule.iterations()
    }

    /// Draws the links of all words once.
    pub(super) fn advance(&mut self) {
        let stage = self.schedule.stage(self.iteration);
        let jumps = (stage != Stage::Words).then(|| {
            let linked = self.text.linked(&self.links);
            Jumps::estimate(linked.map(|(conditions, links)| (conditions.len(), links)))
        });
        let fertilities = (stage == Stage::Fertility).then(|| {
            let num_words = self.text.conditions.num_words();
            Fertilities::estimate(num_words, self.text.linked(&self.links))
        });
        self.iteration += 1;
        let key = self.iteration_key();
        let unit = self.schedule.unit(self.iteration - 1);
        if unit > 0 && self.marginals.is_empty() {
            self.marginals = vec![0; self.text.cells.counters.len()];
        }
        let mut scratch = Scratch::default();
        for index in 0..self.text.generated.len() {
            let pair = self.text.pair(index);
            if pair.conditions.is_empty() {
                continue;
            }
            let random = Random::new(mix(&[key, index as u64]));
            let mut draw = Draw {
                pair: &pair,
                null: self.null,
                jumps: jumps.as_ref(),
                fertilities: fertilities.as_ref(),
                counts: &mut self.counts,
                scratch: &mut scratch,
            };
            let links = &mut self.links[self.text.generated.of_sentence(index)];
            let cells = self.text.cells.of_pair(index);
            let marginals = self.marginals.get_mut(cells).unwrap_or_default();
            draw.draw_all(links, random, unit, marginals);
        }
    }

    /// The sums of the probabilities of all cells, once the chain is done.
    pub(super) fn marginals(&self) -> &[u16] {
        &self.marginals
    }
}
