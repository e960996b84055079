//! The built program.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs the program without stdin, and without the variables that change what it prints.
fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_polyglow-bench"))
        .args(arguments)
        .env_remove("RUST_LOG")
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

/// Runs a command that must succeed, and returns what it writes to stdout.
pub(crate) fn succeed(arguments: &[&str]) -> String {
    let output = run(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Runs a command that must succeed, and reads the JSON that it prints.
pub(crate) fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(arguments)).expect("it prints JSON")
}

/// Runs a command that must be refused with exit code 2, and returns its message.
pub(crate) fn refuse(arguments: &[&str]) -> String {
    let output = run(arguments);
    let stderr = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    stderr
}
