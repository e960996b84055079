//! Keys and values cached between positions, so that the next position costs one position and not
//! the whole sequence.

use burn::tensor::{Bool, Device, Int, Tensor};

pub use crate::attention::KeyValue;

/// The part of one decoder layer in the [`DecoderCache`].
#[derive(Clone, Debug)]
pub struct LayerCache {
    /// Keys and values of the target positions so far; `None` before the first.
    pub target: Option<KeyValue>,
    /// Keys and values of the encoder's output, one entry per sentence for all rows that translate
    /// it.
    pub source: KeyValue,
}

/// The sentence that each row of a search translates. Every sentence has the same number of rows,
/// and they are neighbors.
#[derive(Clone, Debug)]
pub struct Sentences {
    /// The sentence of each row.
    by_row: Vec<usize>,
    /// Number of sentences.
    count: usize,
}

impl Sentences {
    /// One row per sentence.
    pub fn new(count: usize) -> Self {
        Self {
            by_row: (0..count).collect(),
            count,
        }
    }

    /// Number of rows, the sequences that are being generated.
    pub fn rows(&self) -> usize {
        self.by_row.len()
    }

    /// Number of rows per sentence.
    pub fn width(&self) -> usize {
        self.rows() / self.count
    }

    /// Keeps the given rows, in the given order. Returns the sentences that are kept, in their new
    /// order, or `None` if all stay in place and the cache of the source need not change.
    pub fn select(&mut self, rows: &[usize]) -> Option<Vec<usize>> {
        let old = self.count;
        self.by_row = rows.iter().map(|&row| self.by_row[row]).collect();
        // A beam keeps its sentence's rows side by side, so keys and values of the source mostly
        // stay where they are.
        let mut kept = self.by_row.clone();
        kept.dedup();
        let width = self.by_row.len() / kept.len().max(1);
        if has_equal_runs(&self.by_row, &kept, width) {
            self.by_row = (0..kept.len())
                .flat_map(|sentence| std::iter::repeat_n(sentence, width))
                .collect();
        } else {
            // The sentences have different numbers of rows, or are in another order: from here on,
            // each row has a copy of its source.
            kept = std::mem::replace(&mut self.by_row, (0..rows.len()).collect());
        }
        self.count = kept.len();
        (!kept.iter().copied().eq(0..old)).then_some(kept)
    }
}

/// Whether `rows` are runs of `width` equal sentences, which are `sentences` in ascending order.
fn has_equal_runs(rows: &[usize], sentences: &[usize], width: usize) -> bool {
    let is_ascending = sentences.is_sorted_by(|left, right| left < right);
    let runs = sentences.iter().map(|&sentence| vec![sentence; width]);
    is_ascending && rows.chunks(width.max(1)).eq(runs)
}

/// Returns indices of rows as a tensor on a device, to select rows of a cache.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use polyglow_model::cache::indices;
///
/// let device = Device::flex();
/// let states = Tensor::<2>::from_data([[1.0], [2.0], [3.0]], &device);
/// let kept = states.select(0, indices(&[2, 0, 0], &device));
/// assert_eq!(kept.into_data().try_to_vec::<f32>().unwrap(), [3.0, 1.0, 1.0]);
/// ```
pub fn indices(rows: &[usize], device: &Device) -> Tensor<1, Int> {
    let indices: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
    Tensor::from_data(indices.as_slice(), device)
}

/// The cache of a [`crate::Transformer`]: its state between positions.
#[derive(Clone, Debug)]
pub struct DecoderCache {
    /// One entry per decoder layer.
    pub layers: Vec<LayerCache>,
    /// `[sentences, 1, 1, src_len]`, `true` on source padding.
    pub src_pad_mask: Tensor<4, Bool>,
    /// The sentence that each row translates.
    pub sentences: Sentences,
    /// Target positions so far.
    pub len: usize,
}

impl DecoderCache {
    /// An empty cache with one row per sentence.
    pub(crate) fn new(layers: Vec<LayerCache>, src_pad_mask: Tensor<4, Bool>) -> Self {
        let sentences = Sentences::new(src_pad_mask.dims()[0]);
        Self {
            layers,
            src_pad_mask,
            sentences,
            len: 0,
        }
    }

    /// Keeps the given rows, in the given order; a row may be named several times (a beam that
    /// splits) or not at all.
    pub fn select(&mut self, rows: &[usize]) {
        if rows.iter().copied().eq(0..self.sentences.rows()) {
            return;
        }
        let device = self.src_pad_mask.device();
        let row_indices = indices(rows, &device);
        for layer in &mut self.layers {
            if let Some(target) = &mut layer.target {
                target.select(rows, &row_indices);
            }
        }
        if let Some(kept) = self.sentences.select(rows) {
            let sentence_indices = indices(&kept, &device);
            for layer in &mut self.layers {
                layer.source.select(&kept, &sentence_indices);
            }
            self.src_pad_mask = self.src_pad_mask.clone().select(0, sentence_indices);
        }
    }
}
