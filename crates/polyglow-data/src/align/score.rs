//! The agreement of links with those of annotators (Och and Ney, 2003).

use std::collections::HashSet;

use crate::alignment::{GoldLinks, Link};

/// Counts over all pairs: `A` are the links that are scored, `S` the sure links of annotators, `P`
/// their possible links, of which the sure ones are a part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounts {
    links: usize,
    sure: usize,
    common_sure: usize,
    common_possible: usize,
}

/// The scores of an alignment, each between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlignmentScore {
    /// `|A and P| / |A|`.
    pub precision: f64,
    /// `|A and S| / |S|`.
    pub recall: f64,
    /// The alignment error rate, `1 - (|A and S| + |A and P|) / (|A| + |S|)`.
    pub error_rate: f64,
}

impl LinkCounts {
    /// Adds the links of a pair, each of which is listed once.
    pub fn add(&mut self, links: &[Link], gold: &GoldLinks) {
        let sure: HashSet<Link> = gold.sure.iter().copied().collect();
        let possible: HashSet<Link> = gold.possible.iter().copied().collect();
        self.links += links.len();
        self.sure += sure.len();
        for link in links {
            let is_sure = sure.contains(link);
            self.common_sure += usize::from(is_sure);
            self.common_possible += usize::from(is_sure || possible.contains(link));
        }
    }

    /// Returns the scores; without any link there is no error, and none that is right.
    pub fn score(&self) -> AlignmentScore {
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let common = self.common_sure + self.common_possible;
        let all = self.links + self.sure;
        AlignmentScore {
            precision: share(self.common_possible, self.links),
            recall: share(self.common_sure, self.sure),
            error_rate: if all == 0 {
                0.0
            } else {
                1.0 - share(common, all)
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_rate_counts_sure_and_possible_links() {
        let mut counts = LinkCounts::default();
        let gold = GoldLinks {
            sure: vec![(0, 0), (1, 1)],
            possible: vec![(1, 2)],
        };
        counts.add(&[(0, 0), (1, 2), (2, 2)], &gold);
        counts.add(&[], &GoldLinks::default());
        let score = counts.score();
        // One of three links is sure, one more is possible.
        assert!((score.precision - 2.0 / 3.0).abs() < 1e-12);
        assert!((score.recall - 0.5).abs() < 1e-12);
        assert!((score.error_rate - (1.0 - 3.0 / 5.0)).abs() < 1e-12);
    }

    #[test]
    fn nothing_agrees_with_nothing() {
        let score = LinkCounts::default().score();
        assert_eq!(score.error_rate.to_bits(), 0.0_f64.to_bits());
    }
}
