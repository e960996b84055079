//! Word edit distance within a beam around the diagonal, as Tercom and sacreBLEU have it.

/// The distance from the diagonal up to which a row is computed, in words.
const BEAM_WIDTH: usize = 25;

/// The cost of a cell that the beam leaves out.
const UNREACHABLE: u32 = u32::MAX / 2;

/// The edit distances of all prefixes of a hypothesis to all prefixes of a reference.
///
/// A hypothesis that differs from this one only from some word on needs only the rows from there
/// on.
pub(super) struct EditDistance<'text> {
    reference: &'text [u32],
    hypothesis: &'text [u32],
    rows: Vec<Row>,
}

/// The costs of one hypothesis prefix, from the reference prefix of length `start` on.
#[derive(Clone, Default)]
struct Row {
    start: usize,
    costs: Vec<u32>,
}

/// The effect of the cheapest edits on each word.
pub(super) struct Alignment {
    /// For each length of a reference prefix, the length of the hypothesis prefix edited into it.
    pub(super) hypothesis_len: Vec<usize>,
    /// Whether each hypothesis word is deleted or replaced.
    pub(super) hypothesis_errors: Vec<bool>,
    /// Whether each reference word is inserted or a replacement.
    pub(super) reference_errors: Vec<bool>,
}

impl Row {
    fn cost(&self, reference_len: usize) -> u32 {
        let index = reference_len.checked_sub(self.start);
        index
            .and_then(|index| self.costs.get(index).copied())
            .unwrap_or(UNREACHABLE)
    }
}

impl<'text> EditDistance<'text> {
    pub(super) fn new(hypothesis: &'text [u32], reference: &'text [u32]) -> Self {
        let first = Row {
            start: 0,
            costs: (0..=reference.len() as u32).collect(),
        };
        let mut distance = Self {
            reference,
            hypothesis,
            rows: vec![first],
        };
        for (index, &word) in hypothesis.iter().enumerate() {
            let mut row = Row::default();
            distance.fill_row(&mut row, &distance.rows[index], word, index + 1);
            distance.rows.push(row);
        }
        distance
    }

    /// The edits that turn the hypothesis into the reference.
    pub(super) fn edits(&self) -> u32 {
        self.rows[self.hypothesis.len()].cost(self.reference.len())
    }

    /// The edits for another hypothesis of the same length that agrees with this one before the
    /// word `changed`.
    pub(super) fn edits_of(&self, hypothesis: &[u32], changed: usize) -> u32 {
        let mut previous = self.rows[changed].clone();
        let mut row = Row::default();
        for (index, &word) in hypothesis.iter().enumerate().skip(changed) {
            self.fill_row(&mut row, &previous, word, index + 1);
            std::mem::swap(&mut previous, &mut row);
        }
        previous.cost(self.reference.len())
    }

    /// Follows the cheapest edits back from the end.
    ///
    /// Of equally cheap edits, keeping or replacing a word goes before deleting one, and that
    /// before inserting one.
    pub(super) fn alignment(&self) -> Alignment {
        let mut alignment = Alignment {
            hypothesis_len: vec![0; self.reference.len() + 1],
            hypothesis_errors: vec![true; self.hypothesis.len()],
            reference_errors: vec![true; self.reference.len()],
        };
        let mut i = self.hypothesis.len();
        let mut j = self.reference.len();
        while j > 0 {
            alignment.hypothesis_len[j] = i;
            if i == 0 {
                j -= 1;
                continue;
            }
            let cost = self.rows[i].cost(j);
            let differs = self.hypothesis[i - 1] != self.reference[j - 1];
            if cost == self.rows[i - 1].cost(j - 1) + u32::from(differs) {
                alignment.hypothesis_errors[i - 1] = differs;
                alignment.reference_errors[j - 1] = differs;
                i -= 1;
                j -= 1;
            } else if cost == self.rows[i - 1].cost(j) + 1 {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        alignment
    }

    /// Computes the costs of the first `len` hypothesis words, the last of which is `word`, from
    /// those of `len - 1`.
    fn fill_row(&self, row: &mut Row, previous: &Row, word: u32, len: usize) {
        let (start, end) = self.beam(len);
        row.start = start;
        row.costs.clear();
        let mut diagonal = start
            .checked_sub(1)
            .map_or(UNREACHABLE, |left| previous.cost(left));
        let mut left = UNREACHABLE;
        for j in start..end {
            let above = previous.cost(j);
            let mut cost = above.min(left) + 1;
            if j > 0 {
                cost = cost.min(diagonal + u32::from(word != self.reference[j - 1]));
            }
            left = cost.min(UNREACHABLE);
            diagonal = above;
            row.costs.push(left);
        }
    }

    /// The reference lengths to which a hypothesis prefix is compared: from the first, to before
    /// the second.
    ///
    /// The beam follows the ratio of the two lengths and widens where consecutive rows would not
    /// overlap.
    fn beam(&self, len: usize) -> (usize, usize) {
        let reference_len = self.reference.len();
        let hypothesis_len = self.hypothesis.len();
        let ratio = reference_len as f64 / hypothesis_len as f64;
        let width = if ratio / 2.0 > BEAM_WIDTH as f64 {
            (ratio / 2.0 + BEAM_WIDTH as f64).ceil() as usize
        } else {
            BEAM_WIDTH
        };
        let diagonal = (len as f64 * ratio).floor() as usize;
        let end = if len == hypothesis_len {
            usize::MAX
        } else {
            diagonal + width
        };
        (diagonal.saturating_sub(width), end.min(reference_len + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_insertions_deletions_and_substitutions() {
        assert_eq!(EditDistance::new(&[1, 2, 3], &[1, 3, 4, 5]).edits(), 3);
        assert_eq!(EditDistance::new(&[], &[1, 2]).edits(), 2);
        assert_eq!(EditDistance::new(&[1; 3], &[2; 900]).edits(), 900);
    }

    #[test]
    fn a_changed_hypothesis_costs_as_if_computed_anew() {
        let reference = [1, 2, 3, 4, 5, 6];
        let distance = EditDistance::new(&[1, 2, 5, 6, 3], &reference);
        let changed = [1, 2, 3, 5, 6];
        assert_eq!(
            distance.edits_of(&changed, 2),
            EditDistance::new(&changed, &reference).edits()
        );
    }

    #[test]
    fn the_alignment_tells_the_wrong_words_of_both_sides() {
        let alignment = EditDistance::new(&[1, 9, 3, 3], &[1, 2, 3]).alignment();
        assert_eq!(alignment.hypothesis_errors, [false, true, true, false]);
        assert_eq!(alignment.reference_errors, [false, true, false]);
        assert_eq!(alignment.hypothesis_len, [0, 1, 3, 4]);
    }
}
