//! New runs from the weights of others.

use std::fs;

use polyglow_data::tokenizer::Tokenizer;
use polyglow_train::run::read_weights;

use crate::program::{Sandbox, checkpoint};

/// The options that make a fork another training.
const FINE_TUNING: [&str; 6] = [
    "--set",
    "train.lr=1e-5",
    "--set",
    "train.schedule=constant",
    "--set",
    "train.max_steps=4",
];

fn fork(sandbox: &Sandbox, new: &str, more: &[&str]) -> (String, String) {
    sandbox.succeed(
        &[
            &["train", "tiny.toml", "--run", "run", "--fork", new][..],
            &FINE_TUNING,
            more,
        ]
        .concat(),
    )
}

#[test]
fn a_fork_starts_from_the_weights_and_nothing_else() {
    let sandbox = Sandbox::trained();
    let (_, stderr) = fork(&sandbox, "new", &["--checkpoint", "step-6"]);
    assert!(
        stderr.contains(
            "forked from `run/checkpoints/step-6`, after step 6: carried over are the weights"
        ),
        "{stderr}"
    );
    let read = |path: &str| fs::read(sandbox.path().join(path)).expect("it was written");
    assert_eq!(
        read("run/checkpoints/step-6/model.safetensors"),
        read("new/checkpoints/step-0/model.safetensors")
    );
    assert_eq!(read("run/tokenizer.json"), read("new/tokenizer.json"));
    let state: serde_json::Value =
        serde_json::from_slice(&read("new/checkpoints/step-0/state.json")).expect("JSON");
    assert_eq!(
        (state["step"].as_u64(), state["tokens"].as_u64()),
        (Some(0), Some(0))
    );
    assert!(state["best"].is_null());
    assert_ne!(
        read("new/checkpoints/step-4/model.safetensors"),
        read("new/checkpoints/step-0/model.safetensors")
    );
    assert!(sandbox.path().join("new/inspection.json").is_file());
}

#[test]
fn a_fork_is_resumed_by_the_same_command_and_as_a_run_of_its_own() {
    let sandbox = Sandbox::trained();
    fork(&sandbox, "straight", &[]);
    fork(&sandbox, "stopped", &[]);
    for step in ["step-3", "step-4"] {
        fs::remove_dir_all(sandbox.path().join("stopped/checkpoints").join(step))
            .expect("it is there");
    }
    let (_, stderr) = fork(&sandbox, "stopped", &[]);
    assert!(stderr.contains("resuming after step 2"), "{stderr}");
    let weights = |run: &str| {
        fs::read(
            sandbox
                .path()
                .join(run)
                .join("checkpoints/step-4/model.safetensors"),
        )
    };
    assert_eq!(
        weights("straight").expect("it is there"),
        weights("stopped").expect("it is there")
    );
    sandbox.succeed(
        &[
            &["train", "tiny.toml", "--run", "stopped"][..],
            &FINE_TUNING,
        ]
        .concat(),
    );
    // It comes from one directory, which it does not need any more.
    let again = |run: &str, checkpoint: &str| {
        let arguments = [
            "train",
            "tiny.toml",
            "--run",
            run,
            "--fork",
            "stopped",
            "--checkpoint",
            checkpoint,
        ];
        sandbox.run(&[&arguments[..], &FINE_TUNING].concat())
    };
    assert_eq!(again("run", "step-2").status.code(), Some(2));
    assert_eq!(again("straight", "best").status.code(), Some(2));
    fs::remove_dir_all(sandbox.path().join("run")).expect("it is there");
    assert_eq!(again("run", "best").status.code(), Some(0));
}

