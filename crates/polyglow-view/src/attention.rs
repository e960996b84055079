//! Shows what a model attends to.
//!
//! [`PairAttention`] holds the weights of a model of text, and writes a page of all layers and heads or a picture of the
//! one that a [`Selection`] names. [`ImageAttention`] does the same for a Vision Transformer, and
//! [`CaptionAttention`] for each word of a caption.

mod caption;
mod image;
mod maps;
mod page;
mod patched;
mod picture;
mod selection;

pub use caption::CaptionAttention;
pub use image::ImageAttention;
pub use maps::{Map, PairAttention};
pub use page::render;
pub use selection::Selection;
