//! Any bytes as MNIST's two files, images and labels, plain or gzip: an error, or as many images as
//! labels, which are the same with the labels of the set known.

#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use polyglow_data::image_set::ImageLimits;
use polyglow_data::image_set::idx::read_idx;
use polyglow_fuzz::parts;
use tempfile::TempDir;

static DIR: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary directory"));

/// Small, because compressed zeros may be a thousand times as long as the input.
const LIMITS: ImageLimits = ImageLimits {
    max_side: 1024,
    max_bytes: 1 << 20,
};

fuzz_target!(|input: &[u8]| {
    let [image_bytes, label_bytes] = parts(input);
    let images = DIR.path().join("images");
    let labels = DIR.path().join("labels");
    fs::write(&images, image_bytes).expect("it can be written");
    fs::write(&labels, label_bytes).expect("it can be written");
    let Ok(set) = read_idx(&images, &labels, LIMITS, None) else {
        return;
    };
    let bytes_per_image = set.height * set.width * set.channels;
    assert_eq!(set.pixels.len(), set.len() * bytes_per_image);
    let num_labels = set.labels.names().len();
    assert!(
        set.label_ids
            .iter()
            .all(|&label| (label as usize) < num_labels)
    );
    let again = read_idx(&images, &labels, LIMITS, Some(&set.labels)).expect("it was read before");
    assert_eq!(set, again);
});
