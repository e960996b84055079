//! Any bytes as the files of a model of Hugging Face: an error, or a model.

#![no_main]

use std::sync::LazyLock;
use std::{fs, panic};

use burn::tensor::Device;
use libfuzzer_sys::fuzz_target;
use polyglow_formats::import;
use polyglow_fuzz::parts;
use tempfile::TempDir;

static DIR: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary directory"));

fuzz_target!(
    // The tokenizers' library panics on some pieces, which our boundary is there to catch: it is
    // listed instead.
    init: panic::set_hook(Box::new(|info| eprintln!("caught: {info}"))),
    |input: &[u8]| {
    let [config, vocabulary, source, target, weights] = parts(input);
    // What PyTorch saves is a zip archive, or begins with the version of its pickle.
    let is_pickle = weights.starts_with(b"PK") || weights.starts_with(b"\x80");
    let (name, other) = ("model.safetensors", "pytorch_model.bin");
    let (name, other) = if is_pickle { (other, name) } else { (name, other) };
    let _ = fs::remove_file(DIR.path().join(other));
    let files = [
        ("config.json", config),
        ("vocab.json", vocabulary),
        ("source.spm", source),
        ("target.spm", target),
        (name, weights),
    ];
    for (name, content) in files {
        fs::write(DIR.path().join(name), content).expect("it can be written");
    }
    if let Ok(model) = import(DIR.path()) {
        let _ = model.runner(&Device::flex());
    }
    }
);
