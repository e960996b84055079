//! `polyglow clean`: from spoiled text to text that can be trained on.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::program::Sandbox;

const CONFIG: &str = "[data]\ntrain = 'text'\ntest = 'test'\nsrc = 'en'\ntgt = 'de'\n\
    [train]\nmax_steps = 1\n";

/// What stands in the file that marks a folder into which a command writes.
const MARK: &str =
    "A command writes into this directory. If it was ended, run it again: it starts over.\n";

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
    let repaired =
        fs::read_to_string(sandbox.path().join("out/repaired.tsv")).expect("it is there");
    let expected = [
        "mojibake\ttext.en:2\tIs it large ?\tIst er groÃŸ ?\tIs it large ?\tIst er groß ?",
        "html\ttext.en:3\tLook at <b>me</b> !\tSieh <b>mich</b> an !\tLook at me !\tSieh mich an !",
    ];
    assert_eq!(repaired.lines().collect::<Vec<_>>(), expected);
    assert!(
        printed.starts_with("4 of 9 pairs stay (44.44 %)\n"),
        "{printed}"
    );
    assert!(message.contains("--set data.train=out/train"), "{message}");
    let page = fs::read_to_string(sandbox.path().join("out/report.html")).expect("it is there");
    assert!(page.contains("4 of 9 pairs stay, 44.44 %."), "{page}");
    assert!(page.contains("I have 3 dogs ."), "{page}");
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
fn lines_in_another_encoding_are_read_and_damaged_ones_removed() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let text =
        b"The bear sleeps .\nThe caf\xe9 is open .\nIt is large .\n\xc3\xbcber all , gr\xc3\n";
    fs::write(sandbox.path().join("mixed.en"), text).expect("it can be written");
    let text =
        b"Der B\xe4r schl\xe4ft .\nDas Caf\xc3\xa9 ist da .\nEr ist gro\xc3\x9f .\nAlles .\n";
    fs::write(sandbox.path().join("mixed.de"), text).expect("it can be written");
    let command = ["clean", "--src", "mixed.en", "--tgt", "mixed.de"];
    let (printed, _) = sandbox.succeed(&[&command[..], &["--out", "out"]].concat());
    assert!(
        printed.starts_with("3 of 4 pairs stay (75.00 %)\n")
            && printed.contains("\n  2 of them were repaired: encoding\n"),
        "{printed}"
    );
    let read = |name: &str| fs::read_to_string(sandbox.path().join(name)).expect("it is there");
    assert_eq!(
        read("out/train.en"),
        "The bear sleeps .\nThe café is open .\nIt is large .\n"
    );
    assert_eq!(
        read("out/train.de"),
        "Der Bär schläft .\nDas Café ist da .\nEr ist groß .\n"
    );
    assert_eq!(
        read("out/removed.tsv"),
        "lost_characters\tmixed.en:4\tüber all , gr\u{fffd}\tAlles .\n"
    );
    // Whatever is left out, what is written is text.
    let raw = ["--without", "repairs,rules", "--out", "raw"];
    sandbox.succeed(&[&command[..], &raw].concat());
    assert!(
        read("raw/train.en")
            .ends_with("The café is open .\nIt is large .\nüber all , gr\u{fffd}\n")
    );
    // A text that is in another encoding is no text with some lines in Windows-1252.
    let polish = b"za\xbf\xf3\xb3\xe6 g\xea\xb6l\xb1 ja\xbc\xf1 .\n\xb6wi\xea\xb3a ksi\xb1\xbfka le\xbfy .\n".repeat(20);
    fs::write(sandbox.path().join("polish.pl"), &polish).expect("it can be written");
    let english = "a book of many pages\n".repeat(40);
    write(&sandbox, "polish.en", &english);
    let command = [
        "clean",
        "--src",
        "polish.en",
        "--tgt",
        "polish.pl",
        "--dry-run",
    ];
    let message = sandbox.fail(1, &command);
    assert!(
        message.contains("`polish.pl` line 1: invalid UTF-8") && message.contains("iconv -f "),
        "{message}"
    );
    // A training that cleans its text reads it as well, and others do not.
    let check = ["check", "c.toml", "--set", "data.train=mixed"];
    let message = sandbox.fail(1, &check);
    assert!(
        message.contains("`mixed.de` line 1: invalid UTF-8"),
        "{message}"
    );
    let printed = sandbox
        .succeed(&[&check[..], &["--set", "data.clean=true"]].concat())
        .0;
    assert!(printed.contains("\ntrain          3 "), "{printed}");
}

#[test]
fn a_download_that_was_cut_off_is_kept_as_far_as_it_goes_if_that_is_asked_for() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let pairs = ["--pairs", "out/train.tmx", "--from", "en", "--to", "de"];
    sandbox.succeed(&["clean", "c.toml", "--out", "out", "--format", "tmx"]);
    let path = sandbox.path().join("out/train.tmx");
    let whole = fs::read(&path).expect("it is there");
    fs::write(&path, &whole[..whole.len() - 60]).expect("it can be written");
    let cut = [&["clean"][..], &pairs, &["--dry-run"]].concat();
    let message = sandbox.fail(1, &cut);
    assert!(message.contains("polyglow clean --lenient"), "{message}");
    let (printed, message) = sandbox.succeed(&[&cut[..], &["--lenient"]].concat());
    assert!(printed.starts_with("3 of 3 pairs stay"), "{printed}");
    assert!(
        message.contains("out/train.tmx` line ") && message.contains("(`--lenient`)"),
        "{message}"
    );
    // So is compressed text, of which the other side is whole.
    let lines = "A line of text that says something, and another thing .\n".repeat(12_000);
    let numbered = lines
        .lines()
        .zip(1..)
        .map(|(line, number)| format!("{number} {line}\n"));
    let numbered: String = numbered.collect();
    for form in ["lines.gz", "lines.zst"] {
        write(&sandbox, "many.en", &numbered);
        write(&sandbox, "many.de", &numbered.replace("text", "Text"));
        let many = [
            "--src",
            "many.en",
            "--tgt",
            "many.de",
            "--without",
            "duplicates,rules",
        ];
        let packed = format!("packed-{form}");
        let write_packed = ["--out", &packed, "--format", form];
        sandbox.succeed(&[&["clean"][..], &many, &write_packed].concat());
        let ending = form.trim_start_matches("lines.");
        let source = format!("{packed}/train.en.{ending}");
        let path = sandbox.path().join(&source);
        let whole = fs::read(&path).expect("it is there");
        fs::write(&path, &whole[..whole.len() / 4 * 3]).expect("it can be written");
        let target = format!("{packed}/train.de.{ending}");
        let cut = ["clean", "--src", &source, "--tgt", &target, "--dry-run"];
        let message = sandbox.fail(1, &cut);
        assert!(
            message.contains("the compressed data ends too early")
                && message.contains("polyglow clean --lenient"),
            "{message}"
        );
        let report = sandbox.json(&[&cut[..], &["--lenient", "--json"]].concat());
        let pairs = report["pairs"].as_u64().expect("a number");
        assert!((1..12_000).contains(&pairs), "{report}");
        let cuts = report["cuts"].as_array().expect("a list");
        let behind = format!("behind {pairs} pairs");
        assert!(
            cuts.len() == 1 && cuts[0].as_str().is_some_and(|cut| cut.ends_with(&behind)),
            "{cuts:?}"
        );
    }
    // Nothing is no text.
    fs::write(&path, &whole[..60]).expect("it can be written");
    sandbox.fail(1, &[&cut[..], &["--lenient"]].concat());
}

