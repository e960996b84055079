//! `polyglow metrics` compared with sacreBLEU's own command, whose output is in
//! `tests/golden/metrics.json`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{fail, polyglow, succeed};

/// Room for another standard library's logarithm and exponential where all digits are printed.
const TOLERANCE: f64 = 1e-9;

/// Files, and what the command prints about them.
#[derive(Deserialize)]
struct Golden {
    files: BTreeMap<String, String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    references: Vec<String>,
    systems: Vec<String>,
    options: Vec<String>,
    json: bool,
    stdout: String,
}

/// A directory of files from which the command is run.
struct Folder(TempDir);

impl Folder {
    fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let folder = Self(tempfile::tempdir().expect("a temporary directory can be made"));
        for (name, content) in files {
            fs::write(folder.0.path().join(name), content).expect("it can be written");
        }
        folder
    }

    fn command(&self, arguments: &[&str], seed: Option<&str>) -> Command {
        let mut command = polyglow(&[&["metrics"], arguments].concat());
        match seed {
            Some(seed) => command.env("SACREBLEU_SEED", seed),
            None => command.env_remove("SACREBLEU_SEED"),
        };
        command.current_dir(self.0.path());
        command
    }

    fn run(&self, arguments: &[&str], stdin: &[u8], seed: Option<&str>) -> Output {
        let mut command = self.command(arguments, seed);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        // A command that fails before it reads closes the pipe.
        let _ = child.stdin.take().expect("it is piped").write_all(stdin);
        child.wait_with_output().expect("the program ends")
    }

    /// Runs a command that must succeed; returns its stdout.
    fn stdout(&self, arguments: &[&str]) -> String {
        succeed(&mut self.command(arguments, None)).0
    }

    /// Runs a command that must fail; returns its message.
    fn stderr(&self, exit_code: i32, arguments: &[&str], seed: Option<&str>) -> String {
        fail(exit_code, &mut self.command(arguments, seed))
    }
}

impl Golden {
    fn check(&self) {
        let folder = Folder::new(
            self.files
                .iter()
                .map(|(name, content)| (&**name, content.as_bytes())),
        );
        for Case {
            references,
            systems,
            options,
            json,
            stdout,
        } in &self.cases
        {
            let mut arguments: Vec<&str> = vec![&systems[0]];
            arguments.extend(references.iter().map(String::as_str));
            arguments.extend(
                systems[1..]
                    .iter()
                    .flat_map(|system| ["--hypothesis", system]),
            );
            arguments.extend(options.iter().map(String::as_str));
            arguments.extend(json.then_some("--json"));
            let expected = stdout.replace(
                "{version}",
                concat!("polyglow-metrics-", env!("CARGO_PKG_VERSION")),
            );
            let actual = without_explanation(&folder.stdout(&arguments));
            if *json && actual.contains("p_value") {
                let parse = |text| serde_json::from_str(text).expect("the output is JSON");
                assert_close(&parse(&actual), &parse(&expected), &arguments);
            } else {
                assert_eq!(actual, expected, "{arguments:?}");
            }
        }
    }
}

/// Cuts out what a test explains between its table and the signatures, in words that are not
/// sacreBLEU's.
fn without_explanation(stdout: &str) -> String {
    let signatures = stdout.find("-----------------\nMetric signatures");
    match (stdout.split_once("\n\n"), signatures) {
        (Some((table, _)), Some(start)) => format!("{table}\n\n{}", &stdout[start..]),
        _ => stdout.to_owned(),
    }
}

fn assert_close(actual: &Value, expected: &Value, context: &[&str]) {
    match (actual, expected) {
        (Value::Array(actual), Value::Array(expected)) if actual.len() == expected.len() => {
            actual
                .iter()
                .zip(expected)
                .for_each(|(actual, expected)| assert_close(actual, expected, context));
        }
        (Value::Object(actual), Value::Object(expected)) if actual.len() == expected.len() => {
            expected
                .iter()
                .for_each(|(key, expected)| assert_close(&actual[key], expected, context));
        }
        (Value::Number(actual), Value::Number(expected)) => {
            let (actual, expected) = (
                actual.as_f64().expect("a float"),
                expected.as_f64().expect("a float"),
            );
            assert!(
                (actual - expected).abs() <= TOLERANCE,
                "{context:?}: {actual} is not sacreBLEU's {expected}"
            );
        }
        _ => assert_eq!(actual, expected, "{context:?}"),
    }
}

