//! The heads of a batch row, read and written where they lie in the projections: the two matrix
//! products of attention, and the softmax between them.

use burn::tensor::{Bool, Tensor};
use rayon::prelude::*;

use super::dropping::Dropping;
use super::long::LONG;
use crate::Dropped;
use crate::dropout::mask::Mask;
use crate::flex::matrix::{Matrix, MatrixMut, Store, product_into};
use crate::flex::softmax::Softmax;
use crate::flex::vector::vectorized;

/// Where queries, keys or values lie in a batch row: at `len` positions, `width` elements apart,
/// from `start` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) len: usize,
    pub(super) width: usize,
    pub(super) start: usize,
}

impl Side {
    /// The first of its positions.
    pub(super) fn with_len(self, len: usize) -> Self {
        Self { len, ..self }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    pub(super) num_heads: usize,
    pub(super) head_dim: usize,
    pub(super) query: Side,
    pub(super) key: Side,
    pub(super) value: Side,
}

/// What a batch row attends from and to.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) query: &'a [f32],
    pub(super) key_value: &'a [f32],
    pub(super) forbidden: &'a [bool],
}

impl Sizes {
    /// Of a sequence that attends to itself, from `[batch, len, 3 * d_model]`.
    pub(super) fn of_self([batch, len, width]: [usize; 3], num_heads: usize) -> Self {
        let d_model = width / 3;
        assert_eq!(
            (width % 3, d_model % num_heads),
            (0, 0),
            "the heads of self-attention"
        );
        let side = |start| Side { len, width, start };
        let head_dim = d_model / num_heads;
        Self {
            batch,
            num_heads,
            head_dim,
            query: side(0),
            key: side(d_model),
            value: side(2 * d_model),
        }
    }

    /// Of `[batch, len, d_model]` to `[batch, other_len, 2 * d_model]`.
    pub(super) fn of_cross(query: [usize; 3], key_value: [usize; 3], num_heads: usize) -> Self {
        let [batch, len, d_model] = query;
        let [_, other_len, width] = key_value;
        assert_eq!(
            (key_value[0], width),
            (batch, 2 * d_model),
            "the keys and values of cross-attention"
        );
        let side = |start| Side {
            len: other_len,
            width,
            start,
        };
        let own = Side {
            len,
            width: d_model,
            start: 0,
        };
        Self {
            batch,
            num_heads,
            head_dim: d_model / num_heads,
            query: own,
            key: side(0),
            value: side(d_model),
        }
    }

    /// `[batch, query_len, d_model]`.
    pub(super) fn output(&self) -> [usize; 3] {
        [self.batch, self.query.len, self.d_model()]
    }

    pub(super) fn d_model(&self) -> usize {
        self.num_heads * self.head_dim
    }

    pub(super) fn scale(&self) -> f32 {
        (self.head_dim as f32).powf(-0.5)
    }

    /// Elements of a head's score matrix, `[query_len, key_len]`.
    pub(super) fn num_scores(&self) -> usize {
        self.query.len * self.key.len
    }

