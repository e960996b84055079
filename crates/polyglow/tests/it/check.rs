//! `polyglow check`, and what `polyglow train` checks before its first step.

use std::fs;

use serde_json::{Value, json};

use crate::program::{Sandbox, succeed, train_pairs, word};

/// A sandbox whose text has everything that is worth a warning.
fn dirty() -> Sandbox {
    let sandbox = Sandbox::new();
    let mut train = train_pairs();
    train.extend((0..10).map(|_| train_pairs()[0].clone()));
    train.extend((0..6).map(|index| (word(index), word(index))));
    train.extend((0..5).map(|index| (format!("now {}", word(index)), String::new())));
    train.extend((0..3).map(|index| (word(index), format!("{} ", word(index)).repeat(21))));
    sandbox.write("train", &train);
    let test = [
        ("look aaa now", "aaa sieh"),
        ("look strangely", "sieh"),
        ("now look", "sieh"),
    ];
    sandbox.write(
        "test",
        &test.map(|(src, tgt)| (src.to_owned(), tgt.to_owned())),
    );
    sandbox
}

fn check(sandbox: &Sandbox, overrides: &[&str]) -> Value {
    let mut arguments = vec!["-q", "check", "tiny.toml", "--json"];
    arguments.extend(overrides.iter().flat_map(|set| ["--set", *set]));
    sandbox.json(&arguments)
}

#[test]
fn clean_text_is_counted_and_gives_no_warning() {
    let sandbox = Sandbox::new();
    let report = check(&sandbox, &[]);
    let names: Vec<_> = report["splits"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|split| &split["name"])
        .collect();
    assert_eq!(names, ["train", "valid", "test"]);
    let train = json!({
        "name": "train", "pairs": 26, "kept": 26, "empty": 0, "too_long": 0, "ratio": 0,
        "src": { "tokens": 78, "mean_len": 3.0, "longest": 3, "unknown": 0, "unknown_rate": 0.0, "tokens_per_char": 0.25,
            "changed_words": 0 },
        "tgt": { "tokens": 52, "mean_len": 2.0, "longest": 2, "unknown": 0, "unknown_rate": 0.0, "tokens_per_char": 0.25,
            "changed_words": 0 },
        "duplicates": 0, "copies": 0, "in_train": null, "targets_in_train": null, "length_correlation": null,
    });
    assert_eq!(report["splits"][0], train);
    assert_eq!(
        (
            &report["splits"][2]["in_train"],
            &report["splits"][2]["targets_in_train"]
        ),
        (&json!(0), &json!(0))
    );
    assert_eq!(
        (&report["warnings"], &report["findings"]),
        (&json!([]), &json!([]))
    );
    // 26 words, `look`, `now`, `sieh` and the four special tokens.
    assert_eq!(
        report["vocabulary"],
        json!({ "src": 33, "tgt": 33, "shared": true })
    );
    // Rows are 4 + 3 positions with the ends of sentence, so a batch of 64 has 16 of them.
    let batches = &report["batches"];
    assert_eq!(
        batches["largest"],
        json!({ "rows": 16, "src_len": 4, "tgt_len": 3 })
    );
    assert_eq!(
        (
            &batches["per_epoch"],
            &batches["steps"],
            &batches["padding"]
        ),
        (&json!(2), &json!(6), &json!(0.0))
    );
    let number = |pointer: &str| {
        report
            .pointer(pointer)
            .and_then(Value::as_f64)
            .expect("a number")
    };
    let bytes = |part: &str| report["memory"][part].as_u64().expect("a number");
    assert_eq!(
        bytes("weights"),
        4 * report["parameters"].as_u64().expect("a number")
    );
    let parts = ["weights", "gradients", "optimizer", "ema", "activations"];
    assert_eq!(bytes("total"), parts.map(bytes).iter().sum::<u64>());
    // An untrained model knows little more than that there are 33 tokens.
    assert!((number("/step/loss") - 33f64.ln()).abs() < 1.0, "{report}");
    assert!(number("/step/seconds") > 0.0 && number("/step/grad_norm") > 0.0);
    // Six steps, with a validation after every third.
    assert_eq!(
        (&report["time"]["steps"], &report["time"]["validations"]),
        (&json!(6), &json!(2))
    );
    let parts = 6.0 * number("/time/step_seconds") + 2.0 * number("/time/validation_seconds");
    assert!(
        (number("/time/total_seconds") - parts).abs() < 1e-9 && parts > 0.0,
        "{report}"
    );
    // Three saves and two best ones at most, and one that is being written; the weights, and two
    // numbers of Adam for each.
    let disk = |part: &str| report["disk"][part].as_u64().expect("a number");
    assert_eq!(disk("checkpoints"), 6);
    assert!(
        disk("checkpoint") > 3 * bytes("weights") && disk("total") > 6 * disk("checkpoint"),
        "{report}"
    );
}

