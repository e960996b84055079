//! The keys and values that a search keeps between positions, for the kernel of the CPU.

use std::ops::Range;

use burn::tensor::{Bool, Tensor};

#[cfg(feature = "flex")]
use super::flex;

/// Keys and values of rows that are being written, or of what they look at: they grow with each
/// position, and rows are kept, dropped and copied. A row that is kept stays where it is in memory.
#[derive(Clone, Debug)]
pub struct KeyValueCache {
    /// `[slots, num_heads, 2, room, head_dim]`, first keys and then values, of which the first
    /// `len` positions count: attention reads those of a head one after the other.
    pub(super) elements: Vec<f32>,
    pub(super) num_heads: usize,
    pub(super) head_dim: usize,
    pub(super) room: usize,
    pub(super) len: usize,
    /// Where each row is.
    pub(super) slots: Vec<usize>,
}

impl KeyValueCache {
    /// An empty cache for as many rows as this tensor has, on its device; `None` if that has no
    /// kernel.
    ///
    /// # Shapes
    /// - `projected`: as for [`Self::append`]
    ///
    /// # Panics
    /// If heads do not share `d_model` equally.
    pub fn empty(projected: &Tensor<3>, d_model: usize, num_heads: usize) -> Option<Self> {
        assert_eq!(d_model % num_heads, 0, "the heads of a cache");
        let () = kernel!(flex::has_kernel(projected))?;
        let slots = (0..projected.dims()[0]).collect();
        Some(Self {
            elements: Vec::new(),
            num_heads,
            head_dim: d_model / num_heads,
            room: 0,
            len: 0,
            slots,
        })
    }

    /// How many sequences they are of.
    pub fn rows(&self) -> usize {
        self.slots.len()
    }

    /// Adds the newest positions of every row.
    ///
    /// # Panics
    /// If they are on another device.
    ///
    /// # Shapes
    /// - `projected`: `[rows, len, width]`, of which the last `2 * d_model` numbers count
    pub fn append(&mut self, projected: &Tensor<3>) {
        let added: Option<()> = kernel!(flex::append(self, projected));
        added.expect("they are where the first were");
    }

    /// Keeps the given rows, in the given order; a row may be named several times or not at all.
    pub fn select(&mut self, rows: &[usize]) {
        if self.len == 0 {
            self.slots = (0..rows.len()).collect();
            return;
        }
        let count = self.elements.len() / self.of_slot();
        let wanted: Vec<usize> = rows.iter().map(|row| self.slots[*row]).collect();
        let mut is_free = vec![true; count];
        for &slot in &wanted {
            is_free[slot] = false;
        }
        let mut free: Vec<usize> = (0..count).rev().filter(|slot| is_free[*slot]).collect();
        let mut is_taken = vec![false; count];
        self.slots.clear();
        for slot in wanted {
            let own = if is_taken[slot] {
                free.pop().unwrap_or_else(|| self.add_slot())
            } else {
                slot
            };
            is_taken[slot] = true;
            if own != slot {
                for part in 0..2 * self.num_heads {
                    let from = self.part(slot, part);
                    let to = self.part(own, part);
                    self.elements.copy_within(from, to.start);
                }
            }
            self.slots.push(own);
        }
    }

    /// Attention to all of it, heads split and joined inside.
    ///
    /// A row comes out the same in any batch, and whatever forbidden keys stand behind its own.
    ///
    /// # Panics
    /// If the queries are on another device.
    ///
    /// # Shapes
    /// - `query`: `[rows, query_len, width]`, of which the first `d_model` elements count; output:
    ///   `[rows, query_len, d_model]`
    /// - `mask`: `[rows or 1, 1, 1, len]`, `true` where attention is forbidden; without one
    ///   everything is open
    pub fn attention(&self, query: &Tensor<3>, mask: Option<&Tensor<4, Bool>>) -> Tensor<3> {
        kernel!(flex::cached_attention(self, query, mask))
            .expect("queries are where their keys are")
    }

    fn add_slot(&mut self) -> usize {
        let slot = self.elements.len() / self.of_slot();
        self.elements
            .resize(self.elements.len() + self.of_slot(), 0.0);
        slot
    }

    /// Numbers of a slot.
    pub(super) fn of_slot(&self) -> usize {
        2 * self.num_heads * self.room * self.head_dim
    }

    /// What counts of a part of a slot: the keys of head `part / 2` if it is even, else their
    /// values.
    pub(super) fn part(&self, slot: usize, part: usize) -> Range<usize> {
        let start = slot * self.of_slot() + part * self.room * self.head_dim;
        start..start + self.len * self.head_dim
    }
}
