//! What a training says while it runs, where stderr is no terminal.

use std::process::{Command, Stdio};

#[test]
fn progress_is_plain_lines_where_stderr_is_no_terminal() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let config = "data.corpus = 'digits'\ntokenizer.kind = 'word'\n\
                  [model]\nd_model = 16\nd_ff = 16\nnum_heads = 1\nnum_encoder_layers = 1\nnum_decoder_layers = 1\n\
                  [train]\nmax_steps = 4\nlog_every = 2\nmax_tokens = 200\n";
    std::fs::write(directory.path().join("tiny.toml"), config).expect("a file can be written there");
    let output = Command::new(env!("CARGO_BIN_EXE_polyglow"))
        .args(["train", "tiny.toml"])
        .current_dir(directory.path())
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    let stderr = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert!(output.status.success(), "{stderr}");
    assert!(!stderr.contains(['\x1b', '\r']), "{stderr:?}");
    let steps: Vec<&str> = stderr.lines().filter(|line| line.starts_with("step ")).collect();
    assert_eq!(steps.len(), 2, "{stderr}");
    for (line, step) in steps.iter().zip(["step 2/4", "step 4/4"]) {
        let shown = ["epoch 1", "loss ", "ppl ", "lr ", "tok/s", "left "].iter().all(|word| line.contains(word));
        assert!(line.starts_with(step) && shown, "{line}");
    }
    assert!(stderr.contains("valid after step 4: BLEU"), "{stderr}");
}