#[test]
fn whatever_is_suspicious_is_counted_and_warned_of() {
    let sandbox = dirty();
    let report = check(&sandbox, &["train.warmup_steps=9"]);
    let train = &report["splits"][0];
    for (key, count) in [
        ("pairs", 50),
        ("kept", 42),
        ("empty", 5),
        ("too_long", 3),
        ("duplicates", 10),
        ("copies", 6),
    ] {
        assert_eq!(train[key], count, "{key}");
    }
    assert_eq!(report["splits"][2]["in_train"], 1);
    assert_eq!(report["splits"][2]["src"]["unknown"], 1);
    let cleaning = &report["cleaning"];
    assert_eq!(
        (
            &cleaning["removed"]["empty"],
            &cleaning["removed"]["repeat"]
        ),
        (&json!(5), &json!(3)),
        "{cleaning}"
    );
    let cleaned = check(&sandbox, &["data.clean=true"]);
    assert_eq!(cleaned["cleaning"], Value::Null);
    let warnings = [
        "train: 8 pairs (16.0 %) are left out: 5 with an empty side, 3 too long, 0 by length ratio",
        "train: 10 pairs (20.0 %) repeat an earlier one",
        "train: 6 pairs (12.0 %) have a target that is their source",
        "test: 14.3 % of the source tokens are unknown to the vocabulary",
        "test: 1 pairs (33.3 %) have a source that is also in the training text",
        "test: 1 pairs (33.3 %) have a target that is also in the training text",
        "the warm-up of 9 steps is not shorter than the training of 6",
    ];
    let messages: Vec<_> = report["warnings"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|finding| &finding["message"])
        .collect();
    assert_eq!(messages, warnings);
    let findings = report["findings"].as_array().expect("a list");
    let finding = |check: &str| {
        findings
            .iter()
            .find(|finding| finding["check"] == check)
            .expect("it was reported")
    };
    let empty = finding("empty");
    assert_eq!(
        (&empty["count"], &empty["fate"]),
        (&json!(5), &json!("left out of the training"))
    );
    let lines = |check: &str| -> Vec<u64> {
        let examples = finding(check)["examples"].as_array().expect("a list");
        examples
            .iter()
            .map(|example| example["line"].as_u64().expect("a line"))
            .collect()
    };
    assert_eq!(
        (lines("duplicates"), lines("copies")),
        (vec![27, 28, 29], vec![37, 38, 39])
    );
    assert_eq!(
        (lines("empty"), lines("too_long")),
        (vec![43, 44, 45], vec![48, 49, 50])
    );
    let known = json!([{ "file": "test.en", "line": 1, "src": "look aaa now", "tgt": "aaa sieh", "same_as": "train.en:1" }]);
    assert_eq!(
        (
            &finding("source_in_train")["examples"],
            &finding("target_in_train")["examples"]
        ),
        (&known, &known)
    );
}

