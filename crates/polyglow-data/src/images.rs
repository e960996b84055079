//! Images: files of pixels, each with a label.

pub mod image_set;
