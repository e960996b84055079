//! Several languages in one model, corpora that come and go, and back-translations.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Sandbox, checkpoint};

/// One model that translates from English to German and to French, which are told apart by a tag.
const CONFIG: &str = r#"
[data]
train = [
    { path = "de.tsv" },
    { path = "fr.tsv", tgt = "fr", tgt_tag = "<2fr>", weight = 1.0 },
]
valid = "valid.tsv"
test = "test.tsv"
src = "en"
tgt = "de"
tgt_tag = "<2de>"
[tokenizer]
kind = "word"
[model]
d_model = 32
d_ff = 48
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
dropout = 0.0
[train]
max_tokens = 512
max_steps = 240
lr = 8e-3
warmup_steps = 40
validate_every = 240
save_every = 240
[search]
beam_size = 2
"#;

const WORDS: [&str; 6] = ["one", "two", "three", "four", "five", "six"];

/// Sentences of one to three words, all of them, in which no word is there twice.
fn sentences() -> Vec<Vec<&'static str>> {
    let mut sentences: Vec<Vec<&str>> = WORDS.iter().map(|word| vec![*word]).collect();
    let mut last = sentences.clone();
    for _ in 0..2 {
        let mut longer = Vec::new();
        for sentence in &last {
            for word in WORDS {
                if !sentence.contains(&word) {
                    longer.push([&sentence[..], &[word]].concat());
                }
            }
        }
        sentences.extend(longer.clone());
        last = longer;
    }
    sentences
}

/// A line of a TSV file: a sentence and its translation, word by word.
fn line(sentence: &[&str], translated: impl Fn(&str) -> String) -> String {
    let target: Vec<String> = sentence.iter().map(|word| translated(word)).collect();
    format!("{}\t{}\n", sentence.join(" "), target.join(" "))
}

fn german(word: &str) -> String {
    format!("{word}-de")
}

fn french(word: &str) -> String {
    format!("{word}-fr")
}

fn write(sandbox: &Sandbox, name: &str, text: &str) {
    fs::write(sandbox.path().join(name), text).expect("it can be written");
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with(CONFIG);
    let all = sentences();
    let text = |translated: fn(&str) -> String| -> String {
        all.iter()
            .map(|sentence| line(sentence, translated))
            .collect()
    };
    write(&sandbox, "de.tsv", &text(german));
    write(&sandbox, "fr.tsv", &text(french));
    write(&sandbox, "valid.tsv", &line(&["two", "one"], german));
    write(&sandbox, "test.tsv", &line(&["six", "two", "four"], german));
    write(
        &sandbox,
        "test_fr.tsv",
        &line(&["six", "two", "four"], french),
    );
    write(&sandbox, "input", "five two\n\none\n");
    sandbox
}