#[test]
fn the_weights_that_a_fork_begins_with_compete_for_the_best() {
    let sandbox = Sandbox::trained();
    let run = |name: &str| sandbox.path().join(name);
    let loss = ["--set", "train.best_metric=loss"];
    let worse = [&loss[..], &["--set", "train.lr=1"]].concat();
    fork(&sandbox, "worse", &worse);
    let best = |name: &str| checkpoint(&run(name), "best").state;
    let parent = best("run").best.expect("it was validated");
    assert_eq!(best("worse").step, 0);
    let records = || fs::read_to_string(run("worse/metrics.jsonl")).expect("it was written");
    let first: serde_json::Value =
        serde_json::from_str(records().lines().next().expect("a record")).expect("JSON");
    assert_eq!(
        (first["kind"].as_str(), first["step"].as_u64()),
        (Some("valid"), Some(0))
    );
    assert_eq!(
        first["loss"].as_f64(),
        Some(parent.loss),
        "the validation sets are the same"
    );
    let better = ["--set", "train.lr=3e-3", "--set", "train.max_steps=20"];
    fork(&sandbox, "better", &[&loss[..], &better].concat());
    assert!(best("better").step > 0);
    // A fork that was killed before its first step is validated once more, and recorded once.
    for step in ["step-2", "step-3", "step-4"] {
        let _ = fs::remove_dir_all(run("worse/checkpoints").join(step));
    }
    let (_, stderr) = fork(&sandbox, "worse", &worse);
    assert!(stderr.contains("resuming after step 0"), "{stderr}");
    let is_of_beginning =
        |line: &&str| line.contains("\"kind\":\"valid\"") && line.contains("\"step\":0,");
    assert_eq!(
        (
            records().lines().filter(is_of_beginning).count(),
            best("worse").step
        ),
        (1, 0)
    );
}

#[test]
fn a_fork_that_never_got_its_weights_is_no_run() {
    let sandbox = Sandbox::trained();
    fork(&sandbox, "new", &[]);
    fs::remove_dir_all(sandbox.path().join("new/checkpoints")).expect("it is there");
    let message = sandbox.fail(
        2,
        &[&["train", "tiny.toml", "--run", "new"][..], &FINE_TUNING].concat(),
    );
    assert!(
        message.contains("`new` was started as a fork of `")
            && message.contains("the weights were never copied"),
        "{message}"
    );
    let (_, stderr) = fork(&sandbox, "new", &[]);
    assert!(stderr.contains("forked from"), "{stderr}");
}

#[test]
fn what_is_no_whole_run_is_not_written_to() {
    let sandbox = Sandbox::trained();
    let resume = [
        "train",
        "tiny.toml",
        "--run",
        "run",
        "--set",
        "train.lr=1e-5",
    ];
    fs::remove_file(sandbox.path().join("run/config.toml")).expect("it is there");
    let message = sandbox.fail(2, &resume);
    assert!(
        message.contains("`run` holds `checkpoints`, but no `config.toml`"),
        "{message}"
    );
    fs::create_dir(sandbox.path().join("mine")).expect("it can be made");
    fs::write(sandbox.path().join("mine/metrics.jsonl"), "my own\n").expect("it can be written");
    let message = sandbox.fail(2, &["train", "tiny.toml", "--run", "mine"]);
    assert!(
        message.contains("`mine` holds `metrics.jsonl`"),
        "{message}"
    );
    assert_eq!(
        fs::read_to_string(sandbox.path().join("mine/metrics.jsonl")).expect("it is there"),
        "my own\n"
    );
}

#[test]
fn a_state_that_was_changed_and_a_tokenizer_of_other_ids_are_noticed() {
    let sandbox = Sandbox::trained();
    let path = |name: &str| sandbox.path().join("run").join(name);
    let state = fs::read_to_string(path("checkpoints/step-6/state.json")).expect("it is there");
    let changed = state.replace("\"position\": ", "\"position\": 1");
    assert_ne!(state, changed);
    fs::write(path("checkpoints/step-6/state.json"), changed).expect("it can be written");
    let message = sandbox.fail(1, &["evaluate", "run", "--checkpoint", "step-6"]);
    assert!(
        message.contains("in its `state.json`: it is not what was written"),
        "{message}"
    );
    fs::write(path("checkpoints/step-6/state.json"), state).expect("it can be written");
    fs::rename(path("checkpoints/step-6"), path("checkpoints/step-7")).expect("it is ours");
    let message = sandbox.fail(1, &["evaluate", "run", "--checkpoint", "step-7"]);
    assert!(
        message.contains("it is named `step-7`, but is of step 6"),
        "{message}"
    );
    let tokenizer = fs::read_to_string(path("tokenizer.json")).expect("it is there");
    fs::write(
        path("tokenizer.json"),
        tokenizer.replace("\"aaa\"", "\"aab\""),
    )
    .expect("it can be written");
    let message = sandbox.fail(1, &["evaluate", "run", "--checkpoint", "step-4"]);
    assert!(
        message.contains("is not the one that its model was trained with"),
        "{message}"
    );
}

