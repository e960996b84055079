//! CTranslate2's variables as our model.

use std::collections::BTreeMap;
use std::path::Path;

use polyglow_model::{Activation, ModelConfig, Norm, Position, TieEmbeddings, TransformerShape};

use super::binary::{Binary, Kind, Variable};
use super::name::{OUTPUT, OUTPUT_BIAS, SRC_EMBEDDING, TGT_EMBEDDING, name, positions};
use crate::error::{Context, Result, bail, ensure, failed};
use crate::formats::array::{Array, Arrays};
use crate::formats::part::{Role, Stack, alternating, blank_shape, model_config, parts, reorder};
use crate::formats::sinusoids::are_sinusoids;

/// What rounding to 16 bits does to a sine, and not more.
const TOLERANCE: f32 = 1e-3;

/// A model as it was found.
pub(super) struct Found {
    pub(super) model: ModelConfig,
    pub(super) arrays: Arrays,
    /// The most positions that a text may have, where there is a table of them.
    pub(super) max_len: Option<usize>,
    /// Whether the first input of the decoder is zeros, whatever the begin mark's embedding is.
    pub(super) starts_from_zeros: bool,
}

/// Reads what is in a `model.bin`; `path` is for error messages.
///
/// # Errors
/// A variable is missing or does not fit, or is one that our model has no place for.
pub(super) fn found(binary: Binary, path: &Path) -> Result<Found> {
    let mut reader = Reader { aliases: binary.aliases, variables: binary.variables };
    reader.found().with_context(|| format!("`{}`", path.display()))
}

/// A table of positions.
struct Table {
    /// None if positions are rotated.
    rows: Option<usize>,
    /// Whether it is sines, then cosines: another order of the same numbers.
    sines_first: bool,
}

/// Variables that have not been used yet.
struct Reader {
    variables: BTreeMap<String, Variable>,
    aliases: BTreeMap<String, String>,
}

impl Reader {
    fn found(&mut self) -> Result<Found> {
        let mut shape = self.shape()?;
        let mut arrays = Arrays::default();
        self.embeddings(&mut shape, &mut arrays)?;
        let table = self.positions(&mut shape, &mut arrays)?;
        for part in parts(&shape) {
            let source = name(part, shape.activation == Activation::Swiglu);
            let [first, second] = part.parameters();
            let [inputs, outputs] = part.size(&shape);
            if part.block.role() == Role::Norm {
                arrays.put(first, self.array(&format!("{source}/gamma"), &[outputs])?);
                arrays.put(second, self.array(&format!("{source}/beta"), &[outputs])?);
            } else {
                arrays.put(first, self.array(&format!("{source}/weight"), &[outputs, inputs])?.transposed());
                arrays.put(second, self.array(&format!("{source}/bias"), &[outputs])?);
            }
        }
        if table.sines_first {
            reorder(&mut arrays, &shape, &alternating(shape.d_model))?;
        }
        let starts_from_zeros = self.flag("decoder/start_from_zero_embedding", false)?;
        self.settings()?;
        Ok(Found { model: model_config(&shape), arrays, max_len: table.rows, starts_from_zeros })
    }

    /// Everything about the model but its embeddings and positions.
    fn shape(&mut self) -> Result<TransformerShape> {
        let setting = |reader: &mut Self, key: &str| -> Result<i64> {
            let [left, right] = Stack::BOTH.map(|stack| format!("{}/{key}", stack.name()));
            let (left, right) = (reader.number(&left)?, reader.number(&right)?);
            ensure!(left == right, "`{key}` is {left:?} in the encoder and {right:?} in the decoder");
            left.with_context(|| format!("there is no `encoder/{key}`"))
        };
        let num_heads = usize::try_from(setting(self, "num_heads")?).unwrap_or(0);
        let norm = if setting(self, "pre_norm")? == 0 { Norm::Post } else { Norm::Pre };
        let gated = self.variables.contains_key("encoder/layer_0/ffn/linear_0_noact/weight");
        let activation = match (setting(self, "activation")?, gated) {
            (0, false) => Activation::Relu,
            (2, false) => Activation::Swish,
            (3, false) => Activation::Gelu,
            (2, true) => Activation::Swiglu,
            (number, _) => bail!(
                "its activation is number {number}{}, which is none of ours",
                if gated { " with a gate" } else { "" }
            ),
        };
        let shape = |name: &str| self.variables.get(name).map(|variable| variable.shape.clone());
        let inner = if gated { "linear_0_noact" } else { "linear_0" };
        let inner = shape(&format!("encoder/layer_0/ffn/{inner}/weight"));
        let Some([d_ff, d_model]) = inner.as_deref().and_then(|shape| shape.first_chunk()).copied() else {
            bail!("there is no matrix `encoder/layer_0/ffn/linear_0/weight`")
        };
        let layers = |stack: &str| {
            let has = |layer: &usize| shape(&format!("{stack}/layer_{layer}/ffn/linear_1/weight")).is_some();
            (0..self.variables.len()).take_while(has).count()
        };
        let (num_encoder_layers, num_decoder_layers) = (layers("encoder"), layers("decoder"));
        ensure!(
            num_heads > 0 && d_model > 0 && d_ff > 0 && d_model.is_multiple_of(num_heads),
            "{num_heads} heads do not divide the width {d_model}, or its blocks have the width {d_ff}"
        );
        Ok(TransformerShape {
            d_model,
            d_ff,
            num_heads,
            num_encoder_layers,
            num_decoder_layers,
            activation,
            norm,
            ..blank_shape()
        })
    }

