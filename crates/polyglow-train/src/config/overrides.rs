//! `--set section.key=value`: overrides of a config file from the command line.

use polyglow_predict::error::{Context, Result, failed, usage, with_hint};
use serde::Deserialize;
use toml::{Table, Value};

use super::{Config, unknown};

/// Reads a config from its text with each of the overrides laid over it, later ones over earlier
/// ones.
///
/// # Errors
/// An override without `=`, or one that makes the config unreadable; the message names which one it
/// is.
pub(super) fn apply(text: &str, overrides: &[String]) -> Result<Config> {
    let mut table: Table = toml::from_str(text).map_err(|error| unknown::explain(&error))?;
    for item in overrides {
        // Reading the config after each one tells which of them is wrong.
        set(&mut table, item)
            .and_then(|()| read(&table))
            .with_context(|| format!("in `--set {item}`"))?;
    }
    read(&table)
}

fn read(table: &Table) -> Result<Config> {
    Config::deserialize(Value::Table(table.clone())).map_err(|error| unknown::explain(&error))
}

fn set(table: &mut Table, item: &str) -> Result<()> {
    let Some((path, value)) = item.split_once('=') else {
        let error = usage(failed!("there is no `=` between a key and a value"));
        return Err(with_hint(
            error,
            "write it as `--set train.lr=3e-4`; `polyglow help config` explains every key",
        ));
    };
    let mut sections: Vec<&str> = path.split('.').map(str::trim).collect();
    let key = sections.pop().unwrap_or_default();
    let mut inner = table;
    for section in sections {
        let entry = inner
            .entry(section)
            .or_insert_with(|| Value::Table(Table::new()));
        // `data.clean = true` stands for the defaults of a table.
        if section == "clean" && *entry == Value::Boolean(true) {
            *entry = Value::Table(Table::new());
        }
        let Value::Table(next) = entry else {
            return Err(usage(failed!(
                "`{section}` is a value and has no key `{key}`"
            )));
        };
        inner = next;
    }
    inner.insert(key.to_owned(), parse_value(value.trim()));
    Ok(())
}

/// A TOML value where it reads as one, else the text itself, so that strings need no quotes within
/// quotes.
fn parse_value(text: &str) -> Value {
    let document = toml::from_str::<Table>(&format!("value = {text}"));
    match document
        .ok()
        .filter(|table| table.len() == 1)
        .and_then(|mut table| table.remove("value"))
    {
        Some(value) => value,
        None => Value::String(text.to_owned()),
    }
}
