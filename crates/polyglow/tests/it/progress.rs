//! The messages of a training where stderr is no terminal.

use crate::program::{DIGITS, Sandbox};

#[test]
fn progress_is_plain_lines_where_stderr_is_no_terminal() {
    let sandbox = Sandbox::with(DIGITS);
    let (_, stderr) = sandbox.train("run", &["train.max_steps=4", "train.log_every=2"]);
    assert!(!stderr.contains(['\x1b', '\r']), "{stderr:?}");
    let steps: Vec<&str> = stderr
        .lines()
        .filter(|line| line.starts_with("step "))
        .collect();
    assert_eq!(steps.len(), 2, "{stderr}");
    for (line, step) in steps.iter().zip(["step 2/4", "step 4/4"]) {
        let shown = ["epoch 1", "loss ", "ppl ", "lr ", "tok/s", "left "]
            .iter()
            .all(|word| line.contains(word));
        assert!(line.starts_with(step) && shown, "{line}");
    }
    assert!(stderr.contains("valid after step 4: BLEU"), "{stderr}");
}
