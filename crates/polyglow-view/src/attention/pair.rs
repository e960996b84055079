//! The attention on a pair of sentences, written as a page or a picture.

use std::path::Path;

use polyglow_predict::attention::PairAttention;
use polyglow_train::{Result, TrainError};

use super::picture::drawing;
use super::{Selection, render};
use crate::drawing::{Format, write};

/// Writes the attention on a pair to `path`: a page of all layers and heads, or a picture of the
/// head that `selection` names. The title of the page has both texts, `[src, tgt]`.
///
/// # Errors
/// The model has no attention of the selected kind; the picture is too large; the file cannot be
/// written.
///
/// # Panics
/// There is no such layer or head: see [`Selection::check`].
pub fn write_pair(
    attention: &PairAttention,
    [src, tgt]: [&str; 2],
    selection: Selection,
    format: Format,
    path: &Path,
) -> Result<()> {
    if format == Format::Html {
        return write(path, render(attention, src, tgt)?);
    }
    let map = attention.map(selection.kind);
    if map.weights.is_empty() {
        return Err(TrainError::new("the model has no such layers"));
    }
    let weights = selection.head_weights(&map.weights);
    let drawing = drawing(map, &weights);
    if format == Format::Svg {
        write(path, drawing.svg())
    } else {
        write(path, drawing.png()?)
    }
}
