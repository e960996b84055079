//! `polyglow align`: links between the words of a text.

use std::fs;

use crate::program::{DIGITS, Sandbox};

/// A config of the embedded corpus that has gold links.
const MINI: &str = "[data]\ncorpus = 'mini-en-de'\n[train]\nmax_steps = 1\n";

fn write(sandbox: &Sandbox, name: &str, text: &str) {
    fs::write(sandbox.path().join(name), text).expect("it can be written");
}

fn read(sandbox: &Sandbox, name: &str) -> String {
    fs::read_to_string(sandbox.path().join(name)).expect("it is there")
}

/// The number behind a name in printed scores.
fn score(printed: &str, name: &str) -> f64 {
    let line = printed.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number
        .and_then(|number| number.parse().ok())
        .expect("it is printed")
}

#[test]
fn links_agree_with_gold_ones() {
    let sandbox = Sandbox::with(MINI);
    let align = ["align", "tiny.toml", "--out", "links", "--gold", "gold"];
    let (printed, message) = sandbox.succeed(&align);
    // eflomal has 0.0404 to 0.0489, fast_align 0.0421 (both with grow-diag-final-and).
    assert!(score(&printed, "AER") <= 0.03, "{printed}");
    assert!(
        message.contains("links of 20000 pairs to `links`"),
        "{message}"
    );
    assert_eq!(read(&sandbox, "links").lines().count(), 20_000);
    assert!(!sandbox.path().join("links.state").exists());
}

#[test]
fn an_empty_side_gets_no_links_and_no_input_is_overwritten() {
    let sandbox = Sandbox::with(MINI);
    let texts = [
        "the dog sleeps\nthe cat\nthe dog\n",
        "der Hund schläft\n\nder Hund\n",
    ];
    write(&sandbox, "a.en", texts[0]);
    write(&sandbox, "a.de", texts[1]);
    let align = ["align", "--src", "a.en", "--tgt", "a.de", "--out"];
    sandbox.succeed(&[&align[..], &["links"]].concat());
    let links = read(&sandbox, "links");
    let lens: Vec<usize> = links
        .lines()
        .map(|line| line.split_whitespace().count())
        .collect();
    assert!(
        lens.len() == 3 && lens[0] > 0 && lens[1] == 0 && lens[2] > 0,
        "{links}"
    );
    let reversed = [
        "align", "--src", "a.de", "--tgt", "a.en", "--out", "reversed",
    ];
    sandbox.succeed(&reversed);
    for input in ["a.de", "./a.en"] {
        let message = sandbox.fail(2, &[&align[..], &[input]].concat());
        assert!(message.contains("would be overwritten"), "{message}");
    }
    let both = [&align[..], &["new", "--probabilities", "new"]].concat();
    let message = sandbox.fail(2, &both);
    assert!(message.contains("are both `new`"), "{message}");
    assert_eq!([read(&sandbox, "a.en"), read(&sandbox, "a.de")], texts);
    // Scores by which the config cleans its text are an input, too.
    write(&sandbox, "scores", "1\n");
    let scored = ["--set", "data.clean={ scores = 'scores', keep = 0.5 }"];
    let over_scores = [&["align", "tiny.toml", "--out", "scores"], &scored[..]].concat();
    let message = sandbox.fail(2, &over_scores);
    assert!(
        message.contains("`scores` is read, and would be"),
        "{message}"
    );
    // What cannot be written is said before the work, which leaves nothing behind.
    fs::create_dir(sandbox.path().join("dir")).expect("it is not there");
    for (options, expected) in [
        (&["dir"][..], "cannot write `dir`: it is a directory"),
        (
            &["new", "--probabilities", "dir"],
            "cannot write `dir`: it is a directory",
        ),
        (
            &["a.en/new"],
            "cannot write `a.en/new`: `a.en` is no directory",
        ),
        (
            &["no/new"],
            "cannot write `no/new`: there is no directory `no`",
        ),
    ] {
        let message = sandbox.fail(1, &[&align[..], options].concat());
        assert!(message.contains(expected), "{message}");
    }
    for left in ["new", "new.state", "dir.state", "no"] {
        assert!(!sandbox.path().join(left).exists(), "{left}");
    }
}

