//! `score`: what is beyond a model, and beyond a file.

use std::fs;

use serde_json::Value;

use crate::program::Sandbox;

fn write(sandbox: &Sandbox, name: &str, content: &str) {
    fs::write(sandbox.path().join(name), content).expect("it can be written");
}

#[test]
fn a_pair_that_is_longer_than_the_model_is_marked() {
    let sandbox = Sandbox::trained();
    write(
        &sandbox,
        "over.en",
        &format!("look\nlook\n{}\n", "aaa ".repeat(21)),
    );
    write(
        &sandbox,
        "over.de",
        &format!("sieh\n{}\nsieh\n", "aaa ".repeat(40)),
    );
    let (output, message) = sandbox.succeed(&["score", "run", "over.en", "over.de"]);
    let marked: Vec<bool> = output
        .lines()
        .map(|line| line.ends_with("\ttruncated"))
        .collect();
    assert_eq!(marked, [false, true, true], "{output}");
    let warning = "2 pairs are longer than the model's 20 tokens, the first on line 2: only their first 20 tokens are scored";
    assert!(message.contains(warning), "{message}");
    let json = sandbox
        .succeed(&["score", "run", "over.en", "over.de", "--json"])
        .0;
    let records: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let last = |record: &Value| {
        let tokens = record["tokens"].as_array().expect("a list");
        (
            record["truncated"].clone(),
            tokens.len(),
            tokens[tokens.len() - 1]["token"].clone(),
        )
    };
    let expected = [(false, 2, "</s>"), (true, 20, "aaa"), (true, 2, "</s>")];
    let expected =
        expected.map(|(truncated, len, token)| (Value::from(truncated), len, Value::from(token)));
    assert_eq!(records.iter().map(last).collect::<Vec<_>>(), expected);
}

#[test]
fn texts_of_different_lengths_are_scored_up_to_the_end_of_the_shorter() {
    let sandbox = Sandbox::trained();
    write(&sandbox, "input.en", "look aaa now\nnow\n\nlook bbb\n");
    write(&sandbox, "two.de", "sieh\nsieh aaa\n");
    let output = sandbox.run(&["score", "run", "input.en", "two.de"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("`two.de` ends after line 2, but `input.en` has more lines"),
        "{message}"
    );
}