    /// The weights of all heads of a batch row, if they were kept.
    pub(super) fn weights_row<'a>(&self, weights: &'a [f32], row: usize) -> &'a [f32] {
        let len = self.num_heads * self.num_scores();
        if self.is_long() {
            &[]
        } else {
            &weights[row * len..][..len]
        }
    }

    /// Elements of the output of a batch row.
    fn output_len(&self) -> usize {
        self.query.len * self.d_model()
    }

    pub(super) fn output_row<'a>(&self, values: &'a [f32], row: usize) -> &'a [f32] {
        &values[row * self.output_len()..][..self.output_len()]
    }

    /// A head of a batch row's queries, keys or values, `[len, head_dim]`: a view with the stride
    /// of the projection, so nothing is transposed or copied.
    pub(super) fn head<'a>(&self, row: &'a [f32], side: Side, head: usize) -> Matrix<'a> {
        Matrix::strided(
            &row[side.start + head * self.head_dim..],
            side.len,
            self.head_dim,
            side.width,
        )
    }

    /// The same, to write to.
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

    /// A head of an array with the positions of `side` and `d_model` elements at each.
    pub(super) fn joined_head<'a>(&self, row: &'a [f32], side: Side, head: usize) -> Matrix<'a> {
        Matrix::strided(
            &row[head * self.head_dim..],
            side.len,
            self.head_dim,
            self.d_model(),
        )
    }

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

    /// Whether the weights of a head are too many to be kept.
    pub(super) fn is_long(&self) -> bool {
        self.key.len >= LONG
    }

    /// The output, and the weights before dropout, `[batch, num_heads, query_len, key_len]`, or
    /// nothing if rows are long.
    pub(super) fn forward(
        &self,
        query: &[f32],
        key_value: &[f32],
        forbidden: &Forbidden,
        dropped: Option<Dropped>,
    ) -> (Vec<f32>, Vec<f32>) {
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
        // By batch rows and not by heads: a head's output lies between those of others, so tasks
        // could not borrow it. At least 1, because chunks of an empty sequence would have the
        // length 0, which panics.
        let outputs = output.par_chunks_mut(self.output_len().max(1));
        let rows = outputs
            .zip(weights.par_chunks_mut((self.num_heads * self.num_scores()).max(1)))
            .enumerate();
        rows.for_each(|(index, (output, weights))| {
            let row = self.row(query, key_value, forbidden, index);
            let mask = dropped.map(|dropped| Mask::new(dropped).part(index));
            // Room for one head's weights after dropout, which the next head overwrites.
            let mut kept = vec![0.0; if mask.is_some() { self.num_scores() } else { 0 }];
            for (head, weights) in weights
                .chunks_exact_mut(self.num_scores().max(1))
                .enumerate()
            {
                self.weigh(head, row, weights);
                let weights = match mask {
                    None => &*weights,
                    Some(mask) => {
                        vectorized(Dropping {
                            output: &mut kept,
                            input: weights,
                            mask: mask.part(head),
                            first: 0,
                        });
                        &kept
                    }
                };
                self.average(head, row, weights, output);
            }
        });
        (output, weights)
    }

    /// The output alone, without dropout: each head overwrites the weights of the one before.
    pub(super) fn apply(
        &self,
        query: &[f32],
        key_value: &[f32],
        forbidden: &Forbidden,
    ) -> Vec<f32> {
        if self.is_long() {
            return self.forward(query, key_value, forbidden, None).0;
        }
        let mut output = vec![0.0; self.batch * self.output_len()];
        output
            .par_chunks_mut(self.output_len().max(1))
            .enumerate()
            .for_each(|(index, output)| {
                let row = self.row(query, key_value, forbidden, index);
                let mut weights = vec![0.0; self.num_scores()];
                for head in 0..self.num_heads {
                    self.weigh(head, row, &mut weights);
                    self.average(head, row, &weights, output);
                }
            });
        output
    }

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

    /// The weights of a head, `[query_len, key_len]`.
    fn weigh(&self, head: usize, row: Row<'_>, weights: &mut [f32]) {
        let scores = MatrixMut::strided(weights, self.query.len, self.key.len, self.key.len);
        let queries = self.head(row.query, self.query, head);
        let keys = self.head(row.key_value, self.key, head).transposed();
        // The product scales on its way out, which saves a pass over the scores; and it stays on
        // this core, since other rows have the others.
        product_into(scores, queries, keys, self.scale(), Store::Overwrite);
        vectorized(Softmax {
            rows: weights,
            len: self.key.len,
            forbidden: row.forbidden,
        });
    }

    /// A head's part of the output: the average of the values by its weights.
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

/// The part of a projection that belongs to a batch row.
pub(super) fn row_of(values: &[f32], row: usize, side: Side) -> &[f32] {
    &values[row * side.len * side.width..][..side.len * side.width]
}

/// The mask, in host memory.
#[derive(Clone, Debug)]
pub(super) struct Forbidden {
    values: Vec<bool>,
    /// Elements from one batch row to the next; 0 if all share one mask.
    stride: usize,
    /// 1 if all queries share one row, or else their number.
    rows: usize,
    columns: usize,
}

impl Forbidden {
    pub(super) fn new(mask: &Tensor<4, Bool>, sizes: &Sizes) -> Self {
        let [batch, heads, rows, columns] = mask.dims();
        assert!(
            heads == 1 && columns == sizes.key.len && (rows == 1 || rows == sizes.query.len),
            "the attention mask"
        );
        assert!(batch == 1 || batch == sizes.batch, "the attention mask");
        // As small as `[batch, len]` in most calls, where all queries share a row.
        let values = mask.clone().into_data().iter::<bool>().collect();
        Self {
            values,
            stride: if batch == 1 { 0 } else { rows * columns },
            rows,
            columns,
        }
    }

    pub(super) fn row(&self, row: usize) -> &[bool] {
        &self.values[row * self.stride..][..self.rows * self.columns]
    }
}
