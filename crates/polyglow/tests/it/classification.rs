//! Classifiers of texts and of images, and encoders that find hidden tokens, by the commands that
//! serve all models.

use std::fs;

use burn::tensor::Device;
use polyglow_data::image_set::ImageSet;
use polyglow_data::labeled::LabelSet;
use polyglow_data::pair::Pair;
use polyglow_metrics::Tokenizer as BleuTokenizer;
use polyglow_predict::tasks::labels::classify;
use polyglow_train::load_runner;
use polyglow_train::tasks::{HeldOut, evaluate};

use crate::program::{Sandbox, succeed, word};

const TRAIN: &str = "
[train]
max_tokens = 256
max_steps = 60
optimizer = 'adamw'
lr = 1e-2
warmup_steps = 2
label_smoothing = 0.0
save_every = 20
validate_every = 20
log_every = 20
keep_last = 10
";
const ENCODER: &str =
    "arch = 'encoder'\nd_model = 8\nd_ff = 12\nnum_heads = 2\nnum_encoder_layers = 1\nnorm = 'pre'";
const VIT: &str = "arch = 'vit'\npatch_size = 2\nd_model = 8\nd_ff = 12\nnum_heads = 2\nnum_encoder_layers = 2\nnorm = 'pre'";

/// 26 texts, one of two words in each of which tells the label.
fn texts() -> Vec<(String, String)> {
    let text = |index: u8| {
        let (label, sign) = if index.is_multiple_of(2) {
            ("even", "yes")
        } else {
            ("odd", "no")
        };
        (
            label.to_owned(),
            format!("{} {sign} {}", word(index), word((index + 7) % 26)),
        )
    };
    (0..26).map(text).collect()
}

/// Images of which half is bright: that half is the label.
fn images(seed: usize) -> ImageSet {
    let labels = LabelSet::new(["left", "right", "top"].map(str::to_owned));
    let pixel = |image: usize, index: usize| {
        let (row, column) = (index / 4, index % 4);
        let bright = [column < 2, column >= 2, row < 2][image % 3];
        (if bright { 150 } else { 10 }) + ((image * 31 + index * 17 + seed * 7) % 60) as u8
    };
    let pixels = (0..48)
        .flat_map(|image| (0..16).map(move |index| pixel(image, index)))
        .collect();
    let label_ids = (0..48).map(|image| image % 3).collect();
    ImageSet {
        height: 4,
        width: 4,
        channels: 1,
        labels,
        pixels,
        label_ids,
    }
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let write = |name: &str, text: String| {
        fs::write(sandbox.path().join(name), text).expect("it can be written");
    };
    let lines = |texts: &[(String, String)]| {
        texts
            .iter()
            .flat_map(|(label, text)| [label, "\t", text, "\n"].map(str::to_owned))
            .collect()
    };
    write("train.tsv", lines(&texts()));
    write("test.tsv", lines(&texts()[..10]));
    write(
        "plain.txt",
        texts()
            .into_iter()
            .flat_map(|(_, text)| [text, "\n".to_owned()])
            .collect(),
    );
    let data = |train: &str, test: &str, more: &str| {
        format!(
            "[data]\ntrain = '{train}'\nvalid = '{test}'\ntest = '{test}'\n{more}\n[tokenizer]\nkind = 'word'\n[model]\n"
        )
    };
    let labeled = data("train.tsv", "test.tsv", "max_len = 20");
    write("encoder.toml", format!("{labeled}{ENCODER}\n{TRAIN}"));
    write(
        "class.toml",
        format!("{labeled}{ENCODER}\npooling = 'class'\nposition = 'learned'\n{TRAIN}"),
    );
    let plain = data("plain.txt", "plain.txt", "max_len = 20");
    write(
        "masked.toml",
        format!("{plain}{ENCODER}\nhead = 'masked_lm'\n{TRAIN}"),
    );
    let pictures = data(
        "pictures/train",
        "pictures/test",
        "[data.images]\nsize = [4, 4]\ngrayscale = true",
    );
    write(
        "vit.toml",
        format!(
            "{pictures}{VIT}\n{}",
            TRAIN.replace("max_steps = 60", "max_steps = 200")
        ),
    );
    for (seed, split) in ["train", "test"].into_iter().enumerate() {
        images(seed)
            .write(&sandbox.path().join("pictures").join(split))
            .expect("they can be written");
    }
    sandbox
}

