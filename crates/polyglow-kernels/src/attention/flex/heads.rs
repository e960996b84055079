//! The forward pass of attention, head by head: `W = softmax(Q Kᵀ / sqrt(head_dim))`, dropout, and
//! `output = D V`, with the weights kept for the backward pass or not.
//!
//! # Layout
//! A batch row of a projection is `[len, width]`, and a head is `head_dim` of its columns. A
//! [`Side`] says where the queries, keys or values of all heads begin in a row and how wide the row
//! is, so that [`Sizes::head`] is a strided view: element `(i, j)` of head `h` is at
//! `i * width + start + h * head_dim + j`. The output has rows of `d_model`, with a head at
//! `h * head_dim`.
//!
//! A task is a batch row, and not a head, because the output of a head lies between those of other
//! heads, and threads cannot borrow interleaved columns.

use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use super::dropping::Dropping;
use super::long::LONG;
use crate::Dropped;
use crate::dropout::mask::Mask;
use crate::flex::matrix::{Matrix, MatrixMut, Store, product_into};
use crate::flex::softmax::Softmax;
use crate::flex::vector::vectorized;

/// The layout of the queries, keys or values of all heads in a batch row: `len` positions that are
/// `width` elements apart, from element `start` of a position on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) len: usize,
    pub(super) width: usize,
    pub(super) start: usize,
}

impl Side {
    /// The side with another number of positions.
    pub(super) fn with_len(self, len: usize) -> Self {
        Self { len, ..self }
    }

    /// The side that begins at another element of the same positions.
    fn with_start(self, start: usize) -> Self {
        Self { start, ..self }
    }
}

/// The sizes of an attention, and where its queries, keys and values lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    pub(super) num_heads: usize,
    pub(super) head_dim: usize,
    pub(super) query: Side,
    pub(super) key: Side,
    pub(super) value: Side,
}

/// The parts of the projections and of the mask that belong to a batch row.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    /// `[query_len, width]`: the projection that holds the queries.
    pub(super) query: &'a [f32],
    /// `[key_len, width]`; in self-attention the same slice.
    pub(super) key_value: &'a [f32],
    /// `[query_len or 1, key_len]`.
    pub(super) forbidden: &'a [bool],
}

impl Sizes {
    /// The sizes of self-attention, given the shape of the projection, `[batch, len, 3 * d_model]`.
    pub(super) fn for_self([batch, len, width]: [usize; 3], num_heads: usize) -> Self {
        let d_model = width / 3;
        assert_eq!(
            (width % 3, d_model % num_heads),
            (0, 0),
            "the heads of self-attention"
        );
        let query = Side {
            len,
            width,
            start: 0,
        };
        Self {
            batch,
            num_heads,
            head_dim: d_model / num_heads,
            query,
            key: query.with_start(d_model),
            value: query.with_start(2 * d_model),
        }
    }

    /// The sizes of cross-attention of `[batch, len, d_model]` to
    /// `[batch, other_len, 2 * d_model]`.
    pub(super) fn for_cross(query: [usize; 3], key_value: [usize; 3], num_heads: usize) -> Self {
        let [batch, len, d_model] = query;
        let [_, other_len, width] = key_value;
        assert_eq!(
            (key_value[0], width),
            (batch, 2 * d_model),
            "the keys and values of cross-attention"
        );
        let query = Side {
            len,
            width: d_model,
            start: 0,
        };
        let key = Side {
            len: other_len,
            width,
            start: 0,
        };
        Self {
            batch,
            num_heads,
            head_dim: d_model / num_heads,
            query,
            key,
            value: key.with_start(d_model),
        }
    }

    /// The shape of the output, `[batch, query_len, d_model]`.
    pub(super) fn output_shape(&self) -> [usize; 3] {
        [self.batch, self.query.len, self.d_model()]
    }