#[test]
fn every_line_of_a_finding_is_listed() {
    let sandbox = dirty();
    let report = check(&sandbox, &[]);
    let findings = report["findings"].as_array().expect("a list");
    let finding = |check: &str| {
        findings
            .iter()
            .find(|finding| finding["check"] == check)
            .expect("it was reported")
    };
    assert_eq!(
        finding("duplicates")["lines"],
        json!({ "train.en": (27..=36).collect::<Vec<u64>>() })
    );
    assert_eq!(
        finding("empty")["lines"],
        json!({ "train.en": (43..=47).collect::<Vec<u64>>() })
    );
    sandbox.succeed(&["-q", "check", "tiny.toml", "--list", "lists"]);
    let list = |name: &str| {
        fs::read_to_string(sandbox.path().join(format!("lists/{name}.txt")))
            .expect("it was written")
    };
    assert_eq!(
        list("train.too_long"),
        "train.en:48\ntrain.en:49\ntrain.en:50\n"
    );
    assert_eq!(list("test.source_in_train"), "test.en:1\n");
}

#[test]
fn held_out_text_is_counted_as_it_is_scored() {
    let sandbox = Sandbox::new();
    let mut train = train_pairs();
    // Left out of the training: blank, and too long.
    train.push(("only here".to_owned(), String::new()));
    train.push(("look look now ".repeat(20), "sieh ".repeat(60)));
    sandbox.write("train", &train);
    let test = [
        ("only here", "nur hier"),
        (&*"look look now ".repeat(20), &*"sieh ".repeat(60)),
        ("look bbb now", ""),
        ("look\u{a0}ccc now", "ccc sie\u{ad}h"),
        ("", ""),
    ];
    sandbox.write(
        "test",
        &test.map(|(src, tgt)| (src.to_owned(), tgt.to_owned())),
    );
    let report = check(&sandbox, &[]);
    let test = &report["splits"][2];
    for (key, count) in [
        ("pairs", 5),
        ("kept", 5),
        ("empty", 2),
        ("too_long", 1),
        ("in_train", 1),
    ] {
        assert_eq!(test[key], count, "{key}");
    }
    assert_eq!(test["tgt"]["changed_words"], 1, "{report}");
    let findings = report["findings"].as_array().expect("a list");
    let finding = |check: &str| {
        findings
            .iter()
            .find(|finding| finding["check"] == check && finding["split"] == "test")
    };
    let empty = finding("empty").expect("it was reported");
    assert_eq!(
        (&empty["lines"], &empty["fate"]),
        (
            &json!({ "test.en": [3, 5] }),
            &json!("counted in the scores as it stands")
        )
    );
    assert_eq!(
        finding("source_in_train").expect("`look bbb now` is")["lines"],
        json!({ "test.en": [3] })
    );
    let spaces = finding("spaces").expect("there is a no-break space");
    assert_eq!(
        spaces["fate"],
        "cleaned before they are encoded (`tokenizer.clean_text`)"
    );
    let warned = report["warnings"].to_string();
    assert!(
        warned.contains("test: 2 pairs (40.0 %) have an empty side") && !warned.contains("U+00A0"),
        "{warned}"
    );
}

#[test]
fn only_the_examples_that_are_trained_on_count() {
    let sandbox = dirty();
    let report = check(&sandbox, &["data.max_examples=27"]);
    let train = &report["splits"][0];
    assert_eq!(
        (&train["pairs"], &train["duplicates"], &train["copies"]),
        (&json!(27), &json!(1), &json!(0))
    );
    assert!(
        report["findings"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|finding| finding["check"] != "empty"),
        "{report}"
    );
}

/// English and German sentences, from the embedded corpus.
fn sentences(sandbox: &Sandbox, count: usize) -> Vec<(String, String)> {
    sandbox.succeed(&["-q", "corpus", "mini-en-de", "mini"]);
    let read = |side: &str| {
        fs::read_to_string(sandbox.path().join("mini/train").with_extension(side))
            .expect("it is there")
    };
    let (en, de) = (read("en"), read("de"));
    en.lines()
        .zip(de.lines())
        .take(count)
        .map(|(en, de)| (en.to_owned(), de.to_owned()))
        .collect()
}

