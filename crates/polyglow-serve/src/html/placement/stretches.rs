//! The stretch of a translation that each child of an element gets. The time is linear in words and
//! children except for a logarithm, since a page may have thousands of tags in one sentence.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::ops::Range;

use super::Item;
use crate::html::units::Unit;

/// Returns the stretch of each child, as indices of `units`, which are those of the element around.
/// No two overlap. `source` is the text of the sentence.
pub(super) fn stretches(children: &[Item], source: &str, units: &[Unit]) -> Vec<Range<usize>> {
    let owners = owners(children, units);
    let mut stretches = best_stretches(children, units, &owners);
    // In this order: what is placed first limits the rest. Elements that cross the edges of the
    // sentence must reach these, and children without a word of their own take what is left.
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

/// Returns for each unit the child that it is translated from; `None` if it is from none.
fn owners(children: &[Item], units: &[Unit]) -> Vec<Option<usize>> {
    // Cached: many units may be translated from one part of the sentence that has many children,
    // which would take the product of both.
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

/// Returns the child with the most bytes of a part of the sentence, the first of equals, after the
/// number of these bytes: in this order tuples compare by bytes first.
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

/// Consecutive units of one child and units of no child between them.
struct Run {
    child: usize,
    start: usize,
    score: i32,
}

/// Returns for each child that begins and ends in the sentence the stretch with the most units of
/// it, minus words of no child; `None` if it has no unit. As in the search for the subarray with
/// the largest sum, a run whose score is not positive is dropped.
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
        // Words count more than punctuation, which translations often add or leave out.
        current.score += if unit.is_word { 2 } else { 1 };
        if best[child]
            .as_ref()
            .is_none_or(|(most, _)| current.score > *most)
        {
            best[child] = Some((current.score, current.start..index + 1));
        }
        run = Some(current);
    }
    let mut stretches = Vec::with_capacity(children.len());
    for (best, item) in best.into_iter().zip(children) {
        let is_whole = item.open.is_some() && item.close.is_some();
        stretches.push(best.filter(|_| is_whole).map(|(_, stretch)| stretch));
    }
    stretches
}

/// Places the child that begins before the sentence, from the first unit on, and the one that ends
/// after it, up to the last unit: each as far as its words go, but not over siblings.
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

/// Returns for each child the index of the unit that it is expected before. A child that follows a
/// space belongs to the word after it, any other to the word before it; if there is no such word,
/// to the other one, or else it is before the first unit.
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
    // Children are in order, so one pass over the links suffices.
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

/// The links to parts of the sentence that begin before a byte, which increases.
#[derive(Default)]
struct Passed {
    /// Unit and end of the parts that may reach to the byte, as the word around a `<wbr>` does.
    reaching: BinaryHeap<(usize, usize)>,
    /// End and unit of the part that ends last.
    latest: Option<(usize, usize)>,
}

impl Passed {
    fn push(&mut self, link: &SourceLink) {
        self.reaching.push((link.unit, link.end));
        self.latest = self.latest.max(Some((link.end, link.unit)));
    }

    /// Returns the last unit that is translated from a part which reaches to `start`, or else from
    /// the part that ends last.
    fn nearest(&mut self, start: usize) -> Option<usize> {
        // The byte increases, so a part that does not reach to it is never needed again.
        while self.reaching.peek().is_some_and(|(_, end)| *end < start) {
            self.reaching.pop();
        }
        let reaching = self.reaching.peek().map(|(unit, _)| *unit);
        reaching.or(self.latest.map(|(_, unit)| unit))
    }
}

/// Gives each child with words and without a stretch the nearest word that is translated from no
/// child and is in no stretch. Words without a link come first: one with a link is known to be the
/// translation of other words.
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
    for (index, unit) in units.iter().enumerate() {
        if !is_free[index] || !unit.is_word {
            continue;
        }
        if unit.sources.is_empty() {
            unlinked.insert(index);
        } else {
            linked.insert(index);
        }
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

/// Removes and returns the index that is nearest to `target`, the lesser of two.
fn take_nearest(indices: &mut BTreeSet<usize>, target: usize) -> Option<usize> {
    let below = indices.range(..=target).next_back().copied();
    let above = indices.range(target..).next().copied();
    let nearest = below
        .into_iter()
        .chain(above)
        .min_by_key(|index| index.abs_diff(target))?;
    indices.remove(&nearest);
    Some(nearest)
}

/// Gives each child without a stretch an empty one where it is expected, or at the nearest edge of
/// the stretch that this is inside of. It stays after an element that begins before the sentence,
/// and before one that ends after it.
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

/// Returns the index itself, or the nearest edge of the stretch that it is inside of. The stretches
/// are in order.
fn nearest_edge(stretches: &[Range<usize>], at: usize) -> usize {
    let around = stretches.partition_point(|stretch| stretch.end <= at);
    let Some(stretch) = stretches.get(around) else {
        return at;
    };
    if stretch.start >= at {
        at
    } else if at - stretch.start < stretch.end - at {
        stretch.start
    } else {
        stretch.end
    }
}
