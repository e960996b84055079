//! `polyglow clean`: from spoiled text to text that can be trained on.

use std::fs;

use serde_json::Value;

use crate::program::Sandbox;

const CONFIG: &str = "[data]\ntrain = 'text'\ntest = 'test'\nsrc = 'en'\ntgt = 'de'\n\
    [train]\nmax_steps = 1\n";

/// Pairs with the reason for which each is removed, or what becomes of its target.
const PAIRS: [(&str, &str, Result<&str, &str>); 9] = [
    (
        "The bear sleeps .",
        "Der Bär schläft .",
        Ok("Der Bär schläft ."),
    ),
    ("Is it large ?", "Ist er groÃŸ ?", Ok("Ist er groß ?")),
    (
        "Look at <b>me</b> !",
        "Sieh <b>mich</b> an !",
        Ok("Sieh mich an !"),
    ),
    ("the bear SLEEPS", "der Bär schläft", Err("duplicate")),
    ("I have 3 dogs .", "Ich habe 4 Hunde .", Err("numbers")),
    ("Tom and Mary .", "Tom and Mary .", Err("copy")),
    ("Only here", "...", Err("no_letters")),
    ("It is over !", "Das war alles .", Err("test")),
    ("The end .", "Das Ende\tist nah .", Ok("Das Ende ist nah .")),
];

fn write(sandbox: &Sandbox, name: &str, text: &str) {
    fs::write(sandbox.path().join(name), text).expect("it can be written");
}

fn files(sandbox: &Sandbox) {
    let side = |texts: Vec<&str>| texts.join("\n") + "\n";
    write(
        sandbox,
        "text.en",
        &side(PAIRS.iter().map(|(src, ..)| *src).collect()),
    );
    write(
        sandbox,
        "text.de",
        &side(PAIRS.iter().map(|(_, tgt, _)| *tgt).collect()),
    );
    write(sandbox, "test.en", "it is over\n");
    write(sandbox, "test.de", "es ist vorbei\n");
    write(sandbox, "c.toml", CONFIG);
}

#[test]
fn pairs_are_repaired_or_removed_for_their_reasons() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let (printed, message) = sandbox.succeed(&["clean", "c.toml", "--out", "out"]);
    let kept: Vec<&str> = PAIRS.iter().filter_map(|(.., fate)| fate.ok()).collect();
    let written = fs::read_to_string(sandbox.path().join("out/train.de")).expect("it is there");
    assert_eq!(written.lines().collect::<Vec<_>>(), kept);
    let english = fs::read_to_string(sandbox.path().join("out/train.en")).expect("it is there");
    assert_eq!(english.lines().nth(2), Some("Look at me !"));
    let removed = fs::read_to_string(sandbox.path().join("out/removed.tsv")).expect("it is there");
    let keys: Vec<&str> = removed
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    let expected: Vec<&str> = PAIRS.iter().filter_map(|(.., fate)| fate.err()).collect();
    assert_eq!(keys, expected);
    assert!(
        removed.contains("numbers\ttext.en:5\tI have 3 dogs .\t"),
        "{removed}"
    );
    assert!(
        printed.starts_with("4 of 9 pairs stay (44.4 %)\n"),
        "{printed}"
    );
    assert!(message.contains("--set data.train=out/train"), "{message}");
    // What was written is clean.
    let again = [
        "clean",
        "c.toml",
        "--set",
        "data.train=out/train",
        "--dry-run",
        "--json",
    ];
    let report: Value = serde_json::from_str(&sandbox.succeed(&again).0).expect("it is JSON");
    assert_eq!((&report["pairs"], &report["kept"]), (&4.into(), &4.into()));
    assert_eq!(report["repaired"], serde_json::json!({}));
}

#[test]
fn a_dry_run_writes_nothing_and_no_folder_is_written_over() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let (printed, _) = sandbox.succeed(&["clean", "c.toml", "--dry-run"]);
    assert!(
        printed.contains("copy: 1 pairs whose target is its source (11.11 %)"),
        "{printed}"
    );
    assert!(!sandbox.path().join("out").exists());
    fs::create_dir(sandbox.path().join("full")).expect("it can be made");
    write(&sandbox, "full/mine.txt", "mine");
    let message = sandbox.fail(2, &["clean", "c.toml", "--out", "full"]);
    assert!(message.contains("`full` is there already"), "{message}");
    let message = sandbox.fail(2, &["clean", "c.toml"]);
    assert!(message.contains("--out"), "{message}");
    let one_side = ["clean", "c.toml", "--dry-run", "--set", "model.arch=lm"];
    assert!(
        sandbox
            .fail(2, &one_side)
            .contains("reads pairs of sentences")
    );
}