#[test]
fn a_command_that_was_ended_while_it_wrote_is_given_again() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    sandbox.succeed(&["clean", "c.toml", "--out", "out"]);
    let names = [
        "train.en",
        "train.de",
        "removed.tsv",
        "repaired.tsv",
        "report.html",
        "report.json",
    ];
    let read = |dir: &str| names.map(|name| fs::read(sandbox.path().join(dir).join(name)).ok());
    let complete = read("out");
    assert!(complete.iter().all(Option::is_some));
    let files = |dir: &str| {
        let files = fs::read_dir(sandbox.path().join(dir)).expect("it is there");
        files.count()
    };
    assert_eq!(files("out"), names.len());
    fs::create_dir(sandbox.path().join("ended")).expect("it can be made");
    write(&sandbox, "ended/unfinished", MARK);
    write(&sandbox, "ended/train.en", "half");
    write(&sandbox, "ended/train.de.77.tmp", "half");
    sandbox.succeed(&["clean", "c.toml", "--out", "ended"]);
    assert!(read("ended") == complete && files("ended") == names.len());
    let message = sandbox.fail(2, &["clean", "c.toml", "--out", "ended"]);
    assert!(message.contains("`ended` is there already"), "{message}");
    assert!(read("ended") == complete);
}

#[test]
fn a_dry_run_writes_nothing_and_no_folder_is_written_over() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let (printed, _) = sandbox.succeed(&["clean", "c.toml", "--dry-run"]);
    assert!(
        printed.contains("copy: 1 (11.11 %), pairs whose target is its source"),
        "{printed}"
    );
    assert!(!sandbox.path().join("out").exists());
    let message = sandbox.fail(2, &["clean", "c.toml"]);
    assert!(
        message.contains("no directory to write to") && message.contains("`--dry-run`"),
        "{message}"
    );
    fs::create_dir(sandbox.path().join("full")).expect("it can be made");
    write(&sandbox, "full/mine.txt", "mine");
    let message = sandbox.fail(2, &["clean", "c.toml", "--out", "full"]);
    assert!(message.contains("`full` is there already"), "{message}");
    // Other forms of both sides, in and out.
    for form in ["tsv.zst", "tmx.gz", "zip", "lines"] {
        let out = format!("in-{form}");
        let (_, message) = sandbox.succeed(&["clean", "c.toml", "--out", &out, "--format", form]);
        let name = if form == "lines" {
            "train".to_owned()
        } else {
            format!("train.{form}")
        };
        let path = format!("{out}/{name}");
        assert!(message.contains(&format!("data.train={path}")), "{message}");
        if form == "lines" {
            continue;
        }
        let pairs = ["clean", "--pairs", &path, "--from", "en", "--to", "de"];
        let again = format!("of-{form}");
        sandbox.succeed(&[&pairs[..], &["--out", &again]].concat());
        for side in ["en", "de"] {
            let name = format!("{again}/train.{side}");
            let text = fs::read_to_string(sandbox.path().join(name)).expect("it is there");
            assert_eq!(text.lines().count(), 4, "{form}");
            assert!(!text.contains('<'), "{text}");
        }
        let message = sandbox.fail(
            2,
            &["clean", "--src", &path, "--tgt", "text.de", "--dry-run"],
        );
        assert!(message.contains("has both sides of a text"), "{message}");
    }
    let names = [
        "clean",
        "--pairs",
        "text.en",
        "--from",
        "en",
        "--to",
        "de",
        "--dry-run",
    ];
    let message = sandbox.fail(2, &names);
    assert!(message.contains("`.tsv`, `.tmx` or `.zip`"), "{message}");
    let twice = [
        "clean",
        "--src",
        "text.en",
        "--tgt",
        "./text.en",
        "--dry-run",
    ];
    let message = sandbox.fail(2, &twice);
    assert!(message.contains("are the same file"), "{message}");
    let files = ["clean", "--src", "text.en", "--tgt", "text.de", "--dry-run"];
    let message = sandbox.fail(2, &[&files[..], &["--set", "a=1"]].concat());
    assert!(message.contains("--set"), "{message}");
    let pairs = [
        "clean",
        "--pairs",
        "in-zip/train.zip",
        "--from",
        "../x",
        "--to",
        "de",
    ];
    let message = sandbox.fail(2, &[&pairs[..], &["--dry-run"]].concat());
    assert!(message.contains("a language has letters"), "{message}");
    let message = sandbox.fail(2, &["clean", "c.toml", "--out", "text.en"]);
    assert!(message.contains("`text.en` is there already"), "{message}");
    let message = sandbox.fail(2, &["clean", "c.toml", "--out", "csv", "--format", "csv"]);
    assert!(
        message.contains("the forms are lines, lines.gz"),
        "{message}"
    );
    // Two files in place of a config, without held-out sets.
    let files = [
        "clean", "--src", "text.en", "--tgt", "text.de", "--out", "new",
    ];
    let (printed, _) = sandbox.succeed(&files);
    assert!(printed.starts_with("5 of 9 pairs stay"), "{printed}");
    assert!(sandbox.path().join("new/train.de").is_file());
    let one_side = ["clean", "c.toml", "--dry-run", "--set", "model.arch=lm"];
    assert!(
        sandbox
            .fail(2, &one_side)
            .contains("reads pairs of sentences")
    );
}

/// Sentences of a language that is on neither side.
const FRENCH: [&str; 6] = [
    "le chien dort dans la maison de ma mère",
    "nous avons mangé une pomme hier soir",
    "où est la gare, s'il vous plaît ?",
    "elle ne voulait pas venir avec nous",
    "les enfants jouent toujours devant l'école",
    "je ne comprends pas ce que tu veux dire",
];

/// What is done to every seventh pair of a text, one after the other.
const NOISE: [&str; 5] = ["swapped", "language", "misaligned", "cut", "joined"];

