//! Numbers that one side of a pair has and the other lacks.

use std::collections::BTreeMap;
use std::iter;

use crate::clean::words::numbers;

/// Returns the numbers of a source and of its target that have no partner on the other side,
/// without separators of thousands and without zeros at the start.
pub fn numbers_without_partner(src: &str, tgt: &str) -> [Vec<String>; 2] {
    let mut src = numbers(src);
    let mut tgt = numbers(tgt);
    for (number, count) in &mut src {
        if let Some(other) = tgt.get_mut(number) {
            let common = (*count).min(*other);
            *count -= common;
            *other -= common;
        }
    }
    let mut src = repeated(src);
    let mut tgt = repeated(tgt);
    src.retain(
        |number| match tgt.iter().position(|other| are_partners(number, other)) {
            Some(index) => {
                tgt.remove(index);
                false
            }
            None => true,
        },
    );
    [src, tgt]
}

/// Lists each number as often as it was counted.
fn repeated(numbers: BTreeMap<String, usize>) -> Vec<String> {
    numbers
        .into_iter()
        .flat_map(|(number, count)| iter::repeat_n(number, count))
        .collect()
}

/// Returns whether two numbers may mean the same: a year and its last digits, thousands or millions
/// that may have a name in place of zeros (`3 tys.`), or an hour of the afternoon in both ways of
/// counting.
fn are_partners(left: &str, right: &str) -> bool {
    let is_end = |long: &str, short: &str| short.len() >= 2 && long.ends_with(short);
    if is_end(left, right) || is_end(right, left) {
        return true;
    }
    if is_thousandfold(left, right) || is_thousandfold(right, left) {
        return true;
    }
    match (left.parse::<u8>(), right.parse::<u8>()) {
        (Ok(left), Ok(right)) => left.max(right) <= 24 && left.abs_diff(right) == 12,
        _ => false,
    }
}

/// Returns whether a number is another one with three zeros behind it, or six, and so on.
fn is_thousandfold(long: &str, short: &str) -> bool {
    let zeros = long.strip_prefix(short);
    zeros.is_some_and(|zeros| {
        !zeros.is_empty() && zeros.len() % 3 == 0 && zeros.bytes().all(|digit| digit == b'0')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_partners_in_other_ways_of_writing() {
        for (src, tgt, expected) in [
            ("In 1,990 at 5 pm", "um 17 Uhr, '90", [&[][..], &[]]),
            ("3,000 of 5000000", "3 tys. z 5 mln", [&[], &[]]),
            ("3,000 of 30,000", "3 z 3 mln", [&["30000"], &["3"]]),
            ("3 of 3, not 4", "3 von 5", [&["3", "4"], &["5"]]),
            // Each has one partner only.
            ("'90, '90", "1990, 5", [&["90"], &["5"]]),
        ] {
            assert_eq!(numbers_without_partner(src, tgt), expected, "{src} | {tgt}");
        }
    }
}
