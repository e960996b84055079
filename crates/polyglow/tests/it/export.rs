//! `polyglow export` and `polyglow import`.

use std::fs;
use std::path::Path;

use crate::program::{Sandbox, checkpoint};

/// The names in a directory, in order.
fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("it is there");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("it is there")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

#[test]
fn a_run_goes_out_with_a_card_and_comes_back_to_be_used_as_any_other() {
    let sandbox = Sandbox::trained();
    fs::write(
        sandbox.path().join("input"),
        "look aaa now\n\nlook bbb now\n",
    )
    .expect("it can be written");
    let translate = |run: &str| {
        sandbox
            .succeed(&["translate", run, "input", "--beam-size", "2"])
            .0
    };
    let expected = translate("run");
    for (format, files) in [
        (
            "ctranslate2",
            "README.md config.json model.bin shared_vocabulary.json tokenizer.json",
        ),
        (
            "huggingface",
            "README.md config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json",
        ),
    ] {
        let set = "license=cc-by-4.0";
        let (_, stderr) = sandbox.succeed(&[
            "export", "run", "--to", format, "--out", format, "--set", set,
        ]);
        assert!(
            stderr.contains("translates 4 lines as the run does"),
            "{stderr}"
        );
        assert_eq!(names(&sandbox.path().join(format)).join(" "), files);
        let card =
            fs::read_to_string(sandbox.path().join(format).join("README.md")).expect("it is there");
        assert!(
            card.starts_with("---\nlanguage:\n- \"en\"\n- \"de\"\nlicense: \"cc-by-4.0\"\n"),
            "{card}"
        );
        for part in [
            "value: ",
            "nrefs:1",
            "| the tokenizers | `",
            "| the weights, as the run has them | `",
            "[model]",
        ] {
            assert!(card.contains(part), "{part}: {card}");
        }
        let again = format!("{format}-run");
        sandbox.succeed(&["import", format, "--run", &again]);
        assert_eq!(translate(&again), expected, "{format}");
        // Its config names no text.
        let (info, _) = sandbox.succeed(&["info", &again]);
        assert!(info.contains("state "), "{info}");
        let message = sandbox.fail(2, &["export", "run", "--to", format, "--out", format]);
        assert!(message.contains("is there already"), "{message}");
        assert!(
            sandbox
                .fail(2, &["import", format, "--run", &again])
                .contains("is there already")
        );
    }
    let run = "huggingface-run";
    let data = [
        "--set",
        "data.src=en",
        "--set",
        "data.tgt=de",
        "--set",
        "data.test=test",
    ];
    let scores = sandbox.json(&[&["evaluate", run, "--json"], &data[..]].concat());
    assert!(scores["loss"].as_f64().expect("a number").is_finite());
    sandbox.succeed(&["average", run]);
    sandbox.succeed(&["quantize", run]);
    sandbox.succeed(&[
        "export",
        run,
        "--to",
        "ctranslate2",
        "--out",
        "int8",
        "--checkpoint",
        "int8",
    ]);
    let config = format!("{run}/config.toml");
    let fork = [
        "train",
        &config,
        "--run",
        run,
        "--fork",
        "tuned",
        "--set",
        "data.train=train",
        "--set",
        "train.max_epochs=2",
    ];
    let (_, stderr) = sandbox.succeed(&[&fork[..], &data[..4]].concat());
    assert!(stderr.contains("forked from"), "{stderr}");
    assert!(
        checkpoint(&sandbox.path().join("tuned"), "last")
            .path
            .exists()
    );
}

#[test]
fn eight_and_sixteen_bits_take_a_quarter_and_half_of_the_room() {
    let sandbox = Sandbox::trained();
    let size = |precision: &str| {
        sandbox.succeed(&[
            "export",
            "run",
            "--to",
            "ctranslate2",
            "--precision",
            precision,
            "--out",
            precision,
        ]);
        fs::metadata(sandbox.path().join(precision).join("model.bin"))
            .expect("it is there")
            .len()
    };
    let (float32, float16, int8) = (size("float32"), size("float16"), size("int8"));
    // The table of positions stays in f32 next to matrices in 8 bits, and is most of this model.
    assert!(
        float16 < float32 * 6 / 10 && int8 < float32,
        "{float32}, {float16}, {int8}"
    );
}

#[test]
fn a_unigram_model_becomes_a_package_of_argos() {
    let sandbox = Sandbox::new();
    sandbox.train(
        "run",
        &["tokenizer.kind=unigram", "tokenizer.vocab_size=60"],
    );
    sandbox.succeed(&["export", "run", "--to", "argos", "--out", "argos"]);
    assert_eq!(
        names(&sandbox.path().join("argos")),
        ["translate-en_de-1_0.argosmodel"]
    );
    let bytes =
        fs::read(sandbox.path().join("argos/translate-en_de-1_0.argosmodel")).expect("it is there");
    let has = |text: &str| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    assert!(
        has("translate-en_de-1_0/model/model.bin")
            && has("\"from_name\":\"English\"")
            && has("TransformerSpec")
    );
    sandbox.succeed(&["export", "run", "--to", "sentencepiece", "--out", "spm"]);
    assert_eq!(
        names(&sandbox.path().join("spm")),
        ["README.md", "sentencepiece.model"]
    );
}

#[test]
fn what_a_format_has_no_place_for_is_refused_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    sandbox.train(
        "run",
        &[
            "tokenizer.kind=bpe",
            "tokenizer.vocab_size=300",
            "model.activation=swiglu",
        ],
    );
    for (format, reason) in [
        ("huggingface", "gated"),
        ("argos", "SentencePiece does not have"),
        ("sentencepiece", "SentencePiece does not have"),
    ] {
        let message = sandbox.fail(2, &["export", "run", "--to", format, "--out", "out"]);
        assert!(message.contains(reason), "{format}: {message}");
        assert!(
            !names(sandbox.path())
                .iter()
                .any(|name| name.starts_with("out")),
            "{format}"
        );
    }
    assert!(
        sandbox
            .fail(2, &["export", "run", "--to", "onnx", "--out", "out"])
            .contains("ctranslate2")
    );
    let message = sandbox.fail(
        2,
        &[
            "export",
            "run",
            "--to",
            "ctranslate2",
            "--out",
            "out",
            "--set",
            "model.norm=pre",
        ],
    );
    assert!(
        message.contains("trained with that key and depends on it"),
        "{message}"
    );
    let message = sandbox.fail(2, &["import", ".", "--run", "out"]);
    assert!(
        message.contains("holds no model that can be read"),
        "{message}"
    );
}

#[test]
fn a_config_that_does_not_fit_the_weights_is_an_error_that_leaves_nothing() {
    let sandbox = Sandbox::trained();
    let config = sandbox.path().join("run/config.toml");
    let text = fs::read_to_string(&config).expect("it is there");
    fs::write(
        &config,
        text.replace("tie_embeddings = \"all\"", "tie_embeddings = \"none\""),
    )
    .expect("it can be written");
    let message = sandbox.fail(1, &["export", "run", "--to", "ctranslate2", "--out", "out"]);
    assert!(message.contains("there is no tensor"), "{message}");
    assert!(
        !names(sandbox.path())
            .iter()
            .any(|name| name.starts_with("out"))
    );
}