/// Spoils a part of the toy corpus, and returns what was done to each line.
fn spoil(sandbox: &Sandbox, num_pairs: usize) -> Vec<Option<&'static str>> {
    sandbox.succeed(&["corpus", "mini-en-de", "toy"]);
    let read = |name: &str| fs::read_to_string(sandbox.path().join(name)).expect("it is there");
    let [english, german] = [read("toy/train.en"), read("toy/train.de")];
    let mut seen = std::collections::HashSet::new();
    let pairs: Vec<(&str, &str)> = english
        .lines()
        .zip(german.lines())
        .filter(|pair| seen.insert(*pair))
        .take(num_pairs)
        .collect();
    let mut noise = Vec::new();
    let mut sides = [String::new(), String::new()];
    for (index, &(src, tgt)) in pairs.iter().enumerate() {
        let num_words = tgt.split(' ').count();
        let round = index / 7;
        let is_spoiled = index % 7 == 0 && num_words >= 6;
        let kind = is_spoiled.then(|| NOISE[round % NOISE.len()]);
        let other = pairs[(index + 777) % pairs.len()].1;
        let (src, tgt) = match kind {
            Some("swapped") => (tgt.to_owned(), src.to_owned()),
            Some("language") => (src.to_owned(), FRENCH[round / 5 % 6].to_owned()),
            Some("misaligned") => (src.to_owned(), other.to_owned()),
            Some("cut") => {
                let words: Vec<&str> = tgt
                    .split(' ')
                    .take(num_words * (3 + round / 5 % 5) / 10)
                    .collect();
                (src.to_owned(), words.join(" "))
            }
            Some("joined") => (src.to_owned(), format!("{tgt} {other}")),
            _ => (src.to_owned(), tgt.to_owned()),
        };
        sides[0] += &(src + "\n");
        sides[1] += &(tgt + "\n");
        noise.push(kind);
    }
    write(sandbox, "spoiled.en", &sides[0]);
    write(sandbox, "spoiled.de", &sides[1]);
    noise
}

#[test]
fn foreign_swapped_and_misaligned_pairs_are_found_by_what_the_text_itself_says() {
    let sandbox = Sandbox::new();
    let noise = spoil(&sandbox, 8000);
    let config = CONFIG.replace("'text'\ntest = 'test'", "'spoiled'");
    write(&sandbox, "c.toml", &config);
    let command = ["clean", "c.toml", "--out", "out", "--json"];
    let (report, messages) = sandbox.succeed(&command);
    assert!(!messages.contains("too many to tell"), "{messages}");
    let report: Value = serde_json::from_str(&report).expect("it is JSON");
    let removed = fs::read_to_string(sandbox.path().join("out/removed.tsv")).expect("it is there");
    let mut reasons: BTreeMap<usize, &str> = BTreeMap::new();
    for row in removed.lines() {
        let mut fields = row.split('\t');
        let reason = fields.next().expect("the reason");
        let place = fields.next().expect("the place");
        let line = place.rsplit(':').next().and_then(|line| line.parse().ok());
        reasons.insert(line.expect("a line"), reason);
    }
    // Where the lines of one side are in another order, no pair can be told to be right.
    let text = fs::read_to_string(sandbox.path().join("spoiled.de")).expect("it is there");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.rotate_left(1234);
    write(&sandbox, "rotated.de", &(lines.join("\n") + "\n"));
    let rotated = [
        "clean",
        "--src",
        "spoiled.en",
        "--tgt",
        "rotated.de",
        "--dry-run",
    ];
    let (_, messages) = sandbox.succeed(&rotated);
    assert!(
        messages.contains("of the pairs look misaligned, too many to tell"),
        "{messages}"
    );
    // How many lines there are of each kind of noise, how many of them go, and how many for that reason.
    let mut found: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for (line, kind) in (1..).zip(&noise) {
        let counts = found.entry(kind.unwrap_or("right")).or_default();
        let reason = reasons.get(&line);
        counts[0] += 1;
        counts[1] += usize::from(reason.is_some());
        counts[2] += usize::from(reason.copied() == *kind);
    }
    // The page marks words, and a line is explained by them.
    let page = fs::read_to_string(sandbox.path().join("out/report.html")).expect("it is there");
    let cut = page.split("id=\"cut\"").nth(1).expect("its samples");
    assert!(
        cut.contains("Marked words have no partner") && cut.contains("<mark>"),
        "{cut}"
    );
    let (line, _) = reasons
        .iter()
        .find(|(_, reason)| **reason == "cut")
        .expect("one was found");
    let (explained, _) = sandbox.succeed(&["clean", "c.toml", "--explain", &line.to_string()]);
    assert!(
        explained.contains("words without a partner: "),
        "{explained}"
    );
    let swapped = report["repaired"]["swapped"].as_u64().expect("a count") as usize;
    assert_eq!(
        swapped + found["swapped"][1],
        found["swapped"][0],
        "{found:?}"
    );
    assert!(
        swapped as f64 > 0.9 * found["swapped"][0] as f64,
        "{found:?}"
    );
    // What languages and rules both remove is counted at the one that is left.
    let french = |without: &[&str]| {
        let command = [&["clean", "c.toml", "--dry-run", "--json"], without].concat();
        let report = sandbox.json(&command);
        let removed = report["removed"]["language"].as_u64().expect("a count");
        let languages = report["languages"].as_object().expect("a table");
        let named: u64 = languages.values().filter_map(Value::as_u64).sum();
        assert_eq!(named, removed, "{report}");
        removed
    };
    assert!(french(&["--without", "rules, held-out"]) >= french(&[]));
    // Most sentences of this small grammar share most of their words, so that one is hardly told to
    // be the translation of another.
    for (kind, least) in [
        ("language", 0.95),
        ("cut", 0.6),
        ("joined", 0.6),
        ("misaligned", 0.15),
    ] {
        let [all, _, named] = found[kind];
        assert!(all > 100, "{kind}: {found:?}");
        assert!(named as f64 >= least * all as f64, "{kind}: {found:?}");
    }
    let [all, lost, _] = found["right"];
    assert!((lost as f64) < 0.005 * all as f64, "{found:?}");
    assert!(
        report["languages"]["fr"]
            .as_u64()
            .expect("French was found")
            > 100,
        "{report}"
    );
}

/// Returns the target words that an explanation of a line lists as without a partner.
fn target_words_without_partner(explained: &str) -> Vec<&str> {
    let title = "  target words without a partner: ";
    let line = explained.lines().find_map(|line| line.strip_prefix(title));
    line.map_or_else(Vec::new, |words| words.split(", ").collect())
}

/// Counts the words of a list, as often as they stand in it.
fn counts<'w>(words: &[&'w str]) -> BTreeMap<&'w str, usize> {
    let mut counts = BTreeMap::new();
    for word in words {
        *counts.entry(*word).or_default() += 1;
    }
    counts
}

