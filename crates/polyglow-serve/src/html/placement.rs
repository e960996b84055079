//! Where the markup inside a sentence goes in its translation.
//!
//! The elements inside a sentence are a tree, and stay one: each gets an unbroken stretch of the
//! translation inside that of the element around it, and apart from those of its siblings, which
//! may come in another order. Of all such stretches it is the one with the most words that are
//! translated from the element's, less those that are not.

use std::cmp::Reverse;
use std::ops::Range;

use super::Translation;
use super::sentence::{MarkKind, Sentence};
use super::units::{Unit, units};

/// For each mark of a sentence but blanks the byte of the translation that it is to stand before,
/// in the order of the output, in which elements are inside each other as in the sentence. A byte
/// may be less than the one before, which then holds.
pub(super) fn places(sentence: &Sentence, translation: &Translation) -> Vec<(usize, usize)> {
    if sentence.marks.is_empty() {
        return Vec::new();
    }
    let root = tree(sentence);
    let units = units(&sentence.text, translation);
    let whole = 0..units.len();
    let (source, text_len) = (&*sentence.text, translation.text.len());
    let mut placing = Placing {
        source,
        text_len,
        units: &units,
        places: Vec::new(),
    };
    placing.place_children(&root, whole);
    placing.places
}

/// An element or a point, with its marks and the bytes of the sentence that it holds.
struct Item {
    open: Option<usize>,
    close: Option<usize>,
    /// What it stands before, if it is a point.
    point: Option<usize>,
    /// Whether a space is before it, if it is a point.
    is_apart: bool,
    source: Range<usize>,
    children: Vec<Item>,
}

impl Item {
    fn new(start: usize, open: Option<usize>) -> Self {
        Self {
            open,
            close: None,
            point: None,
            is_apart: false,
            source: start..start,
            children: Vec::new(),
        }
    }

    /// Whether the element begins before the sentence.
    fn begins_before(&self) -> bool {
        self.point.is_none() && self.open.is_none()
    }

    /// Whether the element ends after the sentence.
    fn ends_after(&self) -> bool {
        self.point.is_none() && self.close.is_none()
    }
}

/// The tree of the marks of a sentence, below an item that is none of them.
fn tree(sentence: &Sentence) -> Item {
    let mut open = vec![Item::new(0, None)];
    for (index, mark) in sentence.marks.iter().enumerate() {
        match mark.kind {
            MarkKind::Blank => {}
            MarkKind::Open(_) => open.push(Item::new(mark.at, Some(index))),
            MarkKind::Point(space) => {
                let mut item = Item::new(mark.at, None);
                (item.point, item.is_apart) = (Some(index), space.before);
                add(&mut open, item);
            }
            MarkKind::Close(_) => {
                let mut item =
                    if open.len() > 1 { open.pop() } else { None }.unwrap_or_else(|| {
                        // It began before the sentence, and so holds all that came until now.
                        let mut around = Item::new(0, None);
                        around.children = open
                            .last_mut()
                            .map(|root| std::mem::take(&mut root.children))
                            .unwrap_or_default();
                        around
                    });
                item.close = Some(index);
                item.source.end = mark.at;
                add(&mut open, item);
            }
        }
    }
    while open.len() > 1 {
        if let Some(mut item) = open.pop() {
            item.source.end = sentence.text.len();
            add(&mut open, item);
        }
    }
    let mut root = open.swap_remove(0);
    root.source.end = sentence.text.len();
    root
}

fn add(open: &mut [Item], item: Item) {
    if let Some(around) = open.last_mut() {
        around.children.push(item);
    }
}

struct Placing<'u> {
    source: &'u str,
    text_len: usize,
    units: &'u [Unit],
    places: Vec<(usize, usize)>,
}

