//! Keys and values kept between positions, so that one more position costs one position.

use burn::tensor::{Bool, Int, Tensor};

/// The keys and values of one attention layer.
#[derive(Clone, Debug)]
pub struct KeyValue {
    /// `[rows, num_heads, len, head_dim]`.
    pub key: Tensor<4>,
    /// `[rows, num_heads, len, head_dim]`.
    pub value: Tensor<4>,
}

impl KeyValue {
    /// Everything so far and the newest positions behind it.
    #[must_use]
    pub fn append(self, newest: Self) -> Self {
        let key = Tensor::cat(vec![self.key, newest.key], 2);
        let value = Tensor::cat(vec![self.value, newest.value], 2);
        Self { key, value }
    }

    fn select(&mut self, rows: &Tensor<1, Int>) {
        self.key = self.key.clone().select(0, rows.clone());
        self.value = self.value.clone().select(0, rows.clone());
    }
}

/// One decoder layer's share of the [`DecoderCache`].
#[derive(Clone, Debug)]
pub struct LayerCache {
    /// Keys and values of the target positions so far; nothing before the first.
    pub target: Option<KeyValue>,
    /// Keys and values of the encoder's output.
    pub source: KeyValue,
}

/// Everything that [`crate::Transformer::advance`] keeps between positions.
#[derive(Clone, Debug)]
pub struct DecoderCache {
    /// One entry a decoder layer.
    pub layers: Vec<LayerCache>,
    /// Which source positions are padding, `[rows, 1, 1, src_len]`.
    pub src_pad_mask: Tensor<4, Bool>,
    /// Target positions so far.
    pub len: usize,
}

impl DecoderCache {
    /// How many sequences are being written.
    pub fn rows(&self) -> usize {
        self.src_pad_mask.dims()[0]
    }

    /// Keeps the given rows, in the given order; a row may be named several times (a beam that splits) or not at all.
    pub fn select(&mut self, rows: &[usize]) {
        let indices: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
        let rows = Tensor::<1, Int>::from_data(indices.as_slice(), &self.src_pad_mask.device());
        for layer in &mut self.layers {
            layer.source.select(&rows);
            if let Some(target) = &mut layer.target {
                target.select(&rows);
            }
        }
        self.src_pad_mask = self.src_pad_mask.clone().select(0, rows);
    }
}