#[test]
fn the_bytes_are_the_same_with_any_number_of_threads_and_from_files() {
    let sandbox = Sandbox::with(MINI);
    sandbox.succeed(&["corpus", "mini-en-de", "mini"]);
    for side in ["en", "de"] {
        let text = read(&sandbox, &format!("mini/train.{side}"));
        let first: Vec<&str> = text.lines().take(1000).collect();
        write(
            &sandbox,
            &format!("first.{side}"),
            &(first.join("\n") + "\n"),
        );
    }
    let set = ["--set", "data.max_examples=1000"];
    let files = ["--src", "first.en", "--tgt", "first.de"];
    let align = |source: &[&str], threads: &str, out: &str| {
        let probabilities = format!("{out}.p");
        let common = [
            "--out",
            out,
            "--threads",
            threads,
            "--probabilities",
            &probabilities,
        ];
        sandbox.succeed(&[&["align"], source, &common].concat());
        [read(&sandbox, out), read(&sandbox, &probabilities)]
    };
    let config: Vec<&str> = ["tiny.toml"].into_iter().chain(set).collect();
    let one = align(&config, "1", "one");
    assert_eq!(one, align(&config, "2", "two"));
    assert_eq!(one, align(&files, "5", "five"));
    let [links, probabilities] = one;
    for (links, probabilities) in links.lines().zip(probabilities.lines()) {
        let probabilities: Vec<f64> = probabilities
            .split(' ')
            .map(|probability| probability.parse().expect("a number"))
            .collect();
        assert_eq!(links.split(' ').count(), probabilities.len());
        assert!(
            probabilities
                .iter()
                .all(|probability| *probability > 0.3499)
        );
    }
}

#[test]
fn other_ways_to_join_directions_give_fewer_and_more_links() {
    let sandbox = Sandbox::with(MINI);
    let count = |options: &[&str]| {
        let common = [
            "align",
            "tiny.toml",
            "--set",
            "data.max_examples=500",
            "--out",
            "links",
        ];
        sandbox.succeed(&[&common, options].concat());
        read(&sandbox, "links").split_whitespace().count()
    };
    let intersection = count(&["--symmetrize", "intersection"]);
    let grown = count(&["--symmetrize", "grow-diag-final-and"]);
    let low = count(&["--threshold", "0.2"]);
    let high = count(&["--threshold", "0.6"]);
    assert!(
        intersection < grown && high < low,
        "{intersection} {grown} {high} {low}"
    );
}

#[test]
fn files_of_others_stay_in_the_directory_of_states() {
    let sandbox = Sandbox::with(MINI);
    let state = sandbox.path().join("links.state");
    fs::create_dir(&state).expect("it can be made");
    for name in ["notes", "forwards-1.txt", "forwards-99", "mine.12.tmp"] {
        fs::write(state.join(name), "mine").expect("it can be written");
    }
    let options = ["--set", "data.max_examples=100"];
    sandbox.succeed(&[&["align", "tiny.toml", "--out", "links"], &options[..]].concat());
    let names = fs::read_dir(&state).expect("it is there");
    assert_eq!(names.count(), 4);
    sandbox.succeed(&[&["align", "tiny.toml", "--out", "others"], &options[..]].concat());
    assert!(!sandbox.path().join("others.state").exists());
}

#[cfg(unix)]
#[test]
fn an_alignment_that_was_stopped_or_killed_continues_to_the_same_bytes() {
    use std::process::Command;

    use crate::program::wait_until;

    let sandbox = Sandbox::with(MINI);
    let options = ["--set", "data.max_examples=6000", "--threads", "1"];
    let align = |out: &'static str| [&["align", "tiny.toml", "--out", out], &options[..]].concat();
    sandbox.succeed(&align("whole"));
    // Killed once its first chain is done, and stopped once its second one is.
    let state = sandbox.path().join("again.state");
    let mut child = sandbox.command(&align("again")).spawn().expect("it starts");
    wait_until("a chain is done", || state.join("forwards-1").exists());
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let mut child = sandbox.command(&align("again")).spawn().expect("it starts");
    wait_until("another chain is done", || {
        state.join("backwards-1").exists()
    });
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &id]).status();
    assert!(sent.expect("`kill` starts").success());
    let code = child.wait().expect("it ends").code();
    assert!(code == Some(75) || code == Some(0), "{code:?}");
    sandbox.succeed(&align("again"));
    assert_eq!(read(&sandbox, "again"), read(&sandbox, "whole"));
    assert!(!state.exists());
}

