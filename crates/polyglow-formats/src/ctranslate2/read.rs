//! Reads CTranslate2's variables as polyglow's Transformer.

mod embeddings;
mod positions;

use std::path::Path;

use polyglow_model::{Activation, ModelConfig, Norm, TransformerShape};
use polyglow_predict::error::{Context, Result, bail, ensure, failed};

use super::binary::Binary;
use super::name::name;
use super::unsupported::{self, lacking};
use super::variables::Variables;
use crate::array::{Array, Arrays};
use crate::part::{
    Block, Part, Role, Stack, alternating, blank_shape, model_config, parts, reorder,
};

/// More layers than any model has.
const MOST_LAYERS: usize = 1 << 10;

/// Variables that change nothing in what the model computes, or whose values have been checked.
const UNNEEDED: [&str; 11] = [
    // The attention that CTranslate2 returns as a word alignment.
    "decoder/alignment_layer",
    "decoder/alignment_heads",
    // Options of ALiBi, which is refused.
    "decoder/alibi",
    "decoder/alibi_use_positive_positions",
    "decoder/scale_alibi",
    // The way in which several embeddings of a token are joined, where there is one.
    "encoder/embeddings_merge",
    "encoder/multi_query_attention",
    "decoder/multi_query_attention",
    "encoder/sliding_window",
    "decoder/sliding_window",
    "decoder/scale_outputs",
];

/// The content of a `model.bin`.
pub(super) struct Content {
    pub(super) model: ModelConfig,
    pub(super) arrays: Arrays,
    /// The most positions that a text may have, where there is a table of them.
    pub(super) max_len: Option<usize>,
    /// Whether the first input of the decoder is zeros, whatever the BOS token's embedding is.
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
    let mut reader = Reader {
        variables: Variables::new(binary),
    };
    let content = reader.content();
    content.with_context(|| format!("`{}`", path.display()))
}

struct Reader {
    variables: Variables,
}

