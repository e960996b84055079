//! Words, and candidates for their context words: many rows for a line.

use crate::skip_gram::SkipGram;

/// Words with their candidates, the first of which is from the text and the others are drawn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkipGramBatch {
    /// One word per row.
    pub centers: Vec<i32>,
    /// The candidates, `[rows, count]` row by row.
    pub candidates: Vec<i32>,
    /// Number of candidates of each row.
    pub count: usize,
}

impl SkipGramBatch {
    /// Makes a batch of rows, all of which have the same number of candidates.
    pub fn new(rows: &[SkipGram]) -> Self {
        Self {
            centers: rows.iter().map(|row| row.center as i32).collect(),
            candidates: rows
                .iter()
                .flat_map(|row| &row.candidates)
                .map(|&id| id as i32)
                .collect(),
            count: rows.first().map_or(0, |row| row.candidates.len()),
        }
    }

    /// Returns 1 for each candidate that is from the text, and 0 for each that is drawn,
    /// `[rows, count]` row by row.
    pub fn is_real(&self) -> Vec<i32> {
        (0..self.candidates.len())
            .map(|index| i32::from(index % self.count == 0))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_candidate_is_the_real_one() {
        let row = |center, candidates: &[u32]| SkipGram {
            center,
            candidates: candidates.to_vec(),
        };
        let batch = SkipGramBatch::new(&[row(4, &[5, 6, 7]), row(5, &[4, 6, 6])]);
        assert_eq!(
            (&*batch.centers, &*batch.candidates),
            (&[4, 5][..], &[5, 6, 7, 4, 6, 6][..])
        );
        assert_eq!(batch.is_real(), [1, 0, 0, 1, 0, 0]);
    }
}