    /// Elements of a position in the output.
    pub(super) fn d_model(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// The factor of the scores, `1 / sqrt(head_dim)`.
    pub(super) fn scale(&self) -> f32 {
        (self.head_dim as f32).powf(-0.5)
    }

    /// The elements of a head's score matrix, `[query_len, key_len]`.
    pub(super) fn num_scores(&self) -> usize {
        self.query.len * self.key.len
    }

    /// The weights of all heads of a batch row; empty if rows are long, whose weights are not kept.
    pub(super) fn weights_row<'a>(&self, weights: &'a [f32], row: usize) -> &'a [f32] {
        let len = self.num_heads * self.num_scores();
        if self.is_long() {
            &[]
        } else {
            &weights[row * len..][..len]
        }
    }

    /// The elements of the output of a batch row.
    fn output_len(&self) -> usize {
        self.query.len * self.d_model()
    }

    /// A batch row of the output or of its gradient, `[query_len, d_model]`.
    pub(super) fn output_row<'a>(&self, values: &'a [f32], row: usize) -> &'a [f32] {
        &values[row * self.output_len()..][..self.output_len()]
    }

    /// A head of a batch row's queries, keys or values, `[len, head_dim]`: a view with the stride
    /// of the projection.
    pub(super) fn head<'a>(&self, row: &'a [f32], side: Side, head: usize) -> Matrix<'a> {
        Matrix::strided(
            &row[side.start + head * self.head_dim..],
            side.len,
            self.head_dim,
            side.width,
        )
    }

    /// [`Self::head`], to write to.
    pub(super) fn head_mut<'a>(
        &self,
        row: &'a mut [f32],
        side: Side,
        head: usize,
    ) -> MatrixMut<'a> {
        MatrixMut::strided(
            &mut row[side.start + head * self.head_dim..],
            side.len,
            self.head_dim,
            side.width,
        )
    }

    /// A head of an array with the positions of `side` and `d_model` elements at each, as the
    /// output has them.
    pub(super) fn joined_head<'a>(&self, row: &'a [f32], side: Side, head: usize) -> Matrix<'a> {
        Matrix::strided(
            &row[head * self.head_dim..],
            side.len,
            self.head_dim,
            self.d_model(),
        )
    }

    /// [`Self::joined_head`], to write to.
    pub(super) fn joined_head_mut<'a>(
        &self,
        row: &'a mut [f32],
        side: Side,
        head: usize,
    ) -> MatrixMut<'a> {
        MatrixMut::strided(
            &mut row[head * self.head_dim..],
            side.len,
            self.head_dim,
            self.d_model(),
        )
    }

    /// Whether there are too many keys to keep the weights ([`super::long`]).
    pub(super) fn is_long(&self) -> bool {
        self.key.len >= LONG
    }

    /// Returns the output, and the weights before dropout,
    /// `[batch, num_heads, query_len, key_len]`, which are empty if rows are long.
    pub(super) fn forward(
        &self,
        query: &[f32],
        key_value: &[f32],
        forbidden: &Forbidden,
        dropped: Option<Dropped>,
    ) -> (Vec<f32>, Vec<f32>) {
        // Zeroed, though all of it is overwritten: memory that is not initialized would need
        // `unsafe` code and save less than 1 % of a step (docs/notes/performance.md).
        let mut output = vec![0.0; self.batch * self.output_len()];
        if self.is_long() {
            output
                .par_chunks_mut(self.output_len().max(1))
                .enumerate()
                .for_each(|(index, output)| {
                    let mask = dropped.map(|dropped| Mask::new(dropped).part(index));
                    self.forward_long(self.row(query, key_value, forbidden, index), mask, output);
                });
            return (output, Vec::new());
        }
        let mut weights = vec![0.0; self.batch * self.num_heads * self.num_scores()];
        // At least 1, because chunks of an empty sequence would have the length 0, which panics.
        let outputs = output.par_chunks_mut(self.output_len().max(1));
        let rows = outputs
            .zip(weights.par_chunks_mut((self.num_heads * self.num_scores()).max(1)))
            .enumerate();
        rows.for_each(|(index, (output, weights))| {
            let row = self.row(query, key_value, forbidden, index);
            let mask = dropped.map(|dropped| Mask::new(dropped).part(index));
            // Room for one head's weights after dropout, which the next head overwrites.
            let mut buffer = vec![0.0; if mask.is_some() { self.num_scores() } else { 0 }];
            for (head, weights) in weights
                .chunks_exact_mut(self.num_scores().max(1))
                .enumerate()
            {
                self.weigh(head, row, weights);
                let mask = mask.map(|mask| mask.part(head));
                self.average(
                    head,
                    row,
                    dropped_weights(weights, mask, &mut buffer),
                    output,
                );
            }
        });
        (output, weights)
    }

    /// Returns the output alone, without dropout: each head overwrites the weights of the one
    /// before.
    pub(super) fn infer(
        &self,
        query: &[f32],
        key_value: &[f32],
        forbidden: &Forbidden,
    ) -> Vec<f32> {
        // The kernel for long rows keeps no weights in any case.
        if self.is_long() {
            return self.forward(query, key_value, forbidden, None).0;
        }
        let mut output = vec![0.0; self.batch * self.output_len()];
        output
            .par_chunks_mut(self.output_len().max(1))
            .enumerate()
            .for_each(|(index, output)| {
                let row = self.row(query, key_value, forbidden, index);
                // One score matrix for all heads, which stays in the cache.
                let mut weights = vec![0.0; self.num_scores()];
                for head in 0..self.num_heads {
                    self.weigh(head, row, &mut weights);
                    self.average(head, row, &weights, output);
                }
            });
        output
    }

    /// The parts of the projections and of the mask that belong to a batch row.
    pub(super) fn row<'a>(
        &self,
        query: &'a [f32],
        key_value: &'a [f32],
        forbidden: &'a Forbidden,
        row: usize,
    ) -> Row<'a> {
        Row {
            query: row_of(query, row, self.query),
            key_value: row_of(key_value, row, self.key),
            forbidden: forbidden.row(row),
        }
    }

    /// Computes the weights of a head, `[query_len, key_len]`.
    fn weigh(&self, head: usize, row: Row<'_>, weights: &mut [f32]) {
        let scores = MatrixMut::strided(weights, self.query.len, self.key.len, self.key.len);
        let queries = self.head(row.query, self.query, head);
        let keys = self.head(row.key_value, self.key, head).transposed();
        // The product scales its result, which saves a pass over the scores; and it stays on this
        // core, since other batch rows have the others.
        product_into(scores, queries, keys, self.scale(), Store::Overwrite);
        vectorized(Softmax {
            rows: weights,
            len: self.key.len,
            forbidden: row.forbidden,
        });
    }

    /// Writes the head's columns of the output: the average of the values by its weights.
    fn average(&self, head: usize, row: Row<'_>, weights: &[f32], output: &mut [f32]) {
        let weights = Matrix::new(weights, self.query.len, self.key.len);
        let values = self.head(row.key_value, self.value, head);
        product_into(
            self.joined_head_mut(output, self.query, head),
            weights,
            values,
            1.0,
            Store::Overwrite,
        );
    }
}