#[test]
fn a_fork_to_another_model_or_to_itself_is_refused() {
    let sandbox = Sandbox::trained();
    let fork = |new: &str, set: &str| {
        sandbox.fail(
            2,
            &[
                "train",
                "tiny.toml",
                "--run",
                "run",
                "--fork",
                new,
                "--set",
                set,
            ],
        )
    };
    let message = fork("new", "model.d_ff=16");
    assert!(
        message.contains("fit another config: `model.d_ff = 12`, now `16`"),
        "{message}"
    );
    let message = fork("new", "tokenizer.lowercase=true");
    assert!(
        message.contains("`tokenizer.lowercase = false`, now `true`"),
        "{message}"
    );
    // Learned positions are weights, of which other lengths need others.
    let learned = [
        "train",
        "tiny.toml",
        "--set",
        "model.position=learned",
        "--run",
    ];
    sandbox.succeed(&[&learned[..], &["learned"]].concat());
    let set = ["learned", "--fork", "new", "--set", "data.max_len=12"];
    let message = sandbox.fail(2, &[&learned[..], &set].concat());
    assert!(
        message.contains("fit another config: `data.max_len = 20`, now `12`")
            && message.contains("learned positions"),
        "{message}"
    );
    let message = fork("run", "train.lr=1e-5");
    assert!(
        message.contains("`run` exists, and is not a fork"),
        "{message}"
    );
    let message = sandbox.fail(
        1,
        &[
            "train",
            "tiny.toml",
            "--run",
            "run",
            "--fork",
            "new",
            "--checkpoint",
            "step-99",
        ],
    );
    assert!(message.contains("no checkpoint `step-99`"), "{message}");
    assert!(
        sandbox
            .fail(1, &["train", "tiny.toml", "--run", "none", "--fork", "new"])
            .contains("no run in `none`")
    );
    assert!(!sandbox.path().join("new").exists());
    sandbox.succeed(&[
        "train",
        "tiny.toml",
        "--run",
        "run",
        "--fork",
        "new",
        "--set",
        "model.dropout=0.3",
    ]);
}

#[test]
fn a_run_is_not_resumed_with_other_text_or_tokenizers() {
    let sandbox = Sandbox::trained();
    let longer = [
        "train",
        "tiny.toml",
        "--run",
        "run",
        "--set",
        "train.max_steps=8",
    ];
    let path = |name: &str| sandbox.path().join(name);
    for (file, what) in [
        ("train.de", "the training text"),
        ("valid.de", "the validation text"),
    ] {
        let old = fs::read_to_string(path(file)).expect("it is there");
        fs::write(path(file), old.replacen("sieh", "nun", 1)).expect("it can be written");
        let message = sandbox.fail(2, &longer);
        assert!(
            message.contains(&format!("`run` was trained with other content of {what}")),
            "{message}"
        );
        assert!(message.contains("--fork"), "{message}");
        fs::write(path(file), old).expect("it can be written");
    }
    let tokenizer = fs::read_to_string(path("run/tokenizer.json")).expect("it is there");
    fs::write(
        path("run/tokenizer.json"),
        tokenizer.replace("\"aaa\"", "\"aab\""),
    )
    .expect("it can be written");
    assert!(
        sandbox
            .fail(2, &longer)
            .contains("the tokenizer in the run's directory")
    );
    fs::write(path("run/tokenizer.json"), tokenizer).expect("it can be written");
    // The test text decides nothing.
    fs::write(path("test.en"), "look zzz\n".repeat(4)).expect("it can be written");
    sandbox.succeed(&longer);
}

