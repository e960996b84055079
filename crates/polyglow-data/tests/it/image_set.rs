//! Images from folders and from MNIST's files.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::{Compression, write::GzEncoder};
use image::{DynamicImage, GrayImage, ImageFormat, RgbImage};
use polyglow_data::error::DataError;
use polyglow_data::image_set::folder::{Channels, FolderOptions, read_folder};
use polyglow_data::image_set::idx::read_idx;
use polyglow_data::image_set::{ImageLimits, ImageSet};
use polyglow_data::random::{below, mix};
use tempfile::TempDir;

const LIMITS: ImageLimits = ImageLimits {
    max_side: 64,
    max_bytes: 10_000,
};
const RGB: FolderOptions = FolderOptions {
    size: None,
    channels: Channels::Rgb,
    limits: LIMITS,
};

fn red(width: u32, height: u32) -> DynamicImage {
    RgbImage::from_pixel(width, height, image::Rgb([250, 10, 0])).into()
}

fn gray(width: u32, height: u32) -> DynamicImage {
    GrayImage::from_fn(width, height, |column, row| {
        image::Luma([(row * width + column) as u8])
    })
    .into()
}

/// Two classes: a red PNG and a red JPEG, and a gray PNG; and files that are none.
fn folders() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, image) in [
        ("red/b.png", red(4, 3)),
        ("red/a.JPEG", red(4, 3)),
        ("gray/x.png", gray(4, 3)),
    ] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let format = if name.ends_with("png") {
            ImageFormat::Png
        } else {
            ImageFormat::Jpeg
        };
        image.save_with_format(path, format).unwrap();
    }
    fs::create_dir(dir.path().join(".hidden")).unwrap();
    for name in ["readme.txt", "red/Thumbs.db", "red/.x.png"] {
        fs::write(dir.path().join(name), "no image").unwrap();
    }
    dir
}

#[test]
fn folders_are_labels_and_files_are_ordered_by_name() {
    let dir = folders();
    let set = read_folder(dir.path(), &RGB, None).unwrap();
    assert_eq!(
        (set.height, set.width, set.channels, set.len()),
        (3, 4, 3, 3)
    );
    assert_eq!(set.labels.names(), ["gray", "red"]);
    assert_eq!(set.label_ids, [0, 1, 1]);
    assert_eq!(&set.example(0).pixels[..6], [0, 0, 0, 1, 1, 1]);
    assert_eq!(set.example(2).pixels, [250, 10, 0].repeat(12));
    assert_eq!(set.example(2).label, 1);
    // JPEG loses a little.
    let near = |(&actual, expected): (&u8, u8)| actual.abs_diff(expected) < 8;
    assert!(
        set.example(1)
            .pixels
            .iter()
            .zip([250, 10, 0].repeat(12))
            .all(near)
    );
    let gray = read_folder(
        dir.path(),
        &FolderOptions {
            channels: Channels::Gray,
            ..RGB
        },
        None,
    )
    .unwrap();
    assert_eq!(gray.example(0).pixels, (0..12).collect::<Vec<u8>>());
}

#[test]
fn images_of_other_sizes_are_resized_only_on_request() {
    let dir = folders();
    let odd = dir.path().join("red/c.png");
    red(6, 6).save(&odd).unwrap();
    let error = read_folder(dir.path(), &RGB, None).unwrap_err().to_string();
    assert!(
        error.contains("c.png`: it has 6x6 pixels, and `") && error.ends_with("x.png` has 4x3"),
        "{error}"
    );
    let set = read_folder(
        dir.path(),
        &FolderOptions {
            size: Some((2, 5)),
            ..RGB
        },
        None,
    )
    .unwrap();
    assert_eq!((set.height, set.width, set.len()), (2, 5, 4));
    assert_eq!(set.example(3).pixels, [250, 10, 0].repeat(10));
}

