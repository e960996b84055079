//! Writes an encoder-decoder Transformer as CTranslate2's variables.

use polyglow_model::{Activation, Norm, Position, TieEmbeddings, TransformerShape};
use polyglow_predict::error::Result;

use super::binary::{Binary, Kind, Variable};
use super::name::{OUTPUT, OUTPUT_BIAS, SRC_EMBEDDING, TGT_EMBEDDING, name, positions};
use crate::Precision;
use crate::array::{Array, Arrays};
use crate::part::{Role, Stack, parts, tgt_embedding};
use crate::sinusoids::sinusoids;

/// The fewest rows of a table of positions that is not trained: a longer text is an error in
/// CTranslate2.
const POSITIONS: usize = 1024;
/// The largest weight in 8 bits. CTranslate2 does not use -128.
const MOST: f32 = 127.0;

/// CTranslate2's number for an activation; of a gated one that of the function in its gate.
pub(super) fn activation(activation: Activation) -> i8 {
    match activation {
        Activation::Relu => 0,
        Activation::Swish | Activation::Swiglu => 2,
        Activation::Gelu => 3,
    }
}

/// The content of the `model.bin` of a model.
///
/// # Errors
/// A parameter is missing.
pub(super) fn binary(
    arrays: &Arrays,
    shape: &TransformerShape,
    precision: Precision,
) -> Result<Binary> {
    let mut writer = Writer {
        binary: Binary::default(),
        precision,
    };
    for part in parts(shape) {
        let target = name(part, shape.activation == Activation::Swiglu);
        let [first, second] = part.parameters().map(|name| arrays.get(&name));
        if part.block.role() == Role::Norm {
            writer.array(format!("{target}/gamma"), first?);
            writer.array(format!("{target}/beta"), second?);
        } else {
            writer.matrix(&format!("{target}/weight"), &first?.transposed());
            writer.array(format!("{target}/bias"), second?);
        }
    }
    writer.embeddings(arrays, shape)?;
    writer.positions(arrays, shape)?;
    writer.settings(shape);
    Ok(writer.binary)
}

/// Quantizes the rows of a matrix to 8 bits. Returns the integers, and for each row the scale that
/// its values were multiplied by. A matrix that has been in 8 bits before becomes the same integers
/// again.
pub(crate) fn to_int8(values: &[f32], width: usize) -> (Vec<i8>, Vec<f32>) {
    let mut integers = Vec::with_capacity(values.len());
    let mut scales = Vec::new();
    for row in values.chunks_exact(width.max(1)) {
        let largest = row.iter().map(|value| value.abs()).fold(0.0, f32::max);
        let scale = if largest > 0.0 { MOST / largest } else { 1.0 };
        scales.push(scale);
        for value in row {
            integers.push((value * scale).round_ties_even().clamp(-MOST, MOST) as i8);
        }
    }
    (integers, scales)
}

/// Collects variables in a data type.
struct Writer {
    binary: Binary,
    precision: Precision,
}

impl Writer {
    fn put(&mut self, name: impl Into<String>, variable: Variable) {
        self.binary.variables.insert(name.into(), variable);
    }

    fn alias(&mut self, alias: impl Into<String>, name: impl Into<String>) {
        self.binary.aliases.insert(alias.into(), name.into());
    }

    /// Adds an array that is never in 8 bits: a vector, or a table of positions.
    fn array(&mut self, name: impl Into<String>, array: &Array) {
        let variable = match self.precision {
            Precision::Float32 | Precision::Int8 => Variable::float32(array),
            Precision::Float16 => Variable::float16(array),
        };
        self.put(name, variable);
    }

    /// Adds a matrix `[outputs, inputs]`, in 8 bits with a scale for each output.
    fn matrix(&mut self, name: &str, matrix: &Array) {
        if self.precision != Precision::Int8 {
            return self.array(name, matrix);
        }
        let (values, scales) = to_int8(&matrix.values, matrix.width());
        let bytes = values.iter().map(|value| *value as u8).collect();
        let variable = Variable {
            shape: matrix.shape.clone(),
            kind: Kind::I8,
            bytes,
        };
        self.put(name, variable);
        let scales = Variable::float32(&Array::vector(scales));
        self.put(format!("{name}_scale"), scales);
    }

