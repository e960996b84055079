//! Positions: rotary, or a table of sinusoids, of zeros, or of trained vectors.

use polyglow_model::{Position, TransformerShape};
use polyglow_predict::error::{Result, ensure};

use super::Reader;
use super::embeddings::check_width;
use crate::array::{Array, Arrays};
use crate::ctranslate2::name::positions;
use crate::ctranslate2::unsupported::lacking;
use crate::part::{Stack, alternating};
use crate::sinusoids::{are_sinusoids, sinusoids_of_tensor2tensor};

/// The most by which rounding to bf16 changes a sine, and a little more.
const TOLERANCE: f32 = 4e-3;
/// The rows of the table that CTranslate2 makes itself where a model has none: its longest text.
const MADE_POSITIONS: usize = 1024;

/// The positions of a model.
pub(super) struct Table {
    /// The number of positions; `None` if they are rotary, and so without a limit.
    pub(super) rows: Option<usize>,
    /// Whether the sinusoids are all sines before all cosines, where ours alternate.
    pub(super) sines_first: bool,
}

impl Reader {
    /// Takes the tables of positions, and finds out which kind they are.
    pub(super) fn positions(
        &mut self,
        shape: &mut TransformerShape,
        arrays: &mut Arrays,
    ) -> Result<Table> {
        if self.rotates(shape)? {
            shape.position = Position::Rotary;
            return Ok(Table {
                rows: None,
                sines_first: false,
            });
        }
        let source = self.position_table(Stack::Encoder, shape.d_model)?;
        let target = self.position_table(Stack::Decoder, shape.d_model)?;
        let rows = source.height().min(target.height());
        let tables = [source, target];
        let mut sines_first = false;
        if tables.iter().all(alternates) {
            shape.position = Position::Sinusoidal;
        } else if tables.iter().all(has_sines_first) {
            shape.position = Position::Sinusoidal;
            sines_first = true;
        } else if tables.iter().all(is_zero) {
            shape.position = Position::None;
        } else {
            shape.position = Position::Learned;
            let first_rows: Vec<Option<usize>> = (0..rows).map(Some).collect();
            for (stack, table) in Stack::BOTH.into_iter().zip(&tables) {
                let name = format!("{}_position.weight", stack.side());
                arrays.put(name, table.rows(&first_rows));
            }
        }
        Ok(Table {
            rows: Some(rows),
            sines_first,
        })
    }

    /// Whether all layers have rotary positions, as polyglow's have them.
    fn rotates(&mut self, shape: &TransformerShape) -> Result<bool> {
        let mut num_layers = 0;
        let mut num_rotary = 0;
        for stack in Stack::BOTH {
            for layer in 0..stack.num_layers(shape) {
                let attention = format!("{}/layer_{layer}/self_attention", stack.name());
                num_layers += 1;
                num_rotary += usize::from(self.layer_rotates(&attention, shape)?);
            }
        }
        ensure!(
            [0, num_layers].contains(&num_rotary),
            "only some of its layers rotate positions"
        );
        Ok(num_rotary > 0)
    }

    /// Whether the attention of a layer has rotary positions.
    ///
    /// # Errors
    /// They are of another kind than polyglow's.
    fn layer_rotates(&mut self, attention: &str, shape: &TransformerShape) -> Result<bool> {
        let dim = self.variables.number(&format!("{attention}/rotary_dim"))?;
        let Some(dim) = dim else {
            return Ok(false);
        };
        let is_interleaved = self
            .variables
            .flag(&format!("{attention}/rotary_interleave"), true)?;
        let base = self.variables.number(&format!("{attention}/rotary_base"))?;
        let base = base.unwrap_or(10_000.0);
        // 0 stands for all of a head.
        let head_dim = shape.head_dim() as f32;
        let is_whole = dim.to_bits() == 0 || dim.to_bits() == head_dim.to_bits();
        if !is_whole || !is_interleaved || (base - 10_000.0).abs() > f32::EPSILON {
            return Err(lacking(
                "rotary positions of another kind than ours, which turn neighbors of all of a head, base 10000",
                &format!(
                    "`{attention}`: `rotary_dim` {dim}, interleaved {is_interleaved}, base {base}"
                ),
            ));
        }
        Ok(true)
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
        check_width(&name, &table, d_model)?;
        Ok(table)
    }
}

/// Whether a table has sinusoids in polyglow's order, alternating sines and cosines.
fn alternates(table: &Array) -> bool {
    table.width().is_multiple_of(2) && are_sinusoids(table, TOLERANCE)
}

/// Whether a table has all sines before all cosines.
fn has_sines_first(table: &Array) -> bool {
    let width = table.width();
    width.is_multiple_of(2) && are_sinusoids(&table.columns(&alternating(width)), TOLERANCE)
}

fn is_zero(table: &Array) -> bool {
    table
        .values
        .iter()
        .all(|value| value.abs() < f32::MIN_POSITIVE)
}