#[test]
fn a_resumed_run_writes_the_bytes_of_a_straight_one() {
    let sandbox = sandbox();
    for arch in ["encoder", "class", "masked", "vit"] {
        let config = format!("{arch}.toml");
        let (straight, resumed) = (format!("{arch}-straight"), format!("{arch}-resumed"));
        sandbox.succeed(&[
            "train",
            &config,
            "--run",
            &straight,
            "--set",
            "train.max_steps=60",
        ]);
        sandbox.succeed(&[
            "train",
            &config,
            "--run",
            &resumed,
            "--set",
            "train.max_steps=20",
        ]);
        let (_, stderr) = sandbox.succeed(&[
            "train",
            &config,
            "--run",
            &resumed,
            "--set",
            "train.max_steps=60",
        ]);
        assert!(stderr.contains("resuming after step 20"), "{stderr}");
        let weights = |run: &str| {
            fs::read(
                sandbox
                    .path()
                    .join(run)
                    .join("checkpoints/step-60/model.safetensors"),
            )
            .expect("it is there")
        };
        assert!(weights(&straight) == weights(&resumed), "{arch}");
    }
}

#[test]
fn padding_is_what_check_counts_in_the_records_of_every_task() {
    let sandbox = sandbox();
    for config in ["tiny.toml", "encoder.toml", "masked.toml", "vit.toml"] {
        let batches = &sandbox.json(&["-q", "check", config, "--json"])["batches"];
        let steps = format!("train.max_steps={}", batches["steps_per_epoch"]);
        let run = format!("run-{config}");
        let sets = [
            &steps,
            "train.log_every=100000",
            "train.warmup_steps=1",
            "train.validate_every=100000",
        ];
        let sets = sets.into_iter().flat_map(|set| ["--set", set]);
        // On one core a batch is one shard, and padded as a whole.
        let mut train = sandbox.command(&["train", config, "--run", &run]);
        succeed(train.args(sets).env("RAYON_NUM_THREADS", "1"));
        let records = fs::read_to_string(sandbox.path().join(run).join("metrics.jsonl"))
            .expect("it was written");
        let record: serde_json::Value =
            serde_json::from_str(records.lines().next().expect("a record")).expect("it is JSON");
        let padding = |value: &serde_json::Value| value["padding"].as_f64().expect("a number");
        let (expected, actual) = (padding(batches), padding(&record));
        assert!(
            (expected - actual).abs() < 1e-9 && expected < 0.3,
            "{config}: {expected}, {actual}"
        );
    }
}

