//! A registered architecture as a row of the table: its settings, and the shape of its models.

use std::any::{TypeId, type_name};
use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Architecture;
use crate::attention::AttentionKind;
use crate::config::{Arch, ArchRow, ModelConfig, OwnTable, Shape, Task, Vocabulary};
use crate::model::{Model, Writing};
use crate::parameter::init::ParamInit;
use crate::precision::Precision;

/// The settings of a registered architecture, as its table in a config has them.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisteredConfig {
    architecture: Arch,
    settings: Value,
}

impl RegisteredConfig {
    /// Returns the default settings of an architecture; `None` if it has no table of its own.
    pub(crate) fn default_of(architecture: Arch) -> Option<Self> {
        let table = architecture.0.own_table.as_ref()?;
        Some(Self {
            architecture,
            settings: (table.defaults)(),
        })
    }

    /// Returns the architecture.
    pub fn architecture(&self) -> Arch {
        self.architecture
    }

    /// Returns the table `[model.NAME]`, with every default filled in.
    pub fn table(&self) -> &Value {
        &self.settings
    }

    /// Reads a table, strictly, and fills in every default.
    ///
    /// # Errors
    /// A key is unknown or missing, or its value has a wrong type; the message begins with the key.
    pub(crate) fn read(
        architecture: Arch,
        own_table: &OwnTable,
        table: Value,
    ) -> Result<Self, String> {
        let settings = (own_table.read)(table);
        Ok(Self {
            architecture,
            settings: settings.map_err(|error| format!("`model.{}{error}", architecture.name()))?,
        })
    }

    /// Returns the settings as their own type.
    fn typed<A: Architecture>(&self) -> A::Config {
        // Registration has made sure that what such a config writes reads back.
        A::Config::deserialize(&self.settings).expect("a config reads what it has written")
    }
}

/// Makes the row of an architecture whose models write text as `W` says.
pub(super) fn row<A: Architecture, W: Writing<A>>(name: &'static str) -> ArchRow {
    ArchRow {
        name,
        task: |_| A::TASK,
        keys: &[],
        num_layers: |_| 0,
        width: |config| A::d_model(&own_table(config).typed::<A>()),
        attends_to_source: |config| {
            let config = own_table(config).typed::<A>();
            A::attention_size(&config, AttentionKind::Cross).0 > 0
        },
        has_int8: |_| false,
        resolve: |config| ModelConfig {
            own: Some(own_table(config)),
            ..config.clone()
        },
        shape: |config, vocabulary| {
            let config = own_table(config);
            A::check(&config.typed::<A>(), &vocabulary)?;
            let shape = RegisteredShape::<A, W> {
                config,
                vocabulary,
                precision: Precision::default(),
                types: PhantomData,
            };
            Ok(shape.into())
        },
        own_table: Some(OwnTable {
            model: TypeId::of::<A>(),
            defaults: || settings_of(&A::Config::default()).expect("registration has tried it"),
            read: |table| {
                if has_null(&table) {
                    return Err("`: a number is not finite".to_owned());
                }
                settings_of(&read_config::<A>(table)?)
            },
        }),
    }
}

/// Returns the table of a config whose architecture has one.
fn own_table(config: &ModelConfig) -> RegisteredConfig {
    config
        .own_table()
        .expect("a registered architecture has a table")
}

/// Makes sure that the default settings of an architecture can be written and read.
///
/// # Errors
/// They cannot, or are others then.
pub(super) fn check_defaults<A: Architecture>(name: &str) -> Result<(), String> {
    let default = settings_of(&A::Config::default());
    let reads_back = default.and_then(|default| {
        let again = settings_of(&read_config::<A>(default.clone())?)?;
        Ok(again == default)
    });
    match reads_back {
        Ok(true) => Ok(()),
        Ok(false) => Err("its default settings do not read back as they were".to_owned()),
        Err(error) => Err(format!(
            "its default settings do not read back: `model.{name}{error}"
        )),
    }
}

/// The complete shape of a model of a registered architecture.
struct RegisteredShape<A, W> {
    config: RegisteredConfig,
    vocabulary: Vocabulary,
    precision: Precision,
    types: PhantomData<fn() -> (A, W)>,
}

impl<A, W> Clone for RegisteredShape<A, W> {
    fn clone(&self) -> Self {
        Self {
            config: self.config.clone(),
            ..*self
        }
    }
}

impl<A, W> PartialEq for RegisteredShape<A, W> {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
            && self.vocabulary == other.vocabulary
            && self.precision == other.precision
    }
}

impl<A, W> Debug for RegisteredShape<A, W> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct(type_name::<A>())
            .field("config", &self.config)
            .field("vocabulary", &self.vocabulary)
            .field("precision", &self.precision)
            .finish()
    }
}

impl<A: Architecture, W: Writing<A>> Shape for RegisteredShape<A, W> {
    fn build(&self, init: ParamInit) -> Model {
        let init = &mut init.with_precision(self.precision);
        let model = A::new(&self.config.typed::<A>(), &self.vocabulary, init);
        Model::hide::<A, W>(model, self.clone())
    }

    fn task(&self) -> Task {
        A::TASK
    }

    fn d_model(&self) -> usize {
        A::d_model(&self.config.typed::<A>())
    }

    fn vocabulary(&self) -> Vocabulary {
        self.vocabulary
    }

    fn max_len_mut(&mut self) -> &mut usize {
        &mut self.vocabulary.max_len
    }

    fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    fn attention_size(&self, kind: AttentionKind) -> (usize, usize) {
        A::attention_size(&self.config.typed::<A>(), kind)
    }

    fn forward_flops(&self, batch: [usize; 3]) -> f64 {
        A::forward_flops(&self.config.typed::<A>(), &self.vocabulary, batch)
    }

    fn activations(&self, batch: [usize; 3], _kernels: bool) -> u64 {
        A::activations(&self.config.typed::<A>(), &self.vocabulary, batch)
    }
}

/// Reads a table as the settings of an architecture.
///
/// # Errors
/// The message continues a name: the rest of the key, a backtick, and what is wrong with it.
fn read_config<A: Architecture>(table: Value) -> Result<A::Config, String> {
    serde_path_to_error::deserialize(table).map_err(|error| {
        match error.path().to_string().as_str() {
            "." => format!("`: {}", error.inner()),
            key => format!(".{key}`: {}", error.inner()),
        }
    })
}

/// Returns settings as a table, without keys that have no value.
fn settings_of(config: &impl Serialize) -> Result<Value, String> {
    let mut table = serde_json::to_value(config).map_err(|error| format!("`: {error}"))?;
    remove_nulls(&mut table);
    Ok(table)
}

/// Removes the keys without a value, which TOML cannot write.
fn remove_nulls(value: &mut Value) {
    if let Value::Object(keys) = value {
        keys.retain(|_, value| !value.is_null());
        keys.values_mut().for_each(remove_nulls);
    }
}

/// Whether there is a null, which a table of TOML becomes for numbers that JSON does not have.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.iter().any(has_null),
        Value::Object(keys) => keys.values().any(has_null),
        _ => false,
    }
}
