//! New runs from the weights of others.

use std::fs;

use crate::program::Workplace;

/// What a fork needs to be another training.
const FINE_TUNING: [&str; 6] =
    ["--set", "train.lr=1e-5", "--set", "train.schedule=constant", "--set", "train.max_steps=4"];

fn fork(place: &Workplace, new: &str, more: &[&str]) -> (String, String) {
    place.succeed(&[&["train", "tiny.toml", "--run", "run", "--fork", new][..], &FINE_TUNING, more].concat())
}

#[test]
fn a_fork_starts_from_the_weights_and_nothing_else() {
    let place = Workplace::trained();
    let (_, stderr) = fork(&place, "new", &["--checkpoint", "step-6"]);
    assert!(
        stderr.contains("forked from `run/checkpoints/step-6`, after step 6: carried over are the weights"),
        "{stderr}"
    );
    let read = |path: &str| fs::read(place.path().join(path)).expect("it was written");
    assert_eq!(read("run/checkpoints/step-6/model.safetensors"), read("new/checkpoints/step-0/model.safetensors"));
    assert_eq!(read("run/tokenizer.json"), read("new/tokenizer.json"));
    let state: serde_json::Value = serde_json::from_slice(&read("new/checkpoints/step-0/state.json")).expect("JSON");
    assert_eq!((state["step"].as_u64(), state["tokens"].as_u64()), (Some(0), Some(0)));
    assert!(state["best"].is_null());
    assert_ne!(read("new/checkpoints/step-4/model.safetensors"), read("new/checkpoints/step-0/model.safetensors"));
    assert!(place.path().join("new/inspection.json").is_file());
}

#[test]
fn a_fork_goes_on_by_the_same_command_and_as_a_run_of_its_own() {
    let place = Workplace::trained();
    fork(&place, "straight", &[]);
    fork(&place, "stopped", &[]);
    for step in ["step-3", "step-4"] {
        fs::remove_dir_all(place.path().join("stopped/checkpoints").join(step)).expect("it is there");
    }
    let (_, stderr) = fork(&place, "stopped", &[]);
    assert!(stderr.contains("resuming after step 2"), "{stderr}");
    let weights = |run: &str| fs::read(place.path().join(run).join("checkpoints/step-4/model.safetensors"));
    assert_eq!(weights("straight").expect("it is there"), weights("stopped").expect("it is there"));
    place.succeed(&[&["train", "tiny.toml", "--run", "stopped"][..], &FINE_TUNING].concat());
}

#[test]
fn a_fork_to_another_model_or_to_itself_is_refused() {
    let place = Workplace::trained();
    let fork =
        |new: &str, set: &str| place.fail(2, &["train", "tiny.toml", "--run", "run", "--fork", new, "--set", set]);
    let message = fork("new", "model.d_ff=16");
    assert!(message.contains("fit another config: `model.d_ff = 12`, now `16`"), "{message}");
    let message = fork("new", "tokenizer.lowercase=true");
    assert!(message.contains("`tokenizer.lowercase = false`, now `true`"), "{message}");
    assert!(fork("run", "train.lr=1e-5").contains("`--fork run` is the run itself"));
    assert!(place.fail(1, &["train", "tiny.toml", "--run", "none", "--fork", "new"]).contains("no run in `none`"));
    assert!(!place.path().join("new").exists());
    place.succeed(&["train", "tiny.toml", "--run", "run", "--fork", "new", "--set", "model.dropout=0.3"]);
}

#[test]
fn a_run_does_not_go_on_with_other_text_or_tokenizers() {
    let place = Workplace::trained();
    let longer = ["train", "tiny.toml", "--run", "run", "--set", "train.max_steps=8"];
    let path = |name: &str| place.path().join(name);
    for (file, what) in [("train.de", "the training text"), ("valid.de", "the validation text")] {
        let old = fs::read_to_string(path(file)).expect("it is there");
        fs::write(path(file), old.replacen("sieh", "nun", 1)).expect("it can be written");
        let message = place.fail(2, &longer);
        assert!(message.contains(&format!("`run` was trained with other content of {what}")), "{message}");
        assert!(message.contains("--fork"), "{message}");
        fs::write(path(file), old).expect("it can be written");
    }
    let tokenizer = fs::read_to_string(path("run/tokenizer.json")).expect("it is there");
    fs::write(path("run/tokenizer.json"), tokenizer.replace("\"aaa\"", "\"aab\"")).expect("it can be written");
    assert!(place.fail(2, &longer).contains("the tokenizer in the run's directory"));
    fs::write(path("run/tokenizer.json"), tokenizer).expect("it can be written");
    // The test text decides nothing.
    fs::write(path("test.en"), "look zzz\n".repeat(4)).expect("it can be written");
    place.succeed(&longer);
}
