//! The built program, and directories to run it in.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};
#[cfg(unix)]
use std::time::{Duration, Instant};

use polyglow_train::run::{Checkpoint, RunDirectory};
use serde_json::Value;
use tempfile::TempDir;

/// A temporary directory with the config `tiny.toml`, in which commands are run.
pub(crate) struct Sandbox(TempDir);

/// A tiny model of the corpus of [`train_pairs`].
const TINY: &str = r#"
[data]
train = "train"
valid = "valid"
test = "test"
src = "en"
tgt = "de"
max_len = 20
[tokenizer]
kind = "word"
[model]
d_model = 8
d_ff = 12
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
[train]
max_tokens = 64
max_steps = 6
warmup_steps = 2
save_every = 2
validate_every = 3
log_every = 2
keep_last = 10
[search]
beam_size = 1
"#;

/// A very small model with a very short training, on generated data.
pub(crate) const DIGITS: &str = r#"
[data]
corpus = "digits"
[tokenizer]
kind = "word"
[model]
d_model = 16
d_ff = 24
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
dropout = 0.2
attention_dropout = 0.1
[train]
max_tokens = 256
max_steps = 20
lr = 5e-3
warmup_steps = 10
validate_every = 7
save_every = 5
log_every = 3
keep_last = 10
[search]
beam_size = 2
"#;

/// The program without stdin, and without the variables that change what it prints.
pub(crate) fn polyglow(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_polyglow"));
    command
        .args(arguments)
        .env_remove("RUST_LOG")
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null());
    command
}

/// Makes a child handle SIGHUP, although the tests may run under `nohup`, whose children ignore it.
#[cfg(unix)]
#[expect(
    unsafe_code,
    reason = "the standard library cannot set how a child handles signals"
)]
pub(crate) fn handling_hangups(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt;

    let reset = || {
        // SAFETY: `signal` may be called between `fork` and `exec`, and takes no memory.
        let before = unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
        if before == libc::SIG_ERR {
            Err(std::io::Error::last_os_error())
        } else {
            Ok(())
        }
    };
    // SAFETY: the closure does nothing but this call.
    unsafe { command.pre_exec(reset) }
}

/// Runs a command that must succeed; returns its stdout and stderr.
pub(crate) fn succeed(command: &mut Command) -> (String, String) {
    let output = command.output().expect("the program starts");
    let stderr = with_slashes(String::from_utf8(output.stderr).expect("messages are UTF-8"));
    assert!(output.status.success(), "{command:?}: {stderr}");
    (
        String::from_utf8(output.stdout).expect("output is UTF-8"),
        stderr,
    )
}

/// Runs a command that must fail without output; returns its stderr.
pub(crate) fn fail(exit_code: i32, command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let stderr = with_slashes(String::from_utf8(output.stderr).expect("messages are UTF-8"));
    assert_eq!(
        output.status.code(),
        Some(exit_code),
        "{command:?}: {stderr}"
    );
    assert!(
        !stderr.contains("panicked") && output.stdout.is_empty(),
        "{command:?}: {stderr}"
    );
    stderr
}

/// Messages with paths as tests write them, also on Windows.
fn with_slashes(text: String) -> String {
    if cfg!(windows) {
        text.replace('\\', "/")
    } else {
        text
    }
}

/// The checkpoint that a run calls `last`, `best` or by another name.
pub(crate) fn checkpoint(run: &Path, name: &str) -> Checkpoint {
    RunDirectory::new(run)
        .checkpoints(1)
        .find(name)
        .expect("it was saved")
}

/// The step of the last whole record of a run; `None` before the first.
#[cfg(unix)]
pub(crate) fn newest_step(run: &Path) -> Option<u64> {
    let lines = fs::read_to_string(run.join("metrics.jsonl")).ok()?;
    lines.lines().rev().find_map(|line| {
        serde_json::from_str::<Value>(line)
            .ok()?
            .get("step")?
            .as_u64()
    })
}

