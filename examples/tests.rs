//! Every example as a user runs it: the built program, in a directory of its own.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
#[cfg(unix)]
use std::thread::sleep;
#[cfg(unix)]
use std::time::{Duration, Instant};

use polyglow_train::run::{RunDirectory, records};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The command that runs an example with these arguments in `dir`.
fn command(dir: &Path, example: &str, args: &[&str]) -> Result<Command> {
    // Cargo builds the examples for the tests of their package, into the folder beside that of the
    // tests.
    let tests = std::env::current_exe()?;
    let profile = tests
        .ancestors()
        .nth(2)
        .ok_or("a test is in `target/PROFILE/deps`")?;
    let program = profile
        .join("examples")
        .join(example)
        .with_extension(std::env::consts::EXE_EXTENSION);
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
}

/// Runs an example with these arguments and this input in `dir`, to its end.
fn output(dir: &Path, example: &str, args: &[&str], input: &str) -> Result<Output> {
    let mut child = command(dir, example, args)?
        .spawn()
        .map_err(|error| format!("{error}: `cargo test -p polyglow-examples` builds it"))?;
    child
        .stdin
        .take()
        .ok_or("it has an input")?
        .write_all(input.as_bytes())?;
    Ok(child.wait_with_output()?)
}

/// As [`output`], of an example that succeeds; returns what it prints.
fn run(dir: &Path, example: &str, args: &[&str], input: &str) -> Result<String> {
    let output = output(dir, example, args, input)?;
    assert!(
        output.status.success(),
        "{example}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// As [`output`], of an example that fails with this exit code; returns its message.
fn fails(dir: &Path, example: &str, args: &[&str], code: i32) -> Result<String> {
    let output = output(dir, example, args, "")?;
    let message = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(code), "{message}");
    Ok(message)
}

/// The files of the newest checkpoint of a run, by their names, and what is in them.
fn checkpoint(run: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let read = |entry: std::io::Result<fs::DirEntry>| -> Result<_> {
        let path = entry?.path();
        Ok((
            path.file_name()
                .map(PathBuf::from)
                .ok_or("a file has a name")?,
            fs::read(&path)?,
        ))
    };
    let newest = RunDirectory::existing(run)?.checkpoints(1).find("last")?;
    let mut files = fs::read_dir(newest.path)?
        .map(read)
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// The number behind `name` in a line of scores.
fn score(line: &str, name: &str) -> Result<f64> {
    let (_, rest) = line
        .split_once(name)
        .ok_or_else(|| format!("no `{name}` in `{line}`"))?;
    Ok(rest
        .split_whitespace()
        .next()
        .ok_or("there is no number")?
        .parse()?)
}

#[test]
fn a_config_becomes_a_run_that_another_program_translates_with() -> Result {
    let dir = tempfile::tempdir()?;
    let printed = run(dir.path(), "train", &["digits"], "")?;
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 4, "{printed}");
    assert!(
        lines[0].starts_with("after 200 steps: BLEU ")
            && lines[1].starts_with("after 400 steps: BLEU ")
    );
    assert!(
        score(lines[1], "  loss ")? < score(lines[0], "  loss ")?,
        "{printed}"
    );
    assert!(
        lines[2].starts_with("Done with ") && lines[2].ends_with(" tokens"),
        "{printed}"
    );
    let translation = lines[3].strip_prefix("1 2 3 -> ").ok_or("it translates")?;
    assert!(dir.path().join("digits/validation/step-400.txt").is_file());

    let translated = run(dir.path(), "translate", &["digits"], "4 5 6 7\n\n1 2 3\n")?;
    let lines: Vec<&str> = translated.lines().collect();
    assert_eq!(
        (lines.len(), lines[1], lines[2]),
        (3, "", translation),
        "{translated}"
    );
    Ok(())
}

#[cfg(feature = "burn-train")]
#[test]
fn burn_train_makes_a_run_that_another_program_translates_with() -> Result {
    let dir = tempfile::tempdir()?;
    let printed = run(dir.path(), "burn_train", &["burned"], "")?;
    let last = printed.lines().last().ok_or("it prints a translation")?;
    // It has learned to reverse.
    assert_eq!(last, "1 2 3 -> 3 2 1");
    let log = fs::read_to_string(dir.path().join("burned-logs/valid/epoch-6/BLEU.log"))?;
    let (bleu, _) = log.split_once(',').ok_or("it is scored")?;
    assert!(bleu.parse::<f64>()? > 50.0, "{log}");

    let translated = run(dir.path(), "translate", &["burned"], "1 2 3\n")?;
    assert_eq!(translated, "3 2 1\n");
    Ok(())
}

#[test]
fn metrics_are_those_of_sacrebleu() -> Result {
    let dir = tempfile::tempdir()?;
    let printed = run(dir.path(), "metrics", &[], "")?;
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(
        lines[0],
        "BLEU = 48.53 82.4/50.0/45.5/37.5 (BP = 0.943 ratio = 0.944 hyp_len = 17 ref_len = 18)"
    );
    assert!(
        lines[1].starts_with("  nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:"),
        "{printed}"
    );
    assert_eq!(
        (lines[2], lines[4], lines[6]),
        ("chrF2 = 59.73", "TER = 40.00", "BLEU 48.53, p = 0.2498")
    );
    Ok(())
}

/// The config of the program with an architecture of its own.
fn custom_config() -> String {
    format!("{}/custom_model.toml", env!("CARGO_MANIFEST_DIR"))
}

#[cfg(unix)]
#[test]
fn a_model_of_ones_own_resumes_to_the_bytes_of_a_straight_run() -> Result {
    let dir = tempfile::tempdir()?;
    let config = custom_config();
    let train = |run: &'static str| ["train", &config, "--run", run].map(str::to_owned);
    let straight = train("straight");
    run(
        dir.path(),
        "custom_model",
        &straight.each_ref().map(|arg| &**arg),
        "",
    )?;

    let stopped = train("stopped");
    let stopped = stopped.each_ref().map(|arg| &**arg);
    let mut child = command(dir.path(), "custom_model", &stopped)?.spawn()?;
    let records = dir.path().join("stopped/metrics.jsonl");
    let begun = Instant::now();
    while !fs::read_to_string(&records).is_ok_and(|records| records.contains("\"step\":50,")) {
        assert!(
            begun.elapsed() < Duration::from_mins(5),
            "it makes no steps"
        );
        assert!(child.try_wait()?.is_none(), "it ended before step 50");
        sleep(Duration::from_millis(10));
    }
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()?
            .success()
    );
    let output = child.wait_with_output()?;
    assert_eq!(output.status.code(), Some(75), "{output:?}");
    run(dir.path(), "custom_model", &stopped, "")?;

    let files = checkpoint(&dir.path().join("stopped"))?;
    let names: Vec<Option<&str>> = files.iter().map(|(name, _)| name.to_str()).collect();
    assert_eq!(
        names,
        ["model.safetensors", "optimizer.safetensors", "state.json"].map(Some)
    );
    assert!(
        files == checkpoint(&dir.path().join("straight"))?,
        "a resumed run is not the straight one"
    );
    Ok(())
}