#[test]
fn examples_mark_the_words_that_have_no_link_and_numbers_that_are_linked() {
    let sandbox = Sandbox::new();
    let noise = spoil(&sandbox, 4000);
    let read = |name: &str| fs::read_to_string(sandbox.path().join(name)).expect("it is there");
    let [mut english, mut german] = [read("spoiled.en"), read("spoiled.de")];
    let first_numbered = noise.len();
    // Right sentences with the same number on both sides, and two with others.
    for number in 1900..2000 {
        let right = (number - 1900..noise.len()).find(|line| noise[*line].is_none());
        let right = right.expect("most pairs are right");
        let [src, tgt] = [&english, &german].map(|text| text.lines().nth(right).expect("a line"));
        let lines = match number {
            1998 => [format!("1998 : {src}\n"), format!("1950 : {tgt}\n")],
            1999 => [format!("3,000 : {src}\n"), format!("4.000 : {tgt}\n")],
            _ => [format!("{number} : {src}\n"), format!("{number} : {tgt}\n")],
        };
        english += &lines[0];
        german += &lines[1];
    }
    write(&sandbox, "spoiled.en", &english);
    write(&sandbox, "spoiled.de", &german);
    let config = CONFIG.replace("'text'\ntest = 'test'", "'spoiled'");
    write(&sandbox, "c.toml", &config);
    let is_joined = |line: &usize| noise[*line] == Some("joined");
    let joined: Vec<usize> = (0..noise.len()).filter(is_joined).take(20).collect();
    let mut command = vec!["clean".to_owned(), "c.toml".to_owned()];
    let numbered = [first_numbered + 98, first_numbered + 99];
    for line in joined.iter().chain(&numbered) {
        command.extend(["--explain".to_owned(), (line + 1).to_string()]);
    }
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let (printed, _) = sandbox.succeed(&command);
    let explained: Vec<&str> = printed.split("spoiled.en:").skip(1).collect();
    assert_eq!((joined.len(), explained.len()), (20, 22), "{printed}");
    let [mut right, mut wrong, mut missed] = [0; 3];
    for (line, explained) in joined.iter().zip(&explained) {
        let target = german.lines().nth(*line).expect("it is there");
        // What stands behind the first sentence was joined to it.
        let end = target.find(['.', '?', '!']).expect("a sentence ends");
        let is_word = |word: &&str| word.contains(char::is_alphabetic);
        let added: Vec<&str> = target[end..].split(' ').filter(is_word).collect();
        let marked = target_words_without_partner(explained);
        let added_counts = counts(&added);
        let found: usize = counts(&marked)
            .iter()
            .map(|(word, count)| *added_counts.get(word).unwrap_or(&0).min(count))
            .sum();
        right += found;
        missed += added.len() - found;
        wrong += marked.len() - found;
    }
    assert!(
        right > 2 * missed && right > 2 * wrong,
        "{right} {missed} {wrong}\n{printed}"
    );
    for (explained, linked) in explained[joined.len()..]
        .iter()
        .zip(["1998 is linked to 1950", "3000 is linked to 4000"])
    {
        assert!(explained.contains(&format!("  {linked}\n")), "{explained}");
    }
    // `check` lists them below its examples, and names the text that it has looked at.
    let check = ["check", "c.toml", "--set", "train.max_steps=7"];
    let (checked, _) = sandbox.succeed(&check);
    assert!(checked.contains("\n    no partner in the "), "{checked}");
    assert!(
        checked.contains("clean c.toml --set train.max_steps=7 --explain FILE:LINE` says why"),
        "{checked}"
    );
}

#[test]
fn a_training_cleans_its_text_itself() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let settings = "model.preset = 'tiny'\ntokenizer.kind = 'word'\n";
    let config = CONFIG.replace("[data]", "[data]\nclean = true");
    write(&sandbox, "c.toml", &(settings.to_owned() + &config));
    let (_, message) = sandbox.succeed(&["train", "c.toml", "--run", "run"]);
    assert!(
        message.contains("cleaned: 4 of 9 pairs stay; removed: copy 1, duplicate 1, "),
        "{message}"
    );
    let vocabulary = fs::read_to_string(sandbox.path().join("run/tokenizer.json"));
    let vocabulary = vocabulary.expect("it is there");
    assert!(vocabulary.contains("groß") && !vocabulary.contains("Hunde"));
    // Another held-out set makes another text, which the run was not trained on.
    write(&sandbox, "test.en", "the bear sleeps\n");
    let again = [
        "train",
        "c.toml",
        "--run",
        "run",
        "--set",
        "train.max_steps=2",
    ];
    let message = sandbox.fail(2, &again);
    assert!(message.contains("text"), "{message}");
    // A command that only looks at the text sees it cleaned, `clean` as it is.
    let (printed, _) = sandbox.succeed(&["clean", "c.toml", "--dry-run"]);
    assert!(printed.contains("of 9 pairs stay"), "{printed}");
    let message = sandbox.fail(
        2,
        &[
            "clean",
            "c.toml",
            "--dry-run",
            "--set",
            "data.alignments=links",
        ],
    );
    assert!(
        message.contains("`data.clean` leaves out pairs"),
        "{message}"
    );
}

#[test]
fn a_line_is_explained() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let (printed, _) = sandbox.succeed(&[
        "clean",
        "c.toml",
        "--explain",
        "4",
        "--explain",
        "text.de:2",
        "--explain",
        "5",
        "--explain",
        "8",
    ]);
    for expected in [
        "text.en:4\n  source    the bear SLEEPS\n",
        "  removed: duplicate (pairs that repeat an earlier pair)\n  it repeats text.en:1\n",
        "  repaired  Is it large ? | Ist er groß ? (mojibake)\n  stays\n",
        "  source numbers without a partner: 3\n  target numbers without a partner: 4\n",
        "  removed: test (",
        "  the held-out pair: it is over | es ist vorbei\n",
    ] {
        assert!(printed.contains(expected), "{printed}");
    }
    // Of so few pairs not everything is learned, and other spellings of a path name the same file.
    let path = sandbox.path().join("text.de").display().to_string();
    let (printed, _) = sandbox.succeed(&["clean", "c.toml", "--explain", &format!("{path}:2")]);
    assert!(
        printed.starts_with("text.en:2\n")
            && printed.contains(
                "note: sides in another language were not looked for, which takes 100 pairs"
            )
            && printed.contains(
                "note: misaligned, cut and joined pairs were not looked for, which takes 2000 pairs"
            ),
        "{printed}"
    );
    // All reasons are named.
    write(&sandbox, "both.en", "Is it over ?\nit is over\n");
    write(&sandbox, "both.de", "Is it over ?\nit is over\n");
    let both = [
        "clean",
        "c.toml",
        "--set",
        "data.train=both",
        "--explain",
        "2",
    ];
    let (printed, _) = sandbox.succeed(&both);
    assert!(
        printed.contains("  removed: copy (pairs whose target is its source)\n  also:    test ("),
        "{printed}"
    );
    let error = sandbox.fail(2, &["clean", "c.toml", "--explain", "99"]);
    assert!(error.contains("`text.en` has no line 99"), "{error}");
    let error = sandbox.fail(2, &["clean", "c.toml", "--explain", "other.en:1"]);
    assert!(
        error.contains("name the line by one of the files `text.en`"),
        "{error}"
    );
}

