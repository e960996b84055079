//! Any bytes as the `metrics.jsonl` of a run that goes on: what stays are whole records up to the
//! step.

#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use polyglow_train::run::RunDirectory;
use polyglow_train::run::records::{self, Records};
use tempfile::TempDir;

static DIR: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary directory"));

/// The step that the run stands after.
const STEP: u64 = 100;

fuzz_target!(|bytes: &[u8]| {
    let run = RunDirectory::new(DIR.path());
    let path = run.metrics_path();
    fs::write(&path, bytes).expect("it can be written");
    let _ = records::read(&path);
    Records::open(&run, STEP, false).expect("it can be opened");
    let kept = records::read(&path).expect("what stays is text");
    assert!(
        kept.iter()
            .all(|record| record["step"].as_u64().is_some_and(|of| of <= STEP))
    );
});
