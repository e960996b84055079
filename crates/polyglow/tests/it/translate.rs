//! `translate` and `score`: formats, wishes, several models.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::LazyLock;

use serde_json::Value;

use crate::program::{Sandbox, train_pairs, wait_until};

/// A sandbox with the runs `run` and `other`, of another seed, and a text of four lines, one of
/// them blank.
static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
    let sandbox = Sandbox::trained();
    sandbox.succeed(&["train", "tiny.toml", "--run", "other", "--set", "seed=2"]);
    fs::write(
        sandbox.path().join("input.en"),
        "look aaa now\nnow\n\nlook bbb\n",
    )
    .expect("it can be written");
    sandbox
});

/// The output of `translate run input.en` with these options.
fn translate(options: &[&str]) -> String {
    SANDBOX
        .succeed(&[&["translate", "run", "input.en"][..], options].concat())
        .0
}

/// The objects that it prints with these options.
fn records(options: &[&str]) -> Vec<Value> {
    let output = translate(&[&["--format", "jsonl"], options].concat());
    output
        .lines()
        .map(|line| serde_json::from_str(line).expect("every line is JSON"))
        .collect()
}

fn write(name: &str, content: &str) {
    fs::write(SANDBOX.path().join(name), content).expect("it can be written");
}

#[test]
fn all_formats_hold_the_same_translations() {
    let records = records(&["--beam-size", "3", "--n-best", "2"]);
    assert_eq!(records.len(), 4);
    let (mut text, mut table) = (String::new(), String::new());
    for (number, record) in (1..).zip(&records) {
        assert_eq!(record["line"], number);
        let hypotheses = record["hypotheses"].as_array().expect("a list");
        assert_eq!(hypotheses.len(), if number == 3 { 1 } else { 2 });
        for rank in 0..2 {
            text += &(hypotheses
                .get(rank)
                .map_or("", |hypothesis| {
                    hypothesis["text"].as_str().expect("a text")
                })
                .to_owned()
                + "\n");
        }
        for (rank, hypothesis) in (1..).zip(hypotheses) {
            let number_of = |key: &str| hypothesis[key].as_f64().expect("a number") as f32;
            let (score, log_prob) = (number_of("score"), number_of("log_prob"));
            let text = hypothesis["text"].as_str().expect("a text");
            table.push_str(
                &[
                    number.to_string(),
                    rank.to_string(),
                    format!("{score:.6}\t{log_prob:.6}\t{text}\n"),
                ]
                .join("\t"),
            );
        }
    }
    let words = |text: &Value| text.as_str().expect("a text").split_whitespace().count();
    let first = &records[0]["hypotheses"][0];
    let links = first["alignment"].as_array().expect("a list");
    assert_eq!(links.len(), words(&first["text"]));
    assert!(
        links
            .iter()
            .all(|link| link[0].as_u64().is_some_and(|word| word < 3)),
        "{links:?}"
    );
    assert_eq!(records[0]["source"], "look aaa now");
    assert_eq!(records[2]["hypotheses"][0]["text"], "");
    assert_eq!(translate(&["--beam-size", "3", "--n-best", "2"]), text);
    assert_eq!(
        translate(&["--beam-size", "3", "--n-best", "2", "--format", "tsv"]),
        table
    );
}

