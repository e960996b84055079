//! The config that `polyglow new` writes: TOML with a reason in a comment behind each chosen key.

use std::fmt::Write;
use std::path::Path;

use super::files::Found;
use crate::proposal::Proposal;

/// The parts of the config that are not in the proposal.
pub(super) struct Subject<'a> {
    pub(super) languages: [&'a str; 2],
    pub(super) device: &'a str,
    pub(super) files: &'a Found,
    /// The command that wrote it.
    pub(super) command: String,
}

/// The config as TOML with comments.
pub(super) fn write(subject: &Subject<'_>, proposal: &Proposal) -> String {
    let Subject {
        languages: [src, tgt],
        device,
        files,
        command,
    } = subject;
    let mut text = format!("# {src} to {tgt}, written by: {command}\n");
    for line in &proposal.summary {
        let _ = writeln!(text, "# {line}");
    }
    let _ = write!(
        text,
        "seed = 1\ndevice = {}\n\n[data]\ntrain = {}\n",
        quoted(device),
        path(&files.train)
    );
    if let Some(valid) = &files.valid {
        let _ = writeln!(text, "valid = {}", path(valid));
    }
    let sets: Vec<String> = files
        .tests
        .iter()
        .map(|set| format!("{} = {}", quoted(&name(set)), path(set)))
        .collect();
    let _ = match &files.tests[..] {
        [] => Ok(()),
        [only] => writeln!(text, "test = {}", path(only)),
        _ => writeln!(text, "test = {{ {} }}", sets.join(", ")),
    };
    let _ = writeln!(
        text,
        "src = {}\ntgt = {}\n# Repairs the text, and leaves out what is no translation; `polyglow clean CONFIG --dry-run` \
         shows what.\nclean = true",
        quoted(src),
        quoted(tgt)
    );
    text.push_str(&proposal.toml("data"));
    text
}

/// A basic string of TOML; JSON's strings are some of these.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// The name of a test set: that of its files.
pub(super) fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let endings = [".tsv", ".tmx", ".zip"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
    stem.unwrap_or(&name).to_owned()
}
