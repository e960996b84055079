//! Suggestions for an option that a command does not have: often a key of the config, as in
//! `--epochs 3`.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use polyglow_predict::suggestion::nearest;

use crate::commands::model::FREE_KEYS;
use crate::program::with_own_commands;
use crate::reference::{Entry, entries};

/// Options of other programs, and the keys that they stand for here. A value is only repeated where
/// it means the same.
const ELSEWHERE: [(&str, &str, bool); 10] = [
    ("learning_rate", "train.lr", true),
    ("batch_size", "train.max_tokens=TOKENS", false),
    ("epochs", "train.max_epochs", true),
    ("steps", "train.max_steps", true),
    ("early_stopping", "train.patience", true),
    (
        "gradient_accumulation_steps",
        "train.accumulate_steps",
        true,
    ),
    ("hidden_size", "model.d_model", true),
    ("bf16", "train.precision=bf16", false),
    ("num_beams", "search.beam_size", true),
    ("fp16", "train.precision=bf16", false),
];

/// Replaces clap's advice on an unknown option, to pass it as a value, by the key of the config
/// that may be meant; and says how two files are given.
pub(super) fn explain(
    mut message: clap::Error,
    arguments: &[OsString],
    program: &Command,
) -> clap::Error {
    if message.kind() == ErrorKind::ArgumentConflict {
        // It would show how only some of the arguments go together.
        message.remove(ContextKind::Usage);
    }
    let command = arguments
        .iter()
        .find_map(|argument| program.find_subcommand(argument));
    let (ErrorKind::UnknownArgument, Some(command), Some(ContextValue::String(option))) = (
        message.kind(),
        command,
        message.get(ContextKind::InvalidArg),
    ) else {
        return message;
    };
    let Some(name) = option.strip_prefix("--") else {
        // The commands that read parallel text.
        if !option.starts_with('-') && has_argument(command, "pairs") {
            let tip = "two files of text are given with '--src FILE --tgt FILE'".to_owned();
            suggest(&mut message, tip);
        }
        return message;
    };
    if !has_argument(command, "overrides") {
        return message;
    }
    let mut known = entries();
    // Of a trained model only some keys may be changed.
    if !has_argument(command, "config") {
        known.retain(is_free);
    }
    let is_option = message.get(ContextKind::SuggestedArg).is_some();
    let settings = sets(
        &name.replace('-', "_"),
        value(option, arguments).as_deref(),
        &known,
        !is_option,
    );
    let tip = match (&settings[..], is_option) {
        ([], true) => return message,
        ([], false) => {
            with_own_commands("'polyglow help config' lists the keys that '--set KEY=VALUE' sets")
        }
        (settings, _) => format!(
            "a key of the config is set with '--set {}'",
            settings.join("' or '--set ")
        ),
    };
    message.remove(ContextKind::SuggestedArg);
    suggest(&mut message, tip);
    message
}

/// Puts a tip into a message.
fn suggest(message: &mut clap::Error, tip: String) {
    message.insert(
        ContextKind::Suggested,
        ContextValue::StyledStrs(vec![tip.into()]),
    );
}

/// Whether a command has the argument of that name in its struct.
fn has_argument(command: &Command, id: &str) -> bool {
    command
        .get_arguments()
        .any(|argument| argument.get_id() == id)
}

/// Whether a trained model may be used with another value of a key.
fn is_free(entry: &Entry) -> bool {
    let setting = format!("{}=", entry.name());
    FREE_KEYS.iter().any(|free| setting.starts_with(free))
}

/// Returns the value that was given to an option.
fn value(option: &str, arguments: &[OsString]) -> Option<String> {
    let texts: Vec<&str> = arguments
        .iter()
        .filter_map(|argument| argument.to_str())
        .collect();
    if let Some(value) = texts
        .iter()
        .find_map(|text| text.strip_prefix(option)?.strip_prefix('='))
    {
        return Some(value.to_owned());
    }
    let position = texts.iter().position(|text| *text == option)?;
    texts
        .get(position + 1)
        .filter(|next| !next.starts_with("--"))
        .map(|&next| next.to_owned())
}

/// Returns what may follow `--set`: the keys of that name, or else one that is like it.
fn sets(name: &str, value: Option<&str>, known: &[Entry], guess: bool) -> Vec<String> {
    let value = value.unwrap_or("VALUE");
    let named = known
        .iter()
        .filter(|entry| entry.key == name || entry.name() == name);
    let exact: Vec<String> = named
        .map(|entry| format!("{}={value}", entry.name()))
        .collect();
    if !exact.is_empty() {
        return exact;
    }
    for (other, setting, same_value) in ELSEWHERE {
        let key = setting.split('=').next().unwrap_or(setting);
        if other == name && known.iter().any(|entry| entry.name() == key) {
            return vec![if same_value {
                format!("{setting}={value}")
            } else {
                setting.to_owned()
            }];
        }
    }
    // Nearly every short word is like some other.
    let guess = guess && name.len() >= 4;
    let near = nearest(name, known.iter().map(|entry| entry.key)).filter(|_| guess);
    known
        .iter()
        .filter(|entry| Some(entry.key) == near)
        .map(|entry| format!("{}={value}", entry.name()))
        .collect()
}
