//! The `[model]` section with the table of a registered architecture, `[model.NAME]`, which serde's
//! derived code cannot know.

use std::any::TypeId;
use std::cell::Cell;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, forward_to_deserialize_any};
use serde_json::Value;

use super::{Arch, ModelConfig};
use crate::registry::RegisteredConfig;

/// The settings of an architecture that are a table `[model.NAME]` of its own, without their type.
pub(crate) struct OwnTable {
    /// The type of the architecture's models, by which it is known when it is registered again.
    pub(crate) model: TypeId,
    /// Returns the default settings.
    pub(crate) defaults: fn() -> Value,
    /// Reads a table, and fills in every default. An error continues a name: the rest of the key, a
    /// backtick, and what is wrong with it.
    pub(crate) read: fn(Value) -> Result<Value, String>,
}

impl Serialize for ModelConfig {
    /// Writes a registered architecture and its table alone: the other keys are not for it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(own) = self.own_table() else {
            return Self::serialize(self, serializer);
        };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("arch", &self.arch)?;
        map.serialize_entry(self.arch.name(), own.table())?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for ModelConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let own = Cell::new(None);
        let mut config = Self::deserialize(WithoutOwnTable {
            inner: deserializer,
            own: &own,
        })?;
        config.own = own.into_inner();
        if let Some(own) = &config.own
            && config.arch != own.architecture()
        {
            let name = own.architecture().name();
            return Err(D::Error::custom(format!(
                "`[model.{name}]` belongs to `model.arch = \"{name}\"`, and it is `\"{}\"`",
                config.arch.name()
            )));
        }
        Ok(config)
    }
}

impl ModelConfig {
    /// Whether this is a key of the section.
    pub(crate) fn has_key(name: &str) -> bool {
        // Serde names all keys where one is none of them.
        let error = serde_json::from_str::<Self>(r#"{"": 0}"#).expect_err("there is no such key");
        error.to_string().contains(&format!("`{name}`"))
    }
}

/// Hands a struct to its derived code, but for the table of a registered architecture, which is put
/// into `own`.
///
/// It wraps each of serde's steps: the deserializer, the visitor that gets a map, and the map.
struct WithoutOwnTable<'o, I> {
    inner: I,
    own: &'o Cell<Option<RegisteredConfig>>,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for WithoutOwnTable<'_, D> {
    type Error = D::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = WithoutOwnTable {
            inner: visitor,
            own: self.own,
        };
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for WithoutOwnTable<'_, V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.expecting(formatter)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(WithoutOwnTable {
            inner: map,
            own: self.own,
        })
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithoutOwnTable<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let mut seed = Some(seed);
        loop {
            match self.inner.next_key_seed(KeySeed(&mut seed))? {
                None => return Ok(None),
                Some(Key::Known(key)) => return Ok(Some(key)),
                Some(Key::OwnTable(seed)) => {
                    let name = seed.architecture.name();
                    let settings = self.inner.next_value_seed(seed)?;
                    if let Some(other) = self.own.replace(Some(settings)) {
                        return Err(A::Error::custom(format!(
                            "`[model.{}]` and `[model.{name}]`: a model has one architecture",
                            other.architecture().name()
                        )));
                    }
                }
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(seed)
    }
}

/// A key of the section.
enum Key<K> {
    /// One for the derived code.
    Known(K),
    /// The name of an architecture.
    OwnTable(TableSeed),
}

/// Reads a key; gives it to the seed of the derived code, unless it is the name of an architecture.
/// An error then comes from within the key, so that a message shows its line.
struct KeySeed<'s, K>(&'s mut Option<K>);

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for KeySeed<'_, K> {
    type Value = Key<K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let name = String::deserialize(deserializer)?;
        if let Some(architecture) = Arch::named(&name)
            && let Some(own_table) = &architecture.0.own_table
        {
            return Ok(Key::OwnTable(TableSeed {
                architecture,
                own_table,
            }));
        }
        let key: StrDeserializer<'_, D::Error> = name.as_str().into_deserializer();
        let seed = self
            .0
            .take()
            .expect("the derived code reads one key at a time");
        seed.deserialize(key).map(Key::Known)
    }
}

/// Reads the table of an architecture, strictly.
struct TableSeed {
    architecture: Arch,
    own_table: &'static OwnTable,
}

impl<'de> DeserializeSeed<'de> for TableSeed {
    type Value = RegisteredConfig;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let table = Value::deserialize(deserializer)?;
        RegisteredConfig::read(self.architecture, self.own_table, table).map_err(D::Error::custom)
    }
}
