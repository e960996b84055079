//! Images with a label each.

/// Images of one size and their labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageBatch {
    /// `[images, height * width * channels]` row by row.
    pub pixels: Vec<u8>,
    /// The label of each image, as an id of the labels' tokenizer.
    pub labels: Vec<i32>,
}