#[test]
fn the_best_pairs_by_the_scores_of_a_file_or_a_model_stay() {
    let sandbox = Sandbox::trained();
    let pairs: String = "look aaa now\nlook bbb now\nlook ccc now\nlook ddd now\n".to_owned();
    write(&sandbox, "a.en", &pairs);
    write(&sandbox, "a.de", "aaa sieh\nbbb sieh\nccc sieh\nddd sieh\n");
    write(&sandbox, "scores", "0.5\n-1\n3e-1\n0.9\n");
    let text = ["clean", "--src", "a.en", "--tgt", "a.de", "--keep", "0.5"];
    let clean = |more: &[&str]| sandbox.succeed(&[&text[..], more].concat()).0;
    let printed = clean(&["--scores", "scores", "--out", "out"]);
    assert!(
        printed.contains("score: 2 (50.00 %), pairs with a low score"),
        "{printed}"
    );
    let kept = fs::read_to_string(sandbox.path().join("out/train.de")).expect("it is there");
    assert_eq!(kept, "aaa sieh\nddd sieh\n");
    write(&sandbox, "equal", "1\n1\n1\n0\n");
    let command = [&text[..], &["--scores", "equal", "--dry-run"]].concat();
    let (printed, said) = sandbox.succeed(&command);
    assert!(printed.starts_with("3 of 4 pairs stay"), "{printed}");
    assert!(
        said.contains("`--keep 0.5` keeps 1 more pair whose score equals"),
        "{said}"
    );
    let printed = clean(&["--scores", "scores", "--explain", "2"]);
    assert!(
        printed.contains("  score -1.000; the lowest that stays is 0.500\n  removed: score ("),
        "{printed}"
    );
    let printed = clean(&["--score", "run", "--dry-run"]);
    assert!(printed.starts_with("2 of 4 pairs stay"), "{printed}");
    // A pair that nothing removes but a group that is left out has its score and its rank.
    write(
        &sandbox,
        "b.en",
        "look aaa now\nlook bbb now\nlook aaa now\nlook ccc now\n",
    );
    write(&sandbox, "b.de", "aaa sieh\nbbb sieh\naaa sieh\nccc sieh\n");
    let text = ["clean", "--src", "b.en", "--tgt", "b.de", "--keep", "0.5"];
    let options = ["--scores", "scores", "--without", "duplicates", "--dry-run"];
    let (printed, _) = sandbox.succeed(&[&text[..], &options].concat());
    assert!(printed.starts_with("2 of 4 pairs stay"), "{printed}");

    let fail = |more: &[&str]| sandbox.fail(2, &[&text[..], more, &["--dry-run"]].concat());
    write(&sandbox, "few", "1\n2\n");
    let error = fail(&["--scores", "few"]);
    assert!(
        error.contains("`few` has 2 scores, and the text 4 pairs"),
        "{error}"
    );
    write(&sandbox, "odd", "1\ntwo\n3\n4\n");
    let error = fail(&["--scores", "odd"]);
    assert!(
        error.contains("`odd` line 2: `two` is no number"),
        "{error}"
    );
    let command = [&text[..], &["--scores", "missing", "--dry-run"]].concat();
    let error = sandbox.fail(1, &command);
    assert!(
        error.contains("`--scores`: there is no file `missing`") && !error.contains("looking at"),
        "{error}"
    );
    let error = fail(&[]);
    assert!(
        error.contains("add `--scores FILE` or `--score RUN`"),
        "{error}"
    );
}

const PROVED: &str = "[data]\ntrain = 'text'\nvalid = 'toy/valid'\nsrc = 'en'\ntgt = 'de'\n\
    [tokenizer]\nkind = 'word'\n\
    [model]\nd_model = 16\nd_ff = 16\nnum_heads = 2\nnum_encoder_layers = 1\nnum_decoder_layers = 1\n\
    [train]\nmax_tokens = 256\nmax_steps = 100000\nwarmup_steps = 4000\npatience = 3\n\
    [search]\nbeam_size = 1\nmax_len_ratio = 0.5\n";

/// A text of which a fifth is there twice and a fifth has other numbers on each side.
fn files_to_prove(sandbox: &Sandbox) {
    sandbox.succeed(&["corpus", "mini-en-de", "toy"]);
    let read = |name: &str| fs::read_to_string(sandbox.path().join(name)).expect("it is there");
    let [english, german] = [read("toy/train.en"), read("toy/train.de")];
    let mut sides = [String::new(), String::new()];
    for (index, (src, tgt)) in english.lines().zip(german.lines()).take(300).enumerate() {
        let [src_end, tgt_end] = if index % 5 == 1 {
            [" 3\n", " 4\n"]
        } else {
            ["\n"; 2]
        };
        for _ in 0..if index % 5 == 0 { 2 } else { 1 } {
            sides[0] += &[src, src_end].concat();
            sides[1] += &[tgt, tgt_end].concat();
        }
    }
    write(sandbox, "text.en", &sides[0]);
    write(sandbox, "text.de", &sides[1]);
    write(sandbox, "c.toml", PROVED);
}

