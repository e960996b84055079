//! `polyglow new`: from a folder of text to a config that passes `check` and trains.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Sandbox, train_pairs};

/// A folder with the beginning of each set of the embedded corpus, under other names.
fn folder(sandbox: &Sandbox, sets: &[(&str, &str)]) {
    sandbox.succeed(&["-q", "corpus", "mini-en-de", "mini"]);
    fs::create_dir(sandbox.path().join("data")).expect("it can be made");
    for (set, name) in sets {
        for side in ["en", "de"] {
            let text = fs::read_to_string(sandbox.path().join(format!("mini/{set}.{side}")))
                .expect("it is there");
            let lines: Vec<&str> = text.lines().take(600).collect();
            let path = sandbox.path().join(format!("data/{name}.{side}"));
            fs::write(path, lines.join("\n") + "\n").expect("it can be written");
        }
    }
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path)
        .expect("it is there")
        .lines()
        .map(str::to_owned)
        .collect()
}

const NEW: [&str; 8] = [
    "new",
    "--src",
    "en",
    "--tgt",
    "de",
    "--hours",
    "0.02",
    "mine.toml",
];

#[test]
fn a_config_is_written_with_reasons_and_passes_check_and_trains() {
    let sandbox = Sandbox::new();
    folder(
        &sandbox,
        &[
            ("train", "train.en-de"),
            ("valid", "dev"),
            ("test", "newstest2014"),
            ("test_comp", "test-b"),
        ],
    );
    let (_, messages) = sandbox.succeed(&NEW);
    assert!(messages.contains("wrote `mine.toml`"), "{messages}");
    let text = fs::read_to_string(sandbox.path().join("mine.toml")).expect("it was written");
    for line in [
        "train = \"data/train.en-de\"\n",
        "valid = \"data/dev\"\n",
        "test = { \"newstest2014\" = \"data/newstest2014\", \"test-b\" = \"data/test-b\" }\n",
        "# for 598 pairs\n",
        "\nclean = true\n",
        "# the text is read ",
        "# falls to 0 at the last step\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(
        text.starts_with(
            "# en to de, written by: polyglow new --src en --tgt de --data data --hours 0.02\n"
        ),
        "{text}"
    );
    let checked = sandbox.json(&["-q", "check", "mine.toml", "--json"]);
    assert_eq!(checked["splits"].as_array().expect("a list").len(), 4);
    let short = [
        "train.max_steps=2",
        "train.warmup_steps=1",
        "train.validate_every=1",
        "search.beam_size=1",
    ];
    let overrides = short.iter().flat_map(|set| ["--set", *set]);
    let train: Vec<&str> = ["train", "mine.toml"]
        .into_iter()
        .chain(overrides)
        .collect();
    let (scores, _) = sandbox.succeed(&train);
    assert!(
        scores.contains("newstest2014: ") && scores.contains("test-b: "),
        "{scores}"
    );
}

#[test]
fn a_model_for_argos_gets_a_tokenizer_that_it_can_read() {
    let sandbox = Sandbox::new();
    folder(
        &sandbox,
        &[("train", "train"), ("valid", "valid"), ("test", "test")],
    );
    let arguments: Vec<&str> = NEW.into_iter().chain(["--for", "argos"]).collect();
    sandbox.succeed(&arguments);
    let text = fs::read_to_string(sandbox.path().join("mine.toml")).expect("it was written");
    assert!(
        text.contains("kind = \"unigram\"") && text.contains("--for argos\n"),
        "{text}"
    );
    let (report, _) = sandbox.succeed(&["-q", "check", "mine.toml"]);
    assert!(
        report.contains("exports to  ctranslate2, huggingface, argos, sentencepiece, web\n"),
        "{report}"
    );
    let (report, _) = sandbox.succeed(&["-q", "check", "mine.toml", "--set", "tokenizer.kind=bpe"]);
    assert!(
        report.contains("exports to  ctranslate2, huggingface, web\n"),
        "{report}"
    );
    assert!(
        report.contains("not argos: tokenizer `bpe`")
            && report.contains("tokenizer.kind = \"unigram\""),
        "{report}"
    );
    let short = [
        "train.max_steps=2",
        "train.warmup_steps=1",
        "train.validate_every=1",
        "search.beam_size=1",
    ];
    let overrides = short.iter().flat_map(|set| ["--set", *set]);
    sandbox.succeed(
        &["train", "mine.toml"]
            .into_iter()
            .chain(overrides)
            .collect::<Vec<_>>(),
    );
    sandbox.succeed(&[
        "export",
        "runs/mine",
        "--to",
        "argos",
        "--out",
        "package",
        "--verify",
        "20",
    ]);
    assert!(
        sandbox
            .path()
            .join("package/translate-en_de-1_0.argosmodel")
            .is_file()
    );
}

