//! The keys and values that a search keeps from position to position, for the kernel of the CPU.
//!
//! # Layout
//! `[slots, num_heads, 2, room, head_dim]`: a slot belongs to one row (a hypothesis of a beam), and
//! within it the keys of a head are contiguous, then its values. Attention reads all keys of a head
//! and then all its values, so it goes through memory from one end to the other. A slot has room
//! for more positions than it holds, so that a new position is written behind the old ones; the
//! room grows by half when it is used up.
//!
//! A row is an index into the slots. A beam search keeps most hypotheses from step to step and
//! copies a few: [`KeyValueCache::select`] moves indices, and copies a slot only where a row is
//! kept twice.

use std::ops::Range;

use burn::tensor::{Bool, Tensor};

#[cfg(feature = "flex")]
use super::flex;

/// The keys and values of a batch of rows, for one attention of a decoder: of the positions that
/// were generated so far, or of the source. Positions are appended, and rows are kept, dropped and
/// copied; a row that is kept is not moved in memory.
#[derive(Clone, Debug)]
pub struct KeyValueCache {
    /// `[slots, num_heads, 2, room, head_dim]`, of which the first `len` positions are filled.
    pub(super) elements: Vec<f32>,
    pub(super) num_heads: usize,
    pub(super) head_dim: usize,
    /// Positions that a slot has room for.
    pub(super) room: usize,
    /// Positions so far.
    pub(super) len: usize,
    /// The slot of each row.
    pub(super) slots: Vec<usize>,
}

impl KeyValueCache {
    /// Returns an empty cache for as many rows as this tensor has, on its device; `None` if there
    /// is no kernel for that device.
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

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.slots.len()
    }

    /// Appends the newest positions of every row.
    ///
    /// # Panics
    /// If they are on another device.
    ///
    /// # Shapes
    /// - `projected`: `[rows, len, width]`, of which the last `2 * d_model` elements are the
    ///   keys and values
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
        let count = self.elements.len() / self.slot_len();
        let requested: Vec<usize> = rows.iter().map(|row| self.slots[*row]).collect();
        let mut is_free = vec![true; count];
        for &slot in &requested {
            is_free[slot] = false;
        }
        let mut free: Vec<usize> = (0..count).rev().filter(|slot| is_free[*slot]).collect();
        let mut is_taken = vec![false; count];
        self.slots.clear();
        // The first row that requests a slot gets it as it is; for another one it is copied.
        for slot in requested {
            let target = if is_taken[slot] {
                free.pop().unwrap_or_else(|| self.add_slot())
            } else {
                slot
            };
            is_taken[slot] = true;
            if target != slot {
                for part in 0..2 * self.num_heads {
                    let from = self.part(slot, part);
                    let to = self.part(target, part);
                    self.elements.copy_within(from, to.start);
                }
            }
            self.slots.push(target);
        }
    }

    /// Returns the attention of these queries to all positions, over all heads.
    ///
    /// The output of a row depends neither on the other rows, nor on forbidden keys behind its own.
    ///
    /// # Panics
    /// If the queries are on another device.
    ///
    /// # Shapes
    /// - `query`: `[rows, query_len, width]`, of which the first `d_model` elements are read;
    ///   output: `[rows, query_len, d_model]`
    /// - `mask`: `[rows or 1, 1, 1, len]`, `true` where attention is forbidden; without one
    ///   nothing is
    pub fn attention(&self, query: &Tensor<3>, mask: Option<&Tensor<4, Bool>>) -> Tensor<3> {
        kernel!(flex::cached_attention(self, query, mask))
            .expect("queries are where their keys are")
    }

    /// Adds an empty slot, and returns its index.
    fn add_slot(&mut self) -> usize {
        let slot = self.elements.len() / self.slot_len();
        self.elements
            .resize(self.elements.len() + self.slot_len(), 0.0);
        slot
    }

    /// The elements of a slot.
    pub(super) fn slot_len(&self) -> usize {
        2 * self.num_heads * self.room * self.head_dim
    }

    /// The filled range of a part of a slot: the keys of head `part / 2` if `part` is even,
    /// otherwise its values.
    pub(super) fn part(&self, slot: usize, part: usize) -> Range<usize> {
        let start = slot * self.slot_len() + part * self.room * self.head_dim;
        start..start + self.len * self.head_dim
    }
}
