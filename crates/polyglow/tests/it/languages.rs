//! BLEU in scripts with and without spaces: what `auto` chooses, that a run keeps it, and what is
//! warned of.

use std::fs;

use serde_json::Value;

use crate::program::{Sandbox, fail, polyglow, succeed};

/// Sentences of one script each; the first letters differ, as those of sentences do.
const THAI: [&str; 4] = [
    "สภาอนุมัติแผนเมื่อวันอังคารที่ผ่านมา",
    "ฉันชอบกินผลไม้ทุกวันตอนเช้าก่อนไปทำงาน",
    "พรุ่งนี้อากาศจะดีและไม่มีฝนตกทั้งวัน",
    "เขาทำงานที่มหาวิทยาลัยในกรุงเทพมานานแล้ว",
];
const JAPANESE: [&str; 2] = [
    "評議会は火曜日に三時間の議論の末に計画を承認した。",
    "彼は東京都に住んでいますが、京都で働いています。",
];

/// A sandbox whose targets, of the language `tgt`, are these lines.
fn sandbox(tgt: &str, lines: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    for split in ["train", "valid", "test"] {
        let src: Vec<String> = (0..lines.len())
            .map(|number| format!("sentence {number}"))
            .collect();
        fs::write(
            sandbox.path().join(format!("{split}.en")),
            src.join("\n") + "\n",
        )
        .expect("it can be written");
        fs::write(
            sandbox.path().join(format!("{split}.{tgt}")),
            lines.join("\n") + "\n",
        )
        .expect("it can be written");
    }
    let config = fs::read_to_string(sandbox.path().join("tiny.toml")).expect("it is there");
    let config = config
        .replace("tgt = \"de\"", &format!("tgt = \"{tgt}\""))
        .replace("\"word\"", "\"char\"");
    fs::write(
        sandbox.path().join("tiny.toml"),
        config.replace("max_len = 20", "max_len = 60\nmax_length_ratio = 9"),
    )
    .expect("it can be written");
    sandbox
}

/// The tokenizer, and the warnings about it.
fn check(sandbox: &Sandbox, overrides: &[&str]) -> (String, Vec<String>) {
    let mut arguments = vec!["-q", "check", "tiny.toml", "--json"];
    arguments.extend(overrides.iter().flat_map(|set| ["--set", *set]));
    let report = sandbox.json(&arguments);
    let warnings = report["warnings"].as_array().expect("a list").iter();
    let messages = warnings.map(|warning| warning["message"].as_str().expect("a text").to_owned());
    let tokenize = report["plan"]["tokenize"]
        .as_str()
        .expect("translations are scored")
        .to_owned();
    (
        tokenize,
        messages
            .filter(|message| message.contains("train.tokenize"))
            .collect(),
    )
}

#[test]
fn check_says_what_is_chosen_and_warns_of_what_does_not_suit() {
    let thai = sandbox("th", &THAI);
    assert_eq!(check(&thai, &[]), ("char".to_owned(), vec![]));
    for wrong in ["13a", "intl", "none", "zh"] {
        let (tokenize, warnings) = check(&thai, &[&format!("train.tokenize={wrong}")]);
        assert_eq!(tokenize, wrong);
        let message =
            format!("`train.tokenize = \"{wrong}\"` leaves 100 % of the target's letters");
        assert!(
            warnings.len() == 1 && warnings[0].starts_with(&message),
            "{warnings:?}"
        );
    }
    // The ending says nothing, the text does.
    assert_eq!(
        check(&sandbox("out", &JAPANESE), &[]),
        ("char".to_owned(), vec![])
    );
    assert_eq!(
        check(
            &sandbox("out", &["理事会批准了该计划。", "我喜欢吃苹果。"]),
            &[]
        ),
        ("zh".to_owned(), vec![])
    );
    assert_eq!(
        check(&sandbox("de", &["der Rat", "der Plan"]), &[]),
        ("13a".to_owned(), vec![])
    );
    let (report, _) = thai.succeed(&["check", "tiny.toml"]);
    assert!(
        report.contains("BLEU        by the tokenizer `char`"),
        "{report}"
    );
}