#[test]
fn sides_that_are_swapped_or_shifted_are_reported() {
    let sandbox = Sandbox::new();
    let pairs = sentences(&sandbox, 600);
    sandbox.write("train", &pairs);
    let held_out = &pairs[..100];
    sandbox.write("test", held_out);
    let swapped: Vec<_> = held_out
        .iter()
        .map(|(en, de)| (de.clone(), en.clone()))
        .collect();
    sandbox.write("valid", &swapped);
    let messages = |report: &Value| -> Vec<String> {
        let warnings = report["warnings"].as_array().expect("a list");
        warnings
            .iter()
            .map(|finding| finding["message"].as_str().expect("text").to_owned())
            .collect()
    };
    let warnings = messages(&check(&sandbox, &[]));
    let swaps: Vec<_> = warnings
        .iter()
        .filter(|message| message.contains("the sides look swapped"))
        .collect();
    assert!(
        swaps.len() == 1 && swaps[0].starts_with("valid: "),
        "{warnings:?}"
    );
    assert!(
        !warnings.iter().any(|message| message.contains("stands")),
        "{warnings:?}"
    );

    // The target has lost its first line.
    let shifted: Vec<_> = pairs
        .iter()
        .zip(pairs.iter().cycle().skip(1))
        .map(|((en, _), (_, de))| (en.clone(), de.clone()))
        .collect();
    sandbox.write("train", &shifted);
    let warnings = messages(&check(&sandbox, &[]));
    let expected =
        "train: from about line 1 of `train.en` on, the target of a line stands 1 line above it";
    assert!(
        warnings.iter().any(|message| message == expected),
        "{warnings:?}"
    );
}

#[test]
fn dirty_text_is_shown_with_its_lines() {
    let sandbox = Sandbox::new();
    let mut pairs = sentences(&sandbox, 200);
    pairs[9].1 = "die schÃ¶ne Katze".to_owned();
    pairs[19].0 = "salt &amp; pepper".to_owned();
    pairs[29].1 = "кошка в саду".to_owned();
    pairs[39].0 = "der Hund ist nicht auf dem Dach".to_owned();
    pairs[49].0 = "a\u{7}b".to_owned();
    pairs[59].0 = "caf\u{fffd}".to_owned();
    sandbox.write("train", &pairs);
    let (report, _) = sandbox.succeed(&["-q", "check", "tiny.toml"]);
    for line in [
        "train: 1 pairs (0.5 %) look as if UTF-8 was read as Windows-1252, such as `Ã©` for `é`: trained on as it stands",
        "train: 1 pairs (0.5 %) have entities or tags of HTML, such as `&amp;` or `<b>`: trained on as it stands",
        "  train.en:20  salt &amp; pepper | ",
        "  train.en:50  a\\u{7}b | ",
    ] {
        assert!(report.contains(line), "{line}\n{report}");
    }
    for (line, what) in [
        (10, "schÃ¶ne"),
        (30, "кошка"),
        (40, "der Hund"),
        (60, "caf\u{fffd}"),
    ] {
        let is_listed = report
            .lines()
            .any(|text| text.starts_with(&format!("  train.en:{line}  ")) && text.contains(what));
        assert!(is_listed, "{line}\n{report}");
    }
}

