//! A run whose directory was moved to where the files of its config are not.

use std::fs;
use std::path::Path;

use crate::program::Sandbox;

/// Another empty sandbox with a copy of the run.
fn moved(from: &Sandbox) -> Sandbox {
    let sandbox = Sandbox::with("");
    copy(&from.path().join("run"), &sandbox.path().join("run"));
    sandbox
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("it can be made");
    for entry in fs::read_dir(from).expect("it can be read") {
        let entry = entry.expect("it can be read");
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        // Links to checkpoints are copied as the directories that they are.
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("it can be copied");
        }
    }
}

#[test]
fn a_moved_run_is_scored_on_the_text_that_it_keeps() {
    let home = Sandbox::trained();
    for split in ["test", "valid"] {
        let scores = home.json(&["evaluate", "run", "--split", split, "--json"]);
        let away = moved(&home);
        let (output, message) = away.succeed(&["evaluate", "run", "--split", split, "--json"]);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&output).expect("it is JSON")["bleu"],
            scores["bleu"]
        );
        assert!(
            message.contains(&format!("there is no file `{split}.en`")),
            "{message}"
        );
        assert_eq!(
            message
                .matches("the text that the run keeps in `run/held-out/`")
                .count(),
            1,
            "{message}"
        );
    }
    let away = moved(&home);
    away.succeed(&["info", "run"]);
    // An export is verified on the text that the run keeps.
    let (_, message) = away.succeed(&["export", "run", "--to", "huggingface", "--out", "out"]);
    assert!(message.contains("lines as the run does"), "{message}");
    away.succeed(&["report", "run"]);
    let page = fs::read_to_string(away.path().join("report.html")).expect("it was written");
    assert!(
        page.contains("look aaa now") || page.contains("now look aaa"),
        "no source in {page}"
    );
    away.fail(1, &["evaluate", "run", "--split", "train"]);
    // Another name is not replaced.
    assert!(
        away.fail(1, &["evaluate", "run", "--set", "data.test=typo"])
            .contains("typo.en")
    );

    fs::write(away.path().join("run/held-out/test.tgt"), "edited\n").expect("it can be written");
    let message = away.fail(1, &["evaluate", "run"]);
    assert!(
        message.contains("test.tgt` is not the text of when training began"),
        "{message}"
    );
    fs::remove_dir_all(away.path().join("run/held-out")).expect("it can be removed");
    let message = away.fail(1, &["evaluate", "run"]);
    assert!(
        message.contains("there is no file `test.en`") && message.contains("no copy"),
        "{message}"
    );
}

#[test]
fn files_that_have_changed_since_training_began_are_named() {
    let sandbox = Sandbox::trained();
    assert!(
        !sandbox
            .succeed(&["evaluate", "run"])
            .1
            .contains("when training began")
    );
    sandbox.write(
        "test",
        &[("look aaa now".to_owned(), "aaa sieh".to_owned())],
    );
    let (output, message) = sandbox.succeed(&["evaluate", "run"]);
    assert!(
        message.contains("`test.en`, which is not the text of when training began"),
        "{message}"
    );
    assert!(output.contains("1 sentences"), "{output}");
}

/// A classifier of texts, or a language model, of single files.
fn one_file(model: &str) -> String {
    format!(
        "[data]\ntrain = 'train.txt'\nvalid = 'valid.txt'\ntest = {{ 'a/b' = 'test.txt' }}\n[tokenizer]\nkind = 'word'\n\
         [model]\n{model}\nd_model = 8\nd_ff = 12\nnum_heads = 2\n[train]\nmax_tokens = 64\nmax_steps = 2\nwarmup_steps = 1\n"
    )
}

#[test]
fn texts_with_labels_and_texts_with_one_side_are_kept_too() {
    let labeled = (
        "arch = 'encoder'\nnum_encoder_layers = 1",
        "good\tlook aaa now\nbad\tnow look bbb\n",
        "accuracy",
    );
    let one_sided = (
        "arch = 'lm'\nnum_decoder_layers = 1",
        "look aaa now\nnow look bbb\n",
        "bits_per_byte",
    );
    for (model, text, score) in [labeled, one_sided] {
        let home = Sandbox::with(&one_file(model));
        for split in ["train", "valid", "test"] {
            fs::write(home.path().join(format!("{split}.txt")), text).expect("it can be written");
        }
        home.train("run", &[]);
        let away = moved(&home);
        let evaluate = ["evaluate", "run", "--split", "a/b", "--json"];
        assert_eq!(
            away.json(&evaluate)[score],
            home.json(&evaluate)[score],
            "{model}"
        );
        // Only a language model is compared with the n-grams of its training text.
        assert!(away.json(&evaluate)["ngram"].is_null());
    }
}
