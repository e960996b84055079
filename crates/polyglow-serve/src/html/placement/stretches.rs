//! The stretch of a translation that each child of an element gets. The time grows with the words
//! and the children, but for a logarithm: a page may have thousands of tags in one sentence.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::ops::Range;

use super::Item;
use crate::html::units::Unit;

/// The stretch of each child, as indices of `units`, which are those of the element around: none
/// overlaps another. `source` is the text of the sentence.
pub(super) fn stretches(children: &[Item], source: &str, units: &[Unit]) -> Vec<Range<usize>> {
    let owners = owners(children, units);
    let mut stretches = best_stretches(children, units, &owners);
    place_crossing(children, &owners, &mut stretches);
    if stretches.iter().any(Option::is_none) {
        let expected = expected_units(children, units);
        give_free_words(children, source, units, &owners, &expected, &mut stretches);
        place_empty(children, units.len(), &expected, &mut stretches);
    }
    stretches
        .into_iter()
        .map(Option::unwrap_or_default)
        .collect()
}

/// For each unit the child that it is translated from, if it is of one.
fn owners(children: &[Item], units: &[Unit]) -> Vec<Option<usize>> {
    // Many units may be translated from one part of the sentence, in which many children may be.
    let mut shares = HashMap::new();
    let mut owners = Vec::with_capacity(units.len());
    for unit in units {
        let mut largest = None;
        for source in &unit.sources {
            let share = *shares
                .entry(source)
                .or_insert_with(|| largest_share(children, source));
            largest = largest.max(share);
        }
        owners.push(largest.map(|(_, Reverse(child))| child));
    }
    owners
}

/// The child with the most bytes of a part of the sentence, the first of equals, after the number
/// of these bytes.
fn largest_share(children: &[Item], part: &Range<usize>) -> Option<(usize, Reverse<usize>)> {
    // Children are in order and do not overlap.
    let first = children.partition_point(|item| item.source.end <= part.start);
    let mut largest = None;
    for (child, item) in children.iter().enumerate().skip(first) {
        if item.source.start >= part.end {
            break;
        }
        let start = item.source.start.max(part.start);
        let end = item.source.end.min(part.end);
        if start < end {
            largest = largest.max(Some((end - start, Reverse(child))));
        }
    }
    largest
}

/// Units of one child, with words of none between them.
struct Run {
    child: usize,
    start: usize,
    score: i32,
}

/// For each child that begins and ends in the sentence the stretch with the most units of it, less
/// words of no child; none if it has no unit.
fn best_stretches(
    children: &[Item],
    units: &[Unit],
    owners: &[Option<usize>],
) -> Vec<Option<Range<usize>>> {
    let mut best: Vec<Option<(i32, Range<usize>)>> = vec![None; children.len()];
    let mut run: Option<Run> = None;
    for (index, (unit, owner)) in units.iter().zip(owners).enumerate() {
        let Some(child) = *owner else {
            if let Some(run) = run.as_mut().filter(|_| unit.is_word) {
                run.score -= 2;
            }
            continue;
        };
        let continued = run.take().filter(|run| run.child == child && run.score > 0);
        let mut current = continued.unwrap_or(Run {
            child,
            start: index,
            score: 0,
        });
        current.score += if unit.is_word { 2 } else { 1 };
        if best[child]
            .as_ref()
            .is_none_or(|(most, _)| current.score > *most)
        {
            best[child] = Some((current.score, current.start..index + 1));
        }
        run = Some(current);
    }
    let is_whole =
        |item: &Item| item.point.is_none() && !item.begins_before() && !item.ends_after();
    let best = best.into_iter().zip(children);
    best.map(|(best, item)| best.filter(|_| is_whole(item)).map(|(_, stretch)| stretch))
        .collect()
}

/// Places the child that began before the sentence and the one that ends after it: from the first
/// unit, and to the last, as far as their words go and siblings let them.
fn place_crossing(
    children: &[Item],
    owners: &[Option<usize>],
    stretches: &mut [Option<Range<usize>>],
) {
    let last = children
        .len()
        .checked_sub(1)
        .filter(|last| children[*last].ends_after());
    let start_of_last = last.and_then(|last| owners.iter().position(|owner| *owner == Some(last)));
    if children.first().is_some_and(Item::begins_before) {
        let siblings = stretches.iter().flatten().map(|stretch| stretch.start);
        let limit = siblings.chain(start_of_last).min().unwrap_or(owners.len());
        let end = owners
            .iter()
            .rposition(|owner| *owner == Some(0))
            .map_or(0, |last| last + 1);
        stretches[0] = Some(0..end.min(limit));
    }
    if let Some(last) = last {
        let limit = stretches
            .iter()
            .flatten()
            .map(|stretch| stretch.end)
            .max()
            .unwrap_or(0);
        let start = start_of_last.unwrap_or(owners.len()).max(limit);
        stretches[last] = Some(start..owners.len());
    }
}

/// A part of the sentence and a unit that is translated from it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SourceLink {
    start: usize,
    unit: usize,
    end: usize,
}

