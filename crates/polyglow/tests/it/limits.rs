//! Settings and corpora at the edge of what makes sense.

use std::fs;

use crate::program::{Sandbox, train_pairs};
use sha2::{Digest, Sha256};

/// Trains with overrides; the last loss, and the scores of the test set.
fn train(sandbox: &Sandbox, overrides: &[&str]) -> (f64, serde_json::Value) {
    sandbox.train("run", overrides);
    let info = sandbox.json(&["info", "run", "--json"]);
    (
        info["train"]["loss"].as_f64().expect("a loss is a number"),
        info["tests"][0].clone(),
    )
}

#[test]
fn extreme_settings_train_to_finite_losses() {
    for overrides in [
        &["train.label_smoothing=0"][..],
        &["train.label_smoothing=0.999"],
        &["model.dropout=0", "model.attention_dropout=0"],
        &["model.dropout=0.99"],
        &["train.clip_norm=0"],
        &["train.clip_norm=1e-30"],
        // A batch for each pair: source and target have four positions at most.
        &["train.max_tokens=4"],
        &["train.max_tokens=1000000000"],
        &["train.accumulate_steps=1000"],
        &["train.pad_multiple=64"],
        &["train.betas=[0.0, 0.0]", "train.eps=1.0"],
        &["model.num_heads=8"],
        &["model.num_encoder_layers=12", "model.num_decoder_layers=12"],
        &["search.beam_size=1", "search.max_len_ratio=0.001"],
        &["seed=9223372036854775807"],
    ] {
        let sandbox = Sandbox::new();
        let (loss, test) = train(&sandbox, overrides);
        assert!(loss.is_finite(), "{overrides:?}: {loss}");
        assert!(
            test["loss"]
                .as_f64()
                .expect("a loss is a number")
                .is_finite(),
            "{overrides:?}: {test}"
        );
    }
}

#[test]
fn a_corpus_of_one_pair_of_one_word_is_learned() {
    let sandbox = Sandbox::new();
    for split in ["train", "valid", "test"] {
        sandbox.write(split, &[("look".to_owned(), "sieh".to_owned())]);
    }
    // BLEU counts sequences of four words, so one word scores 0 even where it is right.
    let follow = "train.best_metric=chrf";
    let (loss, test) = train(
        &sandbox,
        &[
            "train.max_steps=200",
            "train.lr=3e-3",
            "model.dropout=0",
            follow,
        ],
    );
    assert!(loss.is_finite());
    assert_eq!(test["exact_match"], 1.0, "{test}");
    fs::write(sandbox.path().join("input"), "look\n\nlook\n").expect("it can be written");
    assert_eq!(
        sandbox.succeed(&["translate", "run", "input"]).0,
        "sieh\n\nsieh\n"
    );
}

#[test]
fn a_vocabulary_of_five_is_enough() {
    let sandbox = Sandbox::new();
    let (loss, _) = train(&sandbox, &["tokenizer.vocab_size=5"]);
    assert!(loss.is_finite());
    // Nearly everything is unknown, and is still as many lines.
    let (output, _) = sandbox.succeed(&["translate", "run", "test.en", "--beam-size", "5"]);
    assert_eq!(output.lines().count(), 4);
}

#[test]
fn pairs_with_an_empty_side_are_left_out_and_counted() {
    let sandbox = Sandbox::new();
    let mut pairs = train_pairs();
    pairs.insert(3, (String::new(), "sieh".to_owned()));
    pairs.insert(9, ("look".to_owned(), " \t".to_owned()));
    sandbox.write("train", &pairs);
    let (_, stderr) = sandbox.succeed(&["train", "tiny.toml", "--run", "run"]);
    assert!(
        stderr.contains("26 of 28 pairs kept; left out: 2 with an empty side"),
        "{stderr}"
    );
}

#[test]
fn weights_that_are_no_numbers_are_not_used() {
    let sandbox = Sandbox::trained();
    let path = sandbox.path().join("run/checkpoints/step-6");
    let mut bytes = fs::read(path.join("model.safetensors")).expect("it is there");
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(path.join("model.safetensors"), &bytes).expect("it can be written");
    let state = fs::read_to_string(path.join("state.json")).expect("it is there");
    let mut state: serde_json::Value = serde_json::from_str(&state).expect("JSON");
    // Somebody made the checksums fit.
    state.as_object_mut().expect("an object").remove("checksum");
    let hash: String = Sha256::digest(&bytes)
        .iter()
        .fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"));
    state["files"]["model.safetensors"] = hash.into();
    fs::write(path.join("state.json"), state.to_string()).expect("it can be written");
    let message = sandbox.fail(
        1,
        &["translate", "run", "test.en", "--checkpoint", "step-6"],
    );
    assert!(message.contains("holds NaN or infinity"), "{message}");
    let message = sandbox.fail(
        1,
        &[
            "train",
            "tiny.toml",
            "--run",
            "run",
            "--set",
            "train.max_steps=8",
        ],
    );
    assert!(message.contains("holds NaN or infinity"), "{message}");
}