    fn embeddings(&mut self, arrays: &Arrays, shape: &TransformerShape) -> Result<()> {
        self.matrix(TGT_EMBEDDING, arrays.get(tgt_embedding(shape))?);
        match shape.tie_embeddings {
            TieEmbeddings::All => self.alias(SRC_EMBEDDING, TGT_EMBEDDING),
            TieEmbeddings::Decoder | TieEmbeddings::None => {
                self.matrix(SRC_EMBEDDING, arrays.get("src_embedding.weight")?);
            }
        }
        match shape.tie_embeddings {
            TieEmbeddings::None => self.matrix(OUTPUT, &arrays.get("output.weight")?.transposed()),
            TieEmbeddings::Decoder | TieEmbeddings::All => self.alias(OUTPUT, TGT_EMBEDDING),
        }
        if shape.output_bias {
            self.array(OUTPUT_BIAS, arrays.get("output_bias")?);
        }
        Ok(())
    }

    fn positions(&mut self, arrays: &Arrays, shape: &TransformerShape) -> Result<()> {
        let [encoder, decoder] = Stack::BOTH.map(|stack| positions(stack.name()));
        let rows = shape.max_len.max(POSITIONS);
        match shape.position {
            Position::Learned => {
                self.array(encoder, arrays.get("src_position.weight")?);
                self.array(decoder, arrays.get("tgt_position.weight")?);
            }
            Position::Sinusoidal => {
                self.array(&decoder, &sinusoids(rows, shape.d_model));
                self.alias(encoder, decoder);
            }
            // Without a table, CTranslate2 adds sinusoids of its own.
            Position::None => {
                let zeros = vec![0.0; rows * shape.d_model];
                let table = Array::matrix(zeros, [rows, shape.d_model]);
                self.array(&decoder, &table);
                self.alias(encoder, decoder);
            }
            Position::Rotary => {
                for stack in Stack::BOTH {
                    for layer in 0..stack.num_layers(shape) {
                        self.rotation(stack, layer, shape);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the rotary positions of a layer, which ours turns by pairs of neighbors.
    fn rotation(&mut self, stack: Stack, layer: usize, shape: &TransformerShape) {
        let attention = format!("{}/layer_{layer}/self_attention", stack.name());
        let dim = Variable::int32(shape.head_dim() as i32);
        let base = Variable::float(10_000.0);
        self.put(format!("{attention}/rotary_dim"), dim);
        self.put(format!("{attention}/rotary_interleave"), Variable::int8(1));
        self.put(format!("{attention}/rotary_base"), base);
    }

    /// Adds the options of the architecture. CTranslate2 has defaults for most, but its converters
    /// write them, too.
    fn settings(&mut self, shape: &TransformerShape) {
        let num_heads = Variable::int16(shape.num_heads as i16);
        let pre_norm = Variable::int8((shape.norm == Norm::Pre).into());
        let activation = Variable::int8(activation(shape.activation));
        for stack in Stack::BOTH.map(Stack::name) {
            self.put(format!("{stack}/num_heads"), num_heads.clone());
            self.put(format!("{stack}/pre_norm"), pre_norm.clone());
            self.put(format!("{stack}/activation"), activation.clone());
            self.put(format!("{stack}/scale_embeddings"), Variable::int8(1));
        }
        self.put("encoder/embeddings_merge", Variable::int8(0));
        self.put("encoder/multi_query_attention", Variable::int8(0));
        // For links between words: the mean of all heads of the last layer, which guided alignment
        // teaches.
        self.put("decoder/alignment_layer", Variable::int16(-1));
        self.put("decoder/alignment_heads", Variable::int16(0));
        for name in [
            "alibi",
            "alibi_use_positive_positions",
            "scale_alibi",
            "start_from_zero_embedding",
        ] {
            self.put(format!("decoder/{name}"), Variable::int8(0));
        }
    }
}
