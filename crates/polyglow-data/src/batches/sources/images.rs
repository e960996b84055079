//! Images with a label each, from memory.
//!
//! All images have the same size, so that every batch but the last of an epoch has the same number
//! of them. Pixels stay bytes in host memory, a fourth of what floats would take.

use std::ops::Range;
use std::sync::Arc;

use super::BatchSource;
use crate::batch::ImageBatch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::error::DataError;
use crate::image_set::{ImageSet, turn};
use crate::random::Purpose;

/// Batches of labeled images, whose parts have weights.
pub struct ImageSource {
    images: Arc<ImageSet>,
    /// The id of each image's label, in the vocabulary of labels.
    labels: Arc<[i32]>,
    parts: Vec<(Range<u32>, f64)>,
    config: BatchingConfig,
    augment: bool,
}

impl ImageSource {
    /// Makes batches of `images` with the ids of their labels; `parts` are the images of each
    /// corpus, and how often an epoch holds each of them. With `augment` each is mirrored and
    /// turned at random in every epoch.
    pub fn new(
        images: Arc<ImageSet>,
        labels: Arc<[i32]>,
        parts: Vec<(Range<u32>, f64)>,
        config: BatchingConfig,
        augment: bool,
    ) -> Self {
        Self {
            images,
            labels,
            parts,
            config,
            augment,
        }
    }

    /// The number of bytes of one image.
    fn num_bytes(&self) -> usize {
        self.images.height * self.images.width * self.images.channels
    }
}

impl BatchSource for ImageSource {
    type Batch = ImageBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        let positions = (self.config.padded(self.num_bytes()), self.config.padded(1));
        EpochPlan::new(|_| positions, &self.parts, &self.config, epoch)
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<ImageBatch, DataError> {
        let shape = [self.images.height, self.images.width, self.images.channels];
        let mut pixels = Vec::with_capacity(items.len() * self.num_bytes());
        for &item in items {
            let image = self.images.example(item as usize).pixels;
            if self.augment {
                let key = Purpose::Row.mix(&[self.config.seed, epoch, u64::from(item)]);
                pixels.extend(turn(image, shape, key));
            } else {
                pixels.extend_from_slice(image);
            }
        }
        Ok(ImageBatch {
            pixels,
            labels: items
                .iter()
                .map(|&item| self.labels[item as usize])
                .collect(),
        })
    }

    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        (
            [items.len(), self.num_bytes(), 1],
            items.len() * (self.num_bytes() + 1),
        )
    }

    fn origin(&self, example: u32) -> String {
        format!("image {}", example + 1)
    }
}
