//! Words that must appear: dynamic beam allocation (Post and Vilar, 2018).
//!
//! Each hypothesis counts how many tokens of each constraint it has met. The beam is divided among
//! the numbers of tokens met, so that hypotheses which have met few, and are therefore more
//! probable, do not push out those that have met many.

use super::beam::{Continuation, Live};

/// How many tokens of each constraint are met after `id`: all of them, once the phrase has
/// occurred; before that, the longest prefix of the phrase that the hypothesis ends with. So
/// phrases may overlap, and a phrase that breaks off may start again within itself.
pub(super) fn advance(met: &[usize], constraints: &[Vec<u32>], id: u32) -> Vec<usize> {
    let longest = |(&met, phrase): (&usize, &Vec<u32>)| {
        if met == phrase.len() {
            return met;
        }
        // The hypothesis ends with `phrase[..met]` and `id`, and with no longer prefix (Knuth,
        // Morris and Pratt, 1977).
        let ends_with =
            |&len: &usize| phrase[len - 1] == id && phrase[..len - 1] == phrase[met + 1 - len..met];
        (1..=met + 1).rev().find(ends_with).unwrap_or(0)
    };
    met.iter().zip(constraints).map(longest).collect()
}

/// Number of tokens that suffice to meet all constraints: the rest of the one that is furthest, and
/// all of the others.
pub(super) fn num_missing(met: &[usize], constraints: &[Vec<u32>]) -> usize {
    num_open(met, constraints) - furthest(met, constraints)
}

/// Number of tokens in all constraints that are not met, those that are begun counted from their
/// start: an upper bound of what is missing after any token.
pub(super) fn num_open(met: &[usize], constraints: &[Vec<u32>]) -> usize {
    unmet(met, constraints)
        .map(|(_, phrase)| phrase.len())
        .sum()
}

/// Every token that begins a constraint that is not met or goes on with it, wherever in it the
/// hypothesis may then be.
pub(super) fn continuing(met: &[usize], constraints: &[Vec<u32>]) -> Vec<u32> {
    let mut ids: Vec<u32> = unmet(met, constraints)
        .flat_map(|(met, phrase)| &phrase[..=met])
        .copied()
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The next token of every constraint that is not met.
pub(super) fn wanted(met: &[usize], constraints: &[Vec<u32>]) -> Vec<u32> {
    unmet(met, constraints)
        .map(|(met, phrase)| phrase[met])
        .collect()
}

fn unmet<'a>(
    met: &'a [usize],
    constraints: &'a [Vec<u32>],
) -> impl Iterator<Item = (usize, &'a Vec<u32>)> {
    met.iter()
        .copied()
        .zip(constraints)
        .filter(|(met, phrase)| *met < phrase.len())
}

fn furthest(met: &[usize], constraints: &[Vec<u32>]) -> usize {
    unmet(met, constraints)
        .map(|(met, _)| met)
        .max()
        .unwrap_or(0)
}

