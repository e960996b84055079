//! The inputs of models: a plain struct for each kind, and an enum of them all.
//!
//! An architecture implements [`crate::Predict`] for the kind that it reads; the built-in
//! [`crate::Model`], which may be any architecture, implements it for [`Inputs`].

use burn::tensor::{Int, Tensor};

/// A source and the target to predict from it (teacher forcing).
#[derive(Clone, Debug)]
pub struct Pair {
    /// Source ids with padding behind, `[batch, src_len]`; if the source is an image, the bytes of
    /// [`Image::pixels`].
    pub src: Tensor<2, Int>,
    /// Target ids that the decoder reads, beginning with BOS, `[batch, tgt_len]`.
    pub tgt_in: Tensor<2, Int>,
}

/// A text with one side, for a language model or for a label.
#[derive(Clone, Debug)]
pub struct Text {
    /// Token ids with padding behind, `[batch, len]`.
    pub ids: Tensor<2, Int>,
}

/// Images of one size.
#[derive(Clone, Debug)]
pub struct Image {
    /// Bytes from 0 to 255, row by row and the channels of a pixel side by side,
    /// `[batch, height * width * channels]`.
    pub pixels: Tensor<2, Int>,
}

/// Words, and for each word its neighbors among random words.
#[derive(Clone, Debug)]
pub struct Words {
    /// One word per row, `[rows, 1]`.
    pub centers: Tensor<2, Int>,
    /// The words to classify for each center as neighbors or random words, `[rows, count]`.
    pub candidates: Tensor<2, Int>,
}

/// Inputs of any kind.
#[derive(Clone, Debug)]
pub enum Inputs {
    /// Inputs for translation and captions.
    Pair(Pair),
    /// Inputs for language models, labels of texts and masked tokens.
    Text(Text),
    /// Inputs for labels of images.
    Image(Image),
    /// Inputs for word vectors.
    Words(Words),
}

impl Inputs {
    /// The name of the kind, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Pair(_) => "pairs",
            Self::Text(_) => "texts",
            Self::Image(_) => "images",
            Self::Words(_) => "words",
        }
    }
}

impl From<Pair> for Inputs {
    fn from(pair: Pair) -> Self {
        Self::Pair(pair)
    }
}

impl From<Text> for Inputs {
    fn from(text: Text) -> Self {
        Self::Text(text)
    }
}

impl From<Image> for Inputs {
    fn from(image: Image) -> Self {
        Self::Image(image)
    }
}

impl From<Words> for Inputs {
    fn from(words: Words) -> Self {
        Self::Words(words)
    }
}
