//! Shows what a model attends to.
//!
//! [`PairAttention`] holds the weights of a model of text, and writes a page of all layers and heads or a picture of the
//! one that a [`Selection`] names. [`ImageAttention`] does the same for a Vision Transformer.

mod image;
mod maps;
mod page;
mod picture;
mod selection;

pub use image::ImageAttention;
pub use maps::{Map, PairAttention};
pub use page::render;
pub use selection::Selection;
