//! CTranslate2's variables as our model.

use std::path::Path;

use polyglow_model::{Activation, ModelConfig, Norm, Position, TieEmbeddings, TransformerShape};
use polyglow_predict::error::{Context, Result, bail, ensure, failed};

use super::binary::{Binary, Kind};
use super::name::{OUTPUT, OUTPUT_BIAS, SRC_EMBEDDING, TGT_EMBEDDING, name, positions};
use super::unsupported::{self, lacking};
use super::variables::{Variables, single};
use crate::array::{Array, Arrays};
use crate::part::{Block, Role, Stack, alternating, blank_shape, model_config, parts, reorder};
use crate::sinusoids::{are_sinusoids, sinusoids_of_tensor2tensor};

/// More layers than any model has.
const MOST_LAYERS: usize = 1 << 10;

/// The most that rounding a sine to bf16 changes it by, and a little.
const TOLERANCE: f32 = 4e-3;
/// Rows of a table of positions that CTranslate2 would make itself: its longest text.
const MADE_POSITIONS: usize = 1024;

/// A model as it was read.
pub(super) struct Content {
    pub(super) model: ModelConfig,
    pub(super) arrays: Arrays,
    /// The most positions that a text may have, where there is a table of them.
    pub(super) max_len: Option<usize>,
    /// Whether the first input of the decoder is zeros, whatever the begin token's embedding is.
    pub(super) starts_from_zeros: bool,
    /// Whether the model says by a flag that its embeddings are scaled, as the converters of
    /// `OpenNMT` and Marian do, and not by the factor, as those of transformers and fairseq do.
    pub(super) has_scale_flag: bool,
}

/// Reads the content of a `model.bin`; `path` is for error messages.
///
/// # Errors
/// A variable is missing or does not fit, or belongs to a layer that polyglow's Transformer lacks.
pub(super) fn content(binary: Binary, path: &Path) -> Result<Content> {
    Reader {
        variables: Variables::new(binary),
    }
    .content()
    .with_context(|| format!("`{}`", path.display()))
}

/// A table of positions.
struct Table {
    /// None if positions are rotated.
    rows: Option<usize>,
    /// Whether it is sines, then cosines: another order of the same numbers.
    sines_first: bool,
}

/// What the embeddings of a side are multiplied by.
struct Scale {
    /// In units of `sqrt(d_model)`, which ours are multiplied by.
    factor: f32,
    is_flag: bool,
}

struct Reader {
    variables: Variables,
}

impl Reader {
    fn content(&mut self) -> Result<Content> {
        unsupported::check(&self.variables)?;
        let mut shape = self.shape()?;
        let mut arrays = Arrays::default();
        self.check_heads(&shape)?;
        let [encoder, decoder] = Stack::BOTH.map(|stack| self.scale(stack, &shape));
        let scales = [encoder?, decoder?];
        self.embeddings(&scales, &mut shape, &mut arrays)?;
        let table = self.positions(&mut shape, &mut arrays)?;
        self.layers(&shape, &mut arrays)?;
        if table.sines_first {
            reorder(&mut arrays, &shape, &alternating(shape.d_model))?;
        }
        let starts_from_zeros = self
            .variables
            .flag("decoder/start_from_zero_embedding", false)?;
        self.check_rest()?;
        let has_scale_flag = scales.iter().any(|scale| scale.is_flag);
        Ok(Content {
            model: model_config(&shape),
            arrays,
            max_len: table.rows,
            starts_from_zeros,
            has_scale_flag,
        })
    }

