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

/// Ranges of examples, and how often an epoch holds each of these.
type Weighted = Vec<(Range<u32>, f64)>;

impl Corpus {
    /// Reads the images of a split as a whole.
    ///
    /// # Errors
    /// [`DataError::MissingFile`]; [`DataError::Config`] for a split that the configuration lacks;
    /// what is wrong with images.
    pub(super) fn open_images(config: &DataConfig, split: Split) -> Result<Self, DataError> {
        let key = config.key(split);
        let parts =
            config
                .files(split)?
                .into_iter()
                .map(|WeightedPath { path, weight, .. }| {
                    let missing = || DataError::MissingFile {
                        key: key.clone(),
                        path: path.clone(),
                    };
                    let images = Arc::new(read_labeled(&path, config, missing)?);
                    let source = Source::Images {
                        name: path.display().to_string(),
                        images,
                    };
                    Ok(Part {
                        source,
                        weight,
                        alignments: None,
                        is_text: false,
                    })
                });
        Ok(Self {
            parts: parts.collect::<Result<_, _>>()?,
            ..Self::default()
        })
    }

    /// A corpus of images in memory.
    pub(super) fn of_images(name: String, images: ImageSet) -> Self {
        let source = Source::Images {
            name,
            images: Arc::new(images),
        };
        Self {
            parts: vec![Part {
                source,
                weight: 1.0,
                alignments: None,
                is_text: false,
            }],
            ..Self::default()
        }
    }

    /// The images of each part, in order; `None` if it has none.
    pub fn images(&self) -> Option<Vec<Arc<ImageSet>>> {
        let images = |part: &Part| match &part.source {
            Source::Images { images, .. } => Some(Arc::clone(images)),
            _ => None,
        };
        self.parts
            .iter()
            .map(images)
            .collect::<Option<Vec<_>>>()
            .filter(|parts| !parts.is_empty())
    }

    /// The images that are trained on, of all parts together, and which of them belong to each
    /// part, with the part's weight. `None` if it has none.
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

    fn first_images(
        &self,
        sets: &[Arc<ImageSet>],
        all: Arc<ImageSet>,
    ) -> (Arc<ImageSet>, Weighted) {
        let most = self.max_examples.map_or(usize::MAX, |most| {
            usize::try_from(most).unwrap_or(usize::MAX)
        });
        let mut start = 0;
        let ranges = sets.iter().zip(&self.parts).map(|(set, part)| {
            let range = start..(start + set.len()).min(most).max(start);
            start = range.end;
            (range.start as u32..range.end as u32, part.weight)
        });
        let ranges = ranges.collect();
        let first = if most < all.len() {
            Arc::new(Arc::unwrap_or_clone(all).first(most))
        } else {
            all
        };
        (first, ranges)
    }
}

/// What a pixel is turned into.
fn channels(config: ImageConfig) -> Channels {
    if config.grayscale {
        Channels::Gray
    } else {
        Channels::Rgb
    }
}

/// Reads a folder of folders, or MNIST's images with the labels in the file that is called as the
/// images' is.
fn read_labeled(
    path: &Path,
    config: &DataConfig,
    missing: impl Fn() -> DataError,
) -> Result<ImageSet, DataError> {
    let ([height, width], limits) = (config.images().size, ImageLimits::default());
    let channels = channels(config.images());
    if path.is_dir() {
        return read_folder(
            path,
            &FolderOptions {
                size: Some((height, width)),
                channels,
                limits,
            },
            None,
        );
    }
    let images = plain_or_compressed(path).ok_or_else(&missing)?;
    let name = images.file_name().map(|name| {
        name.to_string_lossy()
            .replace("images", "labels")
            .replace("idx3", "idx1")
    });
    let labels = name
        .map(|name| images.with_file_name(name))
        .filter(|labels| labels.is_file() && *labels != images);
    let problem = || {
        let problem = "it is not a folder, and there is no file of labels next to it, such as `train-labels-idx1-ubyte` of \
                       `train-images-idx3-ubyte`";
        DataError::Image {
            path: PathBuf::from(path),
            problem: problem.to_owned(),
        }
    };
    let set = read_idx(&images, &labels.ok_or_else(problem)?, limits, None)?;
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
    Ok(set.resized(height, width))
}

/// Reads images as [`read_image`] does, on all cores. One that is named several times is read once.
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

/// Reads an image from a file, whatever folder it is in, as a model of this configuration sees it;
/// or draws the one of a corpus that is generated, such as `captioned-shapes:test:17`.
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
