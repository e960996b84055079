//! Labeled texts and images as pairs: the source is the text, or the bytes of an image as text, and the target is the
//! label.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Corpus, Pair, Part, Source, plain_or_compressed, split_name};
use crate::config::{DataConfig, Labeled, Split, WeightedPath, no_such_set, wrong};
use crate::error::DataError;
use crate::image_set::folder::{Channels, FolderOptions, read_folder};
use crate::image_set::idx::read_idx;
use crate::image_set::{ImageLimits, ImageSet};
use crate::labeled::LabeledText;
use crate::tokenizer::text_of_bytes;
use crate::toy::Embedded;

impl Corpus {
    /// Opens the labeled texts or images of a split. All images are read into memory.
    ///
    /// # Errors
    /// [`DataError::MissingFile`]; [`DataError::Config`] for a split that the configuration lacks;
    /// [`DataError::Image`].
    pub(super) fn open_labeled(config: &DataConfig, split: Split, labeled: Labeled) -> Result<Self, DataError> {
        let key = config.key(split);
        let parts = config.files(split)?.into_iter().map(|WeightedPath { path, weight, .. }| {
            let missing = || DataError::MissingFile { key: key.clone(), path: path.clone() };
            let source = match labeled {
                Labeled::Texts => Source::Labeled(plain_or_compressed(&path).ok_or_else(missing)?),
                Labeled::Images => {
                    let pairs = pairs_of_images(&read_images(&path, config, missing)?);
                    Source::Embedded { name: path.display().to_string(), pairs: Arc::new(pairs) }
                }
            };
            Ok(Part { source, weight, alignments: None, is_text: false })
        });
        Ok(Self { parts: parts.collect::<Result<_, _>>()?, ..Self::default() })
    }

    /// Generates the labeled texts or images of a split; without the labels if the configuration has one side only.
    ///
    /// # Errors
    /// [`DataError::Config`] if there is no such split.
    pub(super) fn embedded_labeled(embedded: Embedded, config: &DataConfig, split: Split) -> Result<Self, DataError> {
        let (name, split) = (embedded.name(), split_name(split));
        let unknown = || wrong("data.corpus", no_such_set(split, embedded.splits()));
        let pairs = match embedded {
            Embedded::Pairs(_) => Vec::new(),
            Embedded::Texts(toy) => {
                let (_, texts) = toy.generate().into_iter().find(|(name, _)| *name == split).ok_or_else(unknown)?;
                let pair = |LabeledText { label, text }| {
                    if config.one_sided {
                        Pair { src: String::new(), tgt: text }
                    } else {
                        Pair { src: text, tgt: label }
                    }
                };
                texts.into_iter().map(pair).collect()
            }
            Embedded::Images(shapes) => {
                let [height, width] = config.image_size();
                pairs_of_images(&shapes.split(split).ok_or_else(unknown)?.resized(height, width))
            }
        };
        let source = Source::Embedded { name: format!("{name} {split}"), pairs: Arc::new(pairs) };
        let part = Part { source, weight: 1.0, alignments: None, is_text: config.one_sided };
        Ok(Self { parts: vec![part], ..Self::default() })
    }
}

/// Reads a folder with one folder per label, or MNIST's images; the labels of these are in a file with a similar name.
fn read_images(path: &Path, config: &DataConfig, missing: impl Fn() -> DataError) -> Result<ImageSet, DataError> {
    let ([height, width], limits) = (config.image_size(), ImageLimits::default());
    let channels = if config.grayscale { Channels::Gray } else { Channels::Rgb };
    if path.is_dir() {
        return read_folder(path, &FolderOptions { size: Some((height, width)), channels, limits }, None);
    }
    let images = plain_or_compressed(path).ok_or_else(&missing)?;
    let name =
        images.file_name().map(|name| name.to_string_lossy().replace("images", "labels").replace("idx3", "idx1"));
    let labels = name.map(|name| images.with_file_name(name)).filter(|labels| labels.is_file() && *labels != images);
    let problem = || {
        let problem = "it is not a folder, and there is no file of labels beside it, such as `train-labels-idx1-ubyte` \
                       for `train-images-idx3-ubyte`";
        DataError::Image { path: PathBuf::from(path), problem: problem.to_owned() }
    };
    let set = read_idx(&images, &labels.ok_or_else(problem)?, limits, None)?;
    if set.channels != channels.count() {
        let problem = format!(
            "it has {} channels, but `data.grayscale = {}` asks for {}",
            set.channels,
            config.grayscale,
            channels.count()
        );
        return Err(DataError::Image { path: images, problem });
    }
    Ok(set.resized(height, width))
}

fn pairs_of_images(set: &ImageSet) -> Vec<Pair> {
    let pair = |index| {
        let image = set.example(index);
        Pair { src: text_of_bytes(image.pixels), tgt: set.labels.names()[image.label as usize].clone() }
    };
    (0..set.len()).map(pair).collect()
}

/// Reads one image file, resized and converted as the configuration asks.
///
/// # Errors
/// [`DataError::Io`] if the file cannot be read, [`DataError::Image`] if it is not an image.
pub fn read_image(path: &Path, config: &DataConfig) -> Result<Vec<u8>, DataError> {
    let [height, width] = config.image_size();
    let channels = if config.grayscale { Channels::Gray } else { Channels::Rgb };
    let options = FolderOptions { size: Some((height, width)), channels, limits: ImageLimits::default() };
    crate::image_set::folder::read_file(path, &options)
}
