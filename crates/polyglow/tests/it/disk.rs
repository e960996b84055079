//! Disks that are full, files that may not be written, directories that vanish: for real, as far as
//! the machine allows.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use crate::program::{Sandbox, checkpoint};

const LONGER: &str = "train.max_steps=12";

/// Says aloud, past the test harness, that something could not be tested.
fn not_tested(what: &str, why: &str) {
    let _ = writeln!(io::stderr(), "NOT TESTED on this machine: {what}: {why}");
}

fn weights(run: &Path, step: u64) -> Vec<u8> {
    fs::read(run.join(format!("checkpoints/step-{step}/model.safetensors")))
        .expect("it was written")
}

/// The weights of a training that nothing disturbed.
fn undisturbed() -> Vec<u8> {
    let sandbox = Sandbox::new();
    sandbox.train("run", &[LONGER]);
    weights(&sandbox.path().join("run"), 12)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A small file system of its own, unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(path: &Path, bytes: u64) -> Option<Self> {
        fs::create_dir(path).expect("it can be made");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "none"])
            .arg(path)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(path.to_owned())),
            Ok(output) => {
                not_tested("a full disk", stderr(&output).trim());
                None
            }
            Err(error) => {
                not_tested("a full disk", &error.to_string());
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// A training without end, and what it says.
struct Training {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Training {
    fn start(sandbox: &Sandbox, run: &str) -> Self {
        let mut child = sandbox
            .command(&[
                "train",
                "tiny.toml",
                "--run",
                run,
                "--set",
                "train.max_steps=1000000",
            ])
            .args([
                "--set",
                "train.keep_last=2",
                "--set",
                "train.validate_every=50",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        Self { child, lines }
    }

    /// Reads to a line with these words.
    fn wait_for(&mut self, words: &str) {
        let is_printed = self
            .lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| line.contains(words));
        assert!(is_printed, "no line has `{words}`");
    }

    /// Stops the training; returns its exit code and its last messages.
    fn stop(mut self) -> (Option<i32>, String) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .expect("kill runs")
                .success()
        );
        let rest: Vec<String> = self.lines.map_while(Result::ok).collect();
        (self.child.wait().expect("it ends").code(), rest.join("\n"))
    }
}

/// The step of the checkpoint `last`.
fn last_step(run: &Path) -> u64 {
    checkpoint(run, "last").state.step
}

#[test]
fn a_full_disk_costs_no_training_and_no_checkpoint() {
    let sandbox = Sandbox::new();
    let Some(disk) = SmallDisk::new(&sandbox.path().join("disk"), 4 << 20) else {
        return;
    };
    let (run, filler) = (disk.0.join("run"), disk.0.join("filler"));
    // What is removed while the disk fills up makes room again, so it is filled after every line
    // until there is none.
    let fill_until = |training: &mut Training, words: &str| {
        let mut file = fs::File::options()
            .append(true)
            .create(true)
            .open(&filler)
            .expect("it can be made");
        for line in training.lines.by_ref().map_while(Result::ok) {
            if line.contains(words) {
                return;
            }
            let full = io::copy(&mut io::repeat(1), &mut file);
            assert_eq!(
                full.expect_err("the disk is full").kind(),
                io::ErrorKind::StorageFull
            );
        }
        panic!("no line has `{words}`");
    };
    let mut training = Training::start(&sandbox, "disk/run");
    training.wait_for("step 10/");
    fill_until(
        &mut training,
        "warning: cannot write the checkpoint `disk/run/checkpoints/step-",
    );
    fill_until(&mut training, "metrics.jsonl`: No space left on device");
    // There is room again, and the training has not stopped.
    fs::remove_file(&filler).expect("it is ours");
    let before = last_step(&run);
    training.wait_for("valid after step");
    while last_step(&run) == before {
        training.wait_for("step ");
    }
    // The disk is full once more, and stays so to the end.
    fill_until(
        &mut training,
        "training continues, and the next save tries again",
    );
    fill_until(
        &mut training,
        "training continues, and the next save tries again",
    );
    let good = last_step(&run);
    let (code, message) = training.stop();
    assert_eq!(code, Some(1), "{message}");
    assert!(
        message.contains("error: cannot write the checkpoint `disk/run/checkpoints/step-"),
        "{message}"
    );
    let hint = format!(
        "hint: make room on the disk; the same command resumes from the last checkpoint, `disk/run/checkpoints/step-{good}`"
    );
    assert!(message.contains(&hint), "{message}");
    assert!(
        !fs::read_dir(run.join("checkpoints"))
            .expect("it is there")
            .any(|entry| {
                entry
                    .expect("it is there")
                    .file_name()
                    .to_string_lossy()
                    .ends_with(".tmp")
            })
    );

    fs::remove_file(&filler).expect("it is ours");
    let mut training = Training::start(&sandbox, "disk/run");
    training.wait_for(&format!("resuming after step {good}"));
    training.wait_for("step ");
    let (code, message) = training.stop();
    // `EX_TEMPFAIL`: it is saved, and not done.
    assert_eq!(code, Some(75), "{message}");
    assert_as_straight(&run);
}

#[test]
fn a_disk_without_room_for_a_checkpoint_is_refused_before_the_first_step() {
    let sandbox = Sandbox::new();
    let Some(disk) = SmallDisk::new(&sandbox.path().join("disk"), 1 << 20) else {
        return;
    };
    let train = [
        "train",
        "tiny.toml",
        "--run",
        "disk/run",
        "--set",
        "model.d_model=64",
        "--set",
        "model.d_ff=256",
    ];
    let message = sandbox.fail(1, &train);
    assert!(
        message.contains(
            "error: the disk of `disk/run` is too full to save anything: a checkpoint takes "
        ),
        "{message}"
    );
    assert!(
        message.contains("\nhint: make room, or train in a directory on another disk"),
        "{message}"
    );
    assert!(
        message.contains("warning: the run takes up to "),
        "{message}"
    );
    assert!(!message.contains("step 2/6"), "{message}");
    assert!(!disk.0.join("run/checkpoints").exists());
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_end_by_a_signal() {
    let sandbox = Sandbox::trained();
    let run = sandbox.path().join("run");
    let before = weights(&run, 6);
    let largest = fs::metadata(run.join("checkpoints/step-6/optimizer.safetensors"))
        .expect("it is there")
        .len();
    let limit = largest / 1024 - 1;
    let output = sandbox.shell(&format!(
        "ulimit -f {limit}; exec $polyglow train tiny.toml --run run --set {LONGER}"
    ));
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        !message.contains(".tmp")
            && message.contains("File too large")
            && message.contains(
                "the same command resumes from the last checkpoint, `run/checkpoints/step-6`\n"
            ),
        "{message}"
    );
    assert_eq!(weights(&run, 6), before);
    // Where nothing was saved, nothing is promised.
    let output = sandbox.shell(&format!(
        "ulimit -f {limit}; exec $polyglow train tiny.toml --run new"
    ));
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let hint = "hint: the size of files is limited here; `ulimit -f` shows the limit; no checkpoint was saved, so the same \
                command begins again\n";
    assert!(message.ends_with(hint), "{message}");
    sandbox.train("run", &[LONGER]);
    assert_eq!(weights(&run, 12), undisturbed());
}

/// Simulates a disk that is full for a while, without a file system of its own: the limit on the
/// size of files comes and goes while the training runs.
#[test]
fn files_that_cannot_be_written_for_a_while_cost_no_training_and_no_checkpoint() {
    let sandbox = Sandbox::new();
    let run = sandbox.path().join("run");
    let mut training = Training::start(&sandbox, "run");
    let id = training.child.id().to_string();
    let limit = |bytes: &str| {
        // Only the soft limit, which may be raised again.
        let set = Command::new("prlimit")
            .args(["--pid", &id, &format!("--fsize={bytes}:")])
            .status();
        assert!(set.expect("prlimit runs").success());
    };
    training.wait_for("step 10/");
    limit("1024");
    training.wait_for("warning: cannot write the checkpoint `run/checkpoints/step-");
    training.wait_for("metrics.jsonl`: File too large");
    training.wait_for("training continues, and the next save tries again");
    let before = last_step(&run);
    limit("unlimited");
    while last_step(&run) == before {
        training.wait_for("step ");
    }
    limit("1024");
    training.wait_for("training continues, and the next save tries again");
    training.wait_for("training continues, and the next save tries again");
    let good = last_step(&run);
    let (code, message) = training.stop();
    assert_eq!(code, Some(1), "{message}");
    assert!(
        message.contains("error: cannot write the checkpoint `run/checkpoints/step-"),
        "{message}"
    );
    assert!(
        message.contains(&format!(
            "resumes from the last checkpoint, `run/checkpoints/step-{good}`"
        )),
        "{message}"
    );
    let mut training = Training::start(&sandbox, "run");
    training.wait_for(&format!("resuming after step {good}"));
    training.wait_for("step ");
    let (code, message) = training.stop();
    assert_eq!(code, Some(75), "{message}");
    assert_as_straight(&run);
}

/// Makes sure that nothing of what happened to a run shows in what was trained, nor in the record
/// of it.
fn assert_as_straight(run: &Path) {
    let end = last_step(run);
    let straight = Sandbox::new();
    let max_steps = format!("train.max_steps={end}");
    straight.train("run", &[&max_steps, "train.validate_every=50"]);
    assert_eq!(
        weights(run, end),
        weights(&straight.path().join("run"), end)
    );
    let metrics = fs::read_to_string(run.join("metrics.jsonl")).expect("it was written");
    let steps: Vec<u64> = metrics
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("every line is whole"))
        .filter(|record| record["kind"] == "train")
        .map(|record| record["step"].as_u64().expect("a number"))
        .collect();
    assert_eq!(
        steps,
        (1..=end / 2).map(|report| 2 * report).collect::<Vec<_>>()
    );
}

