//! What may be meant by an option that a command does not have: often a key of the config, as in
//! `--epochs 3`.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use polyglow_predict::suggestion::nearest;

use crate::commands::model::FREE_KEYS;
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
/// that may be meant.
pub(super) fn explain(
    mut message: clap::Error,
    arguments: &[OsString],
    program: &Command,
) -> clap::Error {
    let Some(ContextValue::String(option)) = message.get(ContextKind::InvalidArg) else {
        return message;
    };
    let Some(name) = option
        .strip_prefix("--")
        .filter(|_| message.kind() == ErrorKind::UnknownArgument)
    else {
        return message;
    };
    let command = arguments
        .iter()
        .find_map(|argument| program.find_subcommand(argument));
    let has = |id: &str| {
        command.is_some_and(|command| {
            command
                .get_arguments()
                .any(|argument| argument.get_id() == id)
        })
    };
    if !has("overrides") {
        return message;
    }
    let is_free = |name: &str| {
        has("config")
            || FREE_KEYS
                .iter()
                .any(|free| format!("{name}=").starts_with(free))
    };
    let known: Vec<Entry> = entries()
        .into_iter()
        .filter(|entry| is_free(&entry.name()))
        .collect();
    let is_option = message.get(ContextKind::SuggestedArg).is_some();
    let found = sets(
        &name.replace('-', "_"),
        value(option, arguments).as_deref(),
        &known,
        !is_option,
    );
    let tip = match (&found[..], is_option) {
        ([], true) => return message,
        ([], false) => {
            "'polyglow help config' lists the keys that '--set KEY=VALUE' sets".to_owned()
        }
        (found, _) => format!(
            "a key of the config is set with '--set {}'",
            found.join("' or '--set ")
        ),
    };
    message.remove(ContextKind::SuggestedArg);
    message.insert(
        ContextKind::Suggested,
        ContextValue::StyledStrs(vec![tip.into()]),
    );
    message
}

/// The value that was given to an option.
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
    let place = texts.iter().position(|text| *text == option)?;
    texts
        .get(place + 1)
        .filter(|next| !next.starts_with("--"))
        .map(|&next| next.to_owned())
}

/// What may follow `--set`: the keys of that name, or else one that is like it.
fn sets(name: &str, value: Option<&str>, known: &[Entry], guess: bool) -> Vec<String> {
    let with_value = |key: &str| format!("{key}={}", value.unwrap_or("VALUE"));
    let named = known
        .iter()
        .filter(|entry| entry.key == name || entry.name() == name);
    let exact: Vec<String> = named.map(|entry| with_value(&entry.name())).collect();
    if !exact.is_empty() {
        return exact;
    }
    let is_known = |key: &str| {
        known
            .iter()
            .any(|entry| key.split('=').next() == Some(&entry.name()))
    };
    if let Some((_, key, same_value)) = ELSEWHERE
        .iter()
        .find(|(other, key, _)| *other == name && is_known(key))
    {
        return vec![if *same_value {
            with_value(key)
        } else {
            (*key).to_owned()
        }];
    }
    // Nearly every short word is like some other.
    let guess = guess && name.len() >= 4;
    let near = nearest(name, known.iter().map(|entry| entry.key)).filter(|_| guess);
    known
        .iter()
        .filter(|entry| Some(entry.key) == near)
        .map(|entry| with_value(&entry.name()))
        .collect()
}
