//! The two sides of a pair.

/// One side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The source: a text to translate, or an image.
    Src,
    /// The target: the translation, or the only side of a text.
    Tgt,
}
