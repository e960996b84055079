//! Word alignment: which words of a pair translate each other, learned from the text alone.
//!
//! The links are drawn by Gibbs sampling from a model of words, jumps and fertilities (Östling and
//! Tiedemann, 2016, "Efficient word alignment with Markov chain Monte Carlo"): `chain.rs` has the
//! formula. Several chains are drawn in either direction. The mean of their probabilities, and of
//! both directions, is the probability of a link.
//!
//! ```
//! use polyglow_data::align::{AlignOptions, Aligner, Bitext, Symmetrization};
//!
//! let text = Bitext::new([
//!     ("the dog sleeps", "der Hund schläft"),
//!     ("the dog eats", "der Hund frisst"),
//!     ("the cat sleeps", "die Katze schläft"),
//!     ("the cat eats", "die Katze frisst"),
//! ]);
//! let aligner = Aligner::new(&text, AlignOptions::default());
//! let marginals = aligner.align(2);
//! let links = marginals.links(0, Symmetrization::Posterior { threshold: 0.5 });
//! assert!(links.iter().any(|link| link.link == (2, 2)), "sleeps, schläft");
//! ```
//!
//! **Memory** is proportional to the cells of the text, the products of the numbers of words of
//! both sides of each pair: 4 bytes each for the counter of its words, 4 for the means of both
//! directions, and 2 for each chain that runs at the time. 300 000 pairs of 20 words a side have
//! 120 million cells: 1.5 GB with two threads.
//!
//! **Threads** take whole chains, which know nothing of each other. Each random number follows from
//! the seed, the chain, the direction, the iteration and the pair, and the probabilities of the
//! chains are added as whole numbers, so that the result is the same, bit for bit, with any number
//! of threads.

mod bitext;
mod cells;
mod chain;
mod counts;
mod draw;
mod fertility;
mod jumps;
mod marginals;
#[cfg(feature = "training")]
mod saved;
mod schedule;
mod score;
mod symmetrization;

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

pub use bitext::{Bitext, MAX_WORDS};
use cells::Cells;
use chain::Chain;
pub use marginals::{Marginals, ScoredLink};
#[cfg(feature = "training")]
pub use saved::{AlignProgress, SavedChains};
use schedule::Schedule;
pub use score::{AlignmentScore, LinkCounts};
pub use symmetrization::Symmetrization;

/// The most chains in a direction: the mean of more would not fit into 16 bits.
const MOST_CHAINS: usize = 100;

/// The options that, with the text, decide the result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlignOptions {
    /// Chains in each direction, 1 to 100; default 3.
    pub chains: usize,
    /// The prior probability that a word has no link, between 0 and 1; default 0.1.
    pub null: f64,
    /// The seed of all random numbers; default 1.
    pub seed: u64,
}

impl Default for AlignOptions {
    fn default() -> Self {
        Self {
            chains: 3,
            null: 0.1,
            seed: 1,
        }
    }
}

/// The side of a pair that generates the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// Each target word has at most one source word.
    Forwards,
    /// Each source word has at most one target word.
    Backwards,
}

/// One of the chains of an alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChainId {
    /// The side that generates the other.
    direction: Direction,
    /// The number of the chain in its direction, from 0.
    number: usize,
}

/// A text that is to be aligned, with what its chains share.
pub struct Aligner<'a> {
    text: &'a Bitext,
    options: AlignOptions,
    cells: Cells,
    schedule: Schedule,
}

impl<'a> Aligner<'a> {
    /// Prepares the alignment of a text, with at least one chain in each direction, and at most 100.
    pub fn new(text: &'a Bitext, options: AlignOptions) -> Self {
        let chains = options.chains.clamp(1, MOST_CHAINS);
        Self {
            text,
            options: AlignOptions { chains, ..options },
            cells: Cells::new(text),
            schedule: Schedule::new(text.len()),
        }
    }

    /// An estimate of the memory that [`Self::align`] takes with that many threads, in bytes.
    pub fn memory(&self, threads: usize) -> usize {
        let chains = threads.min(self.ids().len());
        let cells = self.cells.counters.len();
        // A counter of each chain has four bytes, and so has the inverse of a count.
        cells * (4 + 2 * 2 + 2 * chains) + self.cells.num_counters * 4 * chains
    }

    /// Draws all chains on at most `threads` threads, and returns the probabilities of all links.
    pub fn align(&self, threads: usize) -> Marginals<'_> {
        let aligned: Result<Marginals<'_>, Infallible> = self.align_with(threads, |id| {
            let mut chain = self.chain(id);
            while !chain.is_done() {
                chain.advance();
            }
            Ok(chain)
        });
        match aligned {
            Ok(marginals) => marginals,
        }
    }

    /// As [`Self::align`], with chains that the caller draws: `draw` is called with each of them, on
    /// several threads, and returns it when it is done. After an error no more chains are begun.
    ///
    /// # Errors
    /// The first error of `draw`.
    fn align_with<'s, E: Send>(
        &'s self,
        threads: usize,
        draw: impl Fn(ChainId) -> Result<Chain<'s>, E> + Sync,
    ) -> Result<Marginals<'s>, E> {
        let ids = self.ids();
        let next = AtomicUsize::new(0);
        let result = Mutex::new(Ok(Marginals::new(self)));
        let work = || {
            while let Some(&id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
                let drawn = draw(id);
                let mut result = result.lock().unwrap_or_else(PoisonError::into_inner);
                match (drawn, &mut *result) {
                    (Ok(chain), Ok(marginals)) => marginals.add(id.direction, &chain),
                    (Err(error), Ok(_)) => {
                        *result = Err(error);
                        next.store(ids.len(), Ordering::Relaxed);
                    }
                    (_, Err(_)) => {}
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads.min(ids.len()) {
                scope.spawn(work);
            }
            work();
        });
        result.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part that the sum of one chain has in the mean of all chains of a direction, rounded
    /// down, so that the mean fits into 16 bits, too.
    fn share(&self, sum: usize) -> u16 {
        (sum / self.options.chains) as u16
    }

    /// Begins a chain.
    fn chain(&self, id: ChainId) -> Chain<'_> {
        Chain::new(self, id)
    }

    /// All chains, those of both directions alternating.
    fn ids(&self) -> Vec<ChainId> {
        let numbers = 0..self.options.chains;
        numbers
            .flat_map(|number| {
                [Direction::Forwards, Direction::Backwards]
                    .map(|direction| ChainId { direction, number })
            })
            .collect()
    }
}

#[cfg(all(test, feature = "training"))]
mod tests;