impl Placing<'_> {
    /// Places the children of an element whose stretch of units is `region`.
    fn place_children(&mut self, around: &Item, region: Range<usize>) {
        let stretches = self.stretches(around, &region);
        let mut order: Vec<usize> = (0..around.children.len()).collect();
        // At the same unit, what is empty comes before what begins there; else it is as in the
        // sentence.
        order.sort_by_key(|&index| (stretches[index].start, !stretches[index].is_empty(), index));
        for index in order {
            let (item, stretch) = (&around.children[index], stretches[index].clone());
            if let Some(mark) = item.point {
                let at = if item.is_apart {
                    self.before(stretch.start)
                } else {
                    self.after(stretch.start)
                };
                self.places.push((at, mark));
                continue;
            }
            if let Some(mark) = item.open {
                self.places.push((self.before(stretch.start), mark));
            }
            self.place_children(item, stretch.clone());
            if let Some(mark) = item.close {
                self.places.push((self.after(stretch.end), mark));
            }
        }
    }

    /// Before the unit with this index.
    fn before(&self, unit: usize) -> usize {
        self.units
            .get(unit)
            .map_or(self.text_len, |unit| unit.target.start)
    }

    /// After the unit before this index.
    fn after(&self, unit: usize) -> usize {
        unit.checked_sub(1)
            .map_or(0, |before| self.units[before].target.end)
    }

    /// The stretch of each child of an element: none overlaps another, and all are inside the
    /// region.
    fn stretches(&self, around: &Item, region: &Range<usize>) -> Vec<Range<usize>> {
        let children = &around.children;
        let owners = self.owners(around, region);
        let extents = extents(&owners, children.len());
        let mut found: Vec<Option<Range<usize>>> = vec![None; children.len()];
        for (index, item) in children.iter().enumerate() {
            if item.point.is_none() && !item.begins_before() && !item.ends_after() {
                found[index] = self.best(index, &owners, &extents[index], region.start);
            }
        }
        place_crossing(children, &extents, region, &mut found);
        let mut free = self.free(&owners, region, &found);
        for (index, item) in children.iter().enumerate() {
            let has_words = self.source[item.source.clone()].contains(char::is_alphanumeric);
            if found[index].is_none() && has_words {
                let wanted = self.expected(item, region);
                let nearest = free.iter().copied().min_by_key(|&unit| {
                    let is_linked = !self.units[unit].sources.is_empty();
                    (is_linked, unit.abs_diff(wanted))
                });
                free.retain(|unit| Some(*unit) != nearest);
                found[index] = nearest.map(|unit| unit..unit + 1);
            }
        }
        for (index, item) in children.iter().enumerate() {
            if found[index].is_none() {
                let wanted = self.expected(item, region);
                let at = outside(wanted, children, &found);
                found[index] = Some(at..at);
            }
        }
        found.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// For each unit of a region the child that it is translated from.
    fn owners(&self, around: &Item, region: &Range<usize>) -> Vec<Option<usize>> {
        // Children are in order and do not overlap.
        let owner = |unit: &Unit| {
            let mut best = None;
            for source in &unit.sources {
                let first = around
                    .children
                    .partition_point(|item| item.source.end <= source.start);
                for (index, item) in around.children.iter().enumerate().skip(first) {
                    if item.source.start >= source.end {
                        break;
                    }
                    let (start, end) = (
                        item.source.start.max(source.start),
                        item.source.end.min(source.end),
                    );
                    let shared = end.saturating_sub(start);
                    if shared > 0 {
                        best = best.max(Some((shared, Reverse(index))));
                    }
                }
            }
            best.map(|(_, Reverse(index))| index)
        };
        self.units[region.clone()].iter().map(owner).collect()
    }

    /// The stretch with the most units of a child, less others; none with a unit of another child.
    /// `extent` is from the child's first unit to its last, counted from the start of the region,
    /// as those of `owners` are.
    fn best(
        &self,
        child: usize,
        owners: &[Option<usize>],
        extent: &Range<usize>,
        region_start: usize,
    ) -> Option<Range<usize>> {
        let mut best: Option<(i32, Range<usize>)> = None;
        let mut start = None;
        let mut score = 0;
        for place in extent.clone() {
            let is_word = self.units[region_start + place].is_word;
            match owners[place] {
                Some(owner) if owner == child => {
                    if score <= 0 || start.is_none() {
                        (start, score) = (Some(place), 0);
                    }
                    score += if is_word { 2 } else { 1 };
                    let from = start.unwrap_or(place);
                    if best.as_ref().is_none_or(|(most, _)| score > *most) {
                        best = Some((score, region_start + from..region_start + place + 1));
                    }
                }
                Some(_) => start = None,
                None if is_word => score -= 2,
                None => {}
            }
        }
        best.map(|(_, stretch)| stretch)
    }

    /// The index of the unit that an item is expected before: the one that is translated from what
    /// comes after it, or after what comes before it, or else by relative position.
    fn expected(&self, item: &Item, region: &Range<usize>) -> usize {
        let at = item.source.start;
        let mut next: Option<(usize, usize)> = None;
        let mut previous: Option<(Reverse<usize>, usize)> = None;
        for (index, unit) in region.clone().zip(&self.units[region.clone()]) {
            for source in &unit.sources {
                if source.start < at {
                    // Also where it is inside a word, as a `<wbr>` is.
                    let distance = at.saturating_sub(source.end);
                    previous = previous.max(Some((Reverse(distance), index + 1)));
                } else if next.is_none_or(|(start, _)| source.start < start) {
                    next = Some((source.start, index));
                }
            }
        }
        let next = next.map(|(_, index)| index);
        let previous = previous.map(|(_, index)| index);
        let (first, second) = if item.is_apart {
            (next, previous)
        } else {
            (previous, next)
        };
        first
            .or(second)
            .unwrap_or(region.start)
            .clamp(region.start, region.end)
    }

    /// The words of a region that are translated from no child and are in the stretch of none.
    fn free(
        &self,
        owners: &[Option<usize>],
        region: &Range<usize>,
        found: &[Option<Range<usize>>],
    ) -> Vec<usize> {
        let mut is_free: Vec<bool> = owners.iter().map(Option::is_none).collect();
        for stretch in found.iter().flatten() {
            is_free[stretch.start - region.start..stretch.end - region.start].fill(false);
        }
        region
            .clone()
            .filter(|unit| is_free[unit - region.start] && self.units[*unit].is_word)
            .collect()
    }
}

