//! The dashboard in a terminal, and what becomes of a training whose terminal is closed.

use crate::program::{DIGITS, Sandbox};

#[test]
fn a_dashboard_without_a_terminal_is_wrong_usage_and_makes_no_run() {
    let sandbox = Sandbox::with(DIGITS);
    let message = sandbox.fail(2, &["train", "tiny.toml", "--tui"]);
    assert!(message.contains("`--tui` needs a terminal"), "{message}");
    assert!(message.contains("hint: leave out `--tui`"), "{message}");
    assert!(!sandbox.path().join("runs").exists());
}

#[cfg(target_os = "linux")]
mod in_a_terminal {
    use std::fs;
    use std::io::Write;
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::program::{handling_hangups, newest_step, wait_until};

    /// A training without end in a terminal of its own, which `script` of util-linux makes.
    struct Terminal {
        sandbox: Sandbox,
        script: Child,
    }

    impl Terminal {
        fn train(options: &str) -> Self {
            let sandbox = Sandbox::with(DIGITS);
            let program = env!("CARGO_BIN_EXE_polyglow");
            let sets = ["max_steps", "validate_every", "save_every"]
                .map(|key| format!("--set train.{key}=1000000"));
            let sets = sets.join(" ");
            let train = format!(
                "stty rows 30 cols 120; exec '{program}' train tiny.toml --run run {options} {sets}"
            );
            let screen = fs::File::create(sandbox.path().join("screen")).expect("it can be made");
            let mut script = Command::new("script");
            script
                .args(["-qfec", &train, "/dev/null"])
                .current_dir(sandbox.path())
                .env_remove("RUST_LOG");
            script
                .env("TERM", "xterm")
                .stdin(Stdio::piped())
                .stdout(screen)
                .stderr(Stdio::null());
            let terminal = Self {
                script: handling_hangups(&mut script)
                    .spawn()
                    .expect("`script` starts"),
                sandbox,
            };
            wait_until("a step was made", || newest_step(&terminal.run()).is_some());
            terminal
        }

        fn run(&self) -> PathBuf {
            self.sandbox.path().join("run")
        }

        fn log(&self) -> String {
            fs::read_to_string(self.run().join("train.log")).unwrap_or_default()
        }

        /// Waits for the end of the training; the step of its last checkpoint.
        fn saved(&self) -> u64 {
            let pid = fs::read_to_string(self.run().join("lock")).expect("the process wrote it");
            let stat = format!("/proc/{}/stat", pid.split(' ').next().expect("a number"));
            // A process that ended stays as a zombie where no process reads its exit code.
            wait_until("the training ended", || {
                fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "))
            });
            let state = fs::read_to_string(self.run().join("checkpoints/last/state.json"))
                .expect("it was saved");
            let state: serde_json::Value = serde_json::from_str(&state).expect("it is JSON");
            state["step"].as_u64().expect("a number")
        }
    }

    impl Drop for Terminal {
        fn drop(&mut self) {
            let _ = self.script.kill();
            let _ = self.script.wait();
        }
    }

    #[test]
    fn the_quit_key_saves_and_stops() {
        let mut terminal = Terminal::train("--tui");
        let mut keys = terminal.script.stdin.take().expect("it is piped");
        keys.write_all(b"q").expect("the terminal takes keys");
        let step = terminal.saved();
        // `EX_TEMPFAIL`: it is not done, and the same command resumes it.
        assert_eq!(terminal.script.wait().expect("it ends").code(), Some(75));
        assert!(
            terminal
                .log()
                .contains(&format!("stopped after step {step}; the same command")),
            "{}",
            terminal.log()
        );
        let screen = fs::read(terminal.sandbox.path().join("screen")).expect("it was written");
        let screen = String::from_utf8_lossy(&screen);
        // Blanks are not drawn, but jumped over.
        assert!(
            ["q:", "save", "and", "stop"]
                .iter()
                .all(|word| screen.contains(word)),
            "{screen}"
        );
        // The terminal is as it was: the usual screen, with the cursor.
        let end = &screen[screen.rfind("\x1b[?1049l").expect("the dashboard was left")..];
        assert!(
            end.contains("\x1b[?25h") && end.contains(&format!("stopped after step {step}")),
            "{end}"
        );
    }

    #[test]
    fn a_terminal_that_is_closed_saves_and_stops() {
        for options in ["--tui", ""] {
            let mut terminal = Terminal::train(options);
            // With `script` goes the terminal, and the system sends SIGHUP.
            terminal.script.kill().expect("it is ours");
            let step = terminal.saved();
            let words = format!(
                "stopped after step {step}, because the terminal was closed (SIGHUP); the same command"
            );
            assert!(
                terminal.log().contains(&words),
                "{options}: {}",
                terminal.log()
            );
        }
    }
}