    /// Reads everything about the model but its embeddings and positions.
    fn shape(&mut self) -> Result<TransformerShape> {
        let num_heads = self
            .setting("num_heads")?
            .with_context(|| "there is no `encoder/num_heads`")?;
        let is_a_number_of_heads = num_heads >= 1.0;
        ensure!(is_a_number_of_heads, "`encoder/num_heads` is {num_heads}");
        let num_heads = num_heads as usize;
        // Both have the defaults that CTranslate2 has for them.
        let norm = if self.setting("pre_norm")? == Some(0.0) {
            Norm::Post
        } else {
            Norm::Pre
        };
        let is_gated = self
            .variables
            .has("encoder/layer_0/ffn/linear_0_noact/weight");
        let activation = self.setting("activation")?.unwrap_or(0.0);
        let activation = match (activation as i64, is_gated) {
            (0, false) => Activation::Relu,
            (2, false) => Activation::Swish,
            (3, false) => Activation::Gelu,
            (2, true) => Activation::Swiglu,
            _ => return Err(unsupported::activation(activation, is_gated)),
        };
        let inner = if is_gated {
            "linear_0_noact"
        } else {
            "linear_0"
        };
        let inner = self
            .variables
            .shape(&format!("encoder/layer_0/ffn/{inner}/weight"));
        let Some(&[d_ff, d_model]) = inner else {
            bail!("there is no matrix `encoder/layer_0/ffn/linear_0/weight`")
        };
        let has_layer = |stack: Stack, layer: usize| {
            self.variables.has(&format!(
                "{}/layer_{layer}/ffn/linear_1/weight",
                stack.name()
            ))
        };
        let [num_encoder_layers, num_decoder_layers] = Stack::BOTH.map(|stack| {
            (0..MOST_LAYERS)
                .take_while(|&layer| has_layer(stack, layer))
                .count()
        });
        ensure!(
            d_model > 0 && d_ff > 0 && d_model.is_multiple_of(num_heads),
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

    /// A number that must be the same for both stacks.
    fn setting(&mut self, key: &str) -> Result<Option<f32>> {
        let [encoder, decoder] =
            Stack::BOTH.map(|stack| self.variables.number(&format!("{}/{key}", stack.name())));
        let (encoder, decoder) = (encoder?, decoder?);
        let shown =
            |number: Option<f32>| number.map_or("missing".to_owned(), |number| number.to_string());
        let (left, right) = (shown(encoder), shown(decoder));
        ensure!(
            encoder == decoder,
            "`{key}` is {left} in the encoder and {right} in the decoder, where ours is one"
        );
        Ok(encoder)
    }

    /// Makes sure that all attention has the heads and the factor that ours has.
    fn check_heads(&mut self, shape: &TransformerShape) -> Result<()> {
        let (num_heads, head_dim) = (shape.num_heads as f32, shape.head_dim() as f32);
        let usual = [
            ("num_heads_kv", num_heads, "grouped-query attention"),
            (
                "head_dim",
                head_dim,
                "heads of another width than `d_model / num_heads`",
            ),
            (
                "queries_scale",
                head_dim.sqrt().recip(),
                "another factor on queries than `1 / sqrt(head_dim)`",
            ),
        ];
        let names: Vec<String> = self.variables.names().map(str::to_owned).collect();
        for name in names {
            let last = name.rsplit('/').next().unwrap_or(&name);
            let Some((_, usual, what)) = usual.iter().find(|(key, ..)| *key == last) else {
                continue;
            };
            let number = self.variables.number(&name)?.unwrap_or(*usual);
            // Some converters write 0 where keys and values have as many heads as queries.
            let is_unset = last == "num_heads_kv" && number == 0.0;
            if !is_unset && (number - usual).abs() > 1e-3 * usual {
                return Err(lacking(
                    what,
                    &format!("`{name}` is {number}, where {usual} is usual"),
                ));
            }
        }
        Ok(())
    }

    /// Reads what embeddings are multiplied by: an integer of 8 bits is a flag for `sqrt(d_model)`,
    /// any other number the factor itself, and without either CTranslate2 takes `sqrt(d_model)`.
    fn scale(&mut self, stack: Stack, shape: &TransformerShape) -> Result<Scale> {
        let stack = stack.name();
        let names = [
            format!("{stack}/scale_embeddings"),
            // Of older converters.
            format!("{stack}/embeddings/multiply_by_sqrt_depth"),
            format!("{stack}/embeddings_0/multiply_by_sqrt_depth"),
        ];
        let mut scale = Scale {
            factor: 1.0,
            is_flag: true,
        };
        for name in names.iter().rev() {
            let Some(variable) = self.variables.get(name) else {
                continue;
            };
            let usual = (shape.d_model as f32).sqrt();
            let (number, is_flag) = (single(name, variable)?, variable.kind == Kind::I8);
            let factor = match (is_flag, number == 0.0) {
                (true, false) => usual,
                (true, true) => 1.0,
                (false, _) => number,
            };
            ensure!(
                factor > 0.0 && factor.is_finite(),
                "`{name}` is {number}, which is no factor of embeddings"
            );
            let is_usual = (factor - usual).abs() < 1e-3 * usual;
            scale = Scale {
                factor: if is_usual { 1.0 } else { factor / usual },
                is_flag,
            };
            self.variables.number(name)?;
        }
        Ok(scale)
    }

    fn embeddings(
        &mut self,
        scales: &[Scale; 2],
        shape: &mut TransformerShape,
        arrays: &mut Arrays,
    ) -> Result<()> {
        let [src_factor, tgt_factor] = scales.each_ref().map(|scale| scale.factor);
        // A matrix that is not multiplied by `sqrt(d_model)` holds other numbers here than the
        // output's, and is apart.
        let is_output = self.variables.are_one(TGT_EMBEDDING, OUTPUT) && is_one(tgt_factor);
        let is_source = self.variables.are_one(TGT_EMBEDDING, SRC_EMBEDDING) && is_one(src_factor);
        shape.tie_embeddings = match (is_source, is_output) {
            (true, true) => TieEmbeddings::All,
            (false, true) => TieEmbeddings::Decoder,
            _ => TieEmbeddings::None,
        };
        let mut target = self.variables.matrix(TGT_EMBEDDING)?;
        let mut source = self.variables.matrix(SRC_EMBEDDING)?;
        for (table, name) in [(&source, SRC_EMBEDDING), (&target, TGT_EMBEDDING)] {
            let (width, d_model) = (table.width(), shape.d_model);
            ensure!(
                width == d_model,
                "`{name}` has the width {width}, and the layers {d_model}"
            );
        }
        let output = self.variables.array(OUTPUT, &target.shape)?;
        if self.variables.has(OUTPUT_BIAS) {
            arrays.put(
                "output_bias",
                self.variables.array(OUTPUT_BIAS, &[target.height()])?,
            );
            shape.output_bias = true;
        }
        source
            .values
            .iter_mut()
            .for_each(|value| *value *= src_factor);
        target
            .values
            .iter_mut()
            .for_each(|value| *value *= tgt_factor);
        arrays.put("src_embedding.weight", source);
        if shape.tie_embeddings != TieEmbeddings::All {
            arrays.put("tgt_embedding.weight", target);
        }
        if shape.tie_embeddings == TieEmbeddings::None {
            arrays.put("output.weight", output.transposed());
        }
        Ok(())
    }

    /// Whether all layers rotate positions, as ours do.
    fn rotates(&mut self, shape: &TransformerShape) -> Result<bool> {
        let layers = Stack::BOTH
            .into_iter()
            .flat_map(|stack| (0..stack.num_layers(shape)).map(move |layer| (stack, layer)));
        let (mut num_layers, mut num_rotary) = (0, 0);
        for (stack, layer) in layers {
            num_layers += 1;
            let attention = format!("{}/layer_{layer}/self_attention", stack.name());
            let Some(dim) = self.variables.number(&format!("{attention}/rotary_dim"))? else {
                continue;
            };
            // 0 stands for all of a head.
            let is_whole =
                dim.to_bits() == 0 || dim.to_bits() == (shape.head_dim() as f32).to_bits();
            let is_interleaved = self
                .variables
                .flag(&format!("{attention}/rotary_interleave"), true)?;
            let base = self
                .variables
                .number(&format!("{attention}/rotary_base"))?
                .unwrap_or(10_000.0);
            if !is_whole || !is_interleaved || (base - 10_000.0).abs() > f32::EPSILON {
                let kind = "rotary positions of another kind than ours, which turn neighbors of all of a head, base 10000";
                let sign = format!(
                    "`{attention}`: `rotary_dim` {dim}, interleaved {is_interleaved}, base {base}"
                );
                return Err(lacking(kind, &sign));
            }
            num_rotary += 1;
        }
        ensure!(
            [0, num_layers].contains(&num_rotary),
            "only some of its layers rotate positions"
        );
        Ok(num_rotary > 0)
    }

    /// Reads the tables of positions, and finds out which kind they are.
    fn positions(&mut self, shape: &mut TransformerShape, arrays: &mut Arrays) -> Result<Table> {
        if self.rotates(shape)? {
            shape.position = Position::Rotary;
            return Ok(Table {
                rows: None,
                sines_first: false,
            });
        }
        let [source, target] = Stack::BOTH.map(|stack| self.position_table(stack, shape.d_model));
        let (source, target) = (source?, target?);
        let both = |test: &dyn Fn(&Array) -> bool| test(&source) && test(&target);
        let is_even = shape.d_model.is_multiple_of(2);
        let halves =
            |table: &Array| are_sinusoids(&table.columns(&alternating(shape.d_model)), TOLERANCE);
        let rows = source.height().min(target.height());
        let mut table = Table {
            rows: Some(rows),
            sines_first: false,
        };
        if is_even && both(&|table| are_sinusoids(table, TOLERANCE)) {
            shape.position = Position::Sinusoidal;
        } else if is_even && both(&halves) {
            (shape.position, table.sines_first) = (Position::Sinusoidal, true);
        } else if both(&|table| {
            table
                .values
                .iter()
                .all(|value| value.abs() < f32::MIN_POSITIVE)
        }) {
            shape.position = Position::None;
        } else {
            shape.position = Position::Learned;
            let cut = |table: &Array| table.rows(&(0..rows).map(Some).collect::<Vec<_>>());
            arrays.put("src_position.weight", cut(&source));
            arrays.put("tgt_position.weight", cut(&target));
        }
        Ok(table)
    }

    /// The positions of a stack; where it has none, those that CTranslate2 makes itself.
    fn position_table(&mut self, stack: Stack, d_model: usize) -> Result<Array> {
        let name = positions(stack.name());
        if !self.variables.has(&name) {
            ensure!(
                d_model > 2 && d_model.is_multiple_of(2),
                "there is no `{name}`, and the width {d_model} has no sinusoids"
            );
            return Ok(sinusoids_of_tensor2tensor(MADE_POSITIONS, d_model));
        }
        let table = self.variables.matrix(&name)?;
        let width = table.width();
        ensure!(
            width == d_model,
            "`{name}` has the width {width}, and the layers {d_model}"
        );
        Ok(table)
    }

    fn layers(&mut self, shape: &TransformerShape, arrays: &mut Arrays) -> Result<()> {
        for part in parts(shape) {
            let source = name(part, shape.activation == Activation::Swiglu);
            let [first, second] = part.parameters();
            let [inputs, outputs] = part.size(shape);
            if part.block == Block::LastNorm && !self.variables.has(&format!("{source}/gamma")) {
                let sign = format!("there is no `{source}/gamma`");
                return Err(lacking(
                    "norms before sublayers without one behind the last layer",
                    &sign,
                ));
            }
            if part.block.role() == Role::Norm {
                arrays.put(
                    first,
                    self.variables
                        .array(&format!("{source}/gamma"), &[outputs])?,
                );
                arrays.put(
                    second,
                    self.variables
                        .array(&format!("{source}/beta"), &[outputs])?,
                );
                continue;
            }
            let matrix = self
                .variables
                .array(&format!("{source}/weight"), &[outputs, inputs])?;
            arrays.put(first, matrix.transposed());
            let bias = format!("{source}/bias");
            // A linear map without a bias adds zeros.
            let has_bias = self.variables.has(&bias);
            let zeros = Array::vector(vec![0.0; outputs]);
            arrays.put(
                second,
                if has_bias {
                    self.variables.array(&bias, &[outputs])?
                } else {
                    zeros
                },
            );
        }
        Ok(())
    }

    /// Makes sure that nothing is left that would change what the model computes.
    fn check_rest(&mut self) -> Result<()> {
        let unneeded = [
            // Which attention CTranslate2 returns as a word alignment.
            "decoder/alignment_layer",
            "decoder/alignment_heads",
            // Options of ALiBi, which is refused.
            "decoder/alibi",
            "decoder/alibi_use_positive_positions",
            "decoder/scale_alibi",
            // How several embeddings of a token are joined, where there is one.
            "encoder/embeddings_merge",
            "encoder/multi_query_attention",
            "decoder/multi_query_attention",
            "encoder/sliding_window",
            "decoder/sliding_window",
            "decoder/scale_outputs",
        ];
        for name in unneeded {
            self.variables.number(name)?;
        }
        let is_window = |name: &&str| name.ends_with("/sliding_window");
        let windows: Vec<String> = self
            .variables
            .names()
            .filter(is_window)
            .map(str::to_owned)
            .collect();
        for name in windows {
            self.variables.number(&name)?;
        }
        match self.variables.names().next() {
            None => Ok(()),
            Some(name) if name.ends_with("coder/layer_norm/beta") => Err(lacking(
                "a layer norm behind the last layer, beside those behind sublayers",
                &format!("it has `{name}`"),
            )),
            Some(name) => Err(failed!(
                "it has `{name}`, for which polyglow's Transformer has no place"
            )),
        }
    }
}

/// Whether a factor changes nothing.
fn is_one(factor: f32) -> bool {
    factor.to_bits() == 1f32.to_bits()
}