/// For each child the index of the unit that it is expected before: the one that is translated from
/// what comes after the child's start, or after what comes before it, or else the first.
fn expected_units(children: &[Item], units: &[Unit]) -> Vec<usize> {
    let mut links = Vec::new();
    for (unit, Unit { sources, .. }) in units.iter().enumerate() {
        links.extend(sources.iter().map(|source| SourceLink {
            start: source.start,
            unit,
            end: source.end,
        }));
    }
    links.sort_unstable();
    let mut following = links.into_iter().peekable();
    let mut passed = Passed::default();
    let mut expected = Vec::with_capacity(children.len());
    for item in children {
        let start = item.source.start;
        while let Some(link) = following.next_if(|link| link.start < start) {
            passed.push(&link);
        }
        let next = following.peek().map(|link| link.unit);
        let after_previous = passed.nearest(start).map(|unit| unit + 1);
        let unit = if item.is_apart {
            next.or(after_previous)
        } else {
            after_previous.or(next)
        };
        expected.push(unit.unwrap_or(0));
    }
    expected
}

/// Links to parts of the sentence that begin before a byte, which grows.
#[derive(Default)]
struct Passed {
    /// Unit and end of those that may reach to the byte, as the word around a `<wbr>` does.
    reaching: BinaryHeap<(usize, usize)>,
    /// End and unit of the one that ends last.
    latest: Option<(usize, usize)>,
}

impl Passed {
    fn push(&mut self, link: &SourceLink) {
        self.reaching.push((link.unit, link.end));
        self.latest = self.latest.max(Some((link.end, link.unit)));
    }

    /// The last unit that is translated from a part which reaches to `start`, or else from the part
    /// that ends last.
    fn nearest(&mut self, start: usize) -> Option<usize> {
        while self.reaching.peek().is_some_and(|(_, end)| *end < start) {
            self.reaching.pop();
        }
        let reaching = self.reaching.peek().map(|(unit, _)| *unit);
        reaching.or(self.latest.map(|(_, unit)| unit))
    }
}

/// Gives each child with words and without a stretch the nearest word that is translated from no
/// child and is in no stretch: one without a link if there is any.
fn give_free_words(
    children: &[Item],
    source: &str,
    units: &[Unit],
    owners: &[Option<usize>],
    expected: &[usize],
    stretches: &mut [Option<Range<usize>>],
) {
    let mut is_free: Vec<bool> = owners.iter().map(Option::is_none).collect();
    for stretch in stretches.iter().flatten() {
        is_free[stretch.clone()].fill(false);
    }
    let mut unlinked = BTreeSet::new();
    let mut linked = BTreeSet::new();
    for (index, unit) in units
        .iter()
        .enumerate()
        .filter(|(index, unit)| is_free[*index] && unit.is_word)
    {
        let free = if unit.sources.is_empty() {
            &mut unlinked
        } else {
            &mut linked
        };
        free.insert(index);
    }
    for (child, item) in children.iter().enumerate() {
        let has_words = source[item.source.clone()].contains(char::is_alphanumeric);
        if stretches[child].is_none() && has_words {
            let taken = take_nearest(&mut unlinked, expected[child]);
            let taken = taken.or_else(|| take_nearest(&mut linked, expected[child]));
            stretches[child] = taken.map(|unit| unit..unit + 1);
        }
    }
}

/// Removes and returns the number that is nearest to another, the lesser of two.
fn take_nearest(numbers: &mut BTreeSet<usize>, wanted: usize) -> Option<usize> {
    let below = numbers.range(..=wanted).next_back().copied();
    let above = numbers.range(wanted..).next().copied();
    let nearest = below
        .into_iter()
        .chain(above)
        .min_by_key(|number| number.abs_diff(wanted))?;
    numbers.remove(&nearest);
    Some(nearest)
}

/// Gives each child that has no stretch an empty one where it is expected, or at the nearest edge
/// of the stretch that it would be inside of: after the end of what begins before the sentence, and
/// before the start of what ends after it.
fn place_empty(
    children: &[Item],
    num_units: usize,
    expected: &[usize],
    stretches: &mut [Option<Range<usize>>],
) {
    let first = children.first().filter(|item| item.begins_before());
    let from = first
        .and(stretches.first().cloned().flatten())
        .map_or(0, |stretch| stretch.end);
    let last = children.last().filter(|item| item.ends_after());
    let to = last
        .and(stretches.last().cloned().flatten())
        .map_or(num_units, |stretch| stretch.start);
    let mut taken: Vec<Range<usize>> = stretches
        .iter()
        .flatten()
        .filter(|stretch| !stretch.is_empty())
        .cloned()
        .collect();
    taken.sort_unstable_by_key(|stretch| stretch.start);
    for (stretch, expected) in stretches.iter_mut().zip(expected) {
        let at = nearest_edge(&taken, (*expected).max(from)).min(to);
        stretch.get_or_insert(at..at);
    }
}

/// The index itself, or the nearest edge of the stretch that it is inside of. The stretches are in
/// order.
fn nearest_edge(stretches: &[Range<usize>], at: usize) -> usize {
    let around = stretches.partition_point(|stretch| stretch.end <= at);
    match stretches.get(around) {
        Some(stretch) if stretch.start < at && at - stretch.start < stretch.end - at => {
            stretch.start
        }
        Some(stretch) if stretch.start < at => stretch.end,
        _ => at,
    }
}
