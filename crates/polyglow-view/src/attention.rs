//! Shows what a model attends to.
//!
//! [`write_pair`] writes the weights of a model of text as a page of all layers and heads, or as a
//! picture of the one that a [`Selection`] names. [`ImageAttention`] does the same for a Vision
//! Transformer, and [`CaptionAttention`] for each word of a caption.

mod caption;
mod image;
mod page;
mod pair;
mod patched;
mod picture;
mod selection;

pub use caption::CaptionAttention;
pub use image::ImageAttention;
pub use page::render;
pub use pair::write_pair;
pub use selection::Selection;
