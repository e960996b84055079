//! One alignment of two: that which each target word, and that which each source word has.

use crate::alignment::Link;

/// The choice of a pair's links from those of both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Symmetrization {
    /// The links whose mean probability in both directions is higher than the threshold.
    Posterior {
        /// Between 0 and 1: 0.35 for the lowest error rate, 0.5 for links that are right.
        threshold: f64,
    },
    /// The links of both directions, and then those of one that are adjacent to them and link a
    /// free word, or whose words are both free (Koehn, Och and Marcu, 2003; as Moses has it).
    GrowDiagFinalAnd,
    /// The links of both directions.
    Intersection,
}

impl Default for Symmetrization {
    fn default() -> Self {
        Self::Posterior { threshold: 0.35 }
    }
}

/// Some of the links that a pair may have.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    tgt_len: usize,
    /// Whether there is a link, in rows of the source words.
    linked: Vec<bool>,
    src_linked: Vec<bool>,
    tgt_linked: Vec<bool>,
}

impl Grid {
    /// Makes a grid without links.
    pub(super) fn new(src_len: usize, tgt_len: usize) -> Self {
        Self {
            tgt_len,
            linked: vec![false; src_len * tgt_len],
            src_linked: vec![false; src_len],
            tgt_linked: vec![false; tgt_len],
        }
    }

    fn has(&self, (src, tgt): Link) -> bool {
        self.linked[src * self.tgt_len + tgt]
    }

    fn add(&mut self, (src, tgt): Link) {
        self.linked[src * self.tgt_len + tgt] = true;
        self.src_linked[src] = true;
        self.tgt_linked[tgt] = true;
    }

    /// The links, sorted by their source words, then by their target words.
    fn links(&self) -> Vec<Link> {
        let links = (0..self.linked.len()).filter(|&index| self.linked[index]);
        links
            .map(|index| (index / self.tgt_len, index % self.tgt_len))
            .collect()
    }

    /// The eight links around one.
    fn neighbors(&self, (src, tgt): Link) -> impl Iterator<Item = Link> + use<> {
        const AROUND: [(isize, isize); 8] = [
            (-1, 0),
            (0, -1),
            (1, 0),
            (0, 1),
            (-1, -1),
            (-1, 1),
            (1, -1),
            (1, 1),
        ];
        let (src_len, tgt_len) = (self.src_linked.len(), self.tgt_len);
        AROUND.into_iter().filter_map(move |(down, right)| {
            let src = src.checked_add_signed(down)?;
            let tgt = tgt.checked_add_signed(right)?;
            (src < src_len && tgt < tgt_len).then_some((src, tgt))
        })
    }
}

impl Extend<Link> for Grid {
    fn extend<T: IntoIterator<Item = Link>>(&mut self, links: T) {
        links.into_iter().for_each(|link| self.add(link));
    }
}

/// Returns the links of both directions.
pub(super) fn intersect([forwards, backwards]: &[Grid; 2]) -> Vec<Link> {
    let links = forwards.links().into_iter();
    links.filter(|&link| backwards.has(link)).collect()
}

/// Returns the links of grow-diag-final-and.
pub(super) fn grow_diagonally(directions: &[Grid; 2]) -> Vec<Link> {
    let [forwards, backwards] = directions;
    let mut grown = Grid::new(forwards.src_linked.len(), forwards.tgt_len);
    grown.extend(intersect(directions));
    loop {
        let before = grown.links();
        for &link in &before {
            for neighbor @ (src, tgt) in grown.neighbors(link) {
                let is_new =
                    !grown.has(neighbor) && (forwards.has(neighbor) || backwards.has(neighbor));
                if is_new && !(grown.src_linked[src] && grown.tgt_linked[tgt]) {
                    grown.add(neighbor);
                }
            }
        }
        if grown.links().len() == before.len() {
            break;
        }
    }
    for link @ (src, tgt) in forwards.links().into_iter().chain(backwards.links()) {
        if !grown.src_linked[src] && !grown.tgt_linked[tgt] {
            grown.add(link);
        }
    }
    grown.links()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(links: &[Link]) -> Grid {
        let mut grid = Grid::new(5, 5);
        grid.extend(links.iter().copied());
        grid
    }

    /// The expected links are those of `gdfa` in the reference of the specification, by hand.
    #[test]
    fn links_of_one_direction_are_added_beside_others_and_where_both_words_are_free() {
        let forwards = grid(&[(0, 0), (1, 1), (1, 2), (4, 4)]);
        let backwards = grid(&[(0, 0), (2, 1), (1, 1), (3, 4)]);
        let both = [forwards, backwards];
        assert_eq!(intersect(&both), [(0, 0), (1, 1)]);
        // (1, 2) and (2, 1) stand beside (1, 1) and link a free word; (4, 4) has two free words,
        // and takes one of (3, 4).
        let expected = [(0, 0), (1, 1), (1, 2), (2, 1), (4, 4)];
        assert_eq!(grow_diagonally(&both), expected);
    }

    #[test]
    fn links_grow_along_a_chain_of_neighbors() {
        let both = [grid(&[(0, 0), (1, 1), (2, 2)]), grid(&[(0, 0)])];
        assert_eq!(intersect(&both), [(0, 0)]);
        assert_eq!(grow_diagonally(&both), [(0, 0), (1, 1), (2, 2)]);
    }
}
