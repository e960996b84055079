//! Suggestions for a key or a name that a config does not have.

use polyglow_model::Arch;
use polyglow_predict::error::{TrainError, failed, usage, with_hint};
use polyglow_predict::suggestion::nearest;

/// The sections of a config, to say where a misplaced key belongs.
const SECTIONS: [&str; 5] = ["data", "tokenizer", "model", "train", "search"];

/// Keys that have moved, and where they are now.
const MOVED: [(&str, &str); 7] = [
    ("clean_without", "data.clean.without"),
    ("window", "data.words.window"),
    ("negatives", "data.words.negatives"),
    ("subsample", "data.words.subsample"),
    ("image_size", "data.images.size"),
    ("grayscale", "data.images.grayscale"),
    ("augment", "data.images.augment"),
];

/// The keys that are tables or lists of tables, and a config with an unknown key in each, for which
/// serde lists those that it knows.
const TABLES: [(&str, &str); 5] = [
    ("data.clean", "[data.clean]\n\"\" = 0"),
    ("data.train", "[data]\ntrain = [{ \"\" = 0 }]"),
    ("data.noise", "[data.noise]\n\"\" = 0"),
    ("data.images", "[data.images]\n\"\" = 0"),
    ("data.words", "[data.words]\n\"\" = 0"),
];

/// Serde's words for what it expects, and a user's.
const EXPECTED: [(&str, &str); 15] = [
    ("expected struct DataConfig", "expected a section with keys"),
    ("expected struct ImageConfig", "expected a table with keys"),
    ("expected struct SkipGrams", "expected a table with keys"),
    ("expected struct Noise", "expected a table with keys"),
    (
        "expected struct TokenizerConfig",
        "expected a section with keys",
    ),
    (
        "expected struct ModelConfig",
        "expected a section with keys",
    ),
    (
        "expected struct TrainConfig",
        "expected a section with keys",
    ),
    (
        "expected struct SearchConfig",
        "expected a section with keys",
    ),
    (
        "invalid type: unit variant, expected string only",
        "expected one of the names that the key can have, in quotes",
    ),
    (
        "expected a nonzero usize",
        "expected a whole number, 1 or more",
    ),
    ("expected usize", "expected a whole number, 0 or more"),
    ("expected u64", "expected a whole number, 0 or more"),
    ("expected f64", "expected a number"),
    ("expected path string", "expected a path in quotes"),
    ("expected a sequence", "expected a list"),
];

/// Turns TOML's message into ours: its line and caret stay, types get names that mean something to
/// a user, and a suggestion is added.
pub(super) fn explain(error: &toml::de::Error) -> TrainError {
    let text = EXPECTED
        .iter()
        .fold(error.to_string(), |text, (rust, words)| {
            text.replace(rust, words)
        });
    let message = usage(failed!("{}", text.trim_end()));
    match suggest(error.message()) {
        Some(suggestion) => with_hint(message, suggestion),
        None => message,
    }
}

/// Reads serde's "unknown field `x`, expected one of `a`, `b`": the unknown word comes first, the
/// known ones follow.
fn suggest(message: &str) -> Option<String> {
    // The table of a registered architecture, whose keys are in no reference.
    if let Some((_, message)) = message
        .strip_prefix("`model.")
        .and_then(|message| message.split_once("`: "))
    {
        let (unknown, known) = unknown_and_known(message)?;
        return nearest(unknown, known).map(|near| format!("did you mean `{near}`?"));
    }
    let (unknown, known) = unknown_and_known(message)?;
    if message.starts_with("unknown field")
        && let Some((_, now)) = MOVED.iter().find(|(key, _)| *key == unknown)
    {
        return Some(format!("`{unknown}` is `{now}` now"));
    }
    if message.starts_with("unknown field") {
        // A key of a table within the section that it stands in was meant for that table.
        if keys_of("data") == known
            && let Some(table) = table_of(unknown)
        {
            return Some(format!("`{unknown}` belongs to `{table}`"));
        }
        if let Some(section) = section_of(unknown) {
            return Some(format!("`{unknown}` belongs to the section `[{section}]`"));
        }
    }
    let is_architecture = known.contains(&Arch::default().name());
    let near = nearest(unknown, known.iter().copied());
    if is_architecture {
        let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
        return Some(format!(
            "{near}an architecture of another program is known to that program alone"
        ));
    }
    let near = near?;
    let is_key = message.starts_with("unknown field");
    let explained = if is_key {
        let topic = table_with(&known).unwrap_or(near);
        format!(" `polyglow help config {topic}` explains it")
    } else {
        String::new()
    };
    Some(format!("did you mean `{near}`?{explained}"))
}

/// Returns the section that has a key.
fn section_of(unknown: &str) -> Option<&'static str> {
    SECTIONS
        .into_iter()
        .find(|section| keys_of(section).iter().any(|key| key == unknown))
}

/// Returns the key that is a table, or a list of tables, with the key `unknown`.
fn table_of(unknown: &str) -> Option<&'static str> {
    let has_key = |&(_, text): &(&str, &str)| known_keys(text).iter().any(|key| key == unknown);
    TABLES.into_iter().find(has_key).map(|(table, _)| table)
}

/// Returns the key that is a table, or a list of tables, with these keys.
fn table_with(keys: &[&str]) -> Option<&'static str> {
    let has_keys = |&(_, text): &(&str, &str)| known_keys(text) == keys;
    TABLES.into_iter().find(has_keys).map(|(table, _)| table)
}

fn unknown_and_known(message: &str) -> Option<(&str, Vec<&str>)> {
    if !message.starts_with("unknown field") && !message.starts_with("unknown variant") {
        return None;
    }
    // Every second piece between backticks is a word.
    let mut words = message.split('`').skip(1).step_by(2);
    Some((words.next()?, words.collect()))
}

/// The keys of a section, which serde lists when it meets one that cannot be a key.
pub(super) fn keys_of(section: &str) -> Vec<String> {
    known_keys(&format!("[{section}]\n\"\" = 0"))
}

/// The keys that are known where a config has an unknown one; none if it has none.
fn known_keys(text: &str) -> Vec<String> {
    let Err(error) = toml::from_str::<super::Config>(text) else {
        return Vec::new();
    };
    unknown_and_known(error.message())
        .map(|(_, known)| known.into_iter().map(str::to_owned).collect())
        .unwrap_or_default()
}
