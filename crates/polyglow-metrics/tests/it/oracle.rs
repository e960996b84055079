//! Random Unicode text, scored by sacreBLEU itself where `python3` has it.

use std::path::Path;
use std::process::Command;

use serde::de::DeserializeOwned;

use crate::golden::Golden;
use crate::significance::GoldenTests;

/// Runs `scripts/golden-metrics.py`, or returns `None` and says so where Python lacks what it needs.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn ask_sacrebleu<T: DeserializeOwned>(option: &str, seed: u64, lines: usize) -> Option<T> {
    let check = "import sacrebleu, numpy; assert sacrebleu.__version__ == '2.6.0' and numpy.__version__ >= '2'";
    let found = Command::new("python3").args(["-c", check]).output();
    if !found.is_ok_and(|run| run.status.success()) {
        eprintln!("skipped: python3 has no sacrebleu 2.6.0 with numpy 2");
        return None;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/golden-metrics.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(option).arg(seed.to_string()).arg(lines.to_string());
    let run = command.output().expect("python3 has just run");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some(serde_json::from_slice(&run.stdout).expect("the script prints JSON"))
}

#[test]
fn random_text_scores_as_in_sacrebleu() {
    for seed in 100..102 {
        let Some(golden) = ask_sacrebleu::<Golden>("--random", seed, 150) else { return };
        golden.check(&format!("random text {seed}"));
    }
}

#[test]
fn random_systems_compare_as_in_sacrebleu() {
    for seed in 200..203 {
        let Some(tests) = ask_sacrebleu::<GoldenTests>("--random-significance", seed, 150) else {
            return;
        };
        tests.check(&format!("random systems {seed}"));
    }
}
