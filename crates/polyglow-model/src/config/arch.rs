//! The table of architectures: the names that a config may give, and what each of them makes of the
//! section `[model]`.
//!
//! A built-in architecture has keys of the section, some of which it shares with others. Its row
//! stands beside the shape of its models, in a file of [`super::shapes`]; to add one, write its model
//! and its shape, and name its row in [`BUILT_IN`]. Other programs register theirs in
//! [`crate::registry`], whose settings are a table of their own.

use super::own_table::OwnTable;
use super::shapes::{captioner, encoder, lm, rnn, rnn_lm, skip_gram, transformer, vit};
use super::{ModelConfig, ModelShape, Preset, Sizes, Task, Vocabulary};
use crate::error::ModelError;
use crate::registry::{Choice, Named, RegisteredConfig, Row, Table};

/// An architecture that can be trained, by its name. A built-in one is a constant of the type of its
/// models, as in `Transformer::ARCH`.
pub type Arch = Choice<ArchRow>;

/// A row of the table of architectures.
pub struct ArchRow {
    pub(crate) name: &'static str,
    /// Returns the task that its models are trained for.
    pub(crate) task: fn(&ModelConfig) -> Task,
    /// The keys of `[model]` that it has, in groups; all others are refused.
    pub(crate) keys: &'static [&'static [&'static str]],
    /// Returns the layers of a stack in a preset in which a Transformer has as many as the argument.
    pub(crate) num_layers: fn(usize) -> usize,
    /// Returns the width of the hidden states.
    pub(crate) width: fn(&ModelConfig) -> usize,
    /// Returns whether a decoder attends to a source of text.
    pub(crate) attends_to_source: fn(&ModelConfig) -> bool,
    /// Returns whether its models may have 8-bit matrices, see [`crate::quantization`].
    pub(crate) has_int8: fn(&ModelConfig) -> bool,
    /// Fills in every key that the preset or the architecture decides.
    pub(crate) resolve: fn(&ModelConfig) -> ModelConfig,
    /// Returns the complete shape of a model, or says which value or key does not fit.
    pub(crate) shape: fn(&ModelConfig, Vocabulary) -> Result<ModelShape, ModelError>,
    /// The table `[model.NAME]`, if its settings are not keys of `[model]`.
    pub(crate) own_table: Option<OwnTable>,
}

/// The built-in architectures; the first one is the default.
const BUILT_IN: [&ArchRow; 8] = [
    &transformer::ROW,
    &rnn::ROW,
    &lm::ROW,
    &rnn_lm::ROW,
    &skip_gram::ROW,
    &encoder::ROW,
    &vit::ROW,
    &captioner::ROW,
];

static TABLE: Table<ArchRow> = Table::new("model.arch", &BUILT_IN);

impl Named for ArchRow {
    fn name(&self) -> &'static str {
        self.name
    }
}

impl Row for ArchRow {
    fn table() -> &'static Table<Self> {
        &TABLE
    }
}

impl ArchRow {
    /// Makes the row of an architecture with keys of `[model]`. It has as many layers as a
    /// Transformer, no attention to a source of text, and no 8-bit matrices.
    pub(crate) const fn new(
        name: &'static str,
        task: fn(&ModelConfig) -> Task,
        keys: &'static [&'static [&'static str]],
        shape: fn(&ModelConfig, Vocabulary) -> Result<ModelShape, ModelError>,
    ) -> Self {
        Self {
            name,
            task,
            keys,
            num_layers: |num_layers| num_layers,
            width: |config| config.d_model.unwrap_or(config.sizes().d_model),
            attends_to_source: |_| false,
            has_int8: |_| false,
            resolve: ModelConfig::resolve_sizes,
            shape,
            own_table: None,
        }
    }

    /// Whether it is one of this library, which every program has.
    pub fn is_built_in(&self) -> bool {
        TABLE.has_built_in(self.name)
    }

    fn has_key(&self, key: &str) -> bool {
        self.keys.iter().any(|group| group.contains(&key))
    }
}

impl ModelConfig {
    /// The task that the model is trained for.
    pub fn task(&self) -> Task {
        (self.arch.0.task)(self)
    }

    /// Returns the width of the hidden states: `d_model`, or that of the preset.
    pub fn width(&self) -> usize {
        (self.arch.0.width)(self)
    }

    /// Whether the decoder attends to a source of text.
    pub fn has_attention(&self) -> bool {
        (self.arch.0.attends_to_source)(self)
    }

    /// Whether its models may have 8-bit matrices, see [`crate::quantization`].
    pub fn has_int8(&self) -> bool {
        (self.arch.0.has_int8)(self)
    }

    /// Fills in every key that the preset or the architecture decides, so that the result is
    /// explicit.
    #[must_use]
    pub fn resolve(&self) -> Self {
        (self.arch.0.resolve)(self)
    }

    /// The complete shape of the model for the given vocabularies; products are f32.
    ///
    /// # Errors
    /// [`ModelError::Config`] for a size of zero or beyond reason, a dropout outside `[0, 1)`,
    /// sizes that do not fit each other, tied embeddings over vocabularies that are not shared, and
    /// keys that the architecture does not have.
    pub fn shape(&self, vocabulary: Vocabulary) -> Result<ModelShape, ModelError> {
        self.refuse_foreign()?;
        (self.arch.0.shape)(self, vocabulary)
    }

    /// Returns the table of a registered architecture: as the config has it, or its defaults. `None`
    /// for an architecture with keys of `[model]`.
    pub(crate) fn own_table(&self) -> Option<RegisteredConfig> {
        match &self.own {
            Some(own) if own.architecture() == self.arch => Some(own.clone()),
            _ => RegisteredConfig::default_of(self.arch),
        }
    }

    /// Fills in the preset, and of the keys that it decides those that the architecture has.
    pub(super) fn resolve_sizes(&self) -> Self {
        let Sizes {
            num_layers,
            d_ff,
            num_heads,
            dropout,
            ..
        } = self.sizes();
        let has = |key| self.arch.0.has_key(key);
        let mut resolved = Self {
            preset: Some(self.preset.unwrap_or(Preset::Small)),
            d_model: Some(self.width()),
            ..self.clone()
        };
        if has("d_ff") {
            resolved.d_ff.get_or_insert(d_ff);
        }
        if has("num_heads") {
            resolved.num_heads.get_or_insert(num_heads);
        }
        if has("num_encoder_layers") {
            resolved.num_encoder_layers.get_or_insert(num_layers);
        }
        if has("num_decoder_layers") {
            resolved.num_decoder_layers.get_or_insert(num_layers);
        }
        if has("dropout") {
            resolved.dropout.get_or_insert(dropout);
        }
        resolved
    }

    /// This config with another architecture.
    pub(super) fn with_arch(&self, arch: Arch) -> Self {
        Self {
            arch,
            ..self.clone()
        }
    }

    /// Refuses keys that were given but have no effect in this architecture.
    fn refuse_foreign(&self) -> Result<(), ModelError> {
        let mut foreign = self.given_keys();
        foreign.retain(|key| !self.arch.0.has_key(key));
        if foreign.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = foreign.iter().map(|key| format!("model.{key}")).collect();
        Err(ModelError::Foreign {
            keys: keys.join("`, `"),
            arch: self.arch.name(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_list_keys_of_the_section() {
        for row in BUILT_IN {
            for key in row.keys.concat() {
                assert!(ModelConfig::has_key(key), "{key} of {}", row.name);
            }
        }
    }
}
