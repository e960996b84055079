//! The inputs of models: a plain struct for each kind, and an enum of them all.
//!
//! An architecture implements [`crate::Predict`] for the kind that it reads; [`crate::Model`], which
//! may be any architecture, implements it for [`Inputs`].

use burn::tensor::{Device, Int, Tensor};

/// The source that a model reads before it writes: what it translates or describes.
#[derive(Clone, Debug)]
pub enum Source {
    /// Token ids with padding behind, `[batch, src_len]`.
    Ids(Tensor<2, Int>),
    /// Images.
    Image(Image),
}

impl Source {
    /// Returns the token ids.
    ///
    /// # Panics
    /// If these are images.
    pub fn into_ids(self) -> Tensor<2, Int> {
        match self {
            Self::Ids(ids) => ids,
            Self::Image(_) => panic!("a model of text does not read images"),
        }
    }

    /// Returns the pixels of the images.
    ///
    /// # Panics
    /// If these are token ids.
    pub fn into_pixels(self) -> Tensor<2, Int> {
        match self {
            Self::Image(image) => image.pixels,
            Self::Ids(_) => panic!("a model of images does not read ids"),
        }
    }

    /// Returns the number of texts or images.
    pub fn num_rows(&self) -> usize {
        self.tensor().dims()[0]
    }

    /// Returns the device where the source is.
    pub fn device(&self) -> Device {
        self.tensor().device()
    }

    fn tensor(&self) -> &Tensor<2, Int> {
        match self {
            Self::Ids(ids) => ids,
            Self::Image(image) => &image.pixels,
        }
    }
}

impl From<Tensor<2, Int>> for Source {
    fn from(ids: Tensor<2, Int>) -> Self {
        Self::Ids(ids)
    }
}

impl From<Image> for Source {
    fn from(image: Image) -> Self {
        Self::Image(image)
    }
}

/// A source and the target to predict from it (teacher forcing).
#[derive(Clone, Debug)]
pub struct Pair {
    /// The source.
    pub src: Source,
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