#[test]
fn a_proof_trains_with_and_without_each_group_and_continues_where_it_was_ended() {
    let sandbox = Sandbox::new();
    files_to_prove(&sandbox);
    let command = [
        "clean", "c.toml", "--prove", "--steps", "2", "--seeds", "2", "--out", "proof", "--jobs",
        "3",
    ];
    let (printed, message) = sandbox.succeed(&command);
    assert!(
        message.contains("8 of 8: without-duplicates, seed 2"),
        "{message}"
    );
    let proof = sandbox.path().join("proof");
    let bytes = fs::read(proof.join("proof.json")).expect("it is there");
    let report: Value = serde_json::from_slice(&bytes).expect("it is JSON");
    let names = [
        "cleaned",
        "as-it-was",
        "without-rules",
        "without-duplicates",
    ];
    let texts = report["texts"].as_array().expect("a list");
    for (text, name) in texts.iter().zip(names) {
        assert_eq!(text["name"], name);
        let lines = |file: &str| {
            let text = fs::read_to_string(proof.join(name).join(file)).expect("it is there");
            text.lines().count()
        };
        assert_eq!(text["pairs"], lines("train.de"), "{name}");
        assert_eq!(lines("seed-1.txt"), lines("seed-2.txt"));
        assert_eq!(text["bleu"].as_array().map(Vec::len), Some(2));
        assert!(printed.contains(name), "{printed}");
    }
    // Each text has more than the cleaned one, and what no group has touched has most.
    let pairs: Vec<u64> = texts
        .iter()
        .filter_map(|text| text["pairs"].as_u64())
        .collect();
    let more = |index: usize| pairs[index] - pairs[0];
    assert!(more(2) >= 55 && more(3) >= 55, "{pairs:?}");
    assert!(more(1) >= more(2) + more(3), "{pairs:?}");
    // As commands leave it that are killed while they write, and before the translations are there.
    write(&sandbox, "proof/cleaned/train.en.77.tmp", "half");
    fs::remove_file(proof.join("proof.json")).expect("it is there");
    fs::remove_file(proof.join("without-rules/seed-2.txt")).expect("it is there");
    let (again, message) = sandbox.succeed(&command);
    assert_eq!(again, printed);
    assert!(
        message.contains("8 of 8: without-rules, seed 2"),
        "{message}"
    );
    assert!(!message.contains("7 of 8"), "{message}");
    fs::create_dir(sandbox.path().join("begun")).expect("it can be made");
    write(&sandbox, "begun/proof.toml.77.tmp", "half");
    let mut begun = command;
    begun[4] = "1";
    begun[6] = "1";
    begun[8] = "begun";
    sandbox.succeed(&begun);
    assert!(!sandbox.path().join("begun/proof.toml.77.tmp").exists());
    assert_eq!(
        fs::read(proof.join("proof.json")).expect("it is there"),
        bytes
    );
    // One training after the other gives the same as several side by side.
    let mut alone = command;
    alone[8] = "alone";
    alone[10] = "1";
    assert_eq!(sandbox.succeed(&alone).0, printed);
    assert_eq!(
        fs::read(sandbox.path().join("alone/proof.json")).expect("it is there"),
        bytes
    );
    // Another proof has a directory of its own.
    let mut other = command;
    other[4] = "3";
    let message = sandbox.fail(2, &other);
    assert!(
        message.contains("begun with other settings: length: 2 steps, now 3 steps"),
        "{message}"
    );
    let mut other = command.to_vec();
    other.extend(["--set", "model.d_ff=32"]);
    let message = sandbox.fail(2, &other);
    assert!(
        message.contains("other settings: `model.d_ff = 16`, now `32`"),
        "{message}"
    );
    let embedded = ["clean", "c.toml", "--prove", "--out", "new", "--set"];
    for (set, hint) in [
        ("data.alignments='text.en'", "data.alignments"),
        (
            "data.train=[{ path = 'text', tag = '<a>' }]",
            "weights and tags",
        ),
    ] {
        let message = sandbox.fail(2, &[&embedded[..], &[set]].concat());
        assert!(message.contains(hint), "{message}");
    }
    assert!(!sandbox.path().join("new").exists());
    let files = ["clean", "--src", "text.en", "--tgt", "text.de"];
    let message = sandbox.fail(2, &[&files[..], &["--prove", "--out", "new"]].concat());
    assert!(message.contains("give a config"), "{message}");
    let message = sandbox.fail(
        2,
        &[&files[..], &["--dry-run", "--without", "rule"]].concat(),
    );
    assert!(
        message.contains("the groups are repairs, rules"),
        "{message}"
    );
}

#[test]
fn a_proof_is_made_of_a_text_of_which_several_groups_find_all_noise() {
    let sandbox = Sandbox::new();
    files_to_prove(&sandbox);
    let read = |name: &str| fs::read_to_string(sandbox.path().join(name)).expect("it is there");
    // A fifth of the targets are their sources, which are copies and in another language.
    let [english, german] = [read("toy/train.en"), read("toy/train.de")].map(|text| {
        let lines: Vec<String> = text.lines().take(300).map(str::to_owned).collect();
        lines
    });
    let copied = |(index, (src, tgt)): (usize, (&String, &String))| {
        let line = if index % 5 == 1 { src } else { tgt };
        line.clone() + "\n"
    };
    let targets: String = english
        .iter()
        .zip(&german)
        .enumerate()
        .map(copied)
        .collect();
    write(&sandbox, "text.en", &(english.join("\n") + "\n"));
    write(&sandbox, "text.de", &targets);
    let command = [
        "clean", "c.toml", "--prove", "--steps", "2", "--seeds", "1", "--out", "proof", "--json",
    ];
    let report = sandbox.json(&command);
    let texts = report["texts"].as_array().expect("a list");
    let names: Vec<&str> = texts
        .iter()
        .filter_map(|text| text["name"].as_str())
        .collect();
    assert!(names.starts_with(&["cleaned", "as-it-was"]), "{names:?}");
    // What language would take in place of rules is in no training of its own.
    assert!(!names.contains(&"without-rules"), "{names:?}");
}

#[test]
fn a_proof_compares_with_what_another_program_has_cleaned() {
    let sandbox = Sandbox::new();
    files_to_prove(&sandbox);
    // Another program has taken half of the text, and has left a sentence of the validation set.
    let read = |name: &str| fs::read_to_string(sandbox.path().join(name)).expect("it is there");
    for side in ["en", "de"] {
        let half: String = read(&format!("text.{side}"))
            .split_inclusive('\n')
            .take(180)
            .collect();
        let first: String = read(&format!("toy/valid.{side}"))
            .split_inclusive('\n')
            .take(1)
            .collect();
        write(&sandbox, &format!("other.{side}"), &(first + &half));
    }
    let command = [
        "clean",
        "c.toml",
        "--prove",
        "--steps",
        "2",
        "--seeds",
        "1",
        "--out",
        "proof",
        "--json",
        "--texts",
        "as-it-was",
        "--compare",
        "other",
    ];
    let texts = sandbox.json(&command)["texts"].clone();
    let names: Vec<&str> = texts
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|text| text["name"].as_str())
        .collect();
    assert_eq!(names, ["cleaned", "as-it-was", "external-1"]);
    assert_eq!(texts[2]["prefix"], "other");
    // Nothing is cleaned in it, but held-out sentences are not trained on.
    let report: Value =
        serde_json::from_str(&read("proof/external-1/report.json")).expect("it is JSON");
    assert_eq!(texts[2]["pairs"], report["kept"]);
    let removed = report["removed"].as_object().expect("a table");
    assert!(
        removed.keys().all(|key| key.ends_with("test")),
        "{removed:?}"
    );
    assert_eq!(removed["test"], 1);
    let first = read("toy/valid.en").lines().next().map(str::to_owned);
    assert_ne!(
        read("proof/external-1/train.en").lines().next(),
        first.as_deref()
    );
    // After an end the same command continues; a text of another content is another proof.
    fs::remove_file(sandbox.path().join("proof/external-1/seed-1.txt")).expect("it is there");
    assert_eq!(sandbox.json(&command)["texts"], texts);
    write(&sandbox, "other.en", &read("text.en"));
    write(&sandbox, "other.de", &read("text.de"));
    let message = sandbox.fail(2, &command);
    assert!(
        message.contains("other settings: a text of `--compare` has changed"),
        "{message}"
    );
    let begin = ["clean", "c.toml", "--prove", "--out", "new"];
    let message = sandbox.fail(2, &[&begin[..], &["--texts", "without-test"]].concat());
    assert!(
        message.contains("the texts are as-it-was, without-repairs"),
        "{message}"
    );
    let message = sandbox.fail(2, &[&begin[..], &["--texts", "without-language"]].concat());
    assert!(message.contains("would hardly differ"), "{message}");
    let message = sandbox.fail(1, &[&begin[..], &["--compare", "nothing"]].concat());
    assert!(
        message.contains("`--compare`: there is no file `nothing.en`"),
        "{message}"
    );
}

