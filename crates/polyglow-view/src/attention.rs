//! Shows what a model attends to.
//!
//! [`PairAttention`] holds the weights of a model of text: [`render`] makes a page of all layers and heads, [`draw`] a
//! picture of the one that a [`Selection`] names. [`ImageAttention`] does the same for a Vision Transformer.

mod image;
mod maps;
mod page;
mod picture;
mod selection;

pub use crate::drawing::PictureFormat;
pub use image::ImageAttention;
pub use maps::{Map, PairAttention};
pub use page::render;
pub use picture::draw;
pub use selection::Selection;