#[test]
fn a_classifier_of_texts_learns_scores_and_answers() {
    let sandbox = sandbox();
    for config in ["encoder.toml", "class.toml"] {
        let run = format!("run-{config}");
        let (stdout, stderr) = sandbox.succeed(&["train", config, "--run", &run]);
        assert!(
            stderr.contains("accuracy") && stdout.contains("test: 10 examples  accuracy 1.0000"),
            "{stderr}{stdout}"
        );
        let scores = sandbox.json(&["evaluate", &run, "--json"]);
        assert_eq!(
            (
                scores["accuracy"].as_f64(),
                scores["labels"].as_array().map(Vec::len)
            ),
            (Some(1.0), Some(2))
        );
        assert_eq!(
            (
                scores["labels"][0]["label"].as_str(),
                scores["labels"][0]["recall"].as_f64()
            ),
            (Some("even"), Some(1.0))
        );
        let table = sandbox.succeed(&["evaluate", &run]).0;
        assert!(
            table.contains("accuracy        1.0000")
                && table.contains("PRECISION")
                && !table.contains("token acc")
        );
        fs::write(sandbox.path().join("input"), "ccc yes ddd\n\nno eee\n")
            .expect("it can be written");
        let answers = sandbox.succeed(&["classify", &run, "input"]).0;
        let fed = sandbox.feed("input", &["classify", &run]);
        assert_eq!(answers.as_bytes(), fed.stdout);
        let answers: Vec<Vec<&str>> = answers
            .lines()
            .map(|line| line.split('\t').collect())
            .collect();
        assert_eq!(
            (answers[0][0], answers[1][0], answers[2][0]),
            ("even", "", "odd")
        );
        assert!(
            answers[0][1]
                .parse::<f64>()
                .is_ok_and(|probability| (0.5..=1.0).contains(&probability))
        );
        sandbox.succeed(&["attention", &run, "ccc yes ddd", "--out", "map.html"]);
        let page = fs::read_to_string(sandbox.path().join("map.html")).expect("it was written");
        assert!(
            page.contains("→ <bdi>even</bdi>")
                && page.contains("[class]") == (config == "class.toml")
        );
        sandbox.succeed(&[
            "attention",
            &run,
            "ccc yes",
            "--out",
            "map.svg",
            "--head",
            "2",
        ]);
        assert!(
            sandbox
                .succeed(&["info", &run])
                .0
                .contains("model        encoder, 1 layers, d_model 8")
        );
    }
    let message = sandbox.fail(2, &["translate", "run-encoder.toml", "input"]);
    assert!(
        message.contains("gives labels") && message.contains("`polyglow classify`"),
        "{message}"
    );
    assert!(
        sandbox
            .fail(2, &["generate", "run-encoder.toml"])
            .contains("`polyglow classify`")
    );
    let message = sandbox.fail(2, &["attention", "run-encoder.toml", "yes", "--pharaoh"]);
    assert!(message.contains("gives labels"), "{message}");
}

#[test]
fn a_label_that_training_has_not_is_named() {
    let sandbox = sandbox();
    fs::write(sandbox.path().join("test.tsv"), "even\tyes\nprime\tno\n")
        .expect("it can be written");
    let message = sandbox.fail(1, &["train", "encoder.toml", "--run", "run"]);
    assert!(
        message.contains("number 2 of the set has the label `prime`")
            && message.contains("`even`, `odd`"),
        "{message}"
    );
    let message = sandbox.fail(
        2,
        &[
            "train",
            "encoder.toml",
            "--run",
            "run",
            "--set",
            "model.num_decoder_layers=1",
        ],
    );
    assert!(message.contains("model.num_decoder_layers"), "{message}");
    let message = sandbox.fail(
        2,
        &[
            "train",
            "vit.toml",
            "--run",
            "run",
            "--set",
            "model.patch_size=3",
        ],
    );
    assert!(
        message.contains("model.patch_size") || message.contains("4 x 4"),
        "{message}"
    );
}

#[test]
fn only_labels_are_ranked_and_only_answers_are_counted() {
    let sandbox = sandbox();
    // So little training that the special tokens of the vocabulary are as probable as labels.
    sandbox.succeed(&[
        "train",
        "encoder.toml",
        "--run",
        "run",
        "--set",
        "train.max_steps=1",
        "--set",
        "train.lr=1e-9",
    ]);
    let scores = sandbox.json(&["evaluate", "run", "--json"]);
    assert!(
        scores["accuracy"].is_number() && scores["token_accuracy"].is_null(),
        "{scores}"
    );
    let texts: Vec<&str> = ["yes", "no", "yes no", "no yes yes"].repeat(5);
    let pairs = texts
        .iter()
        .map(|text| Pair {
            src: (*text).to_owned(),
            tgt: "even".to_owned(),
        })
        .collect();
    let runner = load_runner(sandbox.path().join("run"), &Device::flex()).expect("it is a run");
    let evaluation = evaluate(&runner, &HeldOut::Text(pairs), &BleuTokenizer::None.into())
        .expect("it can be scored");
    let guesses = classify(&runner, &texts).expect("they can be read");
    for (first, guess) in evaluation.first.iter().zip(guesses) {
        assert_eq!(
            runner.tgt.decode(first).expect("it is a label"),
            guess.label
        );
    }
}

