//! Any bytes as a translation memory, plain, gzip or zstd, in any encoding; or as an archive in Moses
//! format: an error, or pairs of single lines.

#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_fuzz::parts;
use tempfile::TempDir;

static DIR: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary directory"));

/// The most pairs that are read: compressed text may be a thousand times as long as the input.
const PAIRS: usize = 10_000;

fuzz_target!(|input: &[u8]| {
    let [form, text] = parts(input);
    let name = match form {
        b"zip" => "text.zip",
        _ => "text.tmx",
    };
    let path = DIR.path().join(name);
    fs::write(&path, text).expect("it can be written");
    let config = DataConfig {
        train: Some(TrainFiles::One(path)),
        src: Some("en".to_owned()),
        tgt: Some("de".to_owned()),
        ..DataConfig::default()
    };
    let Ok(corpus) = Corpus::open(&config, Content::PAIRS, Split::Train) else {
        return;
    };
    for pair in corpus.pairs().take(PAIRS) {
        // As all callers do, the first error ends the file.
        let Ok(pair) = pair else { return };
        assert!(!pair.src.contains('\n') && !pair.tgt.contains('\n'));
    }
});