#[test]
fn a_file_that_may_not_be_written_is_named_and_unchanged() {
    let sandbox = Sandbox::trained();
    let open = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    let root = sandbox.path();
    open(root, 0o755);
    // The root user may write anything, so another user has to try, with a program that every
    // user may read.
    let program = root.join("polyglow");
    fs::copy(env!("CARGO_BIN_EXE_polyglow"), &program).expect("it can be copied");
    open(&program, 0o755);
    let is_root = String::from_utf8_lossy(
        &Command::new("id")
            .arg("-u")
            .output()
            .expect("id runs")
            .stdout,
    )
    .trim()
        == "0";
    let sudo = if is_root {
        "setpriv --reuid=65534 --regid=65534 --clear-groups "
    } else {
        ""
    };
    let probe = sandbox.shell(&format!("{sudo}./polyglow --version"));
    if !probe.status.success() {
        return not_tested("directories without permission", stderr(&probe).trim());
    }
    let before = weights(&root.join("run"), 6);
    // Another user may only read them.
    for (command, expected) in [
        (
            "train tiny.toml --run new",
            "cannot make `new`: Permission denied",
        ),
        (
            "train tiny.toml --run run --set train.max_steps=12",
            "cannot lock `run/lock`: Permission denied",
        ),
        ("corpus digits digits", "digits`: Permission denied"),
        (
            "report run --out report.html",
            "cannot write `report.html`: Permission denied",
        ),
        (
            "translate run test.en -o output",
            "cannot write `output`: Permission denied",
        ),
        (
            "average run",
            "cannot write the checkpoint `run/checkpoints/average`: Permission denied",
        ),
    ] {
        let output = sandbox.shell(&format!("{sudo}./polyglow {command}"));
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{command}: {message}");
        assert!(
            message.contains(expected) && message.contains("\nhint: "),
            "{command}: {message}"
        );
    }
    // A run whose checkpoints cannot be added to.
    assert!(sandbox.shell("chown -R 65534:65534 run").status.success());
    open(&root.join("run/checkpoints"), 0o555);
    let output = sandbox.shell(&format!(
        "{sudo}./polyglow train tiny.toml --run run --set train.max_steps=12"
    ));
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("run/checkpoints") && message.contains("Permission denied"),
        "{message}"
    );
    assert_eq!(weights(&root.join("run"), 6), before);
    open(&root.join("run/checkpoints"), 0o755);
}

