//! Batches in host memory, one file for each kind: rectangles of ids, made of given examples.

mod caption;
mod image;
mod label;
mod masked;
mod pair;
mod skip_gram;
mod tags;
mod text;

pub use caption::CaptionBatch;
pub use image::ImageBatch;
pub use label::LabelBatch;
pub use masked::MaskedBatch;
pub use pair::PairBatch;
pub use skip_gram::SkipGramBatch;
pub use tags::TagBatch;
pub use text::{Piece, TextBatch, pieces};