/// Chooses up to `width` of the continuations of one group, given best first, so that every number
/// of tokens met has its share of the beam; what one cannot fill goes to the others, the most
/// complete first.
///
/// Candidates are the `width` best, what the constraints of each hypothesis ask for, and the best
/// of each hypothesis that does not end it. The result is best first, with ends in front.
pub(super) fn allocate(
    ranked: &[Continuation],
    group: &[Live],
    constraints: &[Vec<u32>],
    width: usize,
    eos: u32,
) -> Vec<Continuation> {
    let num_tokens = constraints.iter().map(Vec::len).sum::<usize>();
    let before: Vec<usize> = group
        .iter()
        .map(|live| num_tokens - num_missing(&live.met, constraints))
        .collect();
    let num_met = |choice: &Continuation| {
        num_tokens
            - num_missing(
                &advance(&group[choice.row].met, constraints, choice.id),
                constraints,
            )
    };
    let mut first_of_row = vec![true; group.len()];
    let mut banks: Vec<Vec<Continuation>> = vec![Vec::new(); num_tokens + 1];
    let mut ends = Vec::new();
    for (place, choice) in ranked.iter().enumerate() {
        if choice.id == eos {
            // Only hypotheses that have met everything may end.
            if banks[num_tokens].len() + ends.len() < width {
                ends.push(*choice);
            }
            continue;
        }
        let best_of_row = std::mem::replace(&mut first_of_row[choice.row], false);
        let now = num_met(choice);
        if place < width || best_of_row || now > before[choice.row] {
            banks[now].push(*choice);
        }
    }
    let mut shares = vec![width / banks.len(); banks.len()];
    shares[num_tokens] += width % banks.len();
    let mut left = 0;
    for (share, bank) in shares.iter_mut().zip(&banks) {
        left += share.saturating_sub(bank.len());
        *share = (*share).min(bank.len());
    }
    for (share, bank) in shares.iter_mut().zip(&banks).rev() {
        let more = left.min(bank.len() - *share);
        *share += more;
        left -= more;
    }
    let mut chosen: Vec<Continuation> = banks
        .iter()
        .zip(shares)
        .flat_map(|(bank, share)| bank[..share].iter().copied())
        .collect();
    chosen.sort_by(Continuation::order);
    ends.append(&mut chosen);
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(constraints: &[Vec<u32>], ids: &[u32]) -> Vec<usize> {
        ids.iter().fold(vec![0; constraints.len()], |met, &id| {
            advance(&met, constraints, id)
        })
    }

    #[test]
    fn progress_counts_tokens_and_a_broken_phrase_starts_again() {
        let constraints = [vec![5, 6], vec![7]];
        let met = after(&constraints, &[5]);
        assert_eq!(
            (&met[..], num_missing(&met, &constraints)),
            (&[1, 0][..], 2)
        );
        assert_eq!(wanted(&met, &constraints), [6, 7]);
        assert_eq!(after(&constraints, &[5, 6]), [2, 0]);
        assert_eq!(after(&constraints, &[5, 7]), [0, 1]);
        assert_eq!(after(&constraints, &[5, 5]), [1, 0]);
        assert_eq!(after(&constraints, &[5, 6, 7, 5]), [2, 1]);
    }

    #[test]
    fn phrases_may_share_words_and_begin_again_within_themselves() {
        let common = [vec![5, 6], vec![5, 7]];
        let met = after(&common, &[5]);
        // Of two that are begun only one can go on.
        assert_eq!((&met[..], num_missing(&met, &common)), (&[1, 1][..], 3));
        assert_eq!(after(&common, &[5, 7]), [0, 2]);
        assert_eq!(after(&common, &[5, 7, 5, 6]), [2, 2]);
        assert_eq!(after(&[vec![2, 2, 3]], &[2, 2, 2]), [2]);
        assert_eq!(after(&[vec![2, 2, 3]], &[2, 2, 2, 3]), [3]);
        assert_eq!(after(&[vec![2, 3, 2, 4]], &[2, 3, 2, 3, 2]), [3]);
        assert_eq!(after(&[vec![2, 3], vec![3, 4]], &[2, 3, 4]), [2, 2]);
    }

    #[test]
    fn every_number_of_met_tokens_has_its_share_of_the_beam() {
        let constraints = [vec![5, 6]];
        let live = |met: usize| Live {
            met: vec![met],
            ..Live::default()
        };
        let group = [live(0), live(1), live(2)];
        let choice = |row, id, rank| Continuation {
            row,
            id,
            log_prob: rank,
            score: rank,
            rank,
        };
        // The first hypothesis, which has met nothing, has the most probable continuations.
        let ranked = [
            choice(0, 8, -1.0),
            choice(0, 9, -2.0),
            choice(0, 7, -3.0),
            choice(2, 8, -4.0),
            choice(0, 5, -5.0),
        ];
        let chosen = |ranked: &[Continuation], width| -> Vec<(usize, u32)> {
            allocate(ranked, &group, &constraints, width, 1)
                .iter()
                .map(|choice| (choice.row, choice.id))
                .collect()
        };
        assert_eq!(chosen(&ranked, 3), [(0, 8), (2, 8), (0, 5)]);
        // A share that cannot be filled goes to the most complete that can use it.
        assert_eq!(chosen(&ranked[..3], 3), [(0, 8), (0, 9), (0, 7)]);
        // What has met everything may end, in front of the rest.
        let ending = [&[choice(2, 1, -0.5)], &ranked[..]].concat();
        assert_eq!(chosen(&ending, 3), [(2, 1), (0, 8), (2, 8), (0, 5)]);
    }
}