#[test]
fn a_run_that_is_removed_does_not_come_back_in_parts() {
    let sandbox = Sandbox::new();
    let run = sandbox.path().join("run");
    let mut training = Training::start(&sandbox, "run");
    training.wait_for("step 10/");
    fs::rename(&run, sandbox.path().join("moved")).expect("it is ours");
    training.wait_for("the next save tries again");
    let (code, message) = training.stop();
    assert_eq!(code, Some(1), "{message}");
    assert!(
        message.contains("error: cannot write to `run`: it is gone, or another training"),
        "{message}"
    );
    assert!(!run.exists());
    // What was saved before is whole.
    sandbox.succeed(&["evaluate", "moved", "--checkpoint", "last"]);
}

#[test]
fn memory_that_runs_out_ends_training_with_the_size_of_the_batch() {
    let sandbox = Sandbox::new();
    // Attention from 16 000 x 200 positions to 200 others takes gigabytes, whatever the model, even
    // in an eighth of the rows.
    let line = "look aaa now bbb ".repeat(50);
    sandbox.write("train", &vec![(line.clone(), line); 16_000]);
    let large = "--set data.max_len=300 --set train.max_tokens=4000000";
    let output = sandbox.shell(&format!(
        "ulimit -v 3000000; exec $polyglow train tiny.toml --run run {large}"
    ));
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("error: out of memory: the system has no ")
            && message.contains(" bytes more"),
        "{message}"
    );
    assert!(
        message
            .contains("; the batch: 16000 rows, padded to 201 source and 201 target positions\n"),
        "{message}"
    );
    assert!(
        message.contains("hint: lower `train.max_tokens`"),
        "{message}"
    );
}