#[test]
fn a_held_out_sentence_is_removed_whatever_rules_it_breaks() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    write(&sandbox, "text.en", "It is over !\nThe bear sleeps .\n");
    write(&sandbox, "text.de", "It is over !\nDer Bär schläft .\n");
    let removed = |without: &[&str]| {
        let mut command = vec!["clean", "c.toml", "--dry-run", "--json"];
        for group in without {
            command.extend(["--without", group]);
        }
        sandbox.json(&command)["removed"].clone()
    };
    let report = sandbox.json(&["clean", "c.toml", "--dry-run", "--json"]);
    assert_eq!(report["removed_by_one_group"], serde_json::json!({}));
    assert_eq!(removed(&[]), serde_json::json!({"copy": 1}));
    assert_eq!(removed(&["rules"]), serde_json::json!({"test": 1}));
    assert_eq!(removed(&["rules", "held-out"]), serde_json::json!({}));
}

#[test]
fn a_text_of_which_nothing_stays_is_an_error_that_names_the_filter() {
    let sandbox = Sandbox::new();
    write(&sandbox, "text.en", "copy that now\ncopy this now\n\n");
    write(&sandbox, "text.de", "copy that now\ncopy this now\n\n");
    write(&sandbox, "test.en", "it is over\n");
    write(&sandbox, "test.de", "es ist vorbei\n");
    write(&sandbox, "c.toml", CONFIG);
    let expected = "no pair of 3 stays: `copy` removes 2 of them";
    let message = sandbox.fail(2, &["clean", "c.toml", "--out", "out"]);
    assert!(
        message.contains(expected) && message.contains("--without"),
        "{message}"
    );
    assert!(!sandbox.path().join("out").exists());
    let (printed, _) = sandbox.succeed(&["clean", "c.toml", "--dry-run"]);
    assert!(printed.starts_with("0 of 3 pairs stay"), "{printed}");
    let command = [
        "train",
        "c.toml",
        "--run",
        "run",
        "--set",
        "data.clean=true",
    ];
    let message = sandbox.fail(1, &command);
    assert!(message.contains(expected), "{message}");
}

#[test]
fn what_a_group_that_is_left_out_would_remove_stays() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let kept = |without: &[&str]| {
        let mut command = vec!["clean", "c.toml", "--dry-run", "--json"];
        for group in without {
            command.extend(["--without", group]);
        }
        let report = sandbox.json(&command);
        (report["kept"].as_u64(), report["repaired"].clone())
    };
    let repaired = serde_json::json!({"html": 1, "mojibake": 1});
    // No filter of another group would remove these pairs.
    let report = sandbox.json(&["clean", "c.toml", "--dry-run", "--json"]);
    let removed =
        serde_json::json!({"copy": 1, "duplicate": 1, "no_letters": 1, "numbers": 1, "test": 1});
    assert_eq!(report["removed"], removed);
    assert_eq!(report["removed_by_one_group"], removed);
    assert_eq!(kept(&[]), (Some(4), repaired.clone()));
    assert_eq!(kept(&["duplicates"]), (Some(5), repaired.clone()));
    assert_eq!(kept(&["rules", "held-out"]), (Some(8), repaired));
    assert_eq!(kept(&["repairs"]), (Some(4), serde_json::json!({})));
}

#[test]
fn sides_in_other_languages_than_their_names_say_are_warned_of() {
    let sandbox = Sandbox::new();
    let english = "the cat is not in the house and it was here with you\n".repeat(20);
    let german = "die Katze ist nicht in dem Haus und sie war auch mit mir da\n".repeat(20);
    for (name, text) in [
        ("right.en", &english),
        ("right.de", &german),
        ("swapped.en", &german),
        ("swapped.de", &english),
        ("other.fr", &german),
    ] {
        write(&sandbox, name, text);
    }
    let messages = |src: &str, tgt: &str| {
        let command = ["clean", "--dry-run", "--src", src, "--tgt", tgt];
        sandbox.succeed(&command).1
    };
    let swapped = messages("swapped.en", "swapped.de");
    assert!(
        swapped.contains("swapped.en: the sides look swapped: the source looks like German"),
        "{swapped}"
    );
    let other = messages("right.en", "other.fr");
    assert!(
        other.contains("right.en: the target looks like German, and its language is `fr`"),
        "{other}"
    );
    let right = messages("right.en", "right.de");
    assert!(!right.contains("looks like"), "{right}");
}

#[test]
fn what_would_move_the_cursor_is_escaped() {
    let sandbox = Sandbox::new();
    write(
        &sandbox,
        "a.en",
        "the bear \u{1b}[31m sleeps\ncopy that now\u{7}\n",
    );
    write(
        &sandbox,
        "a.de",
        "der Bär \u{1b}[31m schläft\ncopy that now\u{7}\n",
    );
    let command = ["clean", "--src", "a.en", "--tgt", "a.de"];
    let (printed, _) = sandbox.succeed(&[&command[..], &["--dry-run"]].concat());
    assert!(
        printed.contains("\n  a.en:2  copy that now\\u{7} | copy that now\\u{7}\n"),
        "{printed}"
    );
    let (printed, _) = sandbox.succeed(&[&command[..], &["--explain", "1"]].concat());
    assert!(
        printed.contains("the bear \\u{1b}[31m sleeps") && !printed.contains('\u{1b}'),
        "{printed}"
    );
}

