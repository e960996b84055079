//! Any bytes as the files of a model of CTranslate2: an error, or a model.

#![no_main]

use std::fs;
use std::sync::LazyLock;

use burn::tensor::Device;
use libfuzzer_sys::fuzz_target;
use polyglow_formats::import;
use polyglow_fuzz::parts;
use tempfile::TempDir;

static DIR: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary directory"));

fuzz_target!(|input: &[u8]| {
    let names = [
        "config.json",
        "source_vocabulary.json",
        "target_vocabulary.json",
        "model.bin",
    ];
    for (name, content) in names.into_iter().zip(parts::<4>(input)) {
        fs::write(DIR.path().join(name), content).expect("it can be written");
    }
    if let Ok(model) = import(DIR.path()) {
        let _ = model.runner(&Device::flex());
    }
});