#[test]
fn what_is_wrong_is_said() {
    let sandbox = Sandbox::with(MINI);
    write(&sandbox, "two", "a b\nc\n");
    write(&sandbox, "same", "a b\nc\n");
    write(&sandbox, "three", "x\ny\nz\n");
    write(&sandbox, "empty", "\n\n");
    write(&sandbox, "beyond", "0-0\n3-0\n");
    write(&sandbox, "many", "0-0\n0-0\n0-0\n");
    write(&sandbox, "possible", "0p0\n");
    write(&sandbox, "odd", "0:0\n");
    let small = ["--src", "two", "--tgt", "same"];
    for (code, options, expected) in [
        (2, &[][..], "<CONFIG>"),
        (2, &["--src", "two"], "--tgt"),
        (
            2,
            &["tiny.toml", "--set", "model.arch=lm"],
            "`align` reads pairs",
        ),
        (1, &["--src", "two", "--tgt", "three"], "three"),
        (1, &["--src", "two", "--tgt", "nothing"], "nothing"),
        (
            1,
            &["--src", "two", "--tgt", "empty"],
            "no pair with words on both sides",
        ),
        (
            2,
            &[&small[..], &["--threshold", "1"]].concat(),
            "`--threshold 1`",
        ),
        (2, &[&small[..], &["--null", "0"]].concat(), "`--null 0`"),
        (2, &[&small[..], &["--chains", "0"]].concat(), "--chains"),
        (
            2,
            &[
                &small[..],
                &["--threshold", "0.4", "--symmetrize", "intersection"],
            ]
            .concat(),
            "`--threshold` is for",
        ),
        (
            1,
            &[&small[..], &["--gold", "beyond"]].concat(),
            "`beyond` line 2: `3-0`",
        ),
        (
            1,
            &[&small[..], &["--gold", "many"]].concat(),
            "`many` has 3 lines",
        ),
        (
            1,
            &[&small[..], &["--gold", "possible"]].concat(),
            "`possible` has no sure links",
        ),
        (
            1,
            &[&small[..], &["--gold", "odd"]].concat(),
            "`odd` line 1",
        ),
        (
            2,
            &[&small[..], &["--gold", "gold"]].concat(),
            "only an embedded corpus",
        ),
    ] {
        let arguments = [&["align", "--out", "links"], options].concat();
        let message = sandbox.fail(code, &arguments);
        assert!(message.contains(expected), "{options:?}: {message}");
        assert!(!sandbox.path().join("links").exists());
    }
}

#[test]
fn the_state_of_another_text_is_not_used() {
    let sandbox = Sandbox::with(MINI);
    write(&sandbox, "a", "a b\n");
    write(&sandbox, "b", "a b\n");
    fs::create_dir(sandbox.path().join("links.state")).expect("it can be made");
    write(
        &sandbox,
        "links.state/forwards-1",
        "the state of another text, in some bytes",
    );
    let align = ["align", "--src", "a", "--tgt", "b", "--out", "links"];
    let message = sandbox.fail(2, &align);
    assert!(
        message.contains("`links.state` has the state of"),
        "{message}"
    );
    assert!(message.contains("hint: "), "{message}");
    fs::remove_dir_all(sandbox.path().join("links.state")).expect("it can be removed");
    sandbox.succeed(&align);
}

#[test]
fn a_training_learns_its_alignments_and_guides_its_attention_by_them() {
    let error_rate = |weight: &str| {
        let sandbox = Sandbox::with(DIGITS);
        let learned = ["data.alignments=learned", "train.max_steps=120"];
        sandbox.train(
            "run",
            &[&learned[..], &["train.validate_every=120", weight]].concat(),
        );
        assert!(!sandbox.path().join("run/cache/train.alignment").exists());
        let options = ["--alignments", "gold", "--checkpoint", "last", "--json"];
        let scores = sandbox.json(&[&["evaluate", "run"], &options[..]].concat());
        scores["alignment_error_rates"][0]
            .as_f64()
            .expect("a number")
    };
    let free = error_rate("train.alignment_weight=0");
    let guided = error_rate("train.alignment_weight=2");
    assert!(guided < free - 0.1, "{guided}, {free}");
}