#[test]
fn a_model_of_ones_own_has_every_command() -> Result {
    let dir = tempfile::tempdir()?;
    let config = custom_config();
    let own = |args: &[&str]| run(dir.path(), "custom_model", args, "the dog sleeps .\n");
    let short = [
        "train",
        &*config,
        "--run",
        "r",
        "--set",
        "train.max_steps=200",
    ];
    own(&[&short[..], &["--set", "model.conv-to-gru.width=40"]].concat())?;

    let copy = fs::read_to_string(dir.path().join("r/config.toml"))?;
    let expected =
        "[model]\narch = \"conv-to-gru\"\n\n[model.conv-to-gru]\ndropout = 0.1\nwidth = 40\n";
    assert!(copy.contains(expected), "{copy}");

    let translated = own(&["translate", "r"])?;
    assert!(translated.contains(" Hund "), "{translated}");
    let scores = own(&["evaluate", "r", "--set", "data.max_examples=50"]);
    assert!(score(&scores?, "BLEU ")? > 10.0);
    let info = own(&["info", "r"])?;
    assert!(info.contains("conv-to-gru"), "{info}");
    let near = own(&["embeddings", "r", "nearest", "dog"])?;
    assert!(near.contains("cat") || near.lines().count() > 3, "{near}");
    let checked = own(&["check", &config])?;
    assert!(checked.contains("trial step"), "{checked}");
    assert!(checked.contains("exports to  sentencepiece\n"), "{checked}");
    let help = own(&["help", "config", "conv-to-gru"])?;
    assert!(
        help.contains("[model.conv-to-gru]\ndropout = 0.1\nwidth = 48"),
        "{help}"
    );

    // What an architecture of one's own cannot do says why.
    let export = ["export", "r", "--to", "ctranslate2", "--out", "c"];
    let message = fails(dir.path(), "custom_model", &export, 2)?;
    assert!(
        message.contains("`model.arch = \"conv-to-gru\"`"),
        "{message}"
    );
    let message = fails(dir.path(), "custom_model", &["quantize", "r"], 2)?;
    assert!(
        message.contains("`model.arch = \"conv-to-gru\"`"),
        "{message}"
    );
    // A program without it says so.
    let message = fails(dir.path(), "translate", &["r"], 1)?;
    assert!(
        message.contains("unknown variant `conv-to-gru`"),
        "{message}"
    );
    let writer = "the run was written by the program `custom_model 0.1.0`";
    assert!(message.contains(writer), "{message}");
    Ok(())
}

