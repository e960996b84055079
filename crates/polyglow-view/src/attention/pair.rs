//! The attention on a pair of sentences, as a page or a picture.

use std::path::Path;

use polyglow_predict::attention::PairAttention;
use polyglow_train::{Result, TrainError};

use super::picture::drawing;
use super::{Selection, render};
use crate::drawing::{Format, write};

/// Writes the weights on a pair, `[src, tgt]`: a page of all layers and heads, or a picture of one.
///
/// # Errors
/// The model has no such attention; the picture is too large; the file cannot be written.
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
    let Some(last) = map.weights.len().checked_sub(1) else {
        return Err(TrainError::new("the model has no such layers"));
    };
    let layer = selection.layer.map_or(last, |layer| layer - 1);
    let weights = map.head(layer, selection.head.map(|head| head - 1));
    let drawing = drawing(map, &weights);
    if format == Format::Svg {
        write(path, drawing.svg())
    } else {
        write(path, drawing.png()?)
    }
}