#[test]
fn another_set_has_the_labels_of_the_first() {
    let dir = folders();
    let labels = read_folder(dir.path(), &RGB, None).unwrap().labels;
    fs::remove_dir_all(dir.path().join("gray")).unwrap();
    let set = read_folder(dir.path(), &RGB, Some(&labels)).unwrap();
    assert_eq!((set.label_ids, &set.labels), (vec![1, 1], &labels));
    fs::rename(dir.path().join("red"), dir.path().join("blue")).unwrap();
    let error = read_folder(dir.path(), &RGB, Some(&labels))
        .unwrap_err()
        .to_string();
    assert!(error.contains("blue`: its name is not a label"), "{error}");
}

#[test]
fn wrong_folders_are_errors_that_name_the_file() {
    let error = |change: &dyn Fn(&Path), options: &FolderOptions| {
        let dir = folders();
        change(dir.path());
        // As on systems with `/` between directories.
        read_folder(dir.path(), options, None)
            .unwrap_err()
            .to_string()
            .replace('\\', "/")
    };
    let text = error(
        &|dir| fs::write(dir.join("red/c.png"), "no image").unwrap(),
        &RGB,
    );
    assert!(
        text.ends_with("red/c.png`: it is neither a PNG nor a JPEG file"),
        "{text}"
    );
    let huge = error(&|dir| red(65, 1).save(dir.join("red/c.png")).unwrap(), &RGB);
    assert!(
        huge.contains("red/c.png`: ") && huge.to_lowercase().contains("limit"),
        "{huge}"
    );
    let small = ImageLimits {
        max_bytes: 107,
        ..LIMITS
    };
    let many = error(
        &|_| {},
        &FolderOptions {
            limits: small,
            ..RGB
        },
    );
    assert!(
        many.ends_with("3 images of 4x3 pixels do not fit into 1 to 107 bytes"),
        "{many}"
    );
    let none = error(
        &|dir| {
            for name in ["red", "gray"] {
                fs::remove_dir_all(dir.join(name)).unwrap();
            }
        },
        &RGB,
    );
    assert!(
        none.contains("there are no folders with PNG or JPEG files"),
        "{none}"
    );
    let zero = error(
        &|_| {},
        &FolderOptions {
            size: Some((0, 4)),
            ..RGB
        },
    );
    assert!(zero.contains("4x0 pixels do not fit"), "{zero}");
}

#[test]
fn damaged_images_never_panic() {
    let dir = folders();
    let path = dir.path().join("red/b.png");
    for name in ["red/b.png", "red/a.JPEG"] {
        let bytes = fs::read(dir.path().join(name)).unwrap();
        for number in 0..600 {
            let mut damaged = bytes.clone();
            for change in 0..=number % 3 {
                let index = below(mix(&[number, change, 1]), bytes.len() as u64) as usize;
                damaged[index] = mix(&[number, change, 2]) as u8;
            }
            damaged.truncate(if number % 5 == 0 {
                number as usize % bytes.len()
            } else {
                bytes.len()
            });
            fs::write(&path, damaged).unwrap();
            // Some damage goes unnoticed; what matters is that this returns.
            if let Err(error) = read_folder(dir.path(), &RGB, None) {
                assert!(matches!(error, DataError::Image { .. }), "{error}");
            }
        }
    }
}

fn idx(code: u8, shape: &[u32], values: &[u8]) -> Vec<u8> {
    let lens: Vec<u8> = shape.iter().flat_map(|len| len.to_be_bytes()).collect();
    [&[0, 0, code, shape.len() as u8], &*lens, values].concat()
}

struct Idx {
    _dir: TempDir,
    images: PathBuf,
    labels: PathBuf,
}

fn write(images: &[u8], labels: &[u8]) -> Idx {
    let dir = tempfile::tempdir().unwrap();
    let [image_path, label_path] = ["images", "labels"].map(|name| dir.path().join(name));
    fs::write(&image_path, images).unwrap();
    fs::write(&label_path, labels).unwrap();
    Idx {
        _dir: dir,
        images: image_path,
        labels: label_path,
    }
}

