//! Rows of ids become a rectangle: the only module that pads.

/// Rows of ids, padded on the right to one length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Padded {
    /// The ids, `[rows, len]` row by row.
    pub ids: Vec<i32>,
    /// Positions of each row that are no padding.
    pub lengths: Vec<usize>,
    /// Padded length.
    pub len: usize,
}

impl Padded {
    /// Makes room for rows of the padded length that the longest of them needs: a multiple of
    /// `pad_multiple`.
    pub(crate) fn with_room(rows: usize, longest: usize, pad_multiple: usize) -> Self {
        let len = longest.next_multiple_of(pad_multiple.max(1));
        Self {
            ids: Vec::with_capacity(rows * len),
            lengths: Vec::with_capacity(rows),
            len,
        }
    }

    /// Adds a row that is made of pieces, filled up with the id `pad`.
    pub(crate) fn push<P: AsRef<[u32]>>(&mut self, pieces: &[P], pad: u32) {
        let start = self.ids.len();
        self.ids
            .extend(pieces.iter().flat_map(P::as_ref).map(|&id| id as i32));
        self.lengths.push(self.ids.len() - start);
        self.ids.resize(start + self.len, pad as i32);
    }

    /// Pads rows of ids, each of which follows the id `begin`.
    pub fn begun<R: AsRef<[u32]>>(rows: &[R], begin: u32, pad: u32, pad_multiple: usize) -> Self {
        let mut padded = Self::with_room(rows.len(), longest_framed(rows), pad_multiple);
        for row in rows {
            padded.push(&[&[begin], row.as_ref()], pad);
        }
        padded
    }

    /// Pads rows of ids, each of which is followed by the id `end`.
    pub fn ended<R: AsRef<[u32]>>(rows: &[R], end: u32, pad: u32, pad_multiple: usize) -> Self {
        let mut padded = Self::with_room(rows.len(), longest_framed(rows), pad_multiple);
        for row in rows {
            padded.push(&[row.as_ref(), &[end]], pad);
        }
        padded
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.lengths.len()
    }

    /// Number of positions that are no padding.
    pub fn num_real(&self) -> usize {
        self.lengths.iter().sum()
    }

    /// Number of all positions, padding included.
    pub fn num_positions(&self) -> usize {
        self.ids.len()
    }
}

/// The length of the longest row with one special token; 0 without rows.
fn longest_framed<R: AsRef<[u32]>>(rows: &[R]) -> usize {
    rows.iter()
        .map(|row| row.as_ref().len() + 1)
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_ended_and_filled_up_to_a_multiple() {
        let rows: [&[u32]; 3] = [&[10, 11, 12], &[13], &[]];
        let padded = Padded::ended(&rows, 2, 0, 1);
        assert_eq!(padded.ids, [10, 11, 12, 2, 13, 2, 0, 0, 2, 0, 0, 0]);
        assert_eq!((padded.lengths.as_slice(), padded.len), (&[4, 2, 1][..], 4));
        assert_eq!(
            (padded.num_rows(), padded.num_real(), padded.num_positions()),
            (3, 7, 12)
        );
        let padded = Padded::ended(&rows, 2, 0, 8);
        assert_eq!(
            (padded.len, padded.num_positions(), padded.num_real()),
            (8, 24, 7)
        );
        assert!(padded.ids[4..8].iter().all(|&id| id == 0));
    }

    #[test]
    fn no_rows_make_an_empty_rectangle() {
        assert_eq!(Padded::ended::<Vec<u32>>(&[], 2, 0, 8), Padded::default());
    }
}
