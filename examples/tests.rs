//! Every example as a user runs it: the built program, in a directory of its own.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use polyglow_train::run::RunDirectory;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Runs an example with these arguments and this input in `dir`; what it prints.
fn run(dir: &Path, example: &str, args: &[&str], input: &str) -> Result<String> {
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
    let mut child = command
        .spawn()
        .map_err(|error| format!("{error}: `cargo test -p polyglow-examples` builds it"))?;
    child
        .stdin
        .take()
        .ok_or("it has an input")?
        .write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    assert!(
        output.status.success(),
        "{example}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
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

#[test]
fn a_model_of_ones_own_resumes_to_the_bytes_of_a_straight_run() -> Result {
    let dir = tempfile::tempdir()?;
    let stopped = run(dir.path(), "custom_model", &["stopped", "70"], "")?;
    // It would stop after a step that never comes.
    let straight = run(dir.path(), "custom_model", &["straight", "0"], "")?;
    let (stopped, straight): (Vec<&str>, Vec<&str>) =
        (stopped.lines().collect(), straight.lines().collect());
    assert_eq!(stopped[0], "Stopped after step 70, BLEU 0.0");
    assert!(
        stopped[1].starts_with("Done after step 300, "),
        "{stopped:?}"
    );
    assert_eq!(
        (straight[0], straight[1], &straight[2..]),
        (stopped[1], stopped[1], &stopped[2..])
    );
    assert!(score(stopped[1], "BLEU ")? > 10.0, "{stopped:?}");
    assert!(
        stopped[2].starts_with("the dog sleeps . -> der Hund "),
        "{stopped:?}"
    );

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
