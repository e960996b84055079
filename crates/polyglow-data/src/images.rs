//! What a source of images is: files of pixels with a label each.

pub mod image_set;