    fn embeddings(&mut self, shape: &mut TransformerShape, arrays: &mut Arrays) -> Result<()> {
        let is = |reader: &Self, alias: &str| reader.aliases.get(alias).is_some_and(|name| name == TGT_EMBEDDING);
        let (tied_source, tied_output) = (is(self, SRC_EMBEDDING), is(self, OUTPUT));
        shape.tie_embeddings = match (tied_source, tied_output) {
            (true, true) => TieEmbeddings::All,
            (false, true) => TieEmbeddings::Decoder,
            _ => TieEmbeddings::None,
        };
        let target = self.table(TGT_EMBEDDING)?;
        let tgt_size = target.height();
        if shape.tie_embeddings == TieEmbeddings::None {
            arrays.put("output.weight", self.array(OUTPUT, &[tgt_size, shape.d_model])?.transposed());
        }
        if shape.tie_embeddings == TieEmbeddings::All {
            arrays.put("src_embedding.weight", target);
        } else {
            let source = if tied_source { target.clone() } else { self.table(SRC_EMBEDDING)? };
            arrays.put("src_embedding.weight", source);
            arrays.put("tgt_embedding.weight", target);
        }
        let fits = |name: &str| arrays.0.get(name).is_none_or(|table| table.width() == shape.d_model);
        ensure!(
            fits("src_embedding.weight") && fits("tgt_embedding.weight"),
            "its embeddings do not have the width {} of its layers",
            shape.d_model
        );
        if self.variables.contains_key(OUTPUT_BIAS) {
            arrays.put("output_bias", self.array(OUTPUT_BIAS, &[tgt_size])?);
            shape.output_bias = true;
        }
        Ok(())
    }

    /// Whether all layers rotate positions, as ours do.
    fn rotates(&mut self, shape: &TransformerShape) -> Result<bool> {
        let layers =
            Stack::BOTH.into_iter().flat_map(|stack| (0..stack.num_layers(shape)).map(move |layer| (stack, layer)));
        let (mut num_layers, mut num_rotary) = (0, 0);
        for (stack, layer) in layers {
            num_layers += 1;
            let attention = format!("{}/layer_{layer}/self_attention", stack.name());
            let Some(dim) = self.number(&format!("{attention}/rotary_dim"))? else { continue };
            let interleaved = self.flag(&format!("{attention}/rotary_interleave"), true)?;
            let base = self.number(&format!("{attention}/rotary_base"))?.unwrap_or(10_000);
            let ours = dim == shape.head_dim() as i64 && interleaved && base == 10_000;
            ensure!(ours, "the rotation of `{attention}` is of another kind than ours");
            num_rotary += 1;
        }
        ensure!([0, num_layers].contains(&num_rotary), "only some of its layers rotate positions");
        Ok(num_rotary > 0)
    }

