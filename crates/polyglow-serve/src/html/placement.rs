//! Where the markup inside a sentence goes in its translation.
//!
//! The elements inside a sentence are a tree, and stay one: each gets an unbroken stretch of the
//! translation inside that of the element around it, and apart from those of its siblings, which
//! may come in another order. Of all such stretches it is the one with the most words that are
//! translated from the element's, less those that are not.

mod stretches;

use std::ops::Range;

use super::Translation;
use super::sentence::{MarkKind, Sentence};
use super::units::{Unit, units};
use stretches::stretches;

/// Where a mark of a sentence goes in the translation.
pub(super) struct MarkPosition {
    /// The byte of the translation that the mark stands before.
    pub(super) at: usize,
    /// The index of the mark in its sentence.
    pub(super) mark: usize,
}

/// The positions of all marks of a sentence but blanks, in the order of the output, in which
/// elements are inside each other as in the sentence. A byte may be less than the one before, which
/// then holds.
pub(super) fn positions(sentence: &Sentence, translation: &Translation) -> Vec<MarkPosition> {
    if sentence.marks.is_empty() {
        return Vec::new();
    }
    let units = units(&sentence.text, translation);
    let text_len = translation.text.len();
    let mut placing = Placing {
        source: &sentence.text,
        text_len,
        units: &units,
        positions: Vec::new(),
    };
    placing.place_children(&tree(sentence), 0..units.len());
    placing.positions
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
            MarkKind::Open => open.push(Item::new(mark.at, Some(index))),
            MarkKind::Point(space) => {
                let mut item = Item::new(mark.at, None);
                item.point = Some(index);
                item.is_apart = space.before;
                add(&mut open, item);
            }
            MarkKind::Close => {
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
    positions: Vec<MarkPosition>,
}

impl Placing<'_> {
    /// Places the children of an element whose stretch of units is `region`.
    fn place_children(&mut self, around: &Item, region: Range<usize>) {
        let children = &around.children;
        if children.is_empty() {
            return;
        }
        let mut stretches = stretches(children, self.source, &self.units[region.clone()]);
        for stretch in &mut stretches {
            *stretch = stretch.start + region.start..stretch.end + region.start;
        }
        let mut order: Vec<usize> = (0..children.len()).collect();
        // At the same unit, what is empty comes before what begins there; else it is as in the
        // sentence.
        order.sort_by_key(|&index| (stretches[index].start, !stretches[index].is_empty(), index));
        for index in order {
            self.place(&children[index], stretches[index].clone());
        }
    }

    /// Places the marks of an item, and what is in it.
    fn place(&mut self, item: &Item, stretch: Range<usize>) {
        if let Some(mark) = item.point {
            let at = if item.is_apart {
                self.before(stretch.start)
            } else {
                self.after(stretch.start)
            };
            self.positions.push(MarkPosition { at, mark });
            return;
        }
        if let Some(mark) = item.open {
            self.positions.push(MarkPosition {
                at: self.before(stretch.start),
                mark,
            });
        }
        self.place_children(item, stretch.clone());
        if let Some(mark) = item.close {
            self.positions.push(MarkPosition {
                at: self.after(stretch.end),
                mark,
            });
        }
    }

    /// The byte before the unit with this index.
    fn before(&self, unit: usize) -> usize {
        self.units
            .get(unit)
            .map_or(self.text_len, |unit| unit.target.start)
    }

    /// The byte after the unit before this index.
    fn after(&self, unit: usize) -> usize {
        unit.checked_sub(1)
            .map_or(0, |before| self.units[before].target.end)
    }
}
