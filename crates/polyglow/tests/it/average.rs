//! `polyglow average`.

use std::collections::BTreeMap;
use std::fs;

use polyglow_train::run::read_weights;

use crate::program::{self, Sandbox};

/// Every value of a checkpoint's weights, by tensor.
fn values(sandbox: &Sandbox, checkpoint: &str) -> BTreeMap<String, Vec<f32>> {
    let path = program::checkpoint(&sandbox.path().join("run"), checkpoint)
        .path
        .join("model.safetensors");
    let weights = read_weights(&path).expect("it can be read");
    weights
        .rest()
        .map(|(name, data)| (name.clone(), data.iter::<f32>().collect()))
        .collect()
}

#[test]
fn the_average_is_the_mean_of_the_newest_checkpoints_and_can_be_scored() {
    let sandbox = Sandbox::trained();
    let (_, message) = sandbox.succeed(&["average", "run", "--last", "3"]);
    assert!(
        message
            .contains("wrote the average of step-3, step-4, step-6 to `run/checkpoints/average`"),
        "{message}"
    );
    let [first, second, third] = ["step-3", "step-4", "step-6"].map(|name| values(&sandbox, name));
    assert_ne!(first, third);
    let average = values(&sandbox, "average");
    assert_eq!(
        average.keys().collect::<Vec<_>>(),
        third.keys().collect::<Vec<_>>()
    );
    for (name, mean) in average {
        for (index, value) in mean.iter().enumerate() {
            let sum: f64 = [&first, &second, &third]
                .iter()
                .map(|of| f64::from(of[&name][index]))
                .sum();
            assert_eq!(value.to_bits(), ((sum / 3.0) as f32).to_bits(), "{name}");
        }
    }
    let files = fs::read_dir(sandbox.path().join("run/checkpoints/average"))
        .expect("it is there")
        .count();
    assert_eq!(files, 2, "weights and state, no optimizer");
    let scores = sandbox.json(&["evaluate", "run", "--checkpoint", "average", "--json"]);
    assert!(scores["loss"].is_f64(), "{scores}");
}

#[test]
fn without_a_number_all_checkpoints_are_averaged_and_too_large_a_number_is_an_error() {
    let sandbox = Sandbox::trained();
    let (_, message) = sandbox.succeed(&["average", "run"]);
    assert!(
        message.contains("the average of step-2, step-3, step-4, step-6"),
        "{message}"
    );
    let message = sandbox.fail(1, &["average", "run", "--last", "5"]);
    assert!(
        message
            .contains("`--last 5`: `run` has only 4 checkpoints, step-2, step-3, step-4, step-6"),
        "{message}"
    );
    fs::remove_dir_all(sandbox.path().join("run/checkpoints")).expect("it is there");
    assert!(
        sandbox
            .fail(1, &["average", "run"])
            .contains("nothing has been trained there yet")
    );
    assert!(
        sandbox
            .fail(1, &["average", "elsewhere"])
            .contains("no run in `elsewhere`")
    );
}

#[test]
fn what_a_fork_began_with_and_an_old_best_are_no_part_of_the_average() {
    let sandbox = Sandbox::trained();
    sandbox.succeed(&[
        "train",
        "tiny.toml",
        "--run",
        "run",
        "--fork",
        "fork",
        "--set",
        "train.max_steps=4",
    ]);
    assert!(sandbox.path().join("fork/checkpoints/step-0").is_dir());
    let (_, message) = sandbox.succeed(&["average", "fork"]);
    assert!(
        message.contains("wrote the average of step-2, step-3, step-4 to"),
        "{message}"
    );
    let message = sandbox.fail(1, &["average", "fork", "--last", "4"]);
    assert!(
        message.contains("`--last 4`: `fork` has only 3 checkpoints, step-2, step-3, step-4"),
        "{message}"
    );

    // Of five checkpoints, a run that keeps two has the oldest because it was the best.
    let config = fs::read_to_string(sandbox.path().join("run/config.toml")).expect("it is there");
    let config = config.replace("keep_last = 10", "keep_last = 2");
    fs::write(sandbox.path().join("run/config.toml"), config).expect("it can be written");
    let (_, message) = sandbox.succeed(&["average", "run"]);
    assert!(
        message.contains("wrote the average of step-4, step-6 to"),
        "{message}"
    );
    let (_, message) = sandbox.succeed(&["average", "run", "--last", "3"]);
    assert!(
        message.contains("wrote the average of step-3, step-4, step-6 to"),
        "{message}"
    );
}

#[test]
fn a_damaged_checkpoint_is_not_averaged() {
    let sandbox = Sandbox::trained();
    let path = sandbox
        .path()
        .join("run/checkpoints/step-4/model.safetensors");
    let mut bytes = fs::read(&path).expect("it is there");
    *bytes.last_mut().expect("it is not empty") ^= 1;
    fs::write(&path, bytes).expect("it can be written");
    let message = sandbox.fail(1, &["average", "run"]);
    assert!(message.contains("step-4` is damaged"), "{message}");
    assert!(!sandbox.path().join("run/checkpoints/average").exists());
    sandbox.succeed(&["average", "run", "--last", "1"]);
}