#[test]
fn a_config_says_which_groups_are_left_out_in_trainings_and_by_the_command() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    let settings = "model.preset = 'tiny'\ntokenizer.kind = 'word'\n";
    let keys = "[data.clean]\nwithout = ['rules', 'held-out']\n[data]";
    let config = settings.to_owned() + &CONFIG.replace("[data]", keys);
    write(&sandbox, "c.toml", &config);
    let (_, message) = sandbox.succeed(&["train", "c.toml", "--run", "run"]);
    assert!(message.contains("cleaned: 8 of 9 pairs stay"), "{message}");
    // Another text than without the key.
    let command = ["train", "c.toml", "--run", "run", "--set"];
    let others = [&command[..], &["data.clean=true"]].concat();
    let message = sandbox.fail(2, &others);
    assert!(message.contains("data.clean"), "{message}");
    let (printed, _) = sandbox.succeed(&["clean", "c.toml", "--dry-run"]);
    assert!(printed.starts_with("8 of 9 pairs stay"), "{printed}");
    let command = ["clean", "c.toml", "--dry-run", "--without", "duplicates"];
    let (printed, _) = sandbox.succeed(&command);
    assert!(printed.starts_with("5 of 9 pairs stay"), "{printed}");
    // What `check` finds in the rest has the lines of the text as it is: here behind a duplicate.
    let (printed, _) = sandbox.succeed(&["check", "c.toml"]);
    assert!(
        printed.contains("text.en:6  Tom and Mary . | Tom and Mary ."),
        "{printed}"
    );
    let command = ["check", "c.toml", "--set", "data.clean.without=['rule']"];
    let message = sandbox.fail(2, &command);
    assert!(
        message.contains("`rule`") && message.contains("`rules`"),
        "{message}"
    );
}

#[test]
fn a_config_names_the_scores_by_which_its_trainings_and_the_command_remove_pairs() {
    let sandbox = Sandbox::new();
    files(&sandbox);
    // Of nine pairs that rules and duplicates leave four of, the best half.
    write(&sandbox, "scores", "9\n8\n7\n6\n5\n4\n3\n2\n1\n");
    let settings = "model.preset = 'tiny'\ntokenizer.kind = 'word'\n";
    let keys = "[data.clean]\nscores = 'scores'\nkeep = 0.5\n[data]";
    let config = settings.to_owned() + &CONFIG.replace("[data]", keys);
    write(&sandbox, "c.toml", &config);
    let train = ["train", "c.toml", "--run", "run"];
    let (_, message) = sandbox.succeed(&train);
    assert!(
        message.contains("cleaned: 2 of 9 pairs stay; ") && message.contains("score 2"),
        "{message}"
    );
    let (printed, _) = sandbox.succeed(&["clean", "c.toml", "--dry-run"]);
    assert!(printed.starts_with("2 of 9 pairs stay"), "{printed}");
    let (printed, _) = sandbox.succeed(&["clean", "c.toml", "--dry-run", "--keep", "0.75"]);
    assert!(printed.starts_with("3 of 9 pairs stay"), "{printed}");
    // Options take the place of the config's settings.
    write(&sandbox, "equal", &"1\n".repeat(9));
    let command = ["clean", "c.toml", "--scores", "equal", "--without", "rules"];
    let (_, said) = sandbox.succeed(&[&command[..], &["--out", "out"]].concat());
    assert!(said.contains("`--keep 0.5` keeps"), "{said}");
    let report = fs::read_to_string(sandbox.path().join("out/report.json")).expect("it is there");
    let report: Value = serde_json::from_str(&report).expect("it is JSON");
    assert_eq!(report["files"], serde_json::json!(["text.en", "text.de"]));
    assert_eq!(report["without"], serde_json::json!(["rules"]));
    assert_eq!(report["lowest_score"], 1.0);
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    let page = fs::read_to_string(sandbox.path().join("out/report.html")).expect("it is there");
    assert!(
        page.contains("Left out: rules. The lowest score that stays is 1."),
        "{page}"
    );
    // Other scores are another text.
    write(&sandbox, "scores", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    let more = [&train[..], &["--set", "train.max_steps=2"]].concat();
    let message = sandbox.fail(2, &more);
    assert!(message.contains("`scores`"), "{message}");
    write(&sandbox, "scores", "1\n2\n");
    let other = ["train", "c.toml", "--run", "other"];
    let message = sandbox.fail(1, &other);
    assert!(
        message.contains("`scores` has 2 scores, and the text 9 pairs"),
        "{message}"
    );
    for (change, expected) in [
        (
            "data.clean={ keep = 0.5 }",
            "`scores` and `keep` go together",
        ),
        ("data.clean.keep=0", "`data.clean.keep` must be more than 0"),
        ("data.clean.kept=1", "did you mean `keep`"),
        ("data.clean=some", "true, false, or a table"),
        ("data.clean_without=[]", "`data.clean.without`"),
        ("clean.keep=0.5", "`clean` belongs to the section `[data]`"),
    ] {
        let third = ["train", "c.toml", "--run", "third", "--set", change];
        let message = sandbox.fail(2, &third);
        assert!(message.contains(expected), "{change}: {message}");
    }
}

#[test]
fn trainings_of_a_proof_take_some_minutes() {
    let sandbox = Sandbox::new();
    files_to_prove(&sandbox);
    let command = [
        "clean",
        "c.toml",
        "--prove",
        "--minutes",
        "0.1",
        "--seeds",
        "1",
        "--out",
        "proof",
        "--json",
        "--texts",
        "as-it-was",
    ];
    let steps = sandbox.json(&command)["steps"].as_u64();
    // Not the default, and not the least: a step of this model takes milliseconds.
    assert!(
        steps.is_some_and(|steps| steps > 5 && steps != 1000),
        "{steps:?}"
    );
    let settings =
        fs::read_to_string(sandbox.path().join("proof/proof.toml")).expect("it is there");
    let first_lines = format!(
        "# steps of each training: {}\n# length: 0.1 minutes\n",
        steps.unwrap_or(0)
    );
    assert!(settings.starts_with(&first_lines), "{settings}");
    // They are not measured again.
    fs::remove_file(sandbox.path().join("proof/as-it-was/seed-1.txt")).expect("it is there");
    assert_eq!(sandbox.json(&command)["steps"].as_u64(), steps);
    let mut other = command;
    other[4] = "0.2";
    let message = sandbox.fail(2, &other);
    assert!(
        message.contains("length: 0.1 minutes, now 0.2 minutes"),
        "{message}"
    );
    other[4] = "0";
    let message = sandbox.fail(2, &other);
    assert!(message.contains("0.1 or more"), "{message}");
}