#[test]
fn a_run_keeps_what_was_chosen_when_it_began() {
    let sandbox = sandbox("ja", &JAPANESE);
    let (_, messages) = sandbox.succeed(&[
        "train",
        "tiny.toml",
        "--run",
        "run",
        "--set",
        "train.tokenize=13a",
    ]);
    assert!(
        messages.contains("`train.tokenize = \"13a\"` leaves 100 % of the target's letters"),
        "{messages}"
    );
    sandbox.succeed(&["train", "tiny.toml", "--run", "auto"]);
    let config = fs::read_to_string(sandbox.path().join("auto/config.toml")).expect("it is there");
    assert!(config.contains("tokenize = \"char\""), "{config}");
    let signature = |set: &[&str]| {
        let report = sandbox.json(&[&["-q", "evaluate", "auto", "--json"], set].concat());
        report["signatures"]["bleu"]
            .as_str()
            .expect("a text")
            .to_owned()
    };
    assert!(signature(&[]).contains("|tok:char|"));
    assert!(signature(&["--set", "train.tokenize=intl"]).contains("|tok:intl|"));
    // With a dictionary a new run would take `ja-mecab`; this one continues as it began.
    sandbox.succeed(&[
        "train",
        "tiny.toml",
        "--run",
        "auto",
        "--set",
        "train.dictionary=\"nowhere\"",
    ]);
    let metrics =
        fs::read_to_string(sandbox.path().join("auto/metrics.jsonl")).expect("it is there");
    let signatures = metrics.lines().filter_map(|line| {
        let record: Value = serde_json::from_str(line).expect("each line is JSON");
        record["signatures"]["bleu"].as_str().map(str::to_owned)
    });
    let signatures: Vec<String> = signatures.collect();
    assert!(
        !signatures.is_empty()
            && signatures
                .iter()
                .all(|signature| signature.contains("|tok:char|")),
        "{signatures:?}"
    );
}

#[test]
fn a_dictionary_that_is_missing_or_wrong_is_an_error_before_training() {
    let sandbox = sandbox("ja", &JAPANESE);
    for (set, words) in [
        (
            "train.tokenize=ja-mecab",
            "the tokenizer `ja-mecab` needs the folder of a compiled MeCab dictionary",
        ),
        ("train.dictionary=nowhere", "cannot read `nowhere/char.bin`"),
        (
            "train.tokenize=flores101",
            "the tokenizer `flores101` needs a SentencePiece model",
        ),
    ] {
        let message = sandbox.fail(2, &["train", "tiny.toml", "--run", "run", "--set", set]);
        assert!(
            message.contains(words) && message.contains("hint: `train.dictionary` names"),
            "{message}"
        );
        assert!(!sandbox.path().join("run").join("config.toml").exists());
    }
}

#[test]
fn metrics_choose_tokenizers_by_their_options() {
    let sandbox = Sandbox::new();
    let write = |name: &str, lines: &[&str]| {
        fs::write(sandbox.path().join(name), lines.join("\n") + "\n").expect("ok");
    };
    write("th", &THAI);
    write("ja", &JAPANESE);
    write("zh", &["理事会批准了该计划。"]);
    write("en", &["The council approved the plan."]);
    let metrics = |options: &[&str], name: &str| {
        succeed(polyglow(&[&["metrics", name, name], options].concat()).current_dir(sandbox.path()))
    };
    for (options, name, tokenizer) in [
        (&[][..], "th", "13a"),
        (&["--tokenize", "auto"], "th", "char"),
        (&["--tokenize", "auto"], "zh", "zh"),
        (&["--tokenize", "auto"], "en", "13a"),
        (&["--tokenize", "auto", "-l", "en-ja"], "zh", "char"),
        (&["-l", "en-zh"], "en", "zh"),
        (&["--language-pair", "en-th"], "th", "13a"),
        (&["-l", "en-ja", "--tokenize", "char"], "ja", "char"),
    ] {
        let (scores, _) = metrics(options, name);
        assert!(
            scores.contains(&format!("|tok:{tokenizer}|")),
            "{options:?} {name}: {scores}"
        );
    }
    let warning = "BLEU compares whole phrases";
    for (options, name, warned) in [
        (&[][..], "th", true),
        (&["--tokenize", "intl"], "ja", true),
        (&["--tokenize", "zh"], "th", true),
        (&["--force"], "th", false),
        (&["--tokenize", "auto"], "th", false),
        (&["--metrics", "chrf"], "th", false),
        (&[], "en", false),
    ] {
        assert_eq!(
            metrics(options, name).1.contains(warning),
            warned,
            "{options:?} {name}"
        );
    }
    for (options, words) in [
        (&["-l", "en-ja"][..], "hint: `--dictionary DIR` names it"),
        (
            &["--tokenize", "flores200"],
            "hint: `--spm FILE` names the model",
        ),
        (
            &["--tokenize", "ko-mecab", "--dictionary", "."],
            "cannot read `./char.bin`",
        ),
        (
            &["--tokenize", "flores101", "--spm", "ja"],
            "`ja` is no SentencePiece model that can be used",
        ),
        (&["-l", "ja"], "such as `en-ja`"),
    ] {
        let message = fail(
            2,
            polyglow(&[&["metrics", "ja", "ja"], options].concat()).current_dir(sandbox.path()),
        );
        assert!(message.contains(words), "{options:?}: {message}");
    }
}
