//! Words that must appear: dynamic beam allocation (Post and Vilar, 2018).
//!
//! Each hypothesis counts for each constraint, a phrase, how many of its tokens are met. The beam
//! is divided among the possible totals of these counts, so that hypotheses which have met few
//! tokens, and are therefore more probable, do not push out those that have met many.

use super::hypothesis::{Continuation, Unfinished};

/// The tokens of each constraint that are met after one more token, `id`: all of them, once the
/// phrase has occurred; before that, the longest prefix of the phrase that the hypothesis ends
/// with. So phrases may overlap, and a phrase that breaks off may start again within itself.
pub(super) fn advance(met: &[usize], constraints: &[Vec<u32>], id: u32) -> Vec<usize> {
    met.iter()
        .zip(constraints)
        .map(|(&met, phrase)| advance_phrase(met, phrase, id))
        .collect()
}

/// [`advance`] for one phrase: as in the string search of Knuth, Morris and Pratt (1977), the
/// hypothesis ends with `phrase[..met]`, and with no longer prefix.
fn advance_phrase(met: usize, phrase: &[u32], id: u32) -> usize {
    if met == phrase.len() {
        return met;
    }
    // `phrase[..len]` ends with `id`, and the tokens before it are the end of `phrase[..met]`.
    let ends_with_prefix =
        |&len: &usize| phrase[len - 1] == id && phrase[..len - 1] == phrase[met + 1 - len..met];
    (1..=met + 1).rev().find(ends_with_prefix).unwrap_or(0)
}

/// The number of tokens that suffice to meet all constraints: the rest of the one that is furthest,
/// and all of the others, since only one of them can be continued by the next token.
pub(super) fn num_missing(met: &[usize], constraints: &[Vec<u32>]) -> usize {
    let furthest = unmet(met, constraints).map(|(met, _)| met).max();
    num_open(met, constraints) - furthest.unwrap_or(0)
}

/// The number of tokens in all constraints that are not met, those that are begun counted from
/// their start: an upper bound of [`num_missing`] after any token.
pub(super) fn num_open(met: &[usize], constraints: &[Vec<u32>]) -> usize {
    unmet(met, constraints)
        .map(|(_, phrase)| phrase.len())
        .sum()
}

/// Every token that begins or continues a constraint that is not met, at any prefix of it that the
/// hypothesis may end with; each once.
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
pub(super) fn next_tokens(met: &[usize], constraints: &[Vec<u32>]) -> Vec<u32> {
    unmet(met, constraints)
        .map(|(met, phrase)| phrase[met])
        .collect()
}

/// The constraints that are not met, each with the number of its tokens that are.
fn unmet<'a>(
    met: &'a [usize],
    constraints: &'a [Vec<u32>],
) -> impl Iterator<Item = (usize, &'a Vec<u32>)> {
    met.iter()
        .copied()
        .zip(constraints)
        .filter(|(met, phrase)| *met < phrase.len())
}

/// Chooses up to `width` of the continuations of one group, given best first, so that every number
/// of met tokens has its share of the beam. Shares that are not filled go to the other numbers,
/// beginning with the largest.
///
/// Only some continuations take part: the `width` best, those that meet one more token of a
/// constraint, and the best of each hypothesis that does not end it. The result is best first, with
/// those that end in front.
pub(super) fn allocate(
    ranked: &[Continuation],
    group: &[Unfinished],
    constraints: &[Vec<u32>],
    width: usize,
    eos: u32,
) -> Vec<Continuation> {
    // Ends need no share: at most `width` of them were admitted, and they leave the beam.
    let (banks, mut chosen) = fill_banks(ranked, group, constraints, width, eos);
    let shares = shares(&banks, width);
    let mut unfinished: Vec<Continuation> = banks
        .iter()
        .zip(shares)
        .flat_map(|(bank, share)| bank[..share].iter().copied())
        .collect();
    unfinished.sort_by(Continuation::order);
    chosen.append(&mut unfinished);
    chosen
}

/// Sorts the continuations that take part in [`allocate`] into banks, one for each number of met
/// tokens from 0 to all; returns the banks and, apart, the continuations that end their hypothesis.
fn fill_banks(
    ranked: &[Continuation],
    group: &[Unfinished],
    constraints: &[Vec<u32>],
    width: usize,
    eos: u32,
) -> (Vec<Vec<Continuation>>, Vec<Continuation>) {
    let num_tokens = constraints.iter().map(Vec::len).sum::<usize>();
    let num_met = |met: &[usize]| num_tokens - num_missing(met, constraints);
    let before: Vec<usize> = group.iter().map(|live| num_met(&live.met)).collect();
    let mut banks: Vec<Vec<Continuation>> = vec![Vec::new(); num_tokens + 1];
    let mut ends = Vec::new();
    let mut has_best = vec![false; group.len()];
    for (rank, choice) in ranked.iter().enumerate() {
        if choice.id == eos {
            // The rule allows EOS only after all constraints are met, so that ends compete with the
            // last bank.
            if banks[num_tokens].len() + ends.len() < width {
                ends.push(*choice);
            }
            continue;
        }
        let is_best_of_row = !has_best[choice.row];
        has_best[choice.row] = true;
        let after = num_met(&advance(&group[choice.row].met, constraints, choice.id));
        if rank < width || is_best_of_row || after > before[choice.row] {
            banks[after].push(*choice);
        }
    }
    (banks, ends)
}

/// The number of continuations to take from each bank, `width` in total if there are as many.
fn shares(banks: &[Vec<Continuation>], width: usize) -> Vec<usize> {
    // Equal shares; the remainder goes to the bank of all tokens, which may end soon.
    let mut shares = vec![width / banks.len(); banks.len()];
    shares[banks.len() - 1] += width % banks.len();
    // Banks with fewer continuations than their share give the difference to a common stock, from
    // which the others take, beginning with the most complete.
    let mut num_unfilled = 0;
    for (share, bank) in shares.iter_mut().zip(banks) {
        num_unfilled += share.saturating_sub(bank.len());
        *share = (*share).min(bank.len());
    }
    for (share, bank) in shares.iter_mut().zip(banks).rev() {
        let more = num_unfilled.min(bank.len() - *share);
        *share += more;
        num_unfilled -= more;
    }
    shares
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
        assert_eq!(next_tokens(&met, &constraints), [6, 7]);
        assert_eq!(after(&constraints, &[5, 6]), [2, 0]);
        assert_eq!(after(&constraints, &[5, 7]), [0, 1]);
        assert_eq!(after(&constraints, &[5, 5]), [1, 0]);
        assert_eq!(after(&constraints, &[5, 6, 7, 5]), [2, 1]);
    }

    #[test]
    fn phrases_may_share_words_and_begin_again_within_themselves() {
        let common = [vec![5, 6], vec![5, 7]];
        let met = after(&common, &[5]);
        // Only one of two phrases that are begun can be continued.
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
        let live = |met: usize| Unfinished {
            met: vec![met],
            ..Unfinished::default()
        };
        let group = [live(0), live(1), live(2)];
        let choice = |row, id, sort_key| Continuation {
            row,
            id,
            log_prob: sort_key,
            score: sort_key,
            sort_key,
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
        // A share that cannot be filled goes to the bank with the most met tokens that can use it.
        assert_eq!(chosen(&ranked[..3], 3), [(0, 8), (0, 9), (0, 7)]);
        // A hypothesis that has met everything may end, in front of the rest.
        let ending = [&[choice(2, 1, -0.5)], &ranked[..]].concat();
        assert_eq!(chosen(&ending, 3), [(2, 1), (0, 8), (2, 8), (0, 5)]);
    }
}