#[test]
fn the_log_probability_of_a_translation_is_what_score_says_of_it() {
    // The model has hardly learned to end; of some samples, the shortest has.
    let records = records(&[
        "--beam-size",
        "16",
        "--n-best",
        "16",
        "--set",
        "search.method=sample",
    ]);
    let text = |hypothesis: &Value| hypothesis["text"].as_str().expect("a text").to_owned();
    let shortest = |record: &Value| {
        let hypotheses = record["hypotheses"].as_array().expect("a list").iter();
        hypotheses
            .min_by_key(|hypothesis| text(hypothesis).len())
            .expect("at least one")
            .clone()
    };
    let hypotheses: Vec<Value> = records.iter().map(shortest).collect();
    let lines: Vec<String> = hypotheses.iter().map(text).collect();
    write("hypotheses.de", &(lines.join("\n") + "\n"));
    let (output, message) = SANDBOX.succeed(&["score", "run", "input.en", "hypotheses.de"]);
    let number_of = |line: &str| {
        line.split('\t')
            .next()
            .expect("a field")
            .parse::<f64>()
            .expect("a number")
    };
    let mut compared = 0;
    for (line, (scored, hypothesis)) in output.lines().zip(&hypotheses).enumerate() {
        let (scored, log_prob) = (
            number_of(scored),
            hypothesis["log_prob"].as_f64().expect("a number"),
        );
        let len = lines[line].split_whitespace().count();
        // No search for a blank line; what did not end within the model's 20 tokens has no end mark
        // to count.
        if (1..20).contains(&len) {
            compared += 1;
            assert!(
                (scored - log_prob).abs() < 1e-4,
                "line {line}: {scored}, {log_prob}"
            );
        }
    }
    assert!(compared > 0, "{lines:?}");
    assert!(message.contains("4 pairs"), "{message}");
    let json = SANDBOX
        .succeed(&["score", "run", "input.en", "hypotheses.de", "--json"])
        .0;
    for (line, text) in json.lines().zip(output.lines()) {
        let record: Value = serde_json::from_str(line).expect("every line is JSON");
        let tokens = record["tokens"].as_array().expect("a list");
        let sum: f64 = tokens
            .iter()
            .map(|token| token["log_prob"].as_f64().expect("a number"))
            .sum();
        assert!((sum - number_of(text)).abs() < 1e-4);
        assert_eq!(
            tokens.last().expect("a token")["token"] == "</s>",
            record["truncated"] == false,
            "{record}"
        );
    }
}

#[test]
fn prefixes_and_constraints_stand_in_the_translations() {
    write("prefix.de", "ddd sieh\n\n\nccc\n");
    write("words.de", "\neee sieh\tfff\n\n\n");
    let output = translate(&[
        "--prefix",
        "prefix.de",
        "--constraints",
        "words.de",
        "--beam-size",
        "4",
    ]);
    let lines: Vec<&str> = output.lines().collect();
    assert!(
        lines[0].starts_with("ddd sieh") && lines[3].starts_with("ccc"),
        "{output}"
    );
    assert!(
        lines[1].contains("eee sieh") && lines[1].contains("fff"),
        "{output}"
    );
    assert_eq!(lines[2], "");
}

