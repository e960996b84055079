//! Keys and values kept between positions, so that one more position costs one position.

use burn::tensor::{Bool, Int, Tensor};

/// The keys and values of one attention layer.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there are two for each layer, and a tensor is a handle of this size")]
pub enum KeyValue {
    /// By head, `[rows, num_heads, len, head_dim]` each: for products of matrices.
    Heads {
        /// The keys.
        key: Tensor<4>,
        /// The values.
        value: Tensor<4>,
    },
    /// Side by side, `[rows, len, 2 * d_model]`: as they come out of the projection, for the kernel of polyglow-kernels.
    SideBySide(Tensor<3>),
}

impl KeyValue {
    /// Everything so far and the newest positions behind it, in the same form.
    ///
    /// # Panics
    /// If the forms differ: a layer keeps to one.
    #[must_use]
    pub fn append(self, newest: Self) -> Self {
        match (self, newest) {
            (Self::Heads { key, value }, Self::Heads { key: new_key, value: new_value }) => {
                Self::Heads { key: Tensor::cat(vec![key, new_key], 2), value: Tensor::cat(vec![value, new_value], 2) }
            }
            (Self::SideBySide(past), Self::SideBySide(newest)) => Self::SideBySide(Tensor::cat(vec![past, newest], 1)),
            _ => panic!("a layer's cache keeps one form"),
        }
    }

    fn select(&mut self, rows: &Tensor<1, Int>) {
        match self {
            Self::Heads { key, value } => {
                *key = key.clone().select(0, rows.clone());
                *value = value.clone().select(0, rows.clone());
            }
            Self::SideBySide(both) => *both = both.clone().select(0, rows.clone()),
        }
    }
}

/// One decoder layer's share of the [`DecoderCache`].
#[derive(Clone, Debug)]
pub struct LayerCache {
    /// Keys and values of the target positions so far; nothing before the first.
    pub target: Option<KeyValue>,
    /// Keys and values of the encoder's output, once for each sentence, however many rows translate it.
    pub source: KeyValue,
}

/// Everything that [`crate::Transformer::advance`] keeps between positions.
#[derive(Clone, Debug)]
pub struct DecoderCache {
    /// One entry a decoder layer.
    pub layers: Vec<LayerCache>,
    /// Which source positions are padding, `[sentences, 1, 1, src_len]`.
    pub src_pad_mask: Tensor<4, Bool>,
    /// The sentence of each row; every sentence has the same number of rows, side by side.
    sentences: Vec<usize>,
    /// Target positions so far.
    pub len: usize,
}

impl DecoderCache {
    /// Nothing written yet, one row a sentence.
    pub(crate) fn new(layers: Vec<LayerCache>, src_pad_mask: Tensor<4, Bool>) -> Self {
        let sentences = (0..src_pad_mask.dims()[0]).collect();
        Self { layers, src_pad_mask, sentences, len: 0 }
    }

    /// How many sequences are being written.
    pub fn rows(&self) -> usize {
        self.sentences.len()
    }

    /// How many of them translate each sentence.
    pub fn rows_per_sentence(&self) -> usize {
        self.rows() / self.src_pad_mask.dims()[0]
    }

    /// Keeps the given rows, in the given order; a row may be named several times (a beam that splits) or not at all.
    pub fn select(&mut self, rows: &[usize]) {
        if rows.iter().copied().eq(0..self.rows()) {
            return;
        }
        let indices = self.indices(rows);
        for target in self.layers.iter_mut().filter_map(|layer| layer.target.as_mut()) {
            target.select(&indices);
        }
        let old = self.src_pad_mask.dims()[0];
        self.sentences = rows.iter().map(|&row| self.sentences[row]).collect();
        // A beam keeps its sentence's rows side by side, so keys and values of the source mostly stay where they are.
        let mut kept = self.sentences.clone();
        kept.dedup();
        let width = self.sentences.len() / kept.len().max(1);
        let ascending = kept.is_sorted_by(|left, right| left < right);
        if ascending && self.sentences.chunks(width.max(1)).eq(kept.iter().map(|&sentence| vec![sentence; width])) {
            self.sentences = (0..kept.len()).flat_map(|sentence| std::iter::repeat_n(sentence, width)).collect();
        } else {
            kept = std::mem::replace(&mut self.sentences, (0..rows.len()).collect());
        }
        if !kept.iter().copied().eq(0..old) {
            let indices = self.indices(&kept);
            self.layers.iter_mut().for_each(|layer| layer.source.select(&indices));
            self.src_pad_mask = self.src_pad_mask.clone().select(0, indices);
        }
    }

    fn indices(&self, rows: &[usize]) -> Tensor<1, Int> {
        let indices: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
        Tensor::from_data(indices.as_slice(), &self.src_pad_mask.device())
    }
}
