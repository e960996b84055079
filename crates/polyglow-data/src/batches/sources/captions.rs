//! Captions and their images.
//!
//! An image with several captions is in memory once. The id cache has the captions alone: their
//! lines say which pairs of the corpus they are, and so which images.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::{BatchSource, Cached, size_of_rows};
use crate::batch::CaptionBatch;
use crate::batching::{BatchingConfig, EpochPlan};
use crate::config::ImageConfig;
use crate::corpus::{Corpus, Part, read_image};
use crate::error::DataError;
use crate::id_cache::IdCache;
use crate::image_set::ImageLimits;
use crate::pair::Pair;

/// Images that are decoded at a time.
const CHUNK: usize = 256;

/// The images of captions, in memory.
#[derive(Debug)]
pub struct CaptionImages {
    /// `[images, height * width * channels]` row by row.
    pixels: Vec<u8>,
    /// The number of bytes of one image.
    num_bytes: usize,
    /// The index of the image of each example.
    image_indices: Vec<u32>,
}

/// The images that the captions of an id cache belong to.
struct NamedImages {
    /// Each different name once.
    names: Vec<String>,
    /// The index of each example's image in `names`.
    indices: Vec<u32>,
}

impl CaptionImages {
    /// Reads the images of the captions that are in `cache`, which is of the target side of
    /// `corpus`.
    ///
    /// # Errors
    /// [`DataError::Image`] and [`DataError::Io`] for a file that is no image;
    /// [`DataError::Captions`] if they do not fit into the memory that images may take.
    pub fn read(corpus: &Corpus, cache: &IdCache, config: ImageConfig) -> Result<Self, DataError> {
        let NamedImages { names, indices } = NamedImages::read(corpus, cache)?;
        let num_bytes = config.shape().iter().product::<usize>();
        let max_bytes = ImageLimits::default().max_bytes;
        if names.len().saturating_mul(num_bytes) > max_bytes {
            let problem = format!(
                "has {} images of {num_bytes} bytes, which do not fit into {max_bytes} bytes",
                names.len()
            );
            let path = PathBuf::from(corpus.parts().first().map(Part::name).unwrap_or_default());
            return Err(DataError::Captions {
                path,
                line: 0,
                problem,
            });
        }
        // In chunks, because images are in memory twice until they are appended.
        let mut pixels = Vec::with_capacity(names.len() * num_bytes);
        for chunk in names.chunks(CHUNK) {
            let images = chunk
                .par_iter()
                .map(|name| read_image(Path::new(name), config));
            pixels.extend(images.collect::<Result<Vec<_>, _>>()?.concat());
        }
        Ok(Self {
            pixels,
            num_bytes,
            image_indices: indices,
        })
    }

    /// Number of different images.
    pub fn len(&self) -> usize {
        self.pixels.len() / self.num_bytes
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.pixels.is_empty()
    }

    /// The bytes of the image of an example.
    fn image(&self, example: u32) -> &[u8] {
        let index = self.image_indices[example as usize] as usize;
        &self.pixels[index * self.num_bytes..][..self.num_bytes]
    }
}

impl NamedImages {
    /// Reads the names from the pairs of `corpus` at the lines of the examples in `cache`.
    fn read(corpus: &Corpus, cache: &IdCache) -> Result<Self, DataError> {
        let lines = cache.lines()?;
        let mut names: Vec<String> = Vec::new();
        let mut index_by_name = HashMap::new();
        let mut indices = Vec::with_capacity(cache.len());
        for (part, (range, _)) in corpus.parts().iter().zip(cache.parts()) {
            let pairs: Vec<Pair> = part.pairs()?.collect::<Result<_, _>>()?;
            for &line in &lines[range.start as usize..range.end as usize] {
                let name = &pairs[line as usize - 1].src;
                let next = names.len() as u32;
                let index = *index_by_name.entry(name.clone()).or_insert(next);
                if index == next {
                    names.push(name.clone());
                }
                indices.push(index);
            }
        }
        Ok(Self { names, indices })
    }
}

/// Batches of captions from an id cache, with their images.
pub struct CaptionSource {
    cached: Cached,
    images: Arc<CaptionImages>,
    num_patches: usize,
}

impl CaptionSource {
    /// Makes batches of the captions of `cache`, which is of text that has one side; an image
    /// counts as `num_patches` positions in a batch.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] if the tokenizer cannot segment words as `config` asks for.
    pub fn new(
        cache: Arc<IdCache>,
        images: Arc<CaptionImages>,
        config: BatchingConfig,
        num_patches: usize,
    ) -> Result<Self, DataError> {
        let cached = Cached::new(cache, config)?;
        Ok(Self {
            cached,
            images,
            num_patches,
        })
    }

    /// The padded positions of an image and of its caption with BOS or EOS.
    fn padded(&self, example: u32) -> (usize, usize) {
        let Cached { cache, config, .. } = &self.cached;
        (
            self.num_patches,
            config.padded(config.planned_len(cache.lengths(example).1) + 1),
        )
    }
}

impl BatchSource for CaptionSource {
    type Batch = CaptionBatch;
    type Error = DataError;

    fn plan(&self, epoch: u64) -> Result<EpochPlan, DataError> {
        self.cached.plan(epoch, |example| self.padded(example))
    }

    fn batch(&self, epoch: u64, items: &[u32]) -> Result<CaptionBatch, DataError> {
        let examples = self.cached.examples(epoch, items)?;
        let captions: Vec<Vec<u32>> = examples.into_iter().map(|example| example.tgt).collect();
        let mut pixels = Vec::with_capacity(items.len() * self.images.num_bytes);
        for &item in items {
            pixels.extend_from_slice(self.images.image(item));
        }
        let Cached { cache, config, .. } = &self.cached;
        let special = cache.tokenizers().tgt.special();
        Ok(CaptionBatch::new(
            pixels,
            &captions,
            special,
            config.pad_multiple,
        ))
    }

    fn size(&self, _: u64, items: &[u32]) -> ([usize; 3], usize) {
        size_of_rows(
            items,
            |item| self.padded(item),
            |item| (self.num_patches, self.cached.cache.lengths(item).1 + 1),
        )
    }

    fn origin(&self, example: u32) -> String {
        self.cached.origin(example)
    }
}