#[test]
fn wishes_that_cannot_be_granted_are_errors_that_name_the_line() {
    let fail = |options: &[&str]| {
        SANDBOX.fail(
            1,
            &[&["translate", "run", "input.en"][..], options].concat(),
        )
    };
    write("unknown.de", "\nzzz zzzz\n\n\n");
    let message = fail(&["--constraints", "unknown.de"]);
    assert!(
        message.contains("line 2: `zzz zzzz` has words that the target vocabulary lacks"),
        "{message}"
    );
    write("long.de", &("aaa ".repeat(30) + "\n\n\n\n"));
    let message = fail(&["--constraints", "long.de"]);
    assert!(
        message.contains("line 1: ") && message.contains("31 tokens"),
        "{message}"
    );
    write("short.de", "aaa\n");
    let message = SANDBOX.fail(1, &["translate", "run", "input.en", "--prefix", "short.de"]);
    assert!(message.contains("`short.de` has no line 2"), "{message}");
    let output = SANDBOX.run(&["translate", "run", "short.de", "--prefix", "input.en"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("`input.en` has more than the 1 lines of the input"),
        "{message}"
    );
    let message = SANDBOX.fail(
        2,
        &[
            "translate",
            "run",
            "input.en",
            "--n-best",
            "2",
            "--beam-size",
            "1",
        ],
    );
    assert!(
        message.contains("`--n-best 2` is more than the beam size, 1"),
        "{message}"
    );
    let message = SANDBOX.fail(2, &["translate", "run", "input.en", "--beam-size", "1000"]);
    assert!(
        message.contains("a beam of 1000 is wider than the target vocabulary of"),
        "{message}"
    );
    let message = SANDBOX.fail(
        2,
        &["translate", "run", "input.en", "--set", "model.d_model=4"],
    );
    assert!(
        message.contains("the model was trained with that key"),
        "{message}"
    );
}

#[test]
fn an_ensemble_of_one_model_twice_is_that_model_and_of_two_another() {
    let alone = records(&[]);
    for twice in ["run", "run/checkpoints/best"] {
        let twice = records(&["--ensemble", twice]);
        for (alone, twice) in alone.iter().zip(&twice) {
            assert_eq!(
                alone["hypotheses"][0]["text"],
                twice["hypotheses"][0]["text"]
            );
        }
    }
    let evaluate =
        |options: &[&str]| SANDBOX.json(&[&["evaluate", "run", "--json"][..], options].concat());
    let loss = |scores: &Value| scores["loss"].as_f64().expect("a number");
    let (one, twice) = (evaluate(&[]), evaluate(&["--ensemble", "run"]));
    assert!((loss(&one) - loss(&twice)).abs() < 1e-5);
    let (other, both) = (
        SANDBOX.json(&["evaluate", "other", "--json"]),
        evaluate(&["--ensemble", "other"]),
    );
    // The logarithm is concave, so the loss of the mean is below the mean of the losses.
    assert!(loss(&both) < f64::midpoint(loss(&one), loss(&other)) + 1e-6);
    assert!((loss(&both) - loss(&one)).abs() > 1e-6);
    let sandbox = Sandbox::new();
    sandbox.succeed(&[
        "train",
        "tiny.toml",
        "--run",
        "run",
        "--set",
        "tokenizer.kind=char",
    ]);
    let path = sandbox.path().join("run");
    let message = SANDBOX.fail(
        2,
        &[
            "translate",
            "run",
            "input.en",
            "--ensemble",
            path.to_str().expect("UTF-8"),
        ],
    );
    assert!(
        message.contains("their target vocabularies differ"),
        "{message}"
    );
}

#[test]
fn samples_follow_their_seed_and_not_their_batch() {
    let sample = |seed: &str, max_tokens: &str| {
        let seed = format!("search.seed={seed}");
        let method = [
            "--set",
            "search.method=sample",
            "--beam-size",
            "3",
            "--n-best",
            "3",
        ];
        translate(&[&method[..], &["--set", &seed, "--set", max_tokens]].concat())
    };
    // All four lines in one batch, or each in its own.
    let together = sample("1", "train.max_tokens=64");
    assert_eq!(together, sample("1", "train.max_tokens=1"));
    assert_ne!(together, sample("2", "train.max_tokens=64"));
}

#[test]
fn a_sample_is_one_draw_unless_more_are_requested() {
    // A run whose config has a beam of four, as most have.
    let sample =
        |options: &[&str]| translate(&[&["--set", "search.method=sample"], options].concat());
    SANDBOX.succeed(&[
        "train",
        "tiny.toml",
        "--run",
        "wide",
        "--set",
        "search.beam_size=4",
    ]);
    let one = SANDBOX
        .succeed(&[
            "translate",
            "wide",
            "input.en",
            "--set",
            "search.method=sample",
        ])
        .0;
    assert_eq!(one, sample(&["--beam-size", "1"]));
    assert_ne!(one, sample(&["--beam-size", "16"]), "the best of sixteen");
    assert_eq!(
        sample(&["--n-best", "3"]),
        sample(&["--n-best", "3", "--beam-size", "3"])
    );
    let evaluate =
        |options: &[&str]| SANDBOX.json(&[&["evaluate", "wide", "--json"][..], options].concat());
    assert_eq!(evaluate(&["--set", "search.method=sample"])["beam_size"], 1);
    assert_eq!(
        evaluate(&[
            "--set",
            "search.method=sample",
            "--set",
            "search.beam_size=3"
        ])["beam_size"],
        3
    );
    assert_eq!(evaluate(&[])["beam_size"], 4);
}

#[test]
fn unknown_words_are_replaced_by_words_of_the_source() {
    let sandbox = Sandbox::new();
    // Of 27 target words only the most frequent is known.
    sandbox.succeed(&[
        "train",
        "tiny.toml",
        "--run",
        "run",
        "--set",
        "tokenizer.vocab_size=5",
    ]);
    fs::write(sandbox.path().join("input.en"), "look aaa now\nnow bbb\n")
        .expect("it can be written");
    let arguments = [
        "translate",
        "run",
        "input.en",
        "--set",
        "search.method=sample",
        "--beam-size",
        "5",
        "--n-best",
        "5",
    ];
    let plain = sandbox.succeed(&arguments).0;
    let replaced = sandbox
        .succeed(&[&arguments[..], &["--replace-unknown"]].concat())
        .0;
    assert!(
        plain.contains("<unk>") && !replaced.contains("<unk>"),
        "{plain}"
    );
    let mut compared = 0;
    for (line, (plain, replaced)) in plain.lines().zip(replaced.lines()).enumerate() {
        let source: &[&str] = if line < 5 {
            &["look", "aaa", "now"]
        } else {
            &["now", "bbb"]
        };
        assert_eq!(
            plain.split_whitespace().count(),
            replaced.split_whitespace().count()
        );
        for (plain, replaced) in plain.split_whitespace().zip(replaced.split_whitespace()) {
            compared += usize::from(plain == "<unk>");
            assert!(
                if plain == "<unk>" {
                    source.contains(&replaced)
                } else {
                    plain == replaced
                },
                "{replaced}"
            );
        }
    }
    assert!(compared > 0);
}

#[test]
fn lines_that_are_typed_are_translated_and_remembered() {
    let output = SANDBOX.feed("input.en", &["translate", "run", "--interactive"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), translate(&[]));
    let history =
        fs::read_to_string(SANDBOX.path().join("state/polyglow/history")).expect("it was written");
    assert!(
        history.contains("look aaa now") && history.contains("look bbb"),
        "{history}"
    );
}

#[test]
fn a_line_longer_than_the_model_is_translated_in_sentences_with_a_warning() {
    let sentence = |index| format!("{} .", [["aaa", "bbb", "ccc"][index]; 12].join(" "));
    let whole: Vec<String> = (0..3).map(sentence).collect();
    write(
        "long.en",
        &(whole.join(" ") + "\n" + &whole.join("\n") + "\n"),
    );
    let (output, message) = SANDBOX.succeed(&["translate", "run", "long.en"]);
    assert!(
        message.contains("line 1 has more than the model's 20 tokens: it is translated in pieces"),
        "{message}"
    );
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], lines[1..].join(" "));
    write("longer.en", &format!("{0}\naaa\n{0}\n", whole.join(" ")));
    let message = SANDBOX.succeed(&["translate", "run", "longer.en"]).1;
    assert!(
        message.contains(
            "2 lines, the first of them 1 and the last 3, have more than the model's 20 tokens"
        ),
        "{message}"
    );
}