/// The values of a parameter in a checkpoint.
fn parameter(sandbox: &Sandbox, checkpoint: &str, name: &str, shape: &[usize]) -> Vec<f32> {
    let path = sandbox.path().join(checkpoint).join("model.safetensors");
    let mut weights = read_weights(&path).expect("it is there");
    weights
        .take(name, shape)
        .expect("it has the parameter")
        .iter()
        .collect()
}

#[test]
fn frozen_parameters_stay_as_they_are_and_the_others_move() {
    let sandbox = Sandbox::trained();
    fork(
        &sandbox,
        "new",
        &[
            "--set",
            "train.freeze=[\"encoder\"]",
            "--set",
            "train.weight_decay=0.1",
        ],
    );
    for (name, shape, stays) in [
        (
            "encoder.layers.0.feed_forward.inner.weight",
            &[8, 12][..],
            true,
        ),
        (
            "encoder.layers.0.self_attention_residual.norm.gamma",
            &[8],
            true,
        ),
        (
            "decoder.layers.0.feed_forward.inner.weight",
            &[8, 12],
            false,
        ),
    ] {
        let values = |checkpoint| parameter(&sandbox, checkpoint, name, shape);
        assert_eq!(
            values("new/checkpoints/step-0") == values("new/checkpoints/step-4"),
            stays,
            "{name}"
        );
    }
    let unknown = [
        "train",
        "tiny.toml",
        "--run",
        "unknown",
        "--set",
        "train.freeze=[\"encoders\"]",
    ];
    let message = sandbox.fail(2, &unknown);
    assert!(
        message.contains("names `encoders`") && message.contains("src_embedding"),
        "{message}"
    );
}

#[test]
fn a_fork_with_another_vocabulary_keeps_what_it_knows_of_tokens_that_both_have() {
    let sandbox = Sandbox::trained();
    let old = Tokenizer::load(&sandbox.path().join("run/tokenizer.json")).expect("it is there");
    let known = parameter(
        &sandbox,
        "run/checkpoints/step-6",
        "src_embedding.weight",
        &[old.vocab_size(), 8],
    );
    sandbox.write(
        "train",
        &vec![("look aaa there".to_owned(), "aaa dort".to_owned()); 20],
    );
    let fewer = ["--set", "tokenizer.vocab_size=9"];
    let refused = sandbox.run(
        &[
            &["train", "tiny.toml", "--run", "run", "--fork", "new"][..],
            &FINE_TUNING,
            &fewer,
        ]
        .concat(),
    );
    assert_eq!(refused.status.code(), Some(2));
    let (_, stderr) = fork(
        &sandbox,
        "new",
        &[&fewer[..], &["--new-vocabulary"]].concat(),
    );
    let new = Tokenizer::load(&sandbox.path().join("new/tokenizer.json")).expect("it was learned");
    assert!(
        stderr.contains("the embeddings of 6 of 8 tokens"),
        "{stderr}"
    );
    let carried = parameter(
        &sandbox,
        "new/checkpoints/step-0",
        "src_embedding.weight",
        &[new.vocab_size(), 8],
    );
    for id in 0..new.vocab_size() as u32 {
        let token = new.token(id).expect("it has a spelling");
        let row = |values: &[f32], id: u32| values[id as usize * 8..][..8].to_vec();
        match (0..old.vocab_size() as u32).find(|&id| old.token(id).as_ref() == Some(&token)) {
            Some(old_id) => assert_eq!(row(&carried, id), row(&known, old_id), "{token}"),
            None => assert!(["there", "dort"].contains(&&*token), "{token}"),
        }
    }
}