#[test]
fn a_schedule_an_optimizer_and_a_metric_of_ones_own_are_chosen_by_name() -> Result {
    let dir = tempfile::tempdir()?;
    let config = format!("{}/custom_parts.toml", env!("CARGO_MANIFEST_DIR"));
    run(
        dir.path(),
        "custom_parts",
        &["train", &config, "--run", "r"],
        "",
    )?;
    let records = records::read(&RunDirectory::existing(&dir.path().join("r"))?.metrics_path())?;
    let last = |kind: &str| records.iter().rfind(|record| record["kind"] == kind);
    let step = last("train").ok_or("it makes steps")?;
    // One step before the learning rate is 0, over a fifth of 100 steps.
    assert_eq!(
        (&step["step"], &step["lr"]),
        (&100.into(), &(2e-3 / 20.0).into())
    );
    let score = last("valid").and_then(|record| record["ends_right"].as_f64());
    let scores = run(dir.path(), "custom_parts", &["info", "r"], "")?;
    let shown = format!("{:.3}", score.ok_or("it is scored")?);
    assert!(
        scores.contains("LAST WORD RIGHT") && scores.contains(&shown),
        "{scores}"
    );
    run(
        dir.path(),
        "custom_parts",
        &["report", "r", "--out", "report.html"],
        "",
    )?;
    let page = fs::read_to_string(dir.path().join("report.html"))?;
    assert!(page.contains("last word right"));

    let found = run(dir.path(), "custom_parts", &["check", &config], "")?;
    let filtered = "are refused by a filter of `data.filters`: left out of the training";
    assert!(found.contains(filtered), "{found}");
    assert!(
        found.contains("  (with a zero at the start)  0 "),
        "{found}"
    );

    let export = ["export", "r", "--to", "listing", "--out", "out"];
    run(dir.path(), "custom_parts", &export, "")?;
    let weights = fs::read_to_string(dir.path().join("out/weights.txt"))?;
    assert!(weights.contains("\nsrc_embedding.weight ["), "{weights}");
    let card = fs::read_to_string(dir.path().join("out/README.md"))?;
    assert!(
        card.contains("written for people who read numbers"),
        "{card}"
    );
    Ok(())
}

#[test]
fn a_task_and_a_score_of_ones_own_have_the_whole_command_line() -> Result {
    let dir = tempfile::tempdir()?;
    let config = format!("{}/custom_task.toml", env!("CARGO_MANIFEST_DIR"));
    let train = |name: &str, more: &[&str]| {
        let args = [&["train", &*config, "--run", name], more].concat();
        run(dir.path(), "custom_task", &args, "")
    };
    train("whole", &[])?;
    train("resumed", &["--set", "train.max_steps=30"])?;
    train("resumed", &[])?;
    let weights = |name: &str| {
        fs::read(
            dir.path()
                .join(name)
                .join("checkpoints/last/model.safetensors"),
        )
    };
    assert!(weights("whole")? == weights("resumed")?, "they differ");
    let plain = [
        "--set",
        "train.task=translation",
        "--set",
        "train.best_metric=loss",
    ];
    train("plain", &plain)?;
    assert!(
        weights("whole")? != weights("plain")?,
        "the task did nothing"
    );

    let path = RunDirectory::existing(&dir.path().join("whole"))?.metrics_path();
    let records = records::read(&path)?;
    let last_validation = records.iter().rfind(|record| record["kind"] == "valid");
    assert!(last_validation.is_some_and(|record| record["length_ratio"].is_number()));
    let scores = run(dir.path(), "custom_task", &["info", "whole"], "")?;
    assert!(scores.contains("LENGTH RATIO"), "{scores}");
    let translated = run(dir.path(), "custom_task", &["translate", "whole"], "1 2\n")?;
    assert_eq!(translated.lines().count(), 1);

    let args = ["check", &*config, "--set", "train.task=r-dropp"];
    let message = fails(dir.path(), "custom_task", &args, 2)?;
    assert!(message.contains("did you mean `r-drop`?"), "{message}");
    let args = ["check", &*config, "--set", "train.task=word vectors"];
    let message = fails(dir.path(), "custom_task", &args, 2)?;
    let expected = "`train.task = \"word vectors\"`: `model.arch = \"transformer\"` is for the task `translation`";
    assert!(message.contains(expected), "{message}");
    Ok(())
}

