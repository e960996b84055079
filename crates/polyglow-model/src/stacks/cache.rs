//! Keys and values kept between positions, so that one more position costs one position.

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

/// Which sentence each row of a search translates. Every sentence has the same number of rows, side
/// by side.
#[derive(Clone, Debug)]
pub struct Sentences {
    of_rows: Vec<usize>,
    count: usize,
}

impl Sentences {
    /// One row per sentence.
    pub fn new(count: usize) -> Self {
        Self {
            of_rows: (0..count).collect(),
            count,
        }
    }

    /// Number of sequences that are being written.
    pub fn rows(&self) -> usize {
        self.of_rows.len()
    }

    /// Number of rows per sentence.
    pub fn width(&self) -> usize {
        self.rows() / self.count
    }

    /// Keeps the given rows, in the given order. Returns the sentences that are kept, in their new
    /// order, or `None` if all stay in place.
    pub fn select(&mut self, rows: &[usize]) -> Option<Vec<usize>> {
        let old = self.count;
        self.of_rows = rows.iter().map(|&row| self.of_rows[row]).collect();
        // A beam keeps its sentence's rows side by side, so keys and values of the source mostly
        // stay where they are.
        let mut kept = self.of_rows.clone();
        kept.dedup();
        let width = self.of_rows.len() / kept.len().max(1);
        let ascending = kept.is_sorted_by(|left, right| left < right);
        if ascending
            && self
                .of_rows
                .chunks(width.max(1))
                .eq(kept.iter().map(|&sentence| vec![sentence; width]))
        {
            self.of_rows = (0..kept.len())
                .flat_map(|sentence| std::iter::repeat_n(sentence, width))
                .collect();
        } else {
            kept = std::mem::replace(&mut self.of_rows, (0..rows.len()).collect());
        }
        self.count = kept.len();
        (!kept.iter().copied().eq(0..old)).then_some(kept)
    }
}

/// Row numbers on a device.
pub(crate) fn indices(rows: &[usize], device: &Device) -> Tensor<1, Int> {
    let indices: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
    Tensor::from_data(indices.as_slice(), device)
}

/// What a [`crate::Transformer`] keeps between positions.
#[derive(Clone, Debug)]
pub struct DecoderCache {
    /// One entry per decoder layer.
    pub layers: Vec<LayerCache>,
    /// Which source positions are padding, `[sentences, 1, 1, src_len]`.
    pub src_pad_mask: Tensor<4, Bool>,
    /// Which rows translate which sentence.
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
        let own = indices(rows, &device);
        for target in self
            .layers
            .iter_mut()
            .filter_map(|layer| layer.target.as_mut())
        {
            target.select(rows, &own);
        }
        if let Some(kept) = self.sentences.select(rows) {
            let own = indices(&kept, &device);
            self.layers
                .iter_mut()
                .for_each(|layer| layer.source.select(&kept, &own));
            self.src_pad_mask = self.src_pad_mask.clone().select(0, own);
        }
    }
}
