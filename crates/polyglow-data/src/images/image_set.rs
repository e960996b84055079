//! Labeled images as bytes: from folders of PNG and JPEG files, from MNIST's files, or generated
//! ([`crate::toy::shapes`]).

use std::fs;
use std::path::{Path, PathBuf};

use image::imageops::{FilterType, resize};
use image::{ExtendedColorType, ImageBuffer, Luma, Pixel, Rgb};
use rayon::prelude::*;

use crate::error::DataError;
use crate::labeled::LabelSet;

pub mod folder;
pub mod idx;

/// Labeled images of the same size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSet {
    /// Height in pixels.
    pub height: usize,
    /// Width in pixels.
    pub width: usize,
    /// Channels, one byte each: 1 for gray, 3 for red, green and blue.
    pub channels: usize,
    /// All labels of the set.
    pub labels: LabelSet,
    /// All images, `[images, height, width, channels]`, row-major.
    pub pixels: Vec<u8>,
    /// For each image, the id of its label in `labels`.
    pub label_ids: Vec<u32>,
}

/// One image of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageExample<'a> {
    /// `[height, width, channels]`, row-major.
    pub pixels: &'a [u8],
    /// The id of its label in [`ImageSet::labels`].
    pub label: u32,
}

/// Limits on the size of images, so that a wrong file cannot exhaust the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// Maximum height and width, in pixels.
    pub max_side: u32,
    /// Maximum size of a whole set in memory, in bytes.
    pub max_bytes: usize,
}

impl Default for ImageLimits {
    /// 8192 pixels and 8 GiB.
    fn default() -> Self {
        Self { max_side: 8192, max_bytes: 8 << 30 }
    }
}

impl ImageSet {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.label_ids.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.label_ids.is_empty()
    }

    /// The image at `index`.
    ///
    /// # Panics
    /// If `index` is not less than [`ImageSet::len`].
    pub fn example(&self, index: usize) -> ImageExample<'_> {
        let bytes = self.height * self.width * self.channels;
        ImageExample { pixels: &self.pixels[index * bytes..(index + 1) * bytes], label: self.label_ids[index] }
    }

    /// Writes the images into `dir` as PNG files, `<label>/<number>.png`, where [`folder::read_folder`] finds them.
    ///
    /// # Errors
    /// [`DataError::Io`] if a folder cannot be created, [`DataError::Image`] if an image cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), DataError> {
        let folders: Vec<PathBuf> = self.labels.names().iter().map(|label| dir.join(label)).collect();
        folders.iter().try_for_each(|folder| fs::create_dir_all(folder).map_err(DataError::io(folder)))?;
        let color = if self.channels == 1 { ExtendedColorType::L8 } else { ExtendedColorType::Rgb8 };
        (0..self.len()).into_par_iter().try_for_each(|index| {
            let ImageExample { pixels, label } = self.example(index);
            let path = folders[label as usize].join(format!("{index:05}.png"));
            image::save_buffer(&path, pixels, self.width as u32, self.height as u32, color)
                .map_err(|error| DataError::Image { path, problem: error.to_string() })
        })
    }

    /// Resizes all images. Their proportions are not kept.
    ///
    /// # Panics
    /// If a side is 0, or the images have neither 1 nor 3 channels.
    #[must_use]
    pub fn resized(self, height: usize, width: usize) -> Self {
        if (height, width) == (self.height, self.width) {
            return self;
        }
        let from = (self.height, self.width);
        let images = (0..self.len()).map(|index| self.example(index).pixels);
        let pixels = match self.channels {
            1 => images.flat_map(|pixels| resize_one::<Luma<u8>>(pixels, from, (height, width))).collect(),
            3 => images.flat_map(|pixels| resize_one::<Rgb<u8>>(pixels, from, (height, width))).collect(),
            channels => panic!("images have 1 or 3 channels, not {channels}"),
        };
        Self { height, width, pixels, ..self }
    }
}

/// Resizes one image with a triangle filter, which averages over all pixels when it shrinks. Sizes are (height, width).
fn resize_one<P: Pixel<Subpixel = u8> + 'static>(
    pixels: &[u8],
    (height, width): (usize, usize),
    to: (usize, usize),
) -> Vec<u8> {
    let image: ImageBuffer<P, &[u8]> = ImageBuffer::from_raw(width as u32, height as u32, pixels)
        .expect("an image of a set has as many bytes as its size asks for");
    resize(&image, to.1 as u32, to.0 as u32, FilterType::Triangle).into_raw()
}