/// For each child the units from its first to its last, counted from the start of the region; none
/// if it has none.
fn extents(owners: &[Option<usize>], children: usize) -> Vec<Range<usize>> {
    let mut extents = vec![0..0; children];
    for (place, owner) in owners.iter().enumerate() {
        let Some(owner) = *owner else { continue };
        let start = if extents[owner].is_empty() {
            place
        } else {
            extents[owner].start
        };
        extents[owner] = start..place + 1;
    }
    extents
}

/// Finds the stretches of the child that began before the sentence and of the one that ends after
/// it: from the start of the region, and to its end, as far as their words go and siblings let
/// them.
fn place_crossing(
    children: &[Item],
    extents: &[Range<usize>],
    region: &Range<usize>,
    found: &mut [Option<Range<usize>>],
) {
    let last = children
        .len()
        .checked_sub(1)
        .filter(|last| children[*last].ends_after());
    let start_of_last = last
        .filter(|last| !extents[*last].is_empty())
        .map(|last| region.start + extents[last].start);
    if children.first().is_some_and(Item::begins_before) {
        let siblings = found.iter().flatten().map(|stretch| stretch.start);
        let limit = siblings.chain(start_of_last).min().unwrap_or(region.end);
        let end = (region.start + extents[0].end).min(limit).max(region.start);
        found[0] = Some(region.start..end);
    }
    if let Some(last) = last {
        let limit = found
            .iter()
            .flatten()
            .map(|stretch| stretch.end)
            .max()
            .unwrap_or(region.start);
        found[last] = Some(start_of_last.unwrap_or(region.end).max(limit)..region.end);
    }
}

/// The index itself, or the nearest edge of a stretch that it is inside of. What begins before the
/// sentence is left at its end, and what ends after it at its start.
fn outside(wanted: usize, children: &[Item], found: &[Option<Range<usize>>]) -> usize {
    let mut at = wanted;
    for (item, stretch) in children.iter().zip(found) {
        let Some(stretch) = stretch else { continue };
        if item.begins_before() && at < stretch.end {
            at = stretch.end;
        } else if item.ends_after() && at > stretch.start {
            at = stretch.start;
        } else if stretch.start < at && at < stretch.end {
            at = if at - stretch.start < stretch.end - at {
                stretch.start
            } else {
                stretch.end
            };
        }
    }
    at
}