#[test]
fn the_table_of_a_model_of_ones_own_is_read_strictly() -> Result {
    let dir = tempfile::tempdir()?;
    let config = custom_config();
    for (key, expected) in [
        ("model.conv-to-gru.widths=3", "unknown field `widths`"),
        (
            "model.conv-to-gru.width=0",
            "`model.conv-to-gru.width = 0`: must be at least 1",
        ),
        (
            "model.conv-to-gru.width=\"a\"",
            "invalid type: string \"a\"",
        ),
        (
            "model.d_ff=64",
            "`model.d_ff`: nothing of that is in a model with `model.arch = \"conv-to-gru\"`",
        ),
        (
            "model.arch=\"conv\"",
            "`skipgram`, `encoder`, `vit`, `captioner`, `conv-to-gru`",
        ),
        (
            "model.arch=\"rnn\"",
            "`[model.conv-to-gru]` belongs to `model.arch = \"conv-to-gru\"`",
        ),
        (
            "tokenizer.shared=false",
            "`tokenizer.shared = false`: one embedding is for both sides",
        ),
        (
            "train.lr=-1",
            "hint: `custom_model help config train.lr` explains it",
        ),
    ] {
        let args = ["check", &*config, "--set", key];
        let message = fails(dir.path(), "custom_model", &args, 2)?;
        assert!(message.contains(expected), "{key}: {message}");
    }
    Ok(())
}

#[test]
fn a_task_of_ones_own_finds_values_that_it_has_not_seen() -> Result {
    let dir = tempfile::tempdir()?;
    let first = run(dir.path(), "custom_data", &["numbers"], "")?;
    let expected = "Done after step 1500\nforty two = 42, found 42\nsixty seven = 67, found 67\nninety five = 95, found 95\n";
    assert_eq!(first, expected);
    // The run goes on from its end, on the same data.
    assert_eq!(run(dir.path(), "custom_data", &["numbers"], "")?, expected);
    let shorter = run(
        dir.path(),
        "custom_data",
        &["shorter", "train.max_steps=20"],
        "",
    )?;
    assert!(shorter.starts_with("Done after step 20\n"), "{shorter}");
    Ok(())
}

#[test]
fn every_example_is_run_here() -> Result {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = fs::read_to_string(here.join("tests.rs"))?;
    for entry in fs::read_dir(here)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        if path.extension() == Some(OsStr::new("rs")) && name != "tests" {
            assert!(
                tests.contains(&format!("\"{name}\"")),
                "nothing runs `{name}`"
            );
        }
    }
    Ok(())
}

#[test]
fn the_crate_that_new_crate_writes_trains_and_translates() -> Result {
    let dir = tempfile::tempdir()?;
    let config = format!(
        "{}/../crates/polyglow/new-crate/config.toml",
        env!("CARGO_MANIFEST_DIR")
    );
    let short = [
        "train",
        &*config,
        "--run",
        "r",
        "--set",
        "train.max_steps=20",
        "--set",
        "train.max_tokens=600",
        "--set",
        "model.grouped.kv_heads=1",
    ];
    run(dir.path(), "new_crate", &short, "")?;
    let translated = run(
        dir.path(),
        "new_crate",
        &["translate", "r"],
        "the dog sleeps .\n",
    )?;
    assert_eq!(translated.lines().count(), 1);
    let args = ["check", &*config, "--set", "model.grouped.kv_heads=3"];
    let message = fails(dir.path(), "new_crate", &args, 2)?;
    let expected = "`model.grouped.kv_heads = 3`: must divide `heads`";
    assert!(message.contains(expected), "{message}");
    Ok(())
}