#[test]
fn missing_sets_are_split_off_and_share_no_sentence_with_the_rest() {
    let sandbox = Sandbox::new();
    folder(&sandbox, &[("train", "talks")]);
    let all: Vec<String> = lines(&sandbox.path().join("data/talks.en"));
    let (_, messages) = sandbox.succeed(&NEW);
    assert!(
        messages.contains(
            "warning: `data/split/valid` has 30 pairs, and of fewer than 100 a few decide"
        ),
        "{messages}"
    );
    let text = fs::read_to_string(sandbox.path().join("mine.toml")).expect("it was written");
    assert!(
        text.contains("train = \"data/split/train\"\nvalid = \"data/split/valid\"\ntest = \"data/split/test\"\n"),
        "{text}"
    );
    let read = |side: &str| {
        ["train", "valid", "test"]
            .map(|set| lines(&sandbox.path().join(format!("data/split/{set}.{side}"))))
    };
    let (en, de) = (read("en"), read("de"));
    assert_eq!(en.iter().map(Vec::len).sum::<usize>(), all.len());
    assert_eq!((en[1].len(), en[2].len()), (30, 30));
    for [train, valid, test] in [&en, &de] {
        let known: HashSet<&String> = train.iter().collect();
        assert!(valid.iter().chain(test).all(|line| !known.contains(line)));
        assert!(valid.iter().all(|line| !test.contains(line)));
    }
    // Lines still belong together, and the same command takes the same sets.
    let pairs: HashSet<(String, String)> = all
        .into_iter()
        .zip(lines(&sandbox.path().join("data/talks.de")))
        .collect();
    for (en, de) in en.iter().flatten().zip(de.iter().flatten()) {
        assert!(pairs.contains(&(en.clone(), de.clone())), "{en} {de}");
    }
    fs::remove_file(sandbox.path().join("mine.toml")).expect("it is there");
    let (_, messages) = sandbox.succeed(&NEW);
    assert!(
        messages.contains("taking what was split off before")
            && messages.contains("`data/split/test` has 30 pairs"),
        "{messages}"
    );
    // Of other text it is not taken.
    fs::remove_file(sandbox.path().join("mine.toml")).expect("it is there");
    for side in ["en", "de"] {
        let path = sandbox.path().join(format!("data/talks.{side}"));
        fs::write(&path, lines(&path)[1..].join("\n") + "\n").expect("it can be written");
    }
    let message = sandbox.fail(2, &NEW);
    assert!(
        message.contains("`data/split` was split off 600 pairs, and `data/talks` has 599 now"),
        "{message}"
    );
}

#[test]
fn sets_are_split_off_what_cleaning_leaves_as_it_is() {
    let sandbox = Sandbox::new();
    folder(&sandbox, &[("train", "talks")]);
    let path = |file: &str| sandbox.path().join("data").join(file);
    let [en, de] = ["talks.en", "talks.de"].map(path);
    let pairs = lines(&en).into_iter().zip(lines(&de)).enumerate();
    // Two thirds of the text: what is removed, repaired, in Windows-1252, turned round.
    let spoiled: Vec<[Vec<u8>; 2]> = pairs
        .map(|(line, (source, target))| match line % 6 {
            0 => [source.clone().into(), format!("{source} !").into()],
            1 => [source.into(), format!("<b>{target}</b>").into()],
            2 => [
                source.into(),
                [b"Gr\xfc\xdfe, ", target.as_bytes()].concat(),
            ],
            3 => [target.into(), source.into()],
            _ => [source.into(), target.into()],
        })
        .collect();
    for (side, path) in [&en, &de].into_iter().enumerate() {
        let text: Vec<&[u8]> = spoiled.iter().map(|pair| &pair[side][..]).collect();
        fs::write(path, text.join(&b'\n')).expect("it can be written");
    }
    sandbox.succeed(&NEW);
    let read = |set: &str| {
        let [en, de] = ["en", "de"].map(|side| {
            let bytes = fs::read(path(&format!("split/{set}.{side}"))).expect("it is there");
            let lines = bytes.split_inclusive(|&byte| byte == b'\n');
            lines
                .map(|line| line[..line.len() - 1].to_vec())
                .collect::<Vec<_>>()
        });
        en.into_iter().zip(de).map(|(en, de)| [en, de]).collect()
    };
    let [mut train, valid, test]: [Vec<[Vec<u8>; 2]>; 3] = ["train", "valid", "test"].map(read);
    let numbered = (0..).zip(&spoiled);
    let good: HashSet<_> = numbered
        .filter(|(line, _)| line % 6 > 3)
        .map(|(_, pair)| pair)
        .collect();
    assert_eq!((valid.len(), test.len()), (30, 30));
    assert!(valid.iter().chain(&test).all(|pair| good.contains(pair)));
    // The rest stays byte for byte, and is cleaned when it is trained on.
    train.extend(valid.into_iter().chain(test));
    let sorted = |mut pairs: Vec<[Vec<u8>; 2]>| {
        pairs.sort();
        pairs
    };
    assert_eq!(sorted(train), sorted(spoiled));
}