#[test]
fn settings_are_proposed_for_a_time() {
    let sandbox = Sandbox::new();
    let report = sandbox.json(&["-q", "check", "tiny.toml", "--json", "--hours", "0.02"]);
    let keys = report["proposal"]["keys"].as_array().expect("a list");
    let names: Vec<&str> = keys
        .iter()
        .map(|key| key["name"].as_str().expect("a name"))
        .collect();
    for name in [
        "max_len",
        "vocab_size",
        "preset",
        "dropout",
        "lr",
        "warmup_steps",
        "max_steps",
    ] {
        assert!(names.contains(&name), "{name}: {report}");
    }
    let measured = report["proposal"]["measured"].as_array().expect("a list");
    let parameters: Vec<u64> = measured
        .iter()
        .map(|size| size["parameters"].as_u64().expect("a number"))
        .collect();
    assert!(
        parameters.len() > 1 && parameters.is_sorted_by(|small, large| small < large),
        "{parameters:?}"
    );
    let message = sandbox.fail(2, &["check", "tiny.toml", "--hours", "0"]);
    assert!(message.contains("is no time for a training"), "{message}");
}

#[test]
fn the_report_for_people_shows_the_same_and_leaves_nothing_behind() {
    let sandbox = dirty();
    let files = || fs::read_dir(sandbox.path()).expect("it is there").count();
    let before = files();
    let (report, messages) = sandbox.succeed(&["check", "tiny.toml"]);
    assert_eq!(files(), before);
    assert!(
        report.contains(
            "train         50          5          3          0         10          6            -            -"
        ),
        "{report}"
    );
    assert!(
        report.contains("test      source          7        2.3          3    14.29 %"),
        "{report}"
    );
    assert!(report.contains("vocabulary  33 tokens, shared"), "{report}");
    assert!(
        report
            .contains("\nwarning: test: 1 pairs (33.3 %) have a source that is also in the training text\n  hint: "),
        "{report}"
    );
    assert!(
        messages.contains("trying a step on the largest batch"),
        "{messages}"
    );
    assert!(
        report.contains(
            "RATIO (one side more than 9 times the other, in tokens): left out of training"
        ),
        "{report}"
    );
    assert!(
        report.contains("\nwhat `data.clean = true` would do (nothing was changed):\n")
            && report.contains("empty: 5 (10.00 %), pairs"),
        "{report}"
    );
    assert!(
        report.contains("  train.en:27  look aaa now | aaa sieh\n"),
        "{report}"
    );
    assert!(
        report.contains("\ntime        about ") && report.contains("\ndisk        up to "),
        "{report}"
    );
}

#[test]
fn training_warns_of_the_same_before_its_first_step() {
    let sandbox = dirty();
    let (_, messages) = sandbox.succeed(&["train", "tiny.toml", "--run", "run"]);
    let warning = messages
        .find("have a source that is also in the training text; `polyglow clean` removes them")
        .expect("a warning");
    assert!(
        warning < messages.find("step 2/6").expect("a report"),
        "{messages}"
    );
}

#[test]
fn text_that_does_not_fit_is_an_error_that_names_it() {
    let sandbox = Sandbox::new();
    let message = sandbox.fail(1, &["check", "tiny.toml", "--set", "train.max_tokens=3"]);
    assert!(
        message.contains("max_tokens") && message.contains("hint: "),
        "{message}"
    );
    fs::write(sandbox.path().join("valid.de"), "sieh\n").expect("it can be written");
    let message = sandbox.fail(1, &["check", "tiny.toml"]);
    assert!(
        message.contains("`valid.en` has 4 lines but `valid.de` has 1"),
        "{message}"
    );
    fs::remove_file(sandbox.path().join("test.de")).expect("it is there");
    for command in [
        &["check", "tiny.toml"][..],
        &["train", "tiny.toml", "--run", "run"],
    ] {
        Sandbox::write(&sandbox, "valid", &train_pairs());
        let message = sandbox.fail(1, command);
        assert!(
            message.contains("`data.test`: there is no file `test.de`"),
            "{message}"
        );
    }
    assert!(!sandbox.path().join("run").exists());
}