#[test]
fn every_output_is_that_of_the_command_of_sacrebleu() {
    let golden: Golden =
        serde_json::from_str(include_str!("../golden/metrics.json")).expect("the file is JSON");
    assert!(golden.cases.len() > 40);
    golden.check();
}

/// As the oracle tests of polyglow-metrics, where it says how to run them.
#[test]
#[ignore = "needs sacreBLEU"]
fn random_files_score_as_by_the_command_of_sacrebleu() {
    let python =
        std::env::var("POLYGLOW_PYTHON").expect("POLYGLOW_PYTHON names a Python with sacreBLEU");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/golden-metrics.py");
    let run = Command::new(python)
        .arg(script)
        .args(["--random-commands", "300", "40"])
        .output();
    let run = run.expect("POLYGLOW_PYTHON can be run");
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let golden: Golden = serde_json::from_slice(&run.stdout).expect("the script prints JSON");
    golden.check();
}

#[test]
fn stdin_and_gzip_are_read_as_files_are() {
    // `printf 'a b c d\ne f g h\n' | gzip -n`
    let zipped = include_bytes!("../golden/metrics-lines.gz");
    let lines = b"a b c d\ne f g h\n";
    let folder = Folder::new([("lines", &lines[..]), ("lines.gz", &zipped[..])]);
    for (hypothesis, reference, stdin) in [
        ("lines", "lines.gz", &b""[..]),
        ("lines.gz", "lines", b""),
        ("-", "lines", lines),
        ("-", "lines", zipped),
        ("lines", "-", lines),
    ] {
        let output = folder.run(&[hypothesis, reference, "--score-only"], stdin, None);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "100.0\n",
            "{hypothesis} {reference}"
        );
    }
}

#[test]
fn a_line_scored_for_itself_may_keep_all_orders() {
    let folder = Folder::new([("hyp", &b"a b c\n"[..]), ("ref", b"a b c\n")]);
    let score =
        |options: &[&str]| folder.stdout(&[&["hyp", "ref", "--score-only"], options].concat());
    // Without effective order there is no 4-gram, and no score.
    assert_eq!(score(&["--sentence-level"]), "100.0\n");
    assert_eq!(
        score(&["--sentence-level", "--effective-order", "false"]),
        "0.0\n"
    );
    assert_eq!(score(&[]), "0.0\n");
    assert_eq!(score(&["--effective-order", "true"]), "100.0\n");
    assert_eq!(score(&["--max-ngram-order", "3"]), "100.0\n");
}

#[test]
fn lines_as_json_are_an_object_a_line() {
    let folder = Folder::new([("hyp", &b"a b c d\nx\n"[..]), ("ref", b"a b c d\ny\n")]);
    let stdout = folder.stdout(&["hyp", "ref", "--sentence-level", "--json"]);
    let scores: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect();
    assert_eq!(scores.len(), 2);
    assert_eq!(
        (&scores[0]["score"], &scores[1]["score"]),
        (&Value::from(100.0), &Value::from(0.0))
    );
    assert_eq!(scores[0]["eff"], "yes");
}

#[test]
fn an_empty_line_is_a_segment_and_one_that_is_missing_is_an_error() {
    let folder = Folder::new([
        ("hyp", &b"a b\n\n\n"[..]),
        ("ref", b"a b\n\nc\n"),
        ("short", b"a b\n\n"),
    ]);
    let counts = folder.stdout(&["hyp", "ref", "--metrics", "bleu"]);
    assert!(counts.contains("hyp_len = 2 ref_len = 3"), "{counts}");
    let message = folder.stderr(1, &["hyp", "ref", "short"], None);
    assert!(
        message.contains("`hyp` has 3 lines but `short` has 2: line 3 has no partner"),
        "{message}"
    );
    assert!(message.contains("hint: "), "{message}");
}

