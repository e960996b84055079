//! `polyglow help`: the help of a command, or of the keys of a config.

use std::io::{self, Write};

use anyhow::anyhow;
use clap::Args;
use polyglow_model::registry::{RegisteredConfig, own_tables};
use polyglow_train::config::model_table;

use crate::failure::{usage, with_hint};
use crate::reference::{self, Entry, TEXT, alike_keys, find};

/// The arguments of `polyglow help`.
#[derive(Args)]
pub(crate) struct HelpArgs {
    /// A command, as in `help train`; or `config`, alone or with a table or a key, as in
    /// `help config train.lr`
    #[arg(value_name = "TOPIC")]
    pub(crate) topics: Vec<String>,
}

/// Explains the keys of a config: all of them, those of a table, or one.
///
/// # Errors
/// There is no such table or key (exit code 2).
pub(crate) fn explain(topics: &[String]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let own_tables = own_tables();
    if topics.is_empty() {
        out.write_all(TEXT.as_bytes())?;
        for own in &own_tables {
            let name = own.architecture().name();
            write!(
                out,
                "\n# The table of `model.arch = \"{name}\"`, in place of the keys of `[model]`.\n"
            )?;
            write!(out, "{}", model_table(own)?)?;
        }
        return Ok(());
    }
    for topic in topics {
        let entries = find(topic);
        // A key of such a table is explained by the table.
        let name = topic.strip_prefix("model.").unwrap_or(topic);
        let name = name.split('.').next().unwrap_or(name);
        let is_named = |own: &&RegisteredConfig| own.architecture().name() == name;
        match own_tables.iter().find(is_named) {
            _ if !entries.is_empty() => write!(out, "{}", as_toml(&entries))?,
            Some(own) => write!(out, "{}", model_table(own)?)?,
            None => return Err(unknown(topic)),
        }
    }
    Ok(())
}

/// Entries with the tables that they stand in.
fn as_toml(entries: &[Entry]) -> String {
    let mut text = String::new();
    let mut table = "";
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 && entry.table != table {
            text.push('\n');
        }
        if entry.table != table {
            text.extend(["[", entry.table, "]\n"]);
        }
        table = entry.table;
        text += entry.text;
    }
    text
}

/// The error of a topic that is no table and no key, with the keys that are like it.
fn unknown(topic: &str) -> anyhow::Error {
    let error = usage(anyhow!(
        "no table and no key of a config is called `{topic}`"
    ));
    match &alike_keys(topic)[..] {
        [] => {
            let entries = reference::entries();
            let mut tables: Vec<&str> = entries.iter().map(|entry| entry.table).collect();
            tables.dedup();
            // Keys at the top of a config are in no table.
            tables.retain(|table| !table.is_empty());
            let tables = tables.join("`, `");
            with_hint(
                error,
                format!("the tables are `{tables}`; `polyglow help config` lists every key"),
            )
        }
        near => with_hint(error, format!("did you mean `{}`?", near.join("` or `"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_below_their_tables() {
        let text = as_toml(&find("dropout"));
        let tables: Vec<&str> = text.lines().filter(|line| line.starts_with('[')).collect();
        assert_eq!(tables, ["[tokenizer]", "[model]"], "{text}");
        assert!(as_toml(&find("seed")).starts_with("# "));
    }
}
