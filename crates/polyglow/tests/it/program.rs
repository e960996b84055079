//! The built program on a tiny corpus of files.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A directory with the corpus of [`train_pairs`] and the config `tiny.toml`, from which every command is run.
pub(crate) struct Workplace(TempDir);

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

/// One of 26 words.
pub(crate) fn word(index: u8) -> String {
    String::from_utf8(vec![b'a' + index; 3]).expect("letters are UTF-8")
}

/// 26 pairs of 3 and 2 words.
pub(crate) fn train_pairs() -> Vec<(String, String)> {
    (0..26).map(|index| (format!("look {} now", word(index)), format!("{} sieh", word(index)))).collect()
}

impl Workplace {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a temporary directory can be made"));
        fs::write(place.path().join("tiny.toml"), TINY).expect("it can be written");
        place.write("train", &train_pairs());
        let held_out = |words: [&str; 2]| -> Vec<_> {
            (0..4)
                .map(|index| (format!("{} {}", words.join(" "), word(index)), format!("sieh {}", word(index))))
                .collect()
        };
        place.write("valid", &held_out(["now", "look"]));
        place.write("test", &held_out(["look", "now"]));
        place
    }

    /// A workplace with the finished run `run`.
    pub(crate) fn trained() -> Self {
        let place = Self::new();
        place.succeed(&["train", "tiny.toml", "--run", "run"]);
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, split: &str, pairs: &[(String, String)]) {
        let side =
            |side: fn(&(String, String)) -> &String| pairs.iter().map(|pair| side(pair).clone() + "\n").collect();
        let files: [(&str, String); 2] = [("en", side(|pair| &pair.0)), ("de", side(|pair| &pair.1))];
        for (language, text) in files {
            fs::write(self.path().join(format!("{split}.{language}")), text).expect("it can be written");
        }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.run_on(Stdio::null(), arguments)
    }

    /// Runs a command that reads one of the files on stdin.
    pub(crate) fn feed(&self, file: &str, arguments: &[&str]) -> Output {
        self.run_on(File::open(self.path().join(file)).expect("it can be read").into(), arguments)
    }

    fn run_on(&self, stdin: Stdio, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_polyglow"))
            .args(arguments)
            .current_dir(self.path())
            .env_remove("RUST_LOG")
            .env_remove("RUST_BACKTRACE")
            .env("XDG_STATE_HOME", self.path().join("state"))
            .stdin(stdin)
            .output()
            .expect("the program starts")
    }

    /// What a command that must succeed writes to stdout and stderr.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> (String, String) {
        let output = self.run(arguments);
        let stderr = String::from_utf8(output.stderr).expect("messages are UTF-8");
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        (String::from_utf8(output.stdout).expect("output is UTF-8"), stderr)
    }

    /// The JSON that a command writes.
    pub(crate) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.succeed(arguments).0).expect("the output is JSON")
    }

    /// What a command that must fail says on stderr.
    pub(crate) fn fail(&self, exit_code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let stderr = String::from_utf8(output.stderr).expect("messages are UTF-8");
        assert_eq!(output.status.code(), Some(exit_code), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("panicked") && output.stdout.is_empty(), "{stderr}");
        stderr
    }
}
