//! The probabilities of links, as the chains of both directions have found them.

use super::symmetrization::{Grid, Symmetrization, grow_diagonally, intersect};
use super::{Aligner, Chain, Direction};
use crate::alignment::Link;

/// The mean probabilities of all chains, for each two words of each pair.
pub struct Marginals<'a> {
    aligner: &'a Aligner<'a>,
    /// The means of the chains of each direction, in rows of the generated words.
    means: [Vec<u16>; 2],
}

/// A link and how probable it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredLink {
    /// The positions of the two words.
    pub link: Link,
    /// The mean of the probabilities of both directions, 0 to 1.
    pub probability: f32,
}

impl<'a> Marginals<'a> {
    /// Begins without chains.
    pub(super) fn new(aligner: &'a Aligner<'a>) -> Self {
        let cells = aligner.cells.counters.len();
        Self {
            aligner,
            means: [vec![0; cells], vec![0; cells]],
        }
    }

    /// Adds a chain that is done. Its share is a whole number, so that the order does not matter.
    pub(super) fn add(&mut self, direction: Direction, chain: &Chain<'_>) {
        let means = self.means[direction as usize].iter_mut();
        for (mean, &marginal) in means.zip(chain.marginals()) {
            *mean += self.aligner.share(usize::from(marginal));
        }
    }

    /// Returns the links of a pair, sorted by their source words, then by their target words.
    pub fn links(&self, pair: usize, symmetrization: Symmetrization) -> Vec<ScoredLink> {
        let table = self.table(pair);
        let links = match symmetrization {
            Symmetrization::Posterior { threshold } => table.above(threshold as f32),
            Symmetrization::GrowDiagFinalAnd => grow_diagonally(&table.best()),
            Symmetrization::Intersection => intersect(&table.best()),
        };
        links
            .into_iter()
            .map(|link| ScoredLink {
                link,
                probability: table.probability(link),
            })
            .collect()
    }

    /// The probabilities of a pair.
    fn table(&self, pair: usize) -> Table<'_> {
        let Aligner {
            schedule, options, ..
        } = self.aligner;
        let certain = usize::from(schedule.unit(schedule.iterations() - 1)) * schedule.samples();
        let cells = self.aligner.cells.of_pair(pair);
        Table {
            src_len: self.aligner.text.src.sentence(pair).len(),
            tgt_len: self.aligner.text.tgt.sentence(pair).len(),
            means: [&self.means[0][cells.clone()], &self.means[1][cells]],
            certain: f32::from(self.aligner.share(certain)) * options.chains as f32,
        }
    }
}

/// The probabilities of one pair.
struct Table<'a> {
    src_len: usize,
    tgt_len: usize,
    /// The means of both directions.
    means: [&'a [u16]; 2],
    /// The mean that stands for probability 1.
    certain: f32,
}

impl Table<'_> {
    /// The probability of a link in each direction.
    fn directed(&self, (src, tgt): Link) -> [f32; 2] {
        let means = [
            self.means[0][tgt * self.src_len + src],
            self.means[1][src * self.tgt_len + tgt],
        ];
        means.map(|mean| f32::from(mean) / self.certain)
    }

    /// The mean probability of a link.
    fn probability(&self, link: Link) -> f32 {
        let [forwards, backwards] = self.directed(link);
        f32::midpoint(forwards, backwards)
    }

    /// All links that are more probable than `threshold`.
    fn above(&self, threshold: f32) -> Vec<Link> {
        let links = (0..self.src_len).flat_map(|src| (0..self.tgt_len).map(move |tgt| (src, tgt)));
        links
            .filter(|&link| self.probability(link) > threshold)
            .collect()
    }

    /// The most probable link of each generated word of both directions, where it is more probable
    /// than none.
    fn best(&self) -> [Grid; 2] {
        let mut forwards = Grid::new(self.src_len, self.tgt_len);
        let mut backwards = Grid::new(self.src_len, self.tgt_len);
        for tgt in 0..self.tgt_len {
            let links = (0..self.src_len).map(|src| (src, tgt));
            forwards.extend(self.best_of(Direction::Forwards, links));
        }
        for src in 0..self.src_len {
            let links = (0..self.tgt_len).map(|tgt| (src, tgt));
            backwards.extend(self.best_of(Direction::Backwards, links));
        }
        [forwards, backwards]
    }

    /// The most probable of the links of one word, if none is not more probable.
    fn best_of(&self, direction: Direction, links: impl Iterator<Item = Link>) -> Option<Link> {
        let mut null = 1.0;
        let mut best = None;
        let mut highest = 0.0;
        for link in links {
            let probability = self.directed(link)[direction as usize];
            null -= probability;
            if probability > highest {
                highest = probability;
                best = Some(link);
            }
        }
        best.filter(|_| highest > null)
    }
}