#[test]
fn a_model_of_several_languages_writes_the_one_that_is_asked_for_and_no_tag() {
    let sandbox = sandbox();
    sandbox.train("run", &[]);
    let translated = |options: &[&str]| {
        let arguments = [&["translate", "run", "input"], options].concat();
        sandbox.succeed(&arguments).0
    };
    let expected = "five-de two-de\n\none-de\n";
    assert_eq!(translated(&[]), expected);
    assert_eq!(translated(&["--to", "de"]), expected);
    let expected = "five-fr two-fr\n\none-fr\n";
    for options in [
        &["--to", "fr"][..],
        &["--to", "<2fr>", "--from", "en"],
        &["--set", "data.tgt_tag=<2fr>"],
    ] {
        assert_eq!(translated(options), expected, "{options:?}");
    }
    // With what a translation begins with, too.
    write(&sandbox, "prefix", "five-fr\n\n\n");
    assert_eq!(translated(&["--to", "fr", "--prefix", "prefix"]), expected);

    let error = sandbox.fail(2, &["translate", "run", "input", "--to", "it"]);
    assert!(
        error.contains("the model was not trained to translate to `it`")
            && error.contains("it translates `en` to `de` (`<2de>`), `en` to `fr` (`<2fr>`)"),
        "{error}"
    );
    let error = sandbox.fail(
        2,
        &["translate", "run", "input", "--set", "data.tgt_tag=<2it>"],
    );
    assert!(
        error.contains("there is no tag `<2it>`; it has `<2de>`, `<2fr>`"),
        "{error}"
    );

    // Scores are those of the text.
    let scores = sandbox.json(&["evaluate", "run", "--json"]);
    assert_eq!(scores["exact_match"], 1.0, "{scores}");
    // The columns of that file are English and German.
    let error = sandbox.fail(2, &["evaluate", "run", "--to", "fr"]);
    assert!(
        error.contains("the set is in the languages of the run's own config, not to `fr`"),
        "{error}"
    );
    let french = ["--to", "fr", "--set", "data.test=test_fr.tsv"];
    let arguments = [&["evaluate", "run", "--json"], &french[..]].concat();
    let scores = sandbox.json(&arguments);
    assert_eq!(scores["exact_match"], 1.0, "{scores}");
    write(&sandbox, "src", "five two\n");
    write(&sandbox, "tgt", "five-fr two-fr\n");
    let log_probs_of = |options: &[&str]| {
        let arguments = [&["score", "run", "src", "tgt", "--json"], options].concat();
        sandbox.json(&arguments)
    };
    let record = log_probs_of(&["--to", "fr"]);
    let tokens: Vec<&Value> = record["tokens"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|token| &token["token"])
        .collect();
    assert_eq!(tokens, ["five-fr", "two-fr", "</s>"]);
    let log_prob = |record: &Value| record["log_prob"].as_f64().expect("a number");
    assert!(log_prob(&record) > -0.5, "{record}");
    assert!(log_prob(&log_probs_of(&[])) < -3.0, "{record}");

    // Other programs are told of the tags, where they have a place for them.
    let export = |to: &'static str| ["export", "run", "--to", to, "--out", to];
    sandbox.succeed(&export("ctranslate2"));
    let card =
        fs::read_to_string(sandbox.path().join("ctranslate2/README.md")).expect("it is there");
    assert!(card.contains(r#"target_prefix=[["<2de>"]]"#), "{card}");
    let error = sandbox.fail(2, &export("argos"));
    assert!(
        error.contains("texts of this model begin with `<2de>`"),
        "{error}"
    );
    assert!(!sandbox.path().join("argos").exists());

    // A search gives the same log-probability: its first token is free.
    let table = translated(&["--to", "fr", "--format", "jsonl"]);
    let first: Value = serde_json::from_str(table.lines().next().expect("a line")).expect("JSON");
    let searched = first["hypotheses"][0]["log_prob"]
        .as_f64()
        .unwrap_or_else(|| panic!("{first}"));
    assert!((searched - log_prob(&record)).abs() < 1e-4, "{first}");
}

#[test]
fn a_tag_before_sources_needs_one_tokenizer_in_hugging_faces_format() {
    let sandbox = Sandbox::new();
    let train = ["train", "tiny.toml", "--run", "run"];
    let tagged = [
        "--set",
        "model.tie_embeddings=decoder",
        "--set",
        "data.src_tag='<en>'",
        "--set",
        "tokenizer.shared=false",
    ];
    sandbox.succeed(&[&train[..], &tagged].concat());
    let export = ["export", "run", "--to", "huggingface", "--out", "out"];
    let error = sandbox.fail(2, &export);
    assert!(
        error.contains("with two tokenizers, transformers cannot put a tag before a source"),
        "{error}"
    );
    assert!(!sandbox.path().join("out").exists());
}

#[test]
fn a_run_whose_corpora_change_is_resumed_at_every_step_to_the_same_weights() {
    let sandbox = sandbox();
    let changes = "data.train=[{path='de.tsv',until=7},{path='fr.tsv',from=4,tag='<bt>',noise={typos=0.5,dropped_words=0.2}}]";
    let overrides = [
        "data.tgt_tag=<2de>",
        changes,
        "train.save_every=1",
        "train.schedule=constant",
        "train.max_tokens=64",
        "train.validate_every=100",
    ];
    let train = |run: &str, max_steps: u64| {
        let max_steps = format!("train.max_steps={max_steps}");
        sandbox.train(run, &[&overrides[..], &[&max_steps]].concat());
    };
    train("straight", 9);
    let hash = |run: &str| {
        let last = checkpoint(&sandbox.path().join(run), "last");
        last.model_hash().expect("it was saved").to_owned()
    };
    for stop in [3, 4, 5, 7, 8] {
        let run = format!("stopped-{stop}");
        train(&run, stop);
        train(&run, 9);
        assert_eq!(hash(&run), hash("straight"), "stopped after {stop}");
    }
    // An epoch ends with each change.
    let state = checkpoint(&sandbox.path().join("straight"), "last").state;
    assert!(state.epoch >= 2, "{state:?}");
}

#[test]
fn back_translations_are_made_cleaned_and_trained_with() {
    let sandbox = sandbox();
    let mono: String = sentences()
        .iter()
        .filter(|sentence| sentence.len() < 3)
        .map(|sentence| line(sentence, german))
        .map(|line| line.split_once('\t').expect("two sides").1.to_owned())
        .collect();
    // A blank line has no translation, and one of the test set is not to be trained on.
    write(
        &sandbox,
        "mono.de",
        &format!("{mono}\nsix-de two-de four-de\n"),
    );
    let arguments = [
        "backtranslate",
        "tiny.toml",
        "--mono",
        "mono.de",
        "--out",
        "bt",
        "--set",
        "data.train=de.tsv",
    ];
    let (printed, message) = sandbox.succeed(&arguments);
    assert!(printed.contains("\ntest: 2 ("), "{printed}");
    assert!(
        message.contains("{ path = \"bt/train\", tag = \"<bt>\" }"),
        "{message}"
    );
    let read = |name: &str| fs::read_to_string(sandbox.path().join(name)).expect("it is there");
    let (src, tgt) = (read("bt/train.en"), read("bt/train.de"));
    // The small model may be wrong about a pair or two.
    assert!((30..=36).contains(&src.lines().count()), "{src}");
    let is_right = |(src, tgt): &(&str, &str)| {
        let expected: Vec<String> = src.split(' ').map(german).collect();
        *tgt == expected.join(" ")
    };
    let num_right = src.lines().zip(tgt.lines()).filter(is_right).count();
    assert!(num_right >= 28, "{src}{tgt}");
    let left: Vec<String> = fs::read_dir(sandbox.path().join("bt"))
        .expect("it is there")
        .map(|file| file.expect("it is there").file_name().display().to_string())
        .collect();
    assert_eq!(left.len(), 8, "{left:?}");
    // Lines that are named are there to be looked at.
    let removed = read("bt/removed.tsv");
    let row: Vec<&str> = removed
        .lines()
        .nth(1)
        .expect("the test set's line goes")
        .split('\t')
        .collect();
    let (file, line) = row[1].split_once(':').expect("a file and a line");
    let line: usize = line.parse().expect("a number");
    let translated = read(file);
    assert_eq!(translated.lines().nth(line - 1), Some(row[2]), "{removed}");
    // A command that ends between its last steps, here because the report cannot be written, continues
    // with what is there.
    let table = "ended/translations-00000000.tsv";
    let report = sandbox.path().join("ended/report.json/in-the-way");
    fs::create_dir_all(&report).expect("it can be made");
    let mut ended = arguments;
    ended[5] = "ended";
    let error = sandbox.fail(2, &ended);
    assert!(error.contains("`ended` has files already"), "{error}");
    // Beside the table of another command, and a file of the user's that is called like one.
    write(&sandbox, table, "");
    write(&sandbox, "ended/translations.txt", "mine\n");
    sandbox.fail(1, &ended);
    assert!(sandbox.path().join("ended/train.en").exists());
    fs::remove_dir_all(sandbox.path().join("ended/report.json")).expect("it can be removed");
    sandbox.succeed(&ended);
    assert_eq!(read("ended/train.en"), src);
    assert_eq!(read("ended/train.de"), tgt);
    assert_eq!(read("ended/translations.txt"), "mine\n");
    assert!(!sandbox.path().join(table).exists());

    // The model of the other direction is a run like any other.
    assert!(Path::new(&sandbox.path().join("runs/tiny-reverse")).is_dir());
    write(&sandbox, "german", "four-de one-de\n");
    let (back, _) = sandbox.succeed(&["translate", "runs/tiny-reverse", "german"]);
    assert_eq!(back, "four one\n");

    let error = sandbox.fail(2, &arguments);
    assert!(error.contains("`bt` has files already"), "{error}");
    // A group that the config leaves out removes nothing.
    let mut with_held_out = arguments;
    with_held_out[5] = "with-held-out";
    let without = [
        "--set",
        "data.clean.without=['held-out']",
        "--model",
        "runs/tiny-reverse",
    ];
    let (printed, _) = sandbox.succeed(&[&with_held_out[..], &without].concat());
    assert!(!printed.contains("\ntest: "), "{printed}");
    let has_held_out = |text: String| text.lines().any(|line| line == "six-de two-de four-de");
    assert!(!has_held_out(read("bt/train.de")));
    assert!(has_held_out(read("with-held-out/train.de")));
    // Before the other direction is trained.
    write(&sandbox, "empty.de", "\n \n");
    let nothing = [
        "backtranslate",
        "tiny.toml",
        "--mono",
        "empty.de",
        "--out",
        "nothing",
    ];
    let error = sandbox.fail(2, &nothing);
    assert!(error.contains("`empty.de` has no text"), "{error}");
    assert!(!sandbox.path().join("nothing").exists());
    // What must not be trained on is looked for before the translation.
    let mut without_test = arguments;
    without_test[5] = "without-test";
    let rest = ["--set", "data.test=gone", "--model", "runs/tiny-reverse"];
    let error = sandbox.fail(1, &[&without_test[..], &rest].concat());
    assert!(error.contains("gone"), "{error}");
    assert!(!sandbox.path().join("without-test").exists());
    // The forward model reads the other language.
    let wrong = [
        "backtranslate",
        "tiny.toml",
        "--mono",
        "mono.de",
        "--out",
        "wrong",
    ];
    sandbox.train("forward", &["data.train=de.tsv", "train.max_steps=2"]);
    let error = sandbox.fail(2, &[&wrong[..], &["--model", "forward"]].concat());
    assert!(
        error.contains("the model was not trained to translate from `de` to `en`"),
        "{error}"
    );
    // With what the model is least sure of left out, by the run that is there.
    let more = [
        "backtranslate",
        "tiny.toml",
        "--mono",
        "mono.de",
        "--out",
        "half",
        "--model",
        "runs/tiny-reverse",
        "--keep",
        "0.5",
        "--no-clean",
        "--beam-size",
        "1",
    ];
    let (_, message) = sandbox.succeed(&more);
    assert!(
        message.contains("are left out, whose translations score less than"),
        "{message}"
    );
    let num_kept = read("half/train.en").lines().count();
    assert!((17..=20).contains(&num_kept), "{num_kept}");
    assert!(!sandbox.path().join("half/translated.en").exists());
    let mixture = "data.train=[{path='de.tsv'},{path='bt/train',tag='<bt>',weight=0.5}]";
    sandbox.train("mixed", &[mixture, "train.max_steps=3"]);
}
