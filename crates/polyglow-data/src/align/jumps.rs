//! The jumps from the position of one link to that of the next, as in the HMM of Vogel, Ney and
//! Tillmann (1996).

use super::bitext::MAX_WORDS;
use super::chain::NULL;

/// The longest jump that is told apart from longer ones.
const LONGEST: isize = 50;
/// Smoothing: added to the count of each jump.
const PRIOR: f32 = 0.5;
/// The index of jump 0 in the tables, which have room for a jump over a whole sentence.
const CENTER: isize = MAX_WORDS as isize + 1;

/// The probabilities of jumps from the condition of one word to that of the next, by their length;
/// those of more than 50 words are one.
pub(super) struct Jumps {
    /// The probability of a jump over `d` words at `CENTER + d`.
    forwards: Vec<f32>,
    /// That of a jump over `-d` words at the same index, so that both tables are read upwards.
    backwards: Vec<f32>,
}

impl Jumps {
    /// Estimates the probabilities from the links of all sentences: pairs of the number of
    /// conditions and the links of the generated words.
    pub(super) fn estimate<'a>(sentences: impl Iterator<Item = (usize, &'a [u16])>) -> Self {
        let mut counts = [PRIOR; 2 * LONGEST as usize + 1];
        for (num_conditions, links) in sentences {
            let mut before = -1;
            for &link in links.iter().filter(|&&link| link != NULL) {
                let link = link as isize;
                counts[bucket(link - before)] += 1.0;
                before = link;
            }
            counts[bucket(num_conditions as isize - before)] += 1.0;
        }
        let all: f32 = counts.iter().sum();
        let forwards: Vec<f32> = (-CENTER..=CENTER)
            .map(|jump| counts[bucket(jump)] / all)
            .collect();
        let backwards = forwards.iter().rev().copied().collect();
        Self {
            forwards,
            backwards,
        }
    }

    /// The probabilities of the jumps from a position to each condition.
    pub(super) fn away_from(&self, position: isize) -> &[f32] {
        &self.forwards[(CENTER - position) as usize..]
    }

    /// The probabilities of the jumps from each condition to a position.
    pub(super) fn towards(&self, position: isize) -> &[f32] {
        &self.backwards[(CENTER - position) as usize..]
    }

    /// The probability of a jump over `distance` words.
    pub(super) fn over(&self, distance: isize) -> f32 {
        self.forwards[(CENTER + distance) as usize]
    }
}

/// The bucket of a jump, from 0.
fn bucket(jump: isize) -> usize {
    (jump.clamp(-LONGEST, LONGEST) + LONGEST) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_counted_from_the_start_over_linked_words_to_the_end() {
        // From -1 to 1, over an unlinked word to 0, and to 3 behind the last condition; then from
        // -1 to 1 behind the only condition of a sentence without links.
        let links = [1, NULL, 0];
        let sentences = [(3, &links[..]), (1, &[NULL][..])];
        let jumps = Jumps::estimate(sentences.into_iter());
        let all = 4.0 + 0.5 * 101.0;
        for (distance, count) in [(2, 2.5), (-1, 1.5), (3, 1.5), (0, 0.5), (300, 0.5)] {
            let probability = jumps.over(distance);
            assert!(
                (probability - count / all).abs() < 1e-6,
                "{distance}: {probability}"
            );
        }
        assert!((jumps.away_from(-1)[1] - jumps.over(2)).abs() < 1e-6);
        assert!((jumps.towards(0)[1] - jumps.over(-1)).abs() < 1e-6);
    }
}