#[test]
fn what_is_split_off_has_no_sentence_of_a_set_that_there_is() {
    let sandbox = Sandbox::new();
    folder(&sandbox, &[("train", "talks")]);
    let path = |file: &str| sandbox.path().join("data").join(file);
    for side in ["en", "de"] {
        let text = lines(&path(&format!("talks.{side}")));
        let valid = text[..300].join("\n") + "\n";
        fs::write(path(&format!("valid.{side}")), valid).expect("it can be written");
    }
    sandbox.succeed(&NEW);
    let valid: HashSet<String> = lines(&path("valid.de")).into_iter().collect();
    let test = lines(&path("split/test.de"));
    assert_eq!(test.len(), 30);
    assert!(test.iter().all(|line| !valid.contains(line)));
    assert!(!path("split/valid.de").exists());
}

#[test]
fn a_corrected_text_is_split_again_unless_the_split_was_edited() {
    let sandbox = Sandbox::new();
    folder(&sandbox, &[("train", "talks")]);
    let again = |code: i32| {
        let _ = fs::remove_file(sandbox.path().join("mine.toml"));
        if code == 0 {
            sandbox.succeed(&NEW).1
        } else {
            sandbox.fail(code, &NEW)
        }
    };
    let correct = |number: usize| {
        let path = sandbox.path().join("data/talks.de");
        let mut all = lines(&path);
        all[number].push_str(" !");
        fs::write(&path, all.join("\n") + "\n").expect("it can be written");
        all.swap_remove(number)
    };
    let split = |file: &str| sandbox.path().join("data/split").join(file);
    let has = |line: &String| {
        ["train.de", "valid.de", "test.de"]
            .iter()
            .any(|file| lines(&split(file)).contains(line))
    };
    again(0);
    let corrected = correct(7);
    assert!(!has(&corrected));
    let messages = again(0);
    assert!(
        messages.contains("`data/talks` is split again, because it has changed since it was split"),
        "{messages}"
    );
    assert!(has(&corrected));
    assert!(again(0).contains("taking what was split off before"));
    // After a kill some files are missing.
    fs::remove_file(split("test.de")).expect("it is there");
    again(0);
    assert_eq!(lines(&split("test.de")).len(), 30);
    // Files that the user has edited are used, and never overwritten.
    let edited = fs::read_to_string(split("train.de")).expect("it is there") + "\n";
    fs::write(
        split("train.de"),
        edited.replacen(' ', "  ", 1).trim_end().to_owned() + "\n",
    )
    .expect("it can be written");
    let edited = fs::read_to_string(split("train.de")).expect("it is there");
    let messages = again(0);
    assert!(
        messages.contains("`train.de` in `data/split` was edited, and is taken as it is"),
        "{messages}"
    );
    correct(8);
    let message = again(2);
    assert!(
        message.contains("was edited after it was split off, and the text has changed since"),
        "{message}"
    );
    assert!(
        message.contains("hint: rename `data/split` to keep it"),
        "{message}"
    );
    assert_eq!(
        fs::read_to_string(split("train.de")).expect("it is there"),
        edited
    );
    // A split of before has no record: it is compared with the text.
    fs::remove_dir_all(split("")).expect("it is there");
    again(0);
    fs::remove_file(split("split.json")).expect("it is there");
    assert!(again(0).contains("taking what was split off before"));
    correct(9);
    let message = again(2);
    assert!(
        message.contains("`data/split` has other pairs than `data/talks`"),
        "{message}"
    );
    fs::remove_file(split("test.de")).expect("it is there");
    let message = again(2);
    assert!(
        message.contains("was not split off by this command"),
        "{message}"
    );
}

/// The files of the split, by their names.
fn split_files(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let entries = fs::read_dir(sandbox.path().join("data/split")).expect("it is there");
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("it is there").path();
        let name = path
            .file_name()
            .expect("it has a name")
            .to_string_lossy()
            .into_owned();
        (name, fs::read_to_string(path).expect("it is text"))
    };
    entries.map(read).collect()
}