#[test]
fn a_training_that_a_check_ended_can_begin_again_with_another_config() {
    let sandbox = Sandbox::new();
    let train = ["train", "tiny.toml", "--run", "run", "--set"];
    sandbox.fail(1, &[&train[..], &["train.max_tokens=3"]].concat());
    sandbox.succeed(&[&train[..], &["tokenizer.vocab_size=20"]].concat());
    assert_eq!(
        sandbox.json(&["info", "run", "--json"])["vocabulary"]["src"],
        20
    );
}

#[test]
fn what_is_beyond_max_examples_is_not_counted() {
    let sandbox = dirty();
    let report = check(&sandbox, &["data.max_examples=26"]);
    let train = &report["splits"][0];
    for (key, count) in [
        ("pairs", 26),
        ("kept", 26),
        ("duplicates", 0),
        ("copies", 0),
    ] {
        assert_eq!(train[key], count, "{key}");
    }
    assert_eq!(
        check(&sandbox, &["data.max_examples=3"])["splits"][2]["in_train"],
        1
    );
    sandbox.write(
        "train",
        &train_pairs().into_iter().rev().collect::<Vec<_>>(),
    );
    assert_eq!(
        check(&sandbox, &["data.max_examples=3"])["splits"][2]["in_train"],
        0,
        "`look aaa now` is the last"
    );
    // Pictures, too.
    let images = "[data]\ncorpus = 'shapes'\nmax_examples = 50\n[model]\narch = 'vit'\npreset = 'tiny'\npatch_size = 16\n\
                  [train]\nmax_steps = 9\nwarmup_steps = 1\nlabel_smoothing = 0.0\n";
    fs::write(sandbox.path().join("tiny.toml"), images).expect("it can be written");
    assert_eq!(check(&sandbox, &[])["splits"][0]["pairs"], 50);
}

#[test]
fn without_validation_text_there_is_a_warning() {
    let sandbox = Sandbox::new();
    let config = fs::read_to_string(sandbox.path().join("tiny.toml")).expect("it is there");
    fs::write(
        sandbox.path().join("tiny.toml"),
        config.replace("valid = \"valid\"\n", ""),
    )
    .expect("it can be written");
    let report = check(&sandbox, &[]);
    assert_eq!(report["warnings"][0]["message"], "there is no `data.valid`");
    assert_eq!(report["splits"][1]["name"], "test");
}

/// The difference between two batch sizes, both in as many shards, which is free of what the
/// process takes besides. On one thread: on several, the peaks of shards meet or miss each other by
/// chance.
#[cfg(target_os = "linux")]
#[test]
fn the_memory_estimate_is_within_a_third_of_what_a_step_takes() {
    let sandbox = Sandbox::new();
    let sizes = [
        "data.corpus=digits",
        "model.d_model=64",
        "model.d_ff=128",
        "model.num_heads=4",
    ];
    fs::write(
        sandbox.path().join("tiny.toml"),
        "[tokenizer]\nkind = 'word'\n[train]\nmax_steps = 100\nwarmup_steps = 9\n",
    )
    .expect("it can be written");
    let [small, large] = ["train.max_tokens=8192", "train.max_tokens=32768"].map(|max_tokens| {
        let overrides = [&sizes[..], &[max_tokens]].concat();
        let sets = overrides.iter().flat_map(|set| ["--set", *set]);
        let mut command = sandbox.command(&["-q", "check", "tiny.toml", "--json"]);
        let report = succeed(command.args(sets).env("RAYON_NUM_THREADS", "1")).0;
        let report: Value = serde_json::from_str(&report).expect("JSON");
        ["/step/peak_memory", "/memory/total"].map(|pointer| {
            report
                .pointer(pointer)
                .and_then(Value::as_f64)
                .expect("bytes")
        })
    });
    let (measured, estimated) = (large[0] - small[0], large[1] - small[1]);
    assert!(
        (measured / estimated).ln().abs() < (1.0f64 / 0.75).ln(),
        "measured {measured}, estimated {estimated}"
    );
}
