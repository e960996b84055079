//! Labeled images: their pixels stay pixels, and their labels are the targets of pairs without a
//! source.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::{Corpus, Part, Source, plain_or_compressed};
use crate::config::{DataConfig, ImageConfig, Split, WeightedPath};
use crate::error::DataError;
use crate::image_set::folder::{Channels, FolderOptions, read_folder};
use crate::image_set::idx::read_idx;
use crate::image_set::{ImageLimits, ImageSet};
use crate::toy::shapes::captioned::CaptionedShapes;

/// Ranges of examples, each with its weight: how often an epoch holds its examples.
type Weighted = Vec<(Range<u32>, f64)>;

impl Corpus {
    /// Reads the images of a split as a whole.
    ///
    /// # Errors
    /// [`DataError::MissingFile`]; [`DataError::Config`] for a split that the configuration lacks;
    /// [`DataError::Image`] for images that cannot be read.
    pub(super) fn open_images(config: &DataConfig, split: Split) -> Result<Self, DataError> {
        let key = config.key(split);
        let mut parts = Vec::new();
        for WeightedPath { path, weight, .. } in config.files(split)? {
            let images = Arc::new(read_labeled(&path, config, &key)?);
            let name = path.display().to_string();
            parts.push(Part::new(Source::Images { name, images }, weight));
        }
        Ok(Self::from_parts(parts))
    }

    /// Makes a corpus of images in memory.
    pub(super) fn from_images(name: String, images: ImageSet) -> Self {
        let images = Arc::new(images);
        Self::from_parts(vec![Part::new(Source::Images { name, images }, 1.0)])
    }

    /// Returns the images of each part, in order; `None` if the corpus is not one of images.
    pub fn images(&self) -> Option<Vec<Arc<ImageSet>>> {
        let mut sets = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let Source::Images { images, .. } = &part.source else {
                return None;
            };
            sets.push(Arc::clone(images));
        }
        (!sets.is_empty()).then_some(sets)
    }

    /// Returns the images that are trained on, of all parts together, and which of them belong to
    /// each part, with the part's weight. `None` if the corpus is not one of images.
    pub fn training_images(&self) -> Option<(Arc<ImageSet>, Weighted)> {
        let sets = self.images()?;
        let all = ImageSet::join(&sets);
        let Some(sample) = self.sample() else {
            return Some(self.first_images(&sets, all));
        };
        let mut start = 0;
        let ranges = self.parts.iter().enumerate().map(|(index, part)| {
            let range = start..start + sample.count(index) as u32;
            start = range.end;
            (range, part.weight)
        });
        Some((Arc::new(all.select(&sample.indices())), ranges.collect()))
    }

    /// Returns the first `max_examples` of `all` images, which are those of `sets`, and the range
    /// of each set.
    fn first_images(
        &self,
        sets: &[Arc<ImageSet>],
        all: Arc<ImageSet>,
    ) -> (Arc<ImageSet>, Weighted) {
        let max_examples = match self.max_examples {
            Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let mut ranges = Vec::with_capacity(sets.len());
        let mut start = 0;
        for (set, part) in sets.iter().zip(&self.parts) {
            let end = (start + set.len()).min(max_examples).max(start);
            ranges.push((start as u32..end as u32, part.weight));
            start = end;
        }
        let first = if max_examples < all.len() {
            Arc::new(Arc::unwrap_or_clone(all).first(max_examples))
        } else {
            all
        };
        (first, ranges)
    }
}

/// The channels into which pixels are converted.
fn channels(config: ImageConfig) -> Channels {
    if config.grayscale {
        Channels::Gray
    } else {
        Channels::Rgb
    }
}

/// Reads the labeled images of a folder with a folder for each label, or of a file in MNIST's
/// format. `key` is the configuration key of `path`.
fn read_labeled(path: &Path, config: &DataConfig, key: &str) -> Result<ImageSet, DataError> {
    if !path.is_dir() {
        return read_mnist(path, config, key);
    }
    let [height, width] = config.images().size;
    let options = FolderOptions {
        size: Some((height, width)),
        channels: channels(config.images()),
        limits: ImageLimits::default(),
    };
    read_folder(path, &options, None)
}

/// Reads a file of images in MNIST's format, with the labels of the file next to it that has the
/// same name but for `labels` and `idx1`.
fn read_mnist(path: &Path, config: &DataConfig, key: &str) -> Result<ImageSet, DataError> {
    let Some(images) = plain_or_compressed(path) else {
        return Err(DataError::MissingFile {
            key: key.to_owned(),
            path: path.to_owned(),
        });
    };
    let Some(labels) = labels_file(&images) else {
        let problem = "it is not a folder, and there is no file of labels next to it, such as `train-labels-idx1-ubyte` of \
                       `train-images-idx3-ubyte`";
        return Err(DataError::Image {
            path: path.to_owned(),
            problem: problem.to_owned(),
        });
    };
    let set = read_idx(&images, &labels, ImageLimits::default(), None)?;
    let channels = channels(config.images());
    // Files of bytes are read as they are: unlike a photograph, they are never converted to gray.
    if set.channels != channels.count() {
        let problem = format!(
            "it has {} bytes per pixel, and `data.images.grayscale = {}` asks for {}",
            set.channels,
            config.images().grayscale,
            channels.count()
        );
        return Err(DataError::Image {
            path: images,
            problem,
        });
    }
    let [height, width] = config.images().size;
    Ok(set.resized(height, width))
}

/// Returns the file of labels that belongs to a file of images; `None` if there is none.
fn labels_file(images: &Path) -> Option<PathBuf> {
    let name = images
        .file_name()?
        .to_string_lossy()
        .replace("images", "labels")
        .replace("idx3", "idx1");
    let labels = images.with_file_name(name);
    (labels.is_file() && labels != images).then_some(labels)
}

/// Reads images as [`read_image`] does, on all cores. An image that is named several times is read
/// once.
///
/// # Errors
/// As [`read_image`].
pub fn read_images(names: &[&str], config: ImageConfig) -> Result<Vec<Vec<u8>>, DataError> {
    let mut different = names.to_vec();
    different.sort_unstable();
    different.dedup();
    let read = different
        .par_iter()
        .map(|name| Ok((*name, read_image(Path::new(name), config)?)));
    let read: HashMap<&str, Vec<u8>> = read.collect::<Result<_, DataError>>()?;
    Ok(names.iter().map(|name| read[name].clone()).collect())
}

/// Reads an image from a file, in the size and the colors of this configuration; or draws an image
/// of a generated corpus, such as `captioned-shapes:test:17`.
///
/// # Errors
/// [`DataError::Image`] and [`DataError::Io`] name the file that is not an image.
pub fn read_image(path: &Path, config: ImageConfig) -> Result<Vec<u8>, DataError> {
    let [height, width] = config.size;
    if let Some(picture) = path.to_str().and_then(CaptionedShapes::named) {
        if config.grayscale {
            let problem = "is in color, and the model reads gray images".to_owned();
            return Err(DataError::Image {
                path: path.to_owned(),
                problem,
            });
        }
        return Ok(picture.resized(height, width));
    }
    let options = FolderOptions {
        size: Some((height, width)),
        channels: channels(config),
        limits: ImageLimits::default(),
    };
    crate::image_set::folder::read_file(path, &options)
}
