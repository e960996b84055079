//! Translates what a person types, with line editing and a history.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use polyglow_predict::runner::Runner;
use polyglow_predict::translate::Request;
use polyglow_predict::unknown_words::UnknownWords;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::Results;

/// Translates line by line until the end of the input or Ctrl-C.
///
/// # Errors
/// The terminal cannot be read; a line cannot be translated.
pub(super) fn run(runner: &Runner, results: &mut Results, language: &str) -> anyhow::Result<()> {
    let mut editor = DefaultEditor::new().context("cannot read from the terminal")?;
    let history = history();
    if let Some(path) = &history {
        // It does not exist the first time.
        let _ = editor.load_history(path);
    }
    let ended = ask(runner, results, language, &mut editor);
    if let Some(path) = &history {
        editor
            .save_history(path)
            .with_context(|| format!("cannot write the history `{}`", path.display()))?;
    }
    ended
}

fn ask(
    runner: &Runner,
    results: &mut Results,
    language: &str,
    editor: &mut DefaultEditor,
) -> anyhow::Result<()> {
    let mut unknown = UnknownWords::default();
    for number in 1.. {
        match editor.readline(&format!("{language}> ")) {
            Ok(text) => {
                editor
                    .add_history_entry(text.as_str())
                    .context("cannot keep the history")?;
                unknown.look_at(&runner.members[0].src, &text);
                unknown.warn();
                results.write(
                    runner,
                    &[Request {
                        text,
                        ..Request::default()
                    }],
                    number,
                    &mut |_| {},
                )?;
            }
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => break,
            Err(error) => return Err(error).context("cannot read from the terminal"),
        }
    }
    Ok(())
}

/// The file of the history, in the user's directory for state (XDG base directory specification);
/// `None` if it cannot be created.
fn history() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let state = match state {
        Some(state) => state,
        None => std::env::home_dir()?.join(".local/state"),
    };
    let dir = state.join("polyglow");
    fs::create_dir_all(&dir).ok()?;
    Some(dir.join("history"))
}