    /// Finds out what the positions are.
    fn positions(&mut self, shape: &mut TransformerShape, arrays: &mut Arrays) -> Result<Table> {
        if self.rotates(shape)? {
            shape.position = Position::Rotary;
            return Ok(Table { rows: None, sines_first: false });
        }
        let [encoder, decoder] = Stack::BOTH.map(|stack| positions(stack.name()));
        let made = || "its positions are those that CTranslate2 makes itself, which are not ours".to_owned();
        let target = self.table(&decoder).with_context(made)?;
        let source = if self.aliases.get(&encoder) == Some(&decoder) { target.clone() } else { self.table(&encoder)? };
        for table in [&source, &target] {
            ensure!(table.width() == shape.d_model, "its positions do not have the width of its layers");
        }
        let both = |test: &dyn Fn(&Array) -> bool| test(&source) && test(&target);
        let even = shape.d_model.is_multiple_of(2);
        let halves = |table: &Array| are_sinusoids(&table.columns(&alternating(shape.d_model)), TOLERANCE);
        let rows = source.height().min(target.height());
        let mut found = Table { rows: Some(rows), sines_first: false };
        if even && both(&|table| are_sinusoids(table, TOLERANCE)) {
            shape.position = Position::Sinusoidal;
        } else if even && both(&halves) {
            (shape.position, found.sines_first) = (Position::Sinusoidal, true);
        } else if both(&|table| table.values.iter().all(|value| value.abs() < f32::MIN_POSITIVE)) {
            shape.position = Position::None;
        } else {
            shape.position = Position::Learned;
            let cut = |table: &Array| table.rows(&(0..rows).map(Some).collect::<Vec<_>>());
            arrays.put("src_position.weight", cut(&source));
            arrays.put("tgt_position.weight", cut(&target));
        }
        Ok(found)
    }

    /// Makes sure that nothing is left that would change what the model says.
    fn settings(&mut self) -> Result<()> {
        // What a setting must be here, where it is there at all.
        let settings: [(&str, i64); 8] = [
            ("encoder/scale_embeddings", 1),
            ("decoder/scale_embeddings", 1),
            ("encoder/embeddings_merge", 0),
            ("encoder/multi_query_attention", 0),
            ("decoder/multi_query_attention", 0),
            ("decoder/alibi", 0),
            ("encoder/num_heads_kv", 0),
            ("decoder/num_heads_kv", 0),
        ];
        for (name, wanted) in settings {
            let found = self.number(name)?;
            ensure!(
                found.is_none_or(|found| found == wanted),
                "`{name}` is {}, where ours is {wanted}",
                found.unwrap_or(0)
            );
        }
        // These say something about alignments, or about positions that are not there.
        for name in ["alignment_layer", "alignment_heads", "alibi_use_positive_positions", "scale_alibi"] {
            self.variables.remove(&format!("decoder/{name}"));
        }
        match self.variables.keys().next() {
            None => Ok(()),
            Some(name) => Err(failed!("it has `{name}`, for which our model has no place")),
        }
    }

    /// A single number; none if it is not there.
    fn number(&mut self, name: &str) -> Result<Option<i64>> {
        let Some(variable) = self.variables.remove(name) else { return Ok(None) };
        match variable.numbers()[..] {
            [number] => Ok(Some(number as i64)),
            _ => Err(failed!("`{name}` is no single number")),
        }
    }

    fn flag(&mut self, name: &str, default: bool) -> Result<bool> {
        Ok(self.number(name)?.map_or(default, |number| number != 0))
    }

    /// A matrix of any size.
    fn table(&mut self, name: &str) -> Result<Array> {
        let shape = self.variables.get(name).map(|variable| variable.shape.clone());
        let shape = shape.with_context(|| format!("there is no `{name}`"))?;
        ensure!(shape.len() == 2 && !shape.contains(&0), "`{name}` of shape {shape:?} is no matrix");
        self.array(name, &shape)
    }

    /// What an array of this shape stands for.
    fn array(&mut self, name: &str, wanted: &[usize]) -> Result<Array> {
        let variable = self.variables.remove(name).with_context(|| format!("there is no `{name}`"))?;
        let shape = variable.shape.clone();
        ensure!(shape == wanted, "`{name}` is {shape:?}, where {wanted:?} is wanted");
        let mut values = variable.numbers();
        if matches!(variable.kind, Kind::I8 | Kind::I16) {
            let scale = self.variables.remove(&format!("{name}_scale"));
            let scale = scale.with_context(|| format!("there is no `{name}_scale`"))?.numbers();
            let rows = shape.first().copied().unwrap_or(1);
            ensure!([1, rows].contains(&scale.len()), "`{name}_scale` has {} numbers for {rows} rows", scale.len());
            let width = values.len() / rows.max(1);
            for (row, values) in values.chunks_exact_mut(width.max(1)).enumerate() {
                let scale = scale[row % scale.len()];
                for value in values {
                    *value /= scale;
                }
            }
        }
        ensure!(values.iter().all(|value| value.is_finite()), "`{name}` holds NaN or infinity");
        Ok(Array { shape, values })
    }
}