fn read(images: &[u8], labels: &[u8]) -> Result<ImageSet, DataError> {
    let files = write(images, labels);
    read_idx(&files.images, &files.labels, LIMITS, None)
}

#[test]
fn images_and_labels_are_read_plain_and_compressed() {
    let (images, labels) = (
        idx(8, &[2, 2, 3], &(0..12).collect::<Vec<_>>()),
        idx(8, &[2], &[2, 0]),
    );
    let set = read(&images, &labels).unwrap();
    assert_eq!(
        (set.len(), set.height, set.width, set.channels),
        (2, 2, 3, 1)
    );
    assert_eq!(set.example(1).pixels, [6, 7, 8, 9, 10, 11]);
    assert_eq!(
        (set.label_ids.clone(), set.labels.names().len()),
        (vec![2, 0], 3)
    );
    let gzip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(read(&gzip(&images), &gzip(&labels)).unwrap(), set);
    let colored = read(&idx(8, &[1, 1, 2, 3], &[1; 6]), &idx(8, &[1], &[0])).unwrap();
    assert_eq!((colored.width, colored.channels), (2, 3));
    assert_eq!(colored.resized(2, 4).pixels, [1; 24]);
}

#[test]
fn labels_keep_the_order_of_their_numbers() {
    let set = read(&idx(8, &[3, 1, 1], &[0; 3]), &idx(8, &[3], &[11, 2, 10])).unwrap();
    assert_eq!(set.label_ids, [11, 2, 10]);
    assert_eq!(set.labels.names()[2], "02");
    let files = write(&idx(8, &[1, 1, 1], &[0]), &idx(8, &[1], &[3]));
    let known = read_idx(&files.images, &files.labels, LIMITS, Some(&set.labels)).unwrap();
    assert_eq!(
        (known.label_ids, known.labels),
        (vec![3], set.labels.clone())
    );
    let files = write(&idx(8, &[1, 1, 1], &[0]), &idx(8, &[1], &[12]));
    let error = read_idx(&files.images, &files.labels, LIMITS, Some(&set.labels))
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("labels`: label 12 of image 1 is not one of the training set"),
        "{error}"
    );
}

#[test]
fn wrong_idx_files_are_errors_that_say_what_is_wrong() {
    let labels = idx(8, &[1], &[0]);
    for (images, problem) in [
        (vec![0, 0, 8], "images`: it ends inside its header"),
        (
            idx(8, &[1, 1], &[0])[..6].to_vec(),
            "it ends inside its header",
        ),
        (b"\x89PNG".to_vec(), "is not an IDX file of 1 to 4 axes"),
        (
            idx(13, &[1, 1, 1], &[0; 4]),
            "its values are not bytes but of type 13",
        ),
        (idx(8, &[1, 1], &[0]), "its axes [1, 1] are not images"),
        (
            idx(8, &[1, 2, 2], &[0; 3]),
            "it has fewer values than the 4 of its axes [1, 2, 2]",
        ),
        (idx(8, &[1, 2, 2], &[0; 5]), "it has more values than the 4"),
        (
            idx(8, &[u32::MAX; 3], &[0; 5]),
            "have more than 10000 values",
        ),
        (
            idx(8, &[1, 65, 1], &[0; 65]),
            "width and height must be 1 to 64 pixels, not 1x65",
        ),
        (
            idx(8, &[1, 0, 1], &[]),
            "width and height must be 1 to 64 pixels, not 1x0",
        ),
        (
            idx(8, &[2, 1, 1], &[0; 2]),
            "labels`: its axes [1] do not give one label for each of 2 images",
        ),
    ] {
        let error = read(&images, &labels).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}, not {problem}");
    }
    assert_eq!(
        read(&idx(8, &[0, 1, 1], &[]), &idx(8, &[0], &[]))
            .unwrap()
            .len(),
        0
    );
}
