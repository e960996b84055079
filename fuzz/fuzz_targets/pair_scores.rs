//! Any bytes as the scores of three pairs from another program: an error, or three numbers that can
//! be compared.

#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use polyglow_data::pair_scores::read_pair_scores;
use tempfile::TempDir;

static DIR: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary directory"));

fuzz_target!(|input: &[u8]| {
    let path = DIR.path().join("scores");
    fs::write(&path, input).expect("it can be written");
    if let Ok(scores) = read_pair_scores("--scores", &path, 3) {
        assert_eq!(scores.len(), 3);
        assert!(scores.iter().all(|score| !score.is_nan()));
    }
});
