//! The greedy search for phrases of the hypothesis to move, with Tercom's limits (Snover et al.,
//! 2006, section 3).

use super::edit_distance::{Alignment, EditDistance};

/// The longest phrase that is moved, in words.
const MAX_SHIFT_LEN: usize = 10;

/// The largest distance of a phrase in the hypothesis from the same in the reference, in words.
const MAX_SHIFT_DISTANCE: usize = 50;

/// The number of shifts that are tried for one pair of sentences.
const MAX_CANDIDATES: usize = 1000;

/// A phrase of the hypothesis that the reference has too.
struct Phrase {
    hypothesis_start: usize,
    reference_start: usize,
    len: usize,
}

/// The best shift of a round.
struct Shift {
    /// The order of shifts, of which the greatest wins: edits saved, longer phrase, earlier phrase,
    /// earlier target.
    rank: (i64, usize, isize, isize),
    shifted: Vec<u32>,
}

/// Counts the edits that turn the hypothesis into the reference, where moving a phrase is one edit.
///
/// Each round makes the shift that saves most edits, until none saves any or too many have been
/// tried; the round that reaches the limit is not made, as in sacreBLEU.
pub(super) fn count_edits(hypothesis: &[u32], reference: &[u32]) -> usize {
    if reference.is_empty() {
        return hypothesis.len();
    }
    let mut words = hypothesis.to_vec();
    let mut num_shifts = 0;
    let mut num_candidates = 0;
    loop {
        let distance = EditDistance::new(&words, reference);
        let edits = distance.edits() as usize;
        let best = best_shift(&words, reference, &distance, &mut num_candidates);
        match best {
            Some(shift) if shift.rank.0 > 0 && num_candidates < MAX_CANDIDATES => {
                words = shift.shifted;
                num_shifts += 1;
            }
            _ => return num_shifts + edits,
        }
    }
}

fn best_shift(
    words: &[u32],
    reference: &[u32],
    distance: &EditDistance<'_>,
    num_candidates: &mut usize,
) -> Option<Shift> {
    let alignment = distance.alignment();
    let edits = i64::from(distance.edits());
    let mut best: Option<Shift> = None;
    for phrase in shared_phrases(words, reference) {
        if !is_worth_moving(&phrase, &alignment) {
            continue;
        }
        let start = phrase.hypothesis_start;
        let len = phrase.len;
        let mut previous_target = None;
        for reference_len in phrase.reference_start..=phrase.reference_start + len {
            let target = alignment.hypothesis_len[reference_len];
            if previous_target.replace(target) == Some(target) {
                continue;
            }
            let shifted = move_phrase(words, start, len, target);
            let saved = edits - i64::from(distance.edits_of(&shifted, start.min(target)));
            *num_candidates += 1;
            let rank = (saved, len, -(start as isize), -(target as isize));
            if best.as_ref().is_none_or(|best| rank > best.rank) {
                best = Some(Shift { rank, shifted });
            }
        }
        if *num_candidates >= MAX_CANDIDATES {
            break;
        }
    }
    best
}

/// All phrases that both sides have within the limits, those of the first word first and shorter
/// ones before longer.
fn shared_phrases(words: &[u32], reference: &[u32]) -> impl Iterator<Item = Phrase> {
    (0..words.len()).flat_map(move |hypothesis_start| {
        let first = hypothesis_start.saturating_sub(MAX_SHIFT_DISTANCE);
        let end = reference
            .len()
            .min(hypothesis_start + MAX_SHIFT_DISTANCE + 1);
        (first..end).flat_map(move |reference_start| {
            let pairs = words[hypothesis_start..]
                .iter()
                .zip(&reference[reference_start..]);
            let equal = pairs
                .take(MAX_SHIFT_LEN)
                .take_while(|(word, other)| word == other);
            (1..=equal.count()).map(move |len| Phrase {
                hypothesis_start,
                reference_start,
                len,
            })
        })
    })
}

/// Whether the phrase is wrong where it stands, missing where it belongs, and not already around
/// there.
fn is_worth_moving(phrase: &Phrase, alignment: &Alignment) -> bool {
    let hypothesis_range = phrase.hypothesis_start..phrase.hypothesis_start + phrase.len;
    let reference_range = phrase.reference_start..phrase.reference_start + phrase.len;
    // The word aligned with the first reference word is the last of the hypothesis prefix, if that
    // has any.
    let aligned_end = alignment.hypothesis_len[phrase.reference_start + 1];
    alignment.hypothesis_errors[hypothesis_range.clone()].contains(&true)
        && alignment.reference_errors[reference_range].contains(&true)
        && !aligned_end
            .checked_sub(1)
            .is_some_and(|aligned| hypothesis_range.contains(&aligned))
}

/// Moves the phrase before the word `target`, or by as many words as `target` reaches into it.
fn move_phrase(words: &[u32], start: usize, len: usize, target: usize) -> Vec<u32> {
    let end = start + len;
    let mut shifted = words.to_vec();
    if target < start {
        shifted[target..end].rotate_right(len);
    } else {
        let target = if target > end { target } else { len + target };
        shifted[start..target.clamp(end, words.len())].rotate_left(len);
    }
    shifted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_moves_to_the_left_and_to_the_right() {
        let words = [0, 1, 2, 3, 4, 5];
        assert_eq!(move_phrase(&words, 3, 2, 1), [0, 3, 4, 1, 2, 5]);
        assert_eq!(move_phrase(&words, 1, 2, 5), [0, 3, 4, 1, 2, 5]);
        assert_eq!(move_phrase(&words, 1, 2, 2), [0, 3, 1, 2, 4, 5]);
        assert_eq!(move_phrase(&words, 3, 2, 5), [0, 1, 2, 5, 3, 4]);
    }

    #[test]
    fn shifts_are_made_only_where_they_save_edits() {
        assert_eq!(count_edits(&[3, 4, 1, 2], &[1, 2, 3, 4]), 1);
        assert_eq!(count_edits(&[2, 1], &[1, 2]), 1);
        assert_eq!(count_edits(&[1, 2], &[3, 4]), 2);
        assert_eq!(count_edits(&[1, 2], &[]), 2);
    }
}