#[test]
fn sentences_of_a_line_are_translated_each_by_itself_on_request() {
    write("several.en", "- look aaa. Look bbb! 😆\n\nnow\n");
    write("single.en", "look aaa.\nLook bbb!\nnow\n");
    let single = SANDBOX.succeed(&["translate", "run", "single.en"]).0;
    let [first, second, third] = single.lines().collect::<Vec<_>>()[..] else {
        panic!("{single}")
    };
    let (output, message) =
        SANDBOX.succeed(&["translate", "run", "several.en", "--split-sentences"]);
    assert_eq!(output, format!("- {first} {second} 😆\n\n{third}\n"));
    assert!(!message.contains("sentences"), "{message}");
    let message = SANDBOX.succeed(&["translate", "run", "several.en"]).1;
    let warning =
        "line 1 of several.en holds 2 sentences, but 100 % of the training lines hold one";
    assert!(message.contains(warning), "{message}");
    let json = SANDBOX
        .succeed(&[
            "translate",
            "run",
            "several.en",
            "--split-sentences",
            "--format",
            "jsonl",
        ])
        .0;
    let record: Value = serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
    let links = record["hypotheses"][0]["alignment"]
        .as_array()
        .expect("a list");
    let words = |text: &str| text.split_whitespace().count() as u64;
    // The words of the two sentences are those after the dash and before the emoji.
    let targets: Vec<u64> = links.iter().filter_map(|link| link[1].as_u64()).collect();
    assert_eq!(
        targets,
        (1..=words(first) + words(second)).collect::<Vec<_>>()
    );
    assert!(
        links
            .iter()
            .all(|link| link[0].as_u64().is_some_and(|word| (1..5).contains(&word))),
        "{links:?}"
    );
    let arguments = [
        "translate",
        "run",
        "several.en",
        "--split-sentences",
        "--prefix",
        "single.en",
    ];
    assert!(
        SANDBOX.fail(2, &arguments).contains("cannot be used with"),
        "it says what does not go together"
    );
}

