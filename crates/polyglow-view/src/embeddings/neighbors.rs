//! Words that are similar to others, by the cosine of their vectors.

use polyglow_train::Result;
use serde::Serialize;

use super::vectors::Entry;
use super::{Directions, Embeddings};

/// A word that is similar to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Neighbor {
    /// The word; for the vectors of a model a token as `Tokenizer::shown` spells it.
    pub word: String,
    /// Cosine of the angle between both vectors, -1 to 1.
    pub cosine: f32,
}

impl Embeddings {
    /// Returns the `count` words with the largest cosine to `word`, largest first, without the word
    /// and its own tokens.
    ///
    /// # Errors
    /// As [`Self::direction`].
    pub fn nearest(&self, word: &str, count: usize) -> Result<Vec<Neighbor>> {
        let Entry { vector, indices } = self.find(word)?;
        Ok(self.near(&vector, &indices, count))
    }

    /// Answers "what is to `c` as `b` is to `a`?": the words nearest to `b - a + c`, each scaled to
    /// length 1, without the three (3CosAdd: Mikolov et al., 2013, "Linguistic regularities in
    /// continuous space word representations").
    ///
    /// # Errors
    /// As [`Self::direction`].
    pub fn analogy(&self, [a, b, c]: [&str; 3], count: usize) -> Result<Vec<Neighbor>> {
        let mut sum = vec![0.0; self.dim];
        let mut left_out = Vec::new();
        for (word, sign) in [(a, -1.0), (b, 1.0), (c, 1.0)] {
            let Entry { vector, indices } = self.find(word)?;
            let unit = Directions::new(vector, self.dim);
            for (sum, value) in sum.iter_mut().zip(unit.get(0)) {
                *sum += sign * value;
            }
            left_out.extend(indices);
        }
        Ok(self.near(&sum, &left_out, count))
    }

    /// The `count` words with the largest cosine to `vector`, without those with the indices
    /// `left_out`.
    pub(super) fn near(&self, vector: &[f32], left_out: &[usize], count: usize) -> Vec<Neighbor> {
        let hits = self
            .directions
            .nearest(vector, count, |index| !left_out.contains(&index));
        let mut neighbors = Vec::with_capacity(hits.len());
        for (index, cosine) in hits {
            neighbors.push(Neighbor {
                word: self.words[index].clone(),
                cosine,
            });
        }
        neighbors
    }
}
