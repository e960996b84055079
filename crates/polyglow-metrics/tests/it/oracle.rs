//! Random Unicode text, scored by sacreBLEU itself. `.ci/run` runs these tests; to run them by
//! hand:
//!
//! ```text
//! pip install sacrebleu==2.6.0 'numpy>=2'
//! POLYGLOW_PYTHON=python3 cargo test --workspace --test it -- --ignored sacrebleu
//! ```

use std::path::Path;
use std::process::Command;

use serde::de::DeserializeOwned;

use crate::golden::Golden;
use crate::significance::GoldenTests;

/// The output of `scripts/golden-metrics.py`, run by the Python that `POLYGLOW_PYTHON` names.
fn ask_sacrebleu<T: DeserializeOwned>(option: &str, seed: u64, lines: usize) -> T {
    let python =
        std::env::var("POLYGLOW_PYTHON").expect("POLYGLOW_PYTHON names a Python with sacreBLEU");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/golden-metrics.py");
    let mut command = Command::new(python);
    command
        .arg(script)
        .arg(option)
        .arg(seed.to_string())
        .arg(lines.to_string());
    let run = command.output().expect("POLYGLOW_PYTHON can be run");
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    serde_json::from_slice(&run.stdout).expect("the script prints JSON")
}

#[test]
#[ignore = "needs sacreBLEU"]
fn random_text_scores_as_in_sacrebleu() {
    for seed in 100..102 {
        ask_sacrebleu::<Golden>("--random", seed, 150).check(&format!("random text {seed}"));
    }
}

#[test]
#[ignore = "needs sacreBLEU"]
fn random_systems_compare_as_in_sacrebleu() {
    for seed in 200..203 {
        ask_sacrebleu::<GoldenTests>("--random-significance", seed, 150)
            .check(&format!("random systems {seed}"));
    }
}
