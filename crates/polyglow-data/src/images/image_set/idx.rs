//! MNIST's IDX files: images and labels as arrays of bytes after a short header, plain or gzip.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{ImageLimits, ImageSet};
use crate::compression::decompress;
use crate::error::DataError;
use crate::labeled::LabelSet;

/// The type code of unsigned bytes, the only type that is read.
const BYTES: u8 = 8;
/// The axes of an array of images: image, row, column, and channel if there are colors.
const MOST_AXES: u8 = 4;

/// The array in a file.
struct Array {
    shape: Vec<usize>,
    values: Vec<u8>,
}

/// Reads images and their labels, such as `train-images-idx3-ubyte.gz` and
/// `train-labels-idx1-ubyte.gz`.
///
/// A file begins with two zero bytes, the type of its values (8 for bytes) and the number of axes.
/// The length of each axis follows as a big-endian 32-bit integer, and then the values. The names
/// of the labels are their numbers, padded with zeros to equal length. The set of labels is `known`
/// if given, such as that of the training set.
///
/// # Errors
/// [`DataError::Image`] if a header is wrong, the length differs from it, a limit is exceeded, or a
/// label is not in `known`; [`DataError::Io`].
pub fn read_idx(
    images: &Path,
    labels: &Path,
    limits: ImageLimits,
    known: Option<&LabelSet>,
) -> Result<ImageSet, DataError> {
    let Array {
        shape,
        values: pixels,
    } = read(images, limits)?;
    let [count, height, width, channels] =
        image_axes(&shape, limits).map_err(|problem| wrong(images, problem))?;
    let Array { shape, values } = read(labels, limits)?;
    if *shape != [count] {
        return Err(wrong(
            labels,
            format!("its axes {shape:?} do not give one label for each of {count} images"),
        ));
    }
    let largest = values.iter().max().copied();
    let names = label_names(largest, known);
    let label_set = match (known, largest) {
        (Some(known), _) => known.clone(),
        (None, Some(largest)) => LabelSet::new(names[..=usize::from(largest)].to_vec()),
        (None, None) => LabelSet::new(Vec::new()),
    };
    let label_ids = label_ids(&values, &names, &label_set, labels)?;
    Ok(ImageSet {
        height,
        width,
        channels,
        labels: label_set,
        pixels,
        label_ids,
    })
}

/// Returns the number of images, their height and width, and the number of channels; or what is
/// wrong with the shape of the array.
fn image_axes(shape: &[usize], limits: ImageLimits) -> Result<[usize; 4], String> {
    let [count, height, width, channels] = match *shape {
        [count, height, width] => [count, height, width, 1],
        [count, height, width, channels @ (1 | 3)] => [count, height, width, channels],
        _ => {
            return Err(format!(
                "its axes {shape:?} are not images, rows, columns, and perhaps 3 colors"
            ));
        }
    };
    let sides = 1..=limits.max_side as usize;
    if !sides.contains(&height) || !sides.contains(&width) {
        return Err(format!(
            "width and height must be 1 to {} pixels, not {width}x{height}",
            limits.max_side
        ));
    }
    Ok([count, height, width, channels])
}

/// The names of the labels 0 to 255, with as many digits as those that are known, or else as the
/// largest label: names of equal length sort as the numbers do.
fn label_names(largest: Option<u8>, known: Option<&LabelSet>) -> Vec<String> {
    let digits = match (known, largest) {
        (Some(known), _) => known.names().first().map_or(1, String::len),
        (None, Some(largest)) => largest.to_string().len(),
        (None, None) => 1,
    };
    (0..=u8::MAX)
        .map(|value| format!("{value:0digits$}"))
        .collect()
}

/// Returns the id in `labels` of each label of the file `path`; `names` are those of all values.
fn label_ids(
    values: &[u8],
    names: &[String],
    labels: &LabelSet,
    path: &Path,
) -> Result<Vec<u32>, DataError> {
    let id_of_value: Vec<Option<u32>> = names.iter().map(|name| labels.id(name)).collect();
    let mut ids = Vec::with_capacity(values.len());
    for (image, &value) in (1..).zip(values) {
        let Some(id) = id_of_value[usize::from(value)] else {
            return Err(wrong(
                path,
                format!("label {value} of image {image} is not one of the training set"),
            ));
        };
        ids.push(id);
    }
    Ok(ids)
}

/// Reads four bytes of the header of the file `path`.
fn read_four(reader: &mut impl Read, path: &Path) -> Result<[u8; 4], DataError> {
    let mut bytes = [0; 4];
    reader
        .read_exact(&mut bytes)
        .map_err(|_| wrong(path, "it ends inside its header".to_owned()))?;
    Ok(bytes)
}

/// Reads the lengths of the axes from the header of the file `path`.
fn read_shape(reader: &mut impl Read, path: &Path) -> Result<Vec<usize>, DataError> {
    let num_axes = match read_four(reader, path)? {
        [0, 0, BYTES, axes @ 1..=MOST_AXES] => axes,
        [0, 0, code, 1..=MOST_AXES] => {
            return Err(wrong(
                path,
                format!("its values are not bytes but of type {code}"),
            ));
        }
        bytes => {
            return Err(wrong(
                path,
                format!(
                    "it begins with {bytes:?}, so it is not an IDX file of 1 to {MOST_AXES} axes"
                ),
            ));
        }
    };
    let mut shape = Vec::new();
    for _ in 0..num_axes {
        shape.push(u32::from_be_bytes(read_four(reader, path)?) as usize);
    }
    Ok(shape)
}

/// Reads the whole array of the file `path`.
fn read(path: &Path, limits: ImageLimits) -> Result<Array, DataError> {
    let mut reader = decompress(File::open(path).map_err(DataError::io(path))?, path)?;
    let shape = read_shape(&mut reader, path)?;
    let len = shape
        .iter()
        .copied()
        .try_fold(1, usize::checked_mul)
        .filter(|&len| len <= limits.max_bytes);
    let Some(len) = len else {
        return Err(wrong(
            path,
            format!(
                "its axes {shape:?} have more than {} values",
                limits.max_bytes
            ),
        ));
    };
    // Memory is not allocated by the length in the header, which may be wrong, but grows with the
    // values that are read. One byte more than expected shows that the file is too long.
    let mut values = Vec::new();
    reader
        .take(len as u64 + 1)
        .read_to_end(&mut values)
        .map_err(DataError::io(path))?;
    if values.len() != len {
        let than = if values.len() < len { "fewer" } else { "more" };
        return Err(wrong(
            path,
            format!("it has {than} values than the {len} of its axes {shape:?}"),
        ));
    }
    Ok(Array { shape, values })
}

fn wrong(path: &Path, problem: String) -> DataError {
    DataError::Image {
        path: path.to_owned(),
        problem,
    }
}
