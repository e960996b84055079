//! Images in folders: the name of a folder is the label of the images in it.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use image::{DynamicImage, ImageFormat, ImageReader, Limits, imageops::FilterType};
use rayon::prelude::*;

use super::{ImageLimits, ImageSet};
use crate::error::DataError;
use crate::labeled::LabelSet;

const ENDINGS: [&str; 3] = ["png", "jpg", "jpeg"];
/// Images that are decoded at a time, which bounds the memory that they take in addition to the
/// set.
const CHUNK: usize = 256;

/// The size and the channels to which images are converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderOptions {
    /// Height and width to resize all images to; if `None`, all images must have the size of the
    /// first one.
    pub size: Option<(usize, usize)>,
    /// Channels to convert to; transparency is dropped.
    pub channels: Channels,
    /// Limits on the size of images.
    pub limits: ImageLimits,
}

/// The channels of a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channels {
    /// One byte of gray.
    Gray,
    /// Three bytes: red, green and blue.
    Rgb,
}

impl Channels {
    /// Number of channels, which are one byte each.
    pub const fn count(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::Rgb => 3,
        }
    }
}

/// Reads the PNG and JPEG files in the folders of `dir`, ordered by name. Other files, and names
/// that begin with a dot, are ignored.
///
/// The set of labels is `labels` if given, such as that of the training set, and otherwise the
/// names of the folders.
///
/// # Errors
/// [`DataError::Image`] if a file is not an image, or too large, or differs in size from the first
/// one; if the name of a folder is not in `labels`; if there is no image in `dir`, or more than the
/// limits allow. [`DataError::Io`].
pub fn read_folder(
    dir: &Path,
    options: &FolderOptions,
    labels: Option<&LabelSet>,
) -> Result<ImageSet, DataError> {
    let mut folders = entries(dir)?;
    folders.retain(|path| path.is_dir());
    let labels = match labels {
        Some(labels) => labels.clone(),
        None => LabelSet::new(folders.iter().map(|folder| name(folder))),
    };
    let mut files = Vec::new();
    for folder in &folders {
        let Some(label) = labels.id(&name(folder)) else {
            let problem = "its name is not a label of the training set";
            return Err(wrong(folder, problem.to_owned()));
        };
        let mut images = entries(folder)?;
        images.retain(|path| is_image(path));
        files.extend(images.into_iter().map(|path| (path, label)));
    }
    if files.is_empty() {
        return Err(wrong(
            dir,
            "there are no folders with PNG or JPEG files in it".to_owned(),
        ));
    }
    read_files(dir, &files, labels, options)
}

/// Reads one file, converted as [`read_folder`] does; with `options.size` of `None` it keeps its
/// own size.
///
/// # Errors
/// As [`read_folder`].
pub fn read_file(path: &Path, options: &FolderOptions) -> Result<Vec<u8>, DataError> {
    let image = decode(path, options.limits)?;
    let size = options.size.unwrap_or(size(&image));
    Ok(convert(image, size, options.channels))
}

/// Height and width of an image, in pixels.
fn size(image: &DynamicImage) -> (usize, usize) {
    (image.height() as usize, image.width() as usize)
}

/// Reads files, each with the id of its label.
fn read_files(
    dir: &Path,
    files: &[(PathBuf, u32)],
    labels: LabelSet,
    options: &FolderOptions,
) -> Result<ImageSet, DataError> {
    let limits = options.limits;
    // The first image gives the size of all if the options have none. It is decoded twice, so that
    // the memory is checked before it is taken.
    let first = &files[0].0;
    let first_size = size(&decode(first, limits)?);
    let (height, width) = options.size.unwrap_or(first_size);
    let channels = options.channels.count();
    let num_bytes = [height, width, channels]
        .into_iter()
        .try_fold(files.len(), usize::checked_mul);
    let Some(num_bytes) = num_bytes.filter(|count| (1..=limits.max_bytes).contains(count)) else {
        let num_images = files.len();
        let max_bytes = limits.max_bytes;
        let problem = format!(
            "{num_images} images of {width}x{height} pixels do not fit into 1 to {max_bytes} bytes"
        );
        return Err(wrong(dir, problem));
    };
    let mut pixels = Vec::with_capacity(num_bytes);
    for chunk in files.chunks(CHUNK) {
        let images = chunk.par_iter().map(|(path, _)| {
            let image = decode(path, limits)?;
            if options.size.is_none() && size(&image) != first_size {
                return Err(wrong(path, other_size(&image, first, first_size)));
            }
            Ok(convert(image, (height, width), options.channels))
        });
        for image in images.collect::<Result<Vec<_>, _>>()? {
            pixels.extend(image);
        }
    }
    let label_ids = files.iter().map(|(_, label)| *label).collect();
    Ok(ImageSet {
        height,
        width,
        channels,
        labels,
        pixels,
        label_ids,
    })
}

/// Says that an image differs in size from the first one.
fn other_size(image: &DynamicImage, first: &Path, (height, width): (usize, usize)) -> String {
    format!(
        "it has {}x{} pixels, and `{}` has {width}x{height}",
        image.width(),
        image.height(),
        first.display()
    )
}

/// Decodes a file. Its first bytes determine the format, not its name.
fn decode(path: &Path, limits: ImageLimits) -> Result<DynamicImage, DataError> {
    let file = BufReader::new(File::open(path).map_err(DataError::io(path))?);
    let mut reader = ImageReader::new(file)
        .with_guessed_format()
        .map_err(DataError::io(path))?;
    if !matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg)) {
        // Another crate in the same program may have enabled more formats of the `image` crate.
        return Err(wrong(
            path,
            "it is neither a PNG nor a JPEG file".to_owned(),
        ));
    }
    let mut decoding = Limits::default();
    decoding.max_image_width = Some(limits.max_side);
    decoding.max_image_height = Some(limits.max_side);
    reader.limits(decoding);
    reader
        .decode()
        .map_err(|error| wrong(path, error.to_string()))
}

/// Converts an image to a height and width, and to these channels.
fn convert(image: DynamicImage, (height, width): (usize, usize), channels: Channels) -> Vec<u8> {
    let image = if size(&image) == (height, width) {
        image
    } else {
        image.resize_exact(width as u32, height as u32, FilterType::Triangle)
    };
    match channels {
        Channels::Gray => image.into_luma8().into_raw(),
        Channels::Rgb => image.into_rgb8().into_raw(),
    }
}

/// The entries of a folder, ordered by name; file systems return them in any order.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(DataError::io(dir))? {
        let path = entry.map_err(DataError::io(dir))?.path();
        if !name(&path).starts_with('.') {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Whether a path is a file that is named as an image.
fn is_image(path: &Path) -> bool {
    let Some(extension) = path.extension() else {
        return false;
    };
    let is_known = ENDINGS
        .iter()
        .any(|ending| extension.eq_ignore_ascii_case(ending));
    is_known && path.is_file()
}

/// The last part of a path.
fn name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn wrong(path: &Path, problem: String) -> DataError {
    DataError::Image {
        path: path.to_owned(),
        problem,
    }
}
