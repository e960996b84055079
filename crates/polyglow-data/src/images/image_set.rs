//! Labeled images as bytes: from folders of PNG and JPEG files, from MNIST's files, or generated
//! ([`crate::toy::shapes`]).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::imageops::{FilterType, resize};
use image::{ExtendedColorType, ImageBuffer, Luma, Pixel, Rgb};
use rayon::prelude::*;

use crate::error::DataError;
use crate::labeled::LabelSet;
use crate::random::Purpose;
use crate::toy::write_picture;

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
        Self {
            max_side: 8192,
            max_bytes: 8 << 30,
        }
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

    /// Returns the image at `index`.
    ///
    /// # Panics
    /// If `index` is not less than [`ImageSet::len`].
    pub fn example(&self, index: usize) -> ImageExample<'_> {
        let bytes = self.height * self.width * self.channels;
        ImageExample {
            pixels: &self.pixels[index * bytes..(index + 1) * bytes],
            label: self.label_ids[index],
        }
    }

    /// Joins the images of several sets, one set after the other; the labels are those of all. A
    /// single set is shared.
    ///
    /// # Panics
    /// If there is no set, or if the sizes differ.
    #[must_use]
    pub fn join(sets: &[Arc<Self>]) -> Arc<Self> {
        if let [only] = sets {
            return Arc::clone(only);
        }
        let Self {
            height,
            width,
            channels,
            ..
        } = *sets[0];
        assert!(
            sets.iter()
                .all(|set| (set.height, set.width, set.channels) == (height, width, channels))
        );
        let labels = LabelSet::new(
            sets.iter()
                .flat_map(|set| set.labels.names().iter().cloned()),
        );
        let mut pixels = Vec::with_capacity(sets.iter().map(|set| set.pixels.len()).sum());
        let mut label_ids = Vec::with_capacity(sets.iter().map(|set| set.len()).sum());
        for set in sets {
            pixels.extend_from_slice(&set.pixels);
            // The new id of each label of this set.
            let mut ids = Vec::new();
            for name in set.labels.names() {
                ids.push(labels.id(name).expect("the set has the labels of all"));
            }
            label_ids.extend(set.label_ids.iter().map(|&label| ids[label as usize]));
        }
        Arc::new(Self {
            height,
            width,
            channels,
            labels,
            pixels,
            label_ids,
        })
    }

    /// Keeps the first `count` images, or all if there are fewer.
    #[must_use]
    pub fn first(mut self, count: usize) -> Self {
        self.label_ids.truncate(count);
        self.pixels
            .truncate(self.label_ids.len() * self.height * self.width * self.channels);
        self
    }

    /// Returns the images at some indices, in that order, with all labels.
    ///
    /// # Panics
    /// If an index is not less than [`ImageSet::len`].
    #[must_use]
    pub fn select(&self, indices: &[usize]) -> Self {
        let examples: Vec<ImageExample> =
            indices.iter().map(|&index| self.example(index)).collect();
        Self {
            labels: self.labels.clone(),
            pixels: examples
                .iter()
                .flat_map(|example| example.pixels)
                .copied()
                .collect(),
            label_ids: examples.iter().map(|example| example.label).collect(),
            ..*self
        }
    }

    /// Writes the images into `dir` as PNG files, `<label>/<number>.png`, the layout that
    /// [`folder::read_folder`] reads.
    ///
    /// # Errors
    /// [`DataError::Io`] if a folder or a file cannot be written; [`DataError::Occupied`] if a file
    /// exists with other content.
    pub fn write(&self, dir: &Path) -> Result<(), DataError> {
        let names = self.labels.names().iter();
        let folders: Vec<PathBuf> = names.map(|label| dir.join(label)).collect();
        for folder in &folders {
            fs::create_dir_all(folder).map_err(DataError::io(folder))?;
        }
        let color = if self.channels == 1 {
            ExtendedColorType::L8
        } else {
            ExtendedColorType::Rgb8
        };
        (0..self.len()).into_par_iter().try_for_each(|index| {
            let ImageExample { pixels, label } = self.example(index);
            let path = folders[label as usize].join(format!("{index:05}.png"));
            write_picture(&path, pixels, (self.height, self.width), color)
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
            1 => images
                .flat_map(|pixels| resize_one::<Luma<u8>>(pixels, from, (height, width)))
                .collect(),
            3 => images
                .flat_map(|pixels| resize_one::<Rgb<u8>>(pixels, from, (height, width)))
                .collect(),
            channels => panic!("images have 1 or 3 channels, not {channels}"),
        };
        Self {
            height,
            width,
            pixels,
            ..self
        }
    }
}

/// Resizes one image with a triangle filter, which averages over all pixels when it shrinks. Sizes
/// are (height, width).
pub(crate) fn resize_one<P: Pixel<Subpixel = u8> + 'static>(
    pixels: &[u8],
    (height, width): (usize, usize),
    to: (usize, usize),
) -> Vec<u8> {
    let image: ImageBuffer<P, &[u8]> = ImageBuffer::from_raw(width as u32, height as u32, pixels)
        .expect("an image of a set has as many bytes as its size asks for");
    resize(&image, to.1 as u32, to.0 as u32, FilterType::Triangle).into_raw()
}

/// Mirrors an image in one of four ways, and if it is as high as wide also along its diagonal: so
/// there are all quarter turns and their mirror images. The choice is a pure function of `key`.
pub fn turn(pixels: &[u8], [height, width, channels]: [usize; 3], key: u64) -> Vec<u8> {
    let bits = Purpose::Turn.mix(&[key]);
    let upside_down = bits & 1 != 0;
    let mirrored = bits & 2 != 0;
    let transposed = height == width && bits & 4 != 0;
    let mut turned = Vec::with_capacity(pixels.len());
    // Each pixel of the result is copied from the image, so that nothing is interpolated.
    for index in 0..height * width {
        // The row and the column from which this pixel of the result comes.
        let mut row = index / width;
        let mut column = index % width;
        if transposed {
            std::mem::swap(&mut row, &mut column);
        }
        if upside_down {
            row = height - 1 - row;
        }
        if mirrored {
            column = width - 1 - column;
        }
        let start = (row * width + column) * channels;
        turned.extend_from_slice(&pixels[start..start + channels]);
    }
    turned
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_square_is_turned_in_eight_ways_and_any_other_image_in_four() {
        let pixels: Vec<u8> = (0..12).collect();
        let turned = |shape: [usize; 3]| -> BTreeSet<Vec<u8>> {
            let pixels = &pixels[..shape.iter().product()];
            (0..200).map(|key| turn(pixels, shape, key)).collect()
        };
        let ways = turned([2, 2, 3]);
        assert_eq!(ways.len(), 8);
        // By hand: a quarter turn to the right, and the mirror image along the diagonal.
        assert!(ways.contains(&vec![6, 7, 8, 0, 1, 2, 9, 10, 11, 3, 4, 5]));
        assert!(ways.contains(&vec![0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11]));
        assert_eq!(turned([2, 3, 2]).len(), 4);
        assert!(turned([2, 3, 2]).contains(&vec![4, 5, 2, 3, 0, 1, 10, 11, 8, 9, 6, 7]));
    }
}