#[test]
fn a_fork_teaches_labels_to_an_encoder_that_predicted_hidden_tokens() {
    let sandbox = sandbox();
    sandbox.succeed(&["train", "masked.toml", "--run", "masked"]);
    let scores = sandbox.json(&["evaluate", "masked", "--json"]);
    assert!(
        scores["token_accuracy"].is_number() && scores["accuracy"].is_null(),
        "{scores}"
    );
    assert_eq!(scores, sandbox.json(&["evaluate", "masked", "--json"]));
    let fork = [
        "train",
        "encoder.toml",
        "--run",
        "masked",
        "--checkpoint",
        "step-60",
        "--fork",
        "new",
    ];
    let (stdout, stderr) = sandbox.succeed(&fork);
    assert!(
        stderr.contains("the head and its labels") && stdout.contains("accuracy"),
        "{stderr}"
    );
    let read = |path: &str| fs::read(sandbox.path().join(path)).expect("it was written");
    assert_eq!(
        read("masked/tokenizer.json"),
        read("new/tokenizer.src.json")
    );
    let tensors = |path: &str| {
        polyglow_train::run::read_weights(&sandbox.path().join(path)).expect("it is whole")
    };
    let (mut old, mut new) = (
        tensors("masked/checkpoints/step-60/model.safetensors"),
        tensors("new/checkpoints/step-0/model.safetensors"),
    );
    for (name, shape) in [
        ("embedding.weight", [32, 8]),
        ("stack.layers.0.feed_forward.inner.weight", [8, 12]),
    ] {
        let [old, new] =
            [&mut old, &mut new].map(|weights| weights.take(name, &shape).expect("it is there"));
        assert_eq!(old, new, "{name}");
    }
    assert!(old.take("head.weight", &[8, 6]).is_err() && new.take("head.weight", &[8, 6]).is_ok());
    // What the layers are cannot change.
    let message = sandbox.fail(
        2,
        &[&fork[..7], &["other", "--set", "model.pooling=class"]].concat(),
    );
    assert!(message.contains("`model.pooling = "), "{message}");
    let message = sandbox.fail(2, &["translate", "masked", "plain.txt"]);
    assert!(message.contains("finds hidden tokens"), "{message}");
    let message = sandbox.fail(2, &["classify", "masked"]);
    assert!(
        message.contains("finds hidden tokens") && message.contains("--fork"),
        "{message}"
    );
}

#[test]
fn a_classifier_of_images_learns_answers_and_shows_where_it_looks() {
    let sandbox = sandbox();
    let (stdout, _) = sandbox.succeed(&["train", "vit.toml", "--run", "run"]);
    assert!(
        stdout.contains("test: 48 examples  accuracy 1.0000"),
        "{stdout}"
    );
    let (left, top) = (
        "pictures/test/left/00000.png",
        "pictures/test/top/00002.png",
    );
    let answers = sandbox.succeed(&["classify", "run", left, top]).0;
    let answers: Vec<Vec<&str>> = answers
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(
        answers
            .iter()
            .map(|answer| (answer[0], answer[2]))
            .collect::<Vec<_>>(),
        [("left", left), ("top", top)]
    );
    sandbox.succeed(&["attention", "run", left, "--out", "map.html"]);
    let page = fs::read_to_string(sandbox.path().join("map.html")).expect("it was written");
    // The picture itself, and two layers with a mean and two heads each.
    assert_eq!(
        (
            page.matches("<svg xmlns").count(),
            page.matches("<rect").count()
        ),
        (7, 7 * 4)
    );
    assert!(page.contains("→ <bdi>left</bdi>") && page.matches("<path fill").count() == 16);
    sandbox.succeed(&[
        "attention",
        "run",
        left,
        "--out",
        "map.svg",
        "--layer",
        "1",
        "--head",
        "2",
    ]);
    sandbox.succeed(&["attention", "run", left, "--out", "map.png"]);
    assert!(
        fs::read(sandbox.path().join("map.png"))
            .expect("it was written")
            .starts_with(b"\x89PNG\r\n")
    );
    assert!(
        sandbox
            .fail(
                2,
                &["attention", "run", left, "--out", "map.svg", "--layer", "3"]
            )
            .contains("the last is 2")
    );
    assert!(
        sandbox
            .fail(2, &["classify", "run"])
            .contains("no image is given")
    );
    assert!(
        sandbox
            .fail(1, &["classify", "run", "train.tsv"])
            .contains("neither a PNG nor a JPEG")
    );
}
