//! The positions of the markup inside a sentence in its translation.
//!
//! The elements inside a sentence are a tree, and stay one: each gets an unbroken stretch of the
//! translation, inside that of the element around it and apart from those of its siblings, whose
//! order may change. Of all such stretches it gets the one with the most words that are translated
//! from its own, minus those that are not.

mod stretches;

use std::ops::Range;

use super::Translation;
use super::sentence::{MarkKind, Sentence};
use super::units::{Unit, units};
use stretches::stretches;

/// The position of a mark of a sentence in the translation.
pub(super) struct MarkPosition {
    /// The byte of the translation that the mark stands before.
    pub(super) at: usize,
    /// The index of the mark in its sentence.
    pub(super) mark: usize,
}

/// Returns the positions of all marks of a sentence except blanks, in the order in which they are
/// written, with the nesting of elements as in the sentence. If a position is less than the one
/// before, the mark stands at that one.
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

/// An element or a point, with its marks and its bytes of the sentence.
struct Item {
    /// The mark of its start tag; `None` if it begins before the sentence.
    open: Option<usize>,
    /// The mark of its end tag; `None` if it ends after the sentence.
    close: Option<usize>,
    /// The only mark of a point; `None` for an element.
    point: Option<usize>,
    /// Whether a space is before a point.
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

    /// Returns whether it is an element that begins before the sentence.
    fn begins_before(&self) -> bool {
        self.point.is_none() && self.open.is_none()
    }

    /// Returns whether it is an element that ends after the sentence.
    fn ends_after(&self) -> bool {
        self.point.is_none() && self.close.is_none()
    }
}

/// Returns the tree of the marks of a sentence, under a root that stands for the whole sentence.
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
                let mut item = close(&mut open);
                item.close = Some(index);
                item.source.end = mark.at;
                add(&mut open, item);
            }
        }
    }
    // Elements that end after the sentence.
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

/// Removes the innermost open element, or makes the one that began before the sentence if there is
/// none but the root.
fn close(open: &mut Vec<Item>) -> Item {
    if open.len() > 1
        && let Some(item) = open.pop()
    {
        return item;
    }
    // It began before the sentence, so it contains everything up to here.
    let mut item = Item::new(0, None);
    if let Some(root) = open.last_mut() {
        item.children = std::mem::take(&mut root.children);
    }
    item
}

/// Adds an item to the children of the innermost open element.
fn add(open: &mut [Item], item: Item) {
    if let Some(around) = open.last_mut() {
        around.children.push(item);
    }
}

/// The state of placing the marks of a sentence.
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
        // At the same unit, an empty stretch comes before one that begins there: after it, it would
        // be inside. Otherwise the order is that of the sentence.
        order.sort_by_key(|&index| (stretches[index].start, !stretches[index].is_empty(), index));
        for index in order {
            self.place(&children[index], stretches[index].clone());
        }
    }

    /// Places the marks of an item and of its children.
    fn place(&mut self, item: &Item, stretch: Range<usize>) {
        if let Some(mark) = item.point {
            // A point stays beside the word that it touches in the sentence.
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

    /// Returns the first byte of the unit with this index; the end of the translation if there is
    /// none.
    fn before(&self, unit: usize) -> usize {
        self.units
            .get(unit)
            .map_or(self.text_len, |unit| unit.target.start)
    }

    /// Returns the byte after the unit before this index; 0 if there is none.
    fn after(&self, unit: usize) -> usize {
        unit.checked_sub(1)
            .map_or(0, |before| self.units[before].target.end)
    }
}