/// The weights after dropout: `weights` itself without a mask, otherwise a copy in `buffer`, since
/// the backward pass needs the weights before dropout, too.
pub(super) fn dropped_weights<'a>(
    weights: &'a [f32],
    mask: Option<Mask>,
    buffer: &'a mut [f32],
) -> &'a [f32] {
    let Some(mask) = mask else {
        return weights;
    };
    vectorized(Dropping {
        output: buffer,
        input: weights,
        mask,
        first: 0,
    });
    buffer
}

/// The part of a projection that belongs to a batch row.
pub(super) fn row_of(values: &[f32], row: usize, side: Side) -> &[f32] {
    &values[row * side.len * side.width..][..side.len * side.width]
}

/// The attention mask, with `true` where attention is forbidden.
#[derive(Clone, Debug)]
pub(super) struct Forbidden {
    /// `[batch or 1, query_len or 1, key_len]`.
    values: Vec<bool>,
    /// Elements from one batch row to the next; 0 if all share one mask.
    stride: usize,
    /// The number of queries, or 1 if all queries share one row.
    rows: usize,
    columns: usize,
}

impl Forbidden {
    /// Copies a mask of `[batch or 1, 1, query_len or 1, key_len]`.
    pub(super) fn new(mask: &Tensor<4, Bool>, sizes: &Sizes) -> Self {
        let [batch, heads, rows, columns] = mask.dims();
        assert!(
            heads == 1 && columns == sizes.key.len && (rows == 1 || rows == sizes.query.len),
            "the attention mask"
        );
        assert!(batch == 1 || batch == sizes.batch, "the attention mask");
        // Not expanded: in most calls all queries share a row, so it is as small as `[batch, len]`.
        let values = mask.clone().into_data().iter::<bool>().collect();
        Self {
            values,
            stride: if batch == 1 { 0 } else { rows * columns },
            rows,
            columns,
        }
    }

    /// The mask of a batch row, `[query_len or 1, key_len]`.
    pub(super) fn row(&self, row: usize) -> &[bool] {
        &self.values[row * self.stride..][..self.rows * self.columns]
    }
}
