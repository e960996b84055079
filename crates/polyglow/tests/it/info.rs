//! `polyglow info`.

use std::fs::{self, OpenOptions};
use std::io::Write;

use serde_json::json;

use crate::program::Sandbox;

#[test]
fn a_finished_run_shows_its_sizes_its_state_and_its_validations() {
    let sandbox = Sandbox::trained();
    let report = sandbox.json(&["info", "run", "--json"]);
    assert_eq!(report["run"], "run");
    assert_eq!(report["config"]["model"]["d_ff"], 12);
    assert_eq!(
        report["parameters"],
        sandbox.json(&["-q", "check", "tiny.toml", "--json"])["parameters"]
    );
    assert_eq!(
        report["vocabulary"],
        json!({ "src": 33, "tgt": 33, "shared": true })
    );
    let state = &report["state"];
    // Three epochs of two batches: 26 targets of two words and an end.
    assert_eq!(
        (&state["step"], &state["epoch"], &state["tokens"]),
        (&json!(6), &json!(3), &json!(3 * 26 * 3))
    );
    assert_eq!(state["best_metric"], "bleu");
    let (steps, best) = ([2, 3, 4, 6], &state["best"]["step"]);
    assert_eq!(
        report["checkpoints"],
        json!({ "steps": steps, "best": best, "average": null, "others": {} })
    );
    assert_eq!(
        (&report["train"]["kind"], &report["train"]["step"]),
        (&json!("train"), &json!(6))
    );
    let validations = report["validations"].as_array().expect("a list");
    assert_eq!(
        validations
            .iter()
            .map(|record| &record["step"])
            .collect::<Vec<_>>(),
        [3, 6]
    );
    assert!(validations.iter().all(|record| {
        ["bleu", "chrf", "loss"]
            .iter()
            .all(|key| record[key].is_f64())
    }));

    let (text, messages) = sandbox.succeed(&["info", "run"]);
    assert!(
        text.contains("state        step 6, 3 epochs done, 234 target tokens\n"),
        "{text}"
    );
    assert!(
        text.contains("checkpoints  step-2, step-3, step-4, step-6\n"),
        "{text}"
    );
    assert!(
        text.contains("model        transformer, 1+1 layers, d_model 8, d_ff 12, heads 2, "),
        "{text}"
    );
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("valid "))
            .count(),
        2,
        "{text}"
    );
    assert_eq!(messages, "");
}

#[test]
fn tests_are_shown_and_lines_that_were_cut_off_are_not() {
    let sandbox = Sandbox::trained();
    let mut file = OpenOptions::new()
        .append(true)
        .open(sandbox.path().join("run/metrics.jsonl"))
        .expect("it is there");
    let record = json!({ "kind": "test", "split": "news", "step": 6, "bleu": 12.5 });
    write!(file, "{record}\n{{\"kind\": \"test\", \"spl").expect("it can be written");
    let (text, _) = sandbox.succeed(&["info", "run"]);
    assert!(
        text.contains("\nnews                6    12.50        - "),
        "{text}"
    );
    let tests = sandbox.json(&["info", "run", "--json"])["tests"].clone();
    assert_eq!(
        tests
            .as_array()
            .expect("a list")
            .iter()
            .filter(|test| test["split"] == "news")
            .count(),
        1
    );
}

#[test]
fn a_run_that_has_not_begun_is_shown_as_such() {
    let sandbox = Sandbox::trained();
    for entry in ["run/checkpoints", "run/validation", "run/cache"] {
        fs::remove_dir_all(sandbox.path().join(entry)).expect("it is there");
    }
    for entry in ["run/metrics.jsonl", "run/tokenizer.json"] {
        fs::remove_file(sandbox.path().join(entry)).expect("it is there");
    }
    let (text, _) = sandbox.succeed(&["info", "run"]);
    assert!(
        text.contains("tokenizer    word, not created yet\n"),
        "{text}"
    );
    assert!(text.contains("state        no checkpoint yet\n"), "{text}");
    let report = sandbox.json(&["info", "run", "--json"]);
    assert!(
        report["state"].is_null()
            && report["parameters"].is_null()
            && report["vocabulary"].is_null()
    );
    let message = sandbox.fail(1, &["info", "nowhere"]);
    assert!(
        message.contains("no run in `nowhere`") && message.contains("hint: "),
        "{message}"
    );
}