#[test]
fn words_that_the_vocabulary_lacks_are_named() {
    write("unknown.en", "look aaa now\nLook, aaa now\n");
    let warning = "the model's vocabulary lacks `Look,`, which it reads as `<unk>`";
    for command in [
        &["translate", "run", "unknown.en"][..],
        &["attention", "run", "Look, aaa", "--out", "unknown.svg"],
        &["embeddings", "run", "sentences", "unknown.en"],
    ] {
        let message = SANDBOX.succeed(command).1;
        assert_eq!(
            message.matches(warning).count(),
            1,
            "{command:?}: {message}"
        );
    }
    assert!(
        !SANDBOX
            .succeed(&["translate", "run", "input.en"])
            .1
            .contains("lacks")
    );
    let output = SANDBOX.feed("unknown.en", &["translate", "run", "--interactive"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains(warning));
}

#[test]
fn gold_alignments_give_an_error_rate_a_layer() {
    write("gold.align", "0-0\n0-0 2-1\n\n1-1\n");
    let scores = SANDBOX.json(&["evaluate", "run", "--alignments", "gold.align", "--json"]);
    let rates = scores["alignment_error_rates"].as_array().expect("a list");
    assert_eq!(rates.len(), 1);
    assert!(
        rates[0]
            .as_f64()
            .is_some_and(|rate| (0.0..=1.0).contains(&rate)),
        "{rates:?}"
    );
    // Against the model's own links there is no error, and against all others everything is wrong.
    let read = |name: &str| fs::read_to_string(SANDBOX.path().join(name)).expect("it is there");
    let own = |(src, tgt)| {
        SANDBOX
            .succeed(&["attention", "run", src, "--tgt", tgt, "--pharaoh"])
            .0
    };
    let links: String = read("test.en")
        .lines()
        .zip(read("test.de").lines())
        .map(own)
        .collect();
    let rate_of = |links: &str| {
        write("own.align", links);
        SANDBOX.json(&["evaluate", "run", "--alignments", "own.align", "--json"])["alignment_error_rates"][0].clone()
    };
    assert_eq!(rate_of(&links), 0.0, "{links}");
    let moved = |link: &str| {
        let (src, tgt) = link.split_once('-').expect("a link");
        format!(
            "{}-{tgt} ",
            (src.parse::<usize>().expect("a number") + 1) % 3
        )
    };
    let moved: String = links
        .lines()
        .map(|line| line.split_whitespace().map(moved).collect::<String>() + "\n")
        .collect();
    assert_eq!(rate_of(&moved), 1.0, "{moved}");
    let fail = |content: &str| {
        write("wrong.align", content);
        SANDBOX.fail(1, &["evaluate", "run", "--alignments", "wrong.align"])
    };
    assert!(fail("0-0\n0:0\n\n\n").contains("`wrong.align` line 2: `0:0` is not a list of links"));
    assert!(fail("0-0\n").contains("`wrong.align` has 1 lines, but the set has 4 pairs"));
    assert!(fail("\n\n\n\n").contains("`wrong.align` has no links"));
    assert!(
        fail("0-0\n9-0\n\n\n")
            .contains("`wrong.align` line 2: `9-0` is beyond the pair's 3 and 2 words")
    );
    let message = SANDBOX.fail(2, &["evaluate", "run", "--alignments", "gold"]);
    assert!(
        message.contains("only an embedded corpus has gold alignments"),
        "{message}"
    );
}

#[test]
fn the_error_for_a_sentence_instead_of_a_file_says_how_to_translate_it() {
    let message = SANDBOX.fail(1, &["translate", "run", "look aaa now"]);
    assert!(
        message.contains("error: there is no file `look aaa now`\n"),
        "{message}"
    );
    assert!(
        message.contains(
            "hint: to translate a sentence, pipe it: `echo 'look aaa now' | polyglow translate run`"
        ),
        "{message}"
    );
    let message = SANDBOX.fail(1, &["translate", "run", "none.en"]);
    assert!(
        message
            .contains("hint: is the name spelled right, from the current directory? to translate"),
        "{message}"
    );
    // A file is a file, whatever its name looks like.
    write("look now.", "look aaa now\n");
    write("plain.en", "look aaa now\n");
    let translate = |name: &str| SANDBOX.succeed(&["translate", "run", name]).0;
    assert_eq!(translate("look now."), translate("plain.en"));
}

#[test]
fn the_message_for_an_empty_input_says_that_it_is_empty() {
    write("nothing.en", "");
    let (output, message) = SANDBOX.succeed(&["translate", "run", "nothing.en"]);
    assert!(
        output.is_empty()
            && message.contains("warning: `nothing.en` is empty: 0 lines translated\n"),
        "{message}"
    );
    let message = SANDBOX.succeed(&["translate", "run"]).1;
    assert!(
        message.contains("`standard input` is empty: 0 lines translated"),
        "{message}"
    );
    assert!(
        !SANDBOX
            .succeed(&["translate", "run", "input.en"])
            .1
            .contains("0 lines")
    );
}

#[test]
fn runs_that_do_not_belong_together_are_named() {
    let sandbox = Sandbox::trained();
    let reversed: Vec<_> = train_pairs()
        .into_iter()
        .map(|(src, tgt)| (tgt + " hier", src))
        .collect();
    sandbox.write("train", &reversed);
    sandbox.train("turned", &["data.src=de", "data.tgt=en"]);
    let message = sandbox.fail(
        2,
        &[
            "translate",
            "run",
            "test.en",
            "--checkpoint",
            "turned/checkpoints/step-6",
        ],
    );
    assert!(
        message.contains("`turned/checkpoints/step-6` belongs to another run than `run`"),
        "{message}"
    );
    assert!(
        message.contains("hint: name that run instead of this one: `turned`"),
        "{message}"
    );
    let message = sandbox.fail(2, &["translate", "run", "test.en", "--ensemble", "turned"]);
    assert!(
        message.contains("cannot be an ensemble: one writes `de`, the other `en`"),
        "{message}"
    );
    assert!(
        message.contains("hint: an ensemble is of models of the same languages"),
        "{message}"
    );
    // The run's own tokenizer was replaced.
    fs::copy(
        sandbox.path().join("turned/tokenizer.json"),
        sandbox.path().join("run/tokenizer.json"),
    )
    .expect("it is there");
    let message = sandbox.fail(1, &["translate", "run", "test.en"]);
    assert!(
        message.contains("hint: restore the old `tokenizer.json`"),
        "{message}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_long_translation_shows_its_rate_and_the_time_left_in_a_terminal() {
    write("long-one.en", &"look aaa now\n".repeat(3000));
    watched("translate run long-one.en -o long-one.de");
    assert_eq!(
        fs::read_to_string(SANDBOX.path().join("long-one.de"))
            .expect("it was written")
            .lines()
            .count(),
        3000
    );
    // Lines are translated 2 048 at a time, within which there is progress, too, where sentences
    // are translated one by one.
    write("split.en", &"Look aaa now. Look aaa now.\n".repeat(3000));
    let screen = watched("translate run split.en -o split.de --split-sentences");
    let counts: Vec<&str> = screen
        .split("translated ")
        .filter_map(|words| words.split(" of 3000").next())
        .collect();
    let is_between = |count: &&str| {
        count
            .parse::<usize>()
            .is_ok_and(|count| ![0, 2048, 3000].contains(&count))
    };
    assert!(counts.iter().any(is_between), "{counts:?}");
    assert_eq!(
        fs::read_to_string(SANDBOX.path().join("split.de"))
            .expect("it was written")
            .lines()
            .count(),
        3000
    );
}

/// The text that a terminal shows while a command translates 3 000 lines.
#[cfg(target_os = "linux")]
fn watched(command: &str) -> String {
    let program = env!("CARGO_BIN_EXE_polyglow");
    let translate = format!("stty rows 24 cols 120; '{program}' {command}");
    let mut command = std::process::Command::new("script");
    command
        .args(["-qec", &translate, "/dev/null"])
        .current_dir(SANDBOX.path())
        .env_remove("RUST_LOG")
        .env("TERM", "xterm");
    let output = command
        .stdin(std::process::Stdio::null())
        .output()
        .expect("`script` starts");
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{screen}");
    for words in [" of 3000 lines, ", " lines/s, left "] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
    screen
}

/// The partial files of the output of this name.
fn partial(name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(SANDBOX.path())
        .expect("it can be read")
        .flatten()
        .map(|entry| entry.path());
    let is_partial = |path: &PathBuf| {
        let file = path
            .file_name()
            .and_then(|file| file.to_str())
            .unwrap_or_default();
        file.starts_with(name) && file.ends_with(".partial")
    };
    entries.filter(is_partial).collect()
}

#[test]
fn a_killed_translation_continues_where_its_output_ends() {
    // Blank lines need no model.
    let text: String = (0..5000)
        .map(|line| {
            if line % 500 == 0 {
                "look aaa now\n"
            } else {
                "\n"
            }
        })
        .collect();
    write("many.en", &text);
    let straight = SANDBOX.succeed(&["translate", "run", "many.en"]).0;

    let resume = ["--output", "many.de", "--resume"];
    let mut command = SANDBOX.command(&[&["translate", "run"][..], &resume].concat());
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("it is a pipe");
    input
        .write_all(&text.as_bytes()[..text.len() - 100])
        .expect("it reads");
    let lines = |path: &PathBuf| {
        fs::read_to_string(path)
            .expect("it is text")
            .lines()
            .count()
    };
    wait_until("two portions", || {
        partial("many.de")
            .first()
            .is_some_and(|path| lines(path) >= 4096)
    });
    child
        .kill()
        .and_then(|()| child.wait())
        .expect("it was alive");
    drop(input);
    let growing = partial("many.de").pop().expect("it stays");
    // As if it had been killed while it wrote.
    fs::OpenOptions::new()
        .append(true)
        .open(&growing)
        .and_then(|mut file| file.write_all(b"half a li"))
        .expect("it grows");

    // What other settings have made is not gone on with.
    let other = [
        &["translate", "run", "input.en", "--beam-size", "2"][..],
        &resume,
    ]
    .concat();
    SANDBOX.succeed(&other);
    assert_eq!(partial("many.de"), [growing.as_path()]);
    fs::remove_file(SANDBOX.path().join("many.de")).expect("it is there");

    let (_, stderr) = SANDBOX.succeed(&[&["translate", "run", "many.en"][..], &resume].concat());
    assert!(
        stderr.contains("4096 lines are translated; continuing after them"),
        "{stderr}"
    );
    assert!(fs::read_to_string(SANDBOX.path().join("many.de")).expect("it is there") == straight);
    assert!(partial("many.de").is_empty());

    SANDBOX.fail(2, &["translate", "run", "many.en", "--resume"]);
    SANDBOX.fail(
        2,
        &["translate", "run", "many.en", "--resume", "--output", "-"],
    );
}
