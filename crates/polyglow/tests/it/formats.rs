//! Runs that were written by earlier versions can still be used and continued.

use std::fs;
use std::path::Path;

use crate::program::{Sandbox, checkpoint};

/// A run of checkpoint format 1, stopped after step 10 of 20: `tests/golden/README.md` says how it
/// was made.
const FORMAT_1: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/run-format-1");

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("it can be made");
    for entry in fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it is there");
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        if old.is_symlink() {
            #[cfg(unix)]
            std::os::unix::fs::symlink(fs::read_link(&old).expect("a link"), new)
                .expect("it can be made");
        } else if old.is_dir() {
            copy(&old, &new);
        } else {
            fs::copy(old, new).expect("it can be copied");
        }
    }
}

#[test]
fn a_run_of_format_1_is_read_used_and_continued() {
    let sandbox = Sandbox::new();
    copy(Path::new(FORMAT_1), &sandbox.path().join("old"));
    let info = sandbox.json(&["info", "old", "--json"]);
    assert_eq!(info["state"]["step"], 10);
    assert_eq!(info["checkpoints"]["best"], 7);
    fs::write(sandbox.path().join("input"), "1 2 3\n").expect("it can be written");
    assert_eq!(
        sandbox
            .succeed(&["translate", "old", "input"])
            .0
            .lines()
            .count(),
        1
    );
    // As the program that wrote it said. Rounding differs from machine to machine.
    for (checkpoint, expected) in [
        ("best", 2.743_023_6),
        ("last", 2.571_782_8),
        ("ema", 2.610_593_7),
    ] {
        let scores = sandbox.json(&["evaluate", "old", "--checkpoint", checkpoint, "--json"]);
        let loss = scores["loss"].as_f64().expect("a number");
        assert!((loss - expected).abs() < 1e-4, "{checkpoint}: {loss}");
    }
    let (_, stderr) = sandbox.succeed(&[
        "train",
        "old/config.toml",
        "--run",
        "old",
        "--set",
        "train.max_steps=20",
    ]);
    assert!(stderr.contains("resuming after step 10"), "{stderr}");
    assert_eq!(
        sandbox.json(&["info", "old", "--json"])["state"]["step"],
        20
    );
}

#[test]
fn every_tensor_is_documented() {
    let sandbox = Sandbox::new();
    let overrides = [
        "model.position=learned",
        "model.activation=swiglu",
        "model.norm=pre",
        "model.tie_embeddings=none",
        "model.output_bias=true",
    ];
    sandbox.train("run", &overrides);
    let weights = |name| {
        let path = checkpoint(&sandbox.path().join("run"), name)
            .path
            .join("model.safetensors");
        polyglow_train::run::read_weights(&path).expect("it was written")
    };
    sandbox.succeed(&["quantize", "run"]);
    let (weights, int8) = (weights("last"), weights("int8"));
    let names: Vec<&String> = weights.rest().map(|(name, _)| name).collect();
    for (name, _) in int8.rest() {
        assert!(
            names
                .iter()
                .any(|&known| known == name || format!("{known}.scale") == *name),
            "`{name}` is unknown"
        );
    }
    let document = include_str!("../../../../docs/checkpoint.md");
    for (name, _) in weights.rest() {
        let name = name.replace(".layers.0.", ".layers.N.");
        assert!(
            document.contains(&format!("`{name}`")),
            "`{name}` is not in docs/checkpoint.md"
        );
    }
    assert_eq!(
        weights.rest().count(),
        document.matches("`encoder.").count() + document.matches("`decoder.").count() + 6
    );
}
