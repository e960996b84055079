//! Words that must appear: dynamic beam allocation (Post and Vilar, 2018).
//!
//! Each hypothesis counts how many tokens of each constraint it has met. The beam is divided among the numbers of tokens
//! met, so that hypotheses which have met few, and are therefore more probable, do not push out those that have met
//! many.

use super::beam::{Continuation, Live};

/// How many tokens of each constraint are met after `id`. A phrase that `id` breaks off counts as not begun.
pub(super) fn advance(met: &[usize], constraints: &[Vec<u32>], id: u32) -> Vec<usize> {
    let mut met = met.to_vec();
    if let Some(open) = open_phrase(&met, constraints) {
        if constraints[open][met[open]] == id {
            met[open] += 1;
            return met;
        }
        met[open] = 0;
    }
    if let Some(begun) = (0..met.len()).find(|&index| met[index] == 0 && constraints[index].first() == Some(&id)) {
        met[begun] = 1;
    }
    met
}

/// How many tokens of all constraints together are still missing.
pub(super) fn num_unmet(met: &[usize], constraints: &[Vec<u32>]) -> usize {
    constraints.iter().map(Vec::len).sum::<usize>() - met.iter().sum::<usize>()
}

/// The tokens that bring a constraint forward: the next of a phrase that is begun, and the first of those that are not.
/// With `at_once` a phrase that is begun is not broken off.
pub(super) fn wanted(met: &[usize], constraints: &[Vec<u32>], at_once: bool) -> Vec<u32> {
    let open = open_phrase(met, constraints);
    let next = open.map(|open| constraints[open][met[open]]);
    let firsts =
        (0..met.len()).filter(|&index| met[index] == 0).filter_map(|index| constraints[index].first().copied());
    match next {
        Some(next) if at_once => vec![next],
        next => next.into_iter().chain(firsts).collect(),
    }
}

/// The constraint that is begun and not yet complete; only one can be.
fn open_phrase(met: &[usize], constraints: &[Vec<u32>]) -> Option<usize> {
    (0..met.len()).find(|&index| met[index] > 0 && met[index] < constraints[index].len())
}

/// Chooses up to `width` of the continuations of one group, given best first, so that every number of tokens met has
/// its share of the beam; what one cannot fill goes to the others, the most complete first.
///
/// Candidates are the `width` best, what the constraints of each hypothesis ask for, and the best of each hypothesis.
/// The result is best first, with ends in front.
pub(super) fn allocate(
    ranked: &[Continuation],
    group: &[Live],
    constraints: &[Vec<u32>],
    width: usize,
    eos: u32,
) -> Vec<Continuation> {
    let num_tokens = constraints.iter().map(Vec::len).sum::<usize>();
    let num_met = |choice: &Continuation| advance(&group[choice.row].met, constraints, choice.id).iter().sum::<usize>();
    let mut first_of_row = vec![true; group.len()];
    let mut banks: Vec<Vec<Continuation>> = vec![Vec::new(); num_tokens + 1];
    let mut ends = Vec::new();
    for (place, choice) in ranked.iter().enumerate() {
        let best_of_row = std::mem::replace(&mut first_of_row[choice.row], false);
        if choice.id == eos {
            // Only hypotheses that have met everything may end.
            if banks[num_tokens].len() + ends.len() < width {
                ends.push(*choice);
            }
            continue;
        }
        let now = num_met(choice);
        if place < width || best_of_row || now > group[choice.row].met.iter().sum::<usize>() {
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
    let mut chosen: Vec<Continuation> =
        banks.iter().zip(shares).flat_map(|(bank, share)| bank[..share].iter().copied()).collect();
    chosen.sort_by(Continuation::order);
    ends.append(&mut chosen);
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_counts_tokens_and_a_broken_phrase_starts_again() {
        let constraints = [vec![5, 6], vec![7]];
        let met = advance(&[0, 0], &constraints, 5);
        assert_eq!((&met[..], num_unmet(&met, &constraints)), (&[1, 0][..], 2));
        assert_eq!(wanted(&met, &constraints, false), [6, 7]);
        assert_eq!(wanted(&met, &constraints, true), [6]);
        assert_eq!(advance(&met, &constraints, 6), [2, 0]);
        assert_eq!(advance(&met, &constraints, 7), [0, 1]);
        assert_eq!(advance(&met, &constraints, 5), [1, 0]);
        assert_eq!(advance(&[2, 1], &constraints, 5), [2, 1]);
    }
}