#[cfg(unix)]
#[test]
fn a_split_is_there_until_another_is_complete() {
    let sandbox = Sandbox::new();
    folder(&sandbox, &[("train", "talks")]);
    sandbox.succeed(&NEW);
    let first = split_files(&sandbox);
    fs::remove_file(sandbox.path().join("mine.toml")).expect("it is there");
    let path = sandbox.path().join("data/talks.de");
    let corrected = lines(&path).join(" !\n") + " !\n";
    fs::write(path, corrected).expect("it can be written");
    // Files may not grow beyond a kilobyte, as on a disk that is full.
    let failed = sandbox.shell(&format!("ulimit -f 1; exec $polyglow {}", NEW.join(" ")));
    let message = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{message}");
    assert!(message.contains("File too large"), "{message}");
    assert_eq!(split_files(&sandbox), first, "a full disk");

    sandbox.succeed(&NEW);
    let second = split_files(&sandbox);
    assert!(second["train.de"].contains(" !") && second.len() == first.len());
    // A process that was killed while it renamed its files leaves some of each, and the hashes of
    // both.
    let record = |files: &BTreeMap<String, String>| -> Value {
        serde_json::from_str(&files["split.json"]).expect("it is JSON")
    };
    let mut both = record(&first);
    both["unfinished"] = record(&second)["files"].clone();
    let write = |name: &str, text: &str| {
        fs::write(sandbox.path().join("data/split").join(name), text).expect("it can be written");
    };
    write("split.json", &both.to_string());
    for name in ["train.en", "train.de", "valid.de"] {
        write(name, &first[name]);
    }
    fs::remove_file(sandbox.path().join("data/split/test.en")).expect("it is there");
    write("valid.en.12.tmp", "half");
    write("mine.12.tmp", "mine");
    fs::remove_file(sandbox.path().join("mine.toml")).expect("it is there");
    let (_, messages) = sandbox.succeed(&NEW);
    assert!(
        messages.contains("is split again, because the last split was not completed"),
        "{messages}"
    );
    let mut third = split_files(&sandbox);
    assert_eq!(third.remove("mine.12.tmp").as_deref(), Some("mine"));
    assert_eq!(third, second);
}

#[test]
fn what_cannot_be_made_a_config_is_refused_with_what_to_do() {
    let sandbox = Sandbox::new();
    let refused = |arguments: &[&str], code: i32, words: [&str; 2]| {
        let message = sandbox.fail(code, arguments);
        assert!(
            words.iter().all(|word| message.contains(word)),
            "{arguments:?}: {message}"
        );
    };
    fs::create_dir(sandbox.path().join("data")).expect("it can be made");
    refused(
        &NEW,
        2,
        [
            "no parallel text of `en` and `de` in `data`",
            "hint: looked for two files with one name",
        ],
    );
    refused(
        &["new", "--src", "en", "--tgt", "de", "--data", "tiny.toml"],
        2,
        ["is a file", "the folder that it is in"],
    );
    refused(
        &["new", "--src", "en", "--tgt", "de", "tiny.toml"],
        2,
        ["`tiny.toml` is there already", "another name"],
    );
    refused(
        &["new", "--src", "en", "--tgt", "en"],
        2,
        ["`--src` and `--tgt` are both `en`", "ending"],
    );
    refused(
        &["new", "--src", "en", "--tgt", "de", "--hours", "0"],
        2,
        ["is no time for a training", "0.02"],
    );
    refused(
        &["new", "--src", "en", "--tgt", "de", "--data", "none"],
        1,
        ["none", "hint: "],
    );
    for name in ["data/a", "data/b"] {
        sandbox.write(name, &train_pairs());
    }
    refused(
        &NEW,
        2,
        [
            "several texts in `data` may be the one to train on: `a`, `b`",
            "put `train` into the name",
        ],
    );
    fs::remove_file(sandbox.path().join("data/b.en")).expect("it is there");
    refused(
        &NEW,
        1,
        [
            "the training text has 26 pairs, too few to split sets off it",
            "200 are needed",
        ],
    );
    assert!(!sandbox.path().join("mine.toml").exists());
}

#[test]
fn a_text_with_tabs_that_is_no_tsv_file_by_its_name_is_pointed_at() {
    let sandbox = Sandbox::new();
    let data = sandbox.path().join("data");
    fs::create_dir(&data).expect("it can be made");
    fs::write(data.join("captions.txt"), "The dog.\tDer Hund.\n").expect("it can be written");
    let message = sandbox.fail(2, &[&NEW[..], &["--data", "data"]].concat());
    assert!(message.contains("rename it to `captions.tsv`"), "{message}");
}
