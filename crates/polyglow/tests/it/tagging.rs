//! Taggers, by the commands that serve all models.

use std::fs;

use crate::program::{Sandbox, succeed, word};

const CONFIG: &str = "
[data]
train = 'train.conll'
valid = 'test.conll'
test = 'test.conll'
max_len = 24
[tokenizer]
kind = 'bpe'
vocab_size = 280
[model]
arch = 'encoder'
head = 'tagging'
d_model = 16
dropout = 0.0
[train]
max_tokens = 256
max_steps = 150
optimizer = 'adamw'
lr = 1e-2
warmup_steps = 2
label_smoothing = 0.0
save_every = 75
validate_every = 75
log_every = 75
";

/// 26 sentences of names, whose second word is inside, and of other words.
fn sentences() -> String {
    let mut text = String::new();
    for index in 0..26 {
        let (name, other) = (word(index), word((index + 7) % 26));
        let rows = [
            "mr\tB-PER\n",
            &name,
            "\tI-PER\nsees\tO\n",
            &other,
            "\tO\nin\tO\nrome\tB-LOC\n\n",
        ];
        text.extend(rows);
    }
    text
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let write = |name: &str, text: &str| {
        fs::write(sandbox.path().join(name), text).expect("it can be written");
    };
    write("train.conll", &sentences());
    let first_ten: Vec<String> = sentences()
        .split_inclusive("\n\n")
        .take(10)
        .map(str::to_owned)
        .collect();
    write("test.conll", &first_ten.concat());
    let transformer = "d_ff = 24\nnum_heads = 2\nnum_encoder_layers = 1\nnorm = 'pre'\n[train]";
    write("transformer.toml", &CONFIG.replace("[train]", transformer));
    let rnn = "body = 'rnn'\nnum_encoder_layers = 1\n[train]";
    write("rnn.toml", &CONFIG.replace("[train]", rnn));
    sandbox
}

#[test]
fn both_kinds_of_layers_learn_tags_and_say_them() {
    let sandbox = sandbox();
    for body in ["transformer", "rnn"] {
        let config = format!("{body}.toml");
        let (stdout, _) = sandbox.succeed(&["train", &config, "--run", body]);
        assert!(stdout.contains("span F1 1.000"), "{stdout}");
        assert!(stdout.contains(&format!("classify {body}")), "{stdout}");

        let scores = sandbox.json(&["evaluate", body, "--json"]);
        for key in ["token_accuracy", "span_precision", "span_recall", "span_f1"] {
            assert_eq!(scores[key], 1.0, "{key} of {body}");
        }
        assert_eq!(
            (&scores["sentences"], &scores["labels"][0]["examples"]),
            (&10.into(), &10.into())
        );

        // A sentence of forty names is longer than the model.
        let long = "mr aaa ".repeat(40);
        let input = format!("mr bbb sees iii in rome\n\n{long}\n");
        let mut command = sandbox.command(&["classify", body, "lines.txt"]);
        fs::write(sandbox.path().join("lines.txt"), input).expect("it can be written");
        let (stdout, _) = succeed(&mut command);
        let lines: Vec<&str> = stdout.split('\n').collect();
        let (tags, probability) = lines[0].split_once('\t').expect("a tab");
        assert_eq!(tags, "B-PER I-PER O O O B-LOC");
        assert!(probability.parse::<f64>().expect("a number") > 0.5);
        assert_eq!(lines[1], "");
        let (tags, _) = lines[2].split_once('\t').expect("a tab");
        assert_eq!(tags.split(' ').count(), 80);
        assert_eq!(lines.len(), 4);
    }
}

#[test]
fn a_resumed_run_writes_the_bytes_of_a_straight_one() {
    let sandbox = sandbox();
    let train = |run: &str, steps: &str| {
        let steps = format!("train.max_steps={steps}");
        sandbox.succeed(&["train", "rnn.toml", "--run", run, "--set", &steps])
    };
    train("straight", "150");
    train("resumed", "75");
    train("resumed", "150");
    let weights = |run: &str| {
        let path = sandbox
            .path()
            .join(run)
            .join("checkpoints/step-150/model.safetensors");
        fs::read(path).expect("it is there")
    };
    assert!(weights("straight") == weights("resumed"));
}

#[test]
fn what_a_tagger_has_no_use_for_is_refused_by_name() {
    let sandbox = sandbox();
    let refused = |arguments: &[&str]| sandbox.fail(2, arguments);
    let stderr = refused(&[
        "check",
        "transformer.toml",
        "--set",
        "data.alignments=links",
    ]);
    assert!(stderr.contains("`data.alignments`"), "{stderr}");
    let stderr = refused(&[
        "check",
        "transformer.toml",
        "--set",
        "data.images.size=[4,4]",
    ]);
    assert!(stderr.contains("[data.images]"), "{stderr}");
    fs::write(sandbox.path().join("train.conll"), "mr\tB-PER\nbbb\n").expect("it can be written");
    let stderr = sandbox.fail(1, &["check", "transformer.toml"]);
    assert!(stderr.contains("`train.conll` line 2"), "{stderr}");
}
