//! `configs/reference.toml` inside the program: every key of a config with its explanation.

use polyglow_predict::suggestion::nearest;

/// The whole file.
pub(crate) const TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/reference.toml"));

/// A key with the comment before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its table; empty for a key that stands before all tables.
    pub(crate) table: &'static str,
    /// The key in its table.
    pub(crate) key: &'static str,
    /// Comment and key as they stand in the file.
    pub(crate) text: &'static str,
}

impl Entry {
    /// The key with its table: `train.lr`.
    pub(crate) fn name(&self) -> String {
        if self.table.is_empty() {
            self.key.to_owned()
        } else {
            format!("{}.{}", self.table, self.key)
        }
    }
}

/// Every key, in the order of the file.
pub(crate) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut table = "";
    // Where the lines begin that belong to the next key.
    let mut start = 0;
    let mut end = 0;
    for line in TEXT.split_inclusive('\n') {
        end += line.len();
        if let Some(name) = line
            .trim_end()
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            table = name;
            start = end;
        } else if line.trim().is_empty() {
            start = end;
        } else if let Some(key) = key(line) {
            entries.push(Entry {
                table,
                key,
                text: &TEXT[start..end],
            });
            start = end;
        }
    }
    entries
}

/// The key that a line sets, or would set if it were not commented out.
fn key(line: &'static str) -> Option<&'static str> {
    let (key, _) = line.strip_prefix("# ").unwrap_or(line).split_once(" = ")?;
    key.chars()
        .all(|letter| letter.is_ascii_lowercase() || letter == '_')
        .then_some(key)
}

/// Returns the entries about a topic: a table (`train`), a key (`train.lr`), a key of a table
/// within a table (`data.images.size`), or the last part of keys (`lr`). Empty where it is none of
/// these.
pub(crate) fn find(topic: &str) -> Vec<Entry> {
    let entries = entries();
    // In this order, so that a key of a table is not taken for a key of the same name elsewhere.
    let ways: [fn(&Entry, &str) -> bool; 4] = [
        |entry, topic| !entry.table.is_empty() && entry.table == topic,
        |entry, topic| entry.name() == topic,
        has_inner_key,
        |entry, topic| entry.key == topic,
    ];
    for matches in ways {
        let mut matching = entries.clone();
        matching.retain(|entry| matches(entry, topic));
        if !matching.is_empty() {
            return matching;
        }
    }
    Vec::new()
}

/// Whether a topic is a key within the table that is the value of an entry.
fn has_inner_key(entry: &Entry, topic: &str) -> bool {
    let inner = topic
        .strip_prefix(&entry.name())
        .and_then(|rest| rest.strip_prefix('.'));
    inner.is_some_and(|inner| entry.text.contains(&format!("# - `{inner}`")))
}

/// The names of the key that is most like the last part of `topic`; several if tables share it.
pub(crate) fn alike_keys(topic: &str) -> Vec<String> {
    let mut entries = entries();
    let (table, topic) = topic.rsplit_once('.').unwrap_or(("", topic));
    let is_a_key = entries.iter().any(|entry| entry.key == topic);
    if !is_a_key && entries.iter().any(|entry| entry.table == table) {
        entries.retain(|entry| entry.table == table);
    }
    let near = nearest(topic, entries.iter().map(|entry| entry.key));
    entries
        .iter()
        .filter(|entry| Some(entry.key) == near)
        .map(Entry::name)
        .collect()
}

/// The first key that a message names in backticks, as in "`train.lr = 0`: must be more than 0".
pub(crate) fn named_in(message: &str) -> Option<String> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    quoted.find_map(|text| {
        let text = text.strip_prefix("--set ").unwrap_or(text);
        let name = text.split([' ', '=']).next().unwrap_or_default();
        let is_key = entries().iter().any(|entry| entry.name() == name);
        is_key.then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_with_its_comment_alone() {
        let [lr] = find("train.lr")[..] else {
            panic!("one key has this name")
        };
        assert_eq!((lr.table, lr.key), ("train", "lr"));
        assert!(
            lr.text.starts_with("# ") && lr.text.ends_with("\nlr = 1e-3\n"),
            "{}",
            lr.text
        );
        assert_eq!(lr.text.matches(" = ").count(), 1);
        assert_eq!(find("lr"), find("train.lr"));
        assert_eq!(
            find("data.corpus")[0].text.lines().last(),
            Some("# corpus = \"mini-en-de\"")
        );
        let names = |topic: &str| find(topic).iter().map(Entry::name).collect::<Vec<_>>();
        assert_eq!(names("seed"), ["seed"]);
        assert_eq!(names("dropout"), ["tokenizer.dropout", "model.dropout"]);
        assert_eq!(names("data.images.size"), ["data.images"]);
        assert_eq!(names("data.images.sizes"), [""; 0]);
        assert!(
            names("search").len() > 10
                && names("search")
                    .iter()
                    .all(|name| name.starts_with("search."))
        );
    }

    #[test]
    fn no_line_of_a_table_is_lost() {
        let all: String = entries().iter().map(|entry| entry.text).collect();
        let (_, tables) = TEXT
            .split_once("\n\n")
            .expect("a heading, and a blank line");
        let kept = |line: &&str| !line.is_empty() && !line.starts_with('[');
        assert!(all.lines().eq(tables.lines().filter(kept)), "{all}");
    }

    #[test]
    fn a_message_names_its_key() {
        assert_eq!(
            named_in("in the config `a.toml`: `train.lr = 0`: must be positive").as_deref(),
            Some("train.lr")
        );
        assert_eq!(
            named_in("in `--set train.lr=fast`: no").as_deref(),
            Some("train.lr")
        );
        assert_eq!(named_in("`a.pdf` ends in neither"), None);
    }
}
