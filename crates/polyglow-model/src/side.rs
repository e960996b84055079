//! The two sides of a pair.

/// One side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What a translation is made from.
    Src,
    /// The translation; the only side of a text.
    Tgt,
}