impl Reader {
    fn content(&mut self) -> Result<Content> {
        // Before anything else, because a layer that is unknown explains the errors that follow.
        unsupported::check(&self.variables)?;
        let mut shape = self.shape()?;
        let mut arrays = Arrays::default();
        self.check_heads(&shape)?;
        let scales = [
            self.scale(Stack::Encoder, &shape)?,
            self.scale(Stack::Decoder, &shape)?,
        ];
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
        Ok(Content {
            model: model_config(&shape),
            arrays,
            max_len: table.rows,
            starts_from_zeros,
            has_scale_flag: scales.iter().any(|scale| scale.is_flag),
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
        // CTranslate2's defaults: norms before the sublayers, and ReLU.
        let norm = if self.setting("pre_norm")? == Some(0.0) {
            Norm::Post
        } else {
            Norm::Pre
        };
        // With a gate, `linear_0` is the gate, and this the map that it multiplies.
        let is_gated = self
            .variables
            .has("encoder/layer_0/ffn/linear_0_noact/weight");
        let number = self.setting("activation")?.unwrap_or(0.0);
        let activation = match (number as i64, is_gated) {
            (0, false) => Activation::Relu,
            (2, false) => Activation::Swish,
            (3, false) => Activation::Gelu,
            (2, true) => Activation::Swiglu,
            _ => return Err(unsupported::activation(number, is_gated)),
        };
        let inner = if is_gated {
            "encoder/layer_0/ffn/linear_0_noact/weight"
        } else {
            "encoder/layer_0/ffn/linear_0/weight"
        };
        let Some(&[d_ff, d_model]) = self.variables.shape(inner) else {
            bail!("there is no matrix `encoder/layer_0/ffn/linear_0/weight`")
        };
        ensure!(
            d_model > 0 && d_ff > 0 && d_model.is_multiple_of(num_heads),
            "{num_heads} heads do not divide the width {d_model}, or its blocks have the width {d_ff}"
        );
        Ok(TransformerShape {
            d_model,
            d_ff,
            num_heads,
            num_encoder_layers: self.num_layers(Stack::Encoder),
            num_decoder_layers: self.num_layers(Stack::Decoder),
            activation,
            norm,
            ..blank_shape()
        })
    }

    /// The number of layers of a stack, which no variable tells.
    fn num_layers(&self, stack: Stack) -> usize {
        let stack = stack.name();
        let mut num_layers = 0;
        while num_layers < MOST_LAYERS
            && self
                .variables
                .has(&format!("{stack}/layer_{num_layers}/ffn/linear_1/weight"))
        {
            num_layers += 1;
        }
        num_layers
    }

    /// Takes a number that must be the same for both stacks.
    fn setting(&mut self, key: &str) -> Result<Option<f32>> {
        let encoder = self.variables.number(&format!("encoder/{key}"));
        let decoder = self.variables.number(&format!("decoder/{key}"));
        let encoder = encoder?;
        let decoder = decoder?;
        ensure!(
            encoder == decoder,
            "`{key}` is {} in the encoder and {} in the decoder, where ours is one",
            number_or_missing(encoder),
            number_or_missing(decoder)
        );
        Ok(encoder)
    }

    /// Checks that all attention has the heads and the factor on queries that polyglow's has.
    fn check_heads(&mut self, shape: &TransformerShape) -> Result<()> {
        let head_dim = shape.head_dim() as f32;
        let usual = [
            (
                "num_heads_kv",
                shape.num_heads as f32,
                "grouped-query attention",
            ),
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
            let Some((_, usual, layer)) = usual.iter().find(|(key, ..)| *key == last) else {
                continue;
            };
            let number = self.variables.number(&name)?.unwrap_or(*usual);
            // Some converters write 0 where keys and values have as many heads as queries.
            let is_unset = last == "num_heads_kv" && number == 0.0;
            if !is_unset && (number - usual).abs() > 1e-3 * usual {
                let sign = format!("`{name}` is {number}, where {usual} is usual");
                return Err(lacking(layer, &sign));
            }
        }
        Ok(())
    }

    /// Takes the linear maps and norms of all layers.
    fn layers(&mut self, shape: &TransformerShape, arrays: &mut Arrays) -> Result<()> {
        for part in parts(shape) {
            let source = name(part, shape.activation == Activation::Swiglu);
            let [first, second] = if part.block.role() == Role::Norm {
                self.norm(part, &source, shape)?
            } else {
                self.linear(part, &source, shape)?
            };
            let [first_name, second_name] = part.parameters();
            arrays.put(first_name, first);
            arrays.put(second_name, second);
        }
        Ok(())
    }

    /// Takes gamma and beta of a norm.
    fn norm(&mut self, part: Part, source: &str, shape: &TransformerShape) -> Result<[Array; 2]> {
        let gamma = format!("{source}/gamma");
        if part.block == Block::LastNorm && !self.variables.has(&gamma) {
            return Err(lacking(
                "norms before sublayers without one behind the last layer",
                &format!("there is no `{gamma}`"),
            ));
        }
        let [_, width] = part.size(shape);
        Ok([
            self.variables.array(&gamma, &[width])?,
            self.variables.array(&format!("{source}/beta"), &[width])?,
        ])
    }

    /// Takes matrix and bias of a linear map.
    fn linear(&mut self, part: Part, source: &str, shape: &TransformerShape) -> Result<[Array; 2]> {
        let [inputs, outputs] = part.size(shape);
        let matrix = self
            .variables
            .array(&format!("{source}/weight"), &[outputs, inputs])?;
        let bias = format!("{source}/bias");
        let bias = if self.variables.has(&bias) {
            self.variables.array(&bias, &[outputs])?
        } else {
            // A linear map without a bias adds zeros.
            Array::vector(vec![0.0; outputs])
        };
        Ok([matrix.transposed(), bias])
    }

    /// Checks that no variable is left that would change what the model computes.
    fn check_rest(&mut self) -> Result<()> {
        for name in UNNEEDED {
            self.variables.number(name)?;
        }
        // Each layer may have one, too.
        let windows: Vec<String> = self
            .variables
            .names()
            .filter(|name| name.ends_with("/sliding_window"))
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

fn number_or_missing(number: Option<f32>) -> String {
    number.map_or("missing".to_owned(), |number| number.to_string())
}
