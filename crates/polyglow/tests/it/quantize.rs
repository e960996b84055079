//! `polyglow quantize`.

use std::fs;

use polyglow_predict::weights::Weights;
use polyglow_train::run::read_weights;

use crate::program::{self, Sandbox};

/// The weights of a checkpoint of the run.
fn weights(sandbox: &Sandbox, checkpoint: &str) -> Weights {
    let path = program::checkpoint(&sandbox.path().join("run"), checkpoint)
        .path
        .join("model.safetensors");
    read_weights(&path).expect("it can be read")
}

#[test]
fn matrices_in_8_bits_are_smaller_score_nearly_the_same_and_are_listed() {
    let sandbox = Sandbox::trained();
    let (_, message) = sandbox.succeed(&["quantize", "run", "--checkpoint", "last"]);
    assert!(
        message.contains("with 8-bit matrices to `run/checkpoints/int8`"),
        "{message}"
    );
    let dir = sandbox.path().join("run/checkpoints/int8");
    assert_eq!(
        fs::read_dir(dir).expect("it is there").count(),
        2,
        "weights and state, no optimizer"
    );
    let (float, int8) = (weights(&sandbox, "last"), weights(&sandbox, "int8"));
    assert!(int8.is_int8() && !float.is_int8());
    let meant = weights(&sandbox, "int8")
        .dequantize()
        .expect("its scales are there");
    for ((name, meant), (expected_name, float)) in meant.rest().zip(float.rest()) {
        assert_eq!(name, expected_name);
        let largest = float
            .iter::<f32>()
            .fold(0.0f32, |largest, value| largest.max(value.abs()));
        for (meant, value) in meant.iter::<f32>().zip(float.iter::<f32>()) {
            assert!(
                (meant - value).abs() <= largest / 253.9,
                "{name}: {value} became {meant}"
            );
        }
    }
    let loss = |checkpoint: &str| {
        let scores = sandbox.json(&["evaluate", "run", "--checkpoint", checkpoint, "--json"]);
        scores["loss"].as_f64().expect("a number")
    };
    let (float, int8) = (loss("last"), loss("int8"));
    assert!(
        (float - int8).abs() < 0.02 && float.to_bits() != int8.to_bits(),
        "{float}, {int8}"
    );
    assert_eq!(
        sandbox.json(&["info", "run", "--json"])["checkpoints"]["others"]["int8"],
        6
    );
    assert!(
        sandbox
            .succeed(&["info", "run"])
            .0
            .contains("int8 (of step 6)")
    );
    assert!(
        sandbox
            .fail(1, &["evaluate", "run", "--checkpoint", "inte"])
            .contains("step-6, best, last, int8")
    );
}

#[test]
fn another_name_replaces_and_an_ensemble_takes_both() {
    let sandbox = Sandbox::trained();
    sandbox.succeed(&["quantize", "run", "--name", "small-1"]);
    sandbox.succeed(&[
        "quantize",
        "run",
        "--name",
        "small-1",
        "--checkpoint",
        "step-4",
    ]);
    let state = fs::read_to_string(sandbox.path().join("run/checkpoints/small-1/state.json"))
        .expect("it is there");
    assert!(state.contains("\"step\": 4"), "{state}");
    fs::write(sandbox.path().join("input"), "look aaa now\n").expect("it can be written");
    let args = [
        "translate",
        "run",
        "input",
        "--checkpoint",
        "last",
        "--ensemble",
        "run/checkpoints/small-1",
    ];
    assert_eq!(sandbox.succeed(&args).0.lines().count(), 1);
}

#[test]
fn what_cannot_be_quantized_or_trained_is_refused() {
    let sandbox = Sandbox::trained();
    for name in [
        "best", "last", "average", "ema", "step-4", "", "a/b", ".hidden", "a.tmp",
    ] {
        let message = sandbox.fail(2, &["quantize", "run", &format!("--name={name}")]);
        assert!(
            message.contains("cannot name an 8-bit checkpoint"),
            "{message}"
        );
    }
    assert!(
        sandbox
            .fail(1, &["quantize", "elsewhere"])
            .contains("no run in `elsewhere`")
    );
    sandbox.succeed(&["quantize", "run"]);
    let message = sandbox.fail(2, &["quantize", "run", "--checkpoint", "int8"]);
    assert!(message.contains("have 8 bits already"), "{message}");
    let message = sandbox.fail(
        2,
        &[
            "train",
            "tiny.toml",
            "--run",
            "run",
            "--fork",
            "new",
            "--checkpoint",
            "int8",
        ],
    );
    assert!(
        message.contains("has 8-bit matrices, which cannot be trained"),
        "{message}"
    );
    assert!(
        message.contains("the checkpoint that it was quantized from"),
        "{message}"
    );
    assert!(!sandbox.path().join("new/checkpoints").exists());
    // What is in 8 bits does not come into the way of training or of averages.
    sandbox.succeed(&["average", "run"]);
    sandbox.succeed(&[
        "train",
        "tiny.toml",
        "--run",
        "run",
        "--set",
        "train.max_steps=8",
    ]);

    let path = sandbox
        .path()
        .join("run/checkpoints/int8/model.safetensors");
    let mut bytes = fs::read(&path).expect("it is there");
    *bytes.last_mut().expect("it is not empty") ^= 1;
    fs::write(&path, bytes).expect("it can be written");
    let message = sandbox.fail(1, &["evaluate", "run", "--checkpoint", "int8"]);
    assert!(message.contains("int8` is damaged"), "{message}");
}
