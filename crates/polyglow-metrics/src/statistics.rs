//! The counts of each segment, from which every score is computed.

/// A table of sufficient statistics: one row per segment, one column per quantity that a metric
/// counts.
///
/// All metrics here score a corpus from the sum of its rows, so a resampled corpus is scored by
/// adding other rows. The columns are documented at each metric's options. Counts are whole
/// numbers, exact in `f64` up to 2⁵³.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    width: usize,
    values: Vec<f64>,
}

impl Statistics {
    /// Makes a table of rows of equal length; `None` if the lengths differ or there is no column.
    pub(crate) fn from_rows(rows: &[Vec<f64>]) -> Option<Self> {
        let width = rows.first().map(Vec::len).filter(|&width| width > 0)?;
        let rectangular = rows.iter().all(|row| row.len() == width);
        rectangular.then(|| Self {
            width,
            values: rows.concat(),
        })
    }

    /// The number of segments.
    pub(crate) fn num_segments(&self) -> usize {
        self.values.len() / self.width
    }

    /// The number of quantities that are counted.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns the rows, in the order of the segments.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.width)
    }

    /// Adds the rows of other outputs for the same segments to these, as of models that were trained
    /// with other seeds: a segment that is resampled is then resampled for all of them.
    ///
    /// # Panics
    /// The tables differ in their sizes.
    pub fn add(&mut self, other: &Self) {
        let sizes = |table: &Self| (table.width, table.values.len());
        assert_eq!(sizes(self), sizes(other), "tables of the same segments");
        for (sum, value) in self.values.iter_mut().zip(&other.values) {
            *sum += value;
        }
    }

    /// Returns the sum of all rows, added from first to last.
    pub fn sum(&self) -> Vec<f64> {
        let mut total = vec![0.0; self.width];
        for row in self.rows() {
            for (sum, value) in total.iter_mut().zip(row) {
                *sum += value;
            }
        }
        total
    }
}
