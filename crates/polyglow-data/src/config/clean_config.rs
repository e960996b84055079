//! The value of `data.clean`: whether training text is cleaned, and how.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::FilterGroup;

/// The table `[data.clean]`: how training text is cleaned, as `polyglow clean` does it with the same
/// config. `clean = true` stands for its defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CleanConfig {
    /// Groups of filters that are left out, but not by proofs, which compare all groups; default
    /// none.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub without: BTreeSet<FilterGroup>,
    /// File with a score for each line of the text, the higher the better, as another program gives
    /// them; of several corpora one after the other. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scores: Option<PathBuf>,
    /// Share of the pairs to keep of those that nothing else removes, the best by their scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<f64>,
}

/// Reads a table, `true` for its defaults, or `false` for none.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<CleanConfig>, D::Error> {
    struct BoolOrTable;

    impl<'de> Visitor<'de> for BoolOrTable {
        type Value = Option<CleanConfig>;

        fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
            formatter.write_str("true, false, or a table `[data.clean]`")
        }

        fn visit_bool<E: Error>(self, is_cleaned: bool) -> Result<Self::Value, E> {
            Ok(is_cleaned.then(CleanConfig::default))
        }

        fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Self::Value, A::Error> {
            CleanConfig::deserialize(MapAccessDeserializer::new(table)).map(Some)
        }
    }

    deserializer.deserialize_any(BoolOrTable)
}

/// Writes a table, or `true` if it has defaults alone.
///
/// `None` is not written at all.
#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
pub(super) fn serialize<S: Serializer>(
    config: &Option<CleanConfig>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match config {
        None => serializer.serialize_bool(false),
        Some(config) if *config == CleanConfig::default() => serializer.serialize_bool(true),
        Some(config) => config.serialize(serializer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DataConfig;

    #[test]
    fn a_table_is_read_and_written_and_so_is_true_for_its_defaults() {
        let table = CleanConfig {
            without: [FilterGroup::Meaning].into(),
            scores: Some("scores".into()),
            keep: Some(0.5),
        };
        for (text, expected) in [
            ("", None),
            (r#"{"clean": false}"#, None),
            (r#"{"clean": true}"#, Some(CleanConfig::default())),
            (r#"{"clean": {}}"#, Some(CleanConfig::default())),
            (
                r#"{"clean": {"without": ["meaning"], "scores": "scores", "keep": 0.5}}"#,
                Some(table),
            ),
        ] {
            let text = if text.is_empty() { "{}" } else { text };
            let config: DataConfig = serde_json::from_str(text).expect("it is right");
            assert_eq!(config.clean, expected, "{text}");
            let written = serde_json::to_string(&config).expect("it has no odd keys");
            assert_eq!(
                serde_json::from_str::<DataConfig>(&written).expect("it is right"),
                config
            );
            let is_written_as_true = written.contains("\"clean\":true");
            assert_eq!(
                is_written_as_true,
                expected == Some(CleanConfig::default()),
                "{written}"
            );
        }
        assert!(serde_json::from_str::<DataConfig>(r#"{"clean": 1}"#).is_err());
    }
}