#[test]
fn a_file_that_cannot_be_scored_is_named_with_its_line() {
    let folder = Folder::new([
        ("hyp", &b"a\nb\n"[..]),
        ("latin", b"fine\ncaf\xe9\n"),
        ("empty", b""),
        ("tabs", b"a\tb\nc\n"),
    ]);
    for (arguments, error, hint) in [
        (
            &["hyp", "nowhere"][..],
            "cannot access `nowhere`",
            "hint: give the path of a file",
        ),
        (
            &["hyp", "latin"],
            "`latin` line 2: invalid UTF-8 at byte 4 of the line",
            "hint: convert the file",
        ),
        (
            &["empty", "hyp"],
            "`empty` is empty",
            "hint: there must be one line per segment",
        ),
        (
            &["hyp", "tabs", "--num-refs", "2"],
            "`tabs` line 2: 1 references instead of 2",
            "hint: `--num-refs` expects",
        ),
    ] {
        let message = folder.stderr(1, arguments, None);
        assert!(
            message.contains(error) && message.contains(hint),
            "{message}"
        );
    }
}

#[test]
fn options_that_do_not_go_together_are_wrong_usage() {
    let folder = Folder::new([("hyp", &b"a\n"[..]), ("other", b"a\n"), ("ref", b"a\n")]);
    for (options, message) in [
        (
            &["--tokenize", "moses"][..],
            "there is no tokenizer `moses`; there are `13a`, `intl`",
        ),
        (
            &["--smooth-method", "ex"],
            "there is no smoothing method `ex`",
        ),
        (&["--metrics", "blue"], "[possible values: bleu, chrf, ter]"),
        (&["--paired-bs"], "--hypothesis <FILE>"),
        (
            &["--paired-bs", "--paired-ar", "--hypothesis", "other"],
            "cannot be used with '--paired-ar'",
        ),
        (
            &["--confidence", "--hypothesis", "other"],
            "cannot be used with",
        ),
        (
            &["--sentence-level", "--metrics", "bleu", "ter"],
            "hint: run it once for each metric",
        ),
        (
            &["--sentence-level", "--hypothesis", "other"],
            "hint: run it once for each system",
        ),
        (&["--hypothesis", "hyp"], "`hyp` is given twice as a system"),
        (
            &["--hypothesis", "-", "--metrics", "ter", "--", "-"],
            "standard input can be read only once",
        ),
        (
            &["other", "--num-refs", "2"],
            "`--num-refs` splits the lines of one reference file",
        ),
        (
            &["--metrics", "chrf", "--chrf-char-order", "0"],
            "hint: see `--chrf-char-order` and `--chrf-word-order`",
        ),
        (
            &["--smooth-method", "floor", "--smooth-value", "-1"],
            "not below 0, but it is -1",
        ),
    ] {
        let stderr = folder.stderr(2, &[&["hyp", "ref"], options].concat(), None);
        assert!(stderr.contains(message), "{options:?}: {stderr}");
    }
    assert!(folder.stderr(2, &["hyp"], None).contains("<REF>..."));
    assert!(
        folder
            .stderr(2, &["hyp", "ref"], Some("none"))
            .contains("`SACREBLEU_SEED` is `none`")
    );
}

#[test]
fn the_seed_comes_from_the_environment() {
    let text = |longest: usize| -> String {
        (0..50)
            .flat_map(|line| ["word ".repeat(5 + line % longest), "\n".to_owned()])
            .collect()
    };
    let lines = text(7);
    let reference = text(5);
    let folder = Folder::new([("hyp", lines.as_bytes()), ("ref", reference.as_bytes())]);
    let score = |seed| {
        let output = folder.run(&["hyp", "ref", "--confidence", "--width", "6"], b"", seed);
        String::from_utf8(output.stdout).expect("output is UTF-8")
    };
    assert!(score(None).contains("|bs:1000|seed:12345|"));
    assert!(score(Some("7")).contains("|bs:1000|seed:7|"));
    let interval = |text: &str| {
        text.split_once("μ")
            .map(|(_, interval)| interval.to_owned())
    };
    assert_eq!(interval(&score(None)), interval(&score(Some("12345"))));
    assert_ne!(interval(&score(None)), interval(&score(Some("7"))));
}

#[test]
fn text_that_looks_tokenized_is_warned_of_but_scored() {
    let tokenized = "two words .\n".repeat(100);
    let folder = Folder::new([
        ("hyp", tokenized.as_bytes()),
        ("ref", &b"two words.\n".repeat(100)[..]),
    ]);
    let output = folder.run(&["hyp", "ref"], b"", None);
    assert!(String::from_utf8_lossy(&output.stderr).contains("100 lines of `hyp` end in ` .`"));
    assert!(output.status.success() && !output.stdout.is_empty());
    assert!(
        folder
            .run(&["hyp", "ref", "--force"], b"", None)
            .stderr
            .is_empty()
    );
}
