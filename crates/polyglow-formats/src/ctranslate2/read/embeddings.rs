//! Embeddings, the output projection, and the factor of embeddings.

use polyglow_model::{TieEmbeddings, TransformerShape};
use polyglow_predict::error::{Result, ensure};

use super::Reader;
use crate::array::{Array, Arrays};
use crate::ctranslate2::binary::Kind;
use crate::ctranslate2::name::{OUTPUT, OUTPUT_BIAS, SRC_EMBEDDING, TGT_EMBEDDING};
use crate::ctranslate2::variables::single;
use crate::part::Stack;

/// The factor of a side's embeddings.
pub(super) struct Scale {
    /// In units of `sqrt(d_model)`, by which polyglow multiplies.
    factor: f32,
    /// Whether the model tells it by a flag and not by the factor.
    pub(super) is_flag: bool,
}

impl Reader {
    /// Reads the factor of a side's embeddings: an 8-bit integer is a flag for `sqrt(d_model)`, any
    /// other number the factor itself, and without either CTranslate2 takes `sqrt(d_model)`.
    pub(super) fn scale(&mut self, stack: Stack, shape: &TransformerShape) -> Result<Scale> {
        let stack = stack.name();
        // Later names override earlier ones; the first two are those of older converters.
        let names = [
            format!("{stack}/embeddings_0/multiply_by_sqrt_depth"),
            format!("{stack}/embeddings/multiply_by_sqrt_depth"),
            format!("{stack}/scale_embeddings"),
        ];
        let usual = (shape.d_model as f32).sqrt();
        let mut scale = Scale {
            factor: 1.0,
            is_flag: true,
        };
        for name in names {
            let Some(variable) = self.variables.get(&name) else {
                continue;
            };
            let number = single(&name, variable)?;
            let is_flag = variable.kind == Kind::I8;
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
            self.variables.number(&name)?;
        }
        Ok(scale)
    }

    /// Takes both embeddings, the output and its bias, and finds out which of them are one matrix.
    pub(super) fn embeddings(
        &mut self,
        scales: &[Scale; 2],
        shape: &mut TransformerShape,
        arrays: &mut Arrays,
    ) -> Result<()> {
        let [src_factor, tgt_factor] = scales.each_ref().map(|scale| scale.factor);
        // An embedding with another factor than `sqrt(d_model)` is multiplied below, so that its
        // values differ from the output's, which is not multiplied.
        let is_output = self.variables.are_one(TGT_EMBEDDING, OUTPUT) && is_one(tgt_factor);
        let is_source = self.variables.are_one(TGT_EMBEDDING, SRC_EMBEDDING) && is_one(src_factor);
        shape.tie_embeddings = match (is_source, is_output) {
            (true, true) => TieEmbeddings::All,
            (false, true) => TieEmbeddings::Decoder,
            _ => TieEmbeddings::None,
        };
        let mut target = self.variables.matrix(TGT_EMBEDDING)?;
        let mut source = self.variables.matrix(SRC_EMBEDDING)?;
        check_width(SRC_EMBEDDING, &source, shape.d_model)?;
        check_width(TGT_EMBEDDING, &target, shape.d_model)?;
        let output = self.variables.array(OUTPUT, &target.shape)?;
        if self.variables.has(OUTPUT_BIAS) {
            let bias = self.variables.array(OUTPUT_BIAS, &[target.height()])?;
            arrays.put("output_bias", bias);
            shape.output_bias = true;
        }
        for value in &mut source.values {
            *value *= src_factor;
        }
        for value in &mut target.values {
            *value *= tgt_factor;
        }
        arrays.put("src_embedding.weight", source);
        if shape.tie_embeddings != TieEmbeddings::All {
            arrays.put("tgt_embedding.weight", target);
        }
        if shape.tie_embeddings == TieEmbeddings::None {
            arrays.put("output.weight", output.transposed());
        }
        Ok(())
    }
}

/// Checks that a table is as wide as the layers.
pub(super) fn check_width(name: &str, table: &Array, d_model: usize) -> Result<()> {
    let width = table.width();
    ensure!(
        width == d_model,
        "`{name}` has the width {width}, and the layers {d_model}"
    );
    Ok(())
}

/// Whether a factor changes nothing.
fn is_one(factor: f32) -> bool {
    factor.to_bits() == 1f32.to_bits()
}