/// Waits until `is_true`; `what` is for the message if it takes too long.
#[cfg(unix)]
#[track_caller]
pub(crate) fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(
            begun.elapsed() < Duration::from_mins(2),
            "not within two minutes: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One of 26 words.
pub(crate) fn word(index: u8) -> String {
    String::from_utf8(vec![b'a' + index; 3]).expect("letters are UTF-8")
}

/// 26 pairs of 3 and 2 words.
pub(crate) fn train_pairs() -> Vec<(String, String)> {
    (0..26)
        .map(|index| {
            (
                format!("look {} now", word(index)),
                format!("{} sieh", word(index)),
            )
        })
        .collect()
}

impl Sandbox {
    /// A sandbox with this config, and no other file.
    pub(crate) fn with(config: &str) -> Self {
        let sandbox = Self(tempfile::tempdir().expect("a temporary directory can be made"));
        fs::write(sandbox.path().join("tiny.toml"), config).expect("it can be written");
        sandbox
    }

    /// A sandbox with a tiny corpus of files.
    pub(crate) fn new() -> Self {
        let sandbox = Self::with(TINY);
        sandbox.write("train", &train_pairs());
        let held_out = |words: [&str; 2]| -> Vec<_> {
            (0..4)
                .map(|index| {
                    (
                        format!("{} {}", words.join(" "), word(index)),
                        format!("sieh {}", word(index)),
                    )
                })
                .collect()
        };
        sandbox.write("valid", &held_out(["now", "look"]));
        sandbox.write("test", &held_out(["look", "now"]));
        sandbox
    }

    /// A sandbox with the finished run `run`.
    pub(crate) fn trained() -> Self {
        let sandbox = Self::new();
        sandbox.train("run", &[]);
        sandbox
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, split: &str, pairs: &[(String, String)]) {
        let side = |side: fn(&(String, String)) -> &String| {
            pairs.iter().map(|pair| side(pair).clone() + "\n").collect()
        };
        let files: [(&str, String); 2] =
            [("en", side(|pair| &pair.0)), ("de", side(|pair| &pair.1))];
        for (language, text) in files {
            fs::write(self.path().join(format!("{split}.{language}")), text)
                .expect("it can be written");
        }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = polyglow(arguments);
        command
            .current_dir(self.path())
            .env("XDG_STATE_HOME", self.path().join("state"));
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments)
            .output()
            .expect("the program starts")
    }

    /// Runs a command that reads one of the files on stdin.
    pub(crate) fn feed(&self, file: &str, arguments: &[&str]) -> Output {
        let file = File::open(self.path().join(file)).expect("it can be read");
        self.command(arguments)
            .stdin(file)
            .output()
            .expect("the program starts")
    }

    /// Runs a shell command with `$polyglow` in it.
    #[cfg(unix)]
    pub(crate) fn shell(&self, script: &str) -> Output {
        let mut command = Command::new("bash");
        command
            .args(["-c", script])
            .env("polyglow", env!("CARGO_BIN_EXE_polyglow"))
            .env_remove("RUST_LOG");
        command
            .current_dir(self.path())
            .stdin(Stdio::null())
            .output()
            .expect("bash starts")
    }

    /// Runs a command that must succeed; returns its stdout and stderr.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> (String, String) {
        succeed(&mut self.command(arguments))
    }

    /// Trains `tiny.toml` with overrides.
    pub(crate) fn train(&self, run: &str, overrides: &[&str]) -> (String, String) {
        let mut command = self.command(&["train", "tiny.toml", "--run", run]);
        succeed(command.args(overrides.iter().flat_map(|set| ["--set", set])))
    }

    /// Runs a command that must succeed; returns the JSON that it writes.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.succeed(arguments).0).expect("the output is JSON")
    }

    /// Runs a command that must fail; returns its stderr.
    pub(crate) fn fail(&self, exit_code: i32, arguments: &[&str]) -> String {
        fail(exit_code, &mut self.command(arguments))
    }
}
