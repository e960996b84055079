//! The variables of a `model.bin`, which are taken one after the other by any of their names, so that
//! those that the reader does not know are left over.

use std::collections::{BTreeMap, BTreeSet};

use polyglow_predict::error::{Context, Result, ensure, failed};

use super::binary::{Binary, Kind, Variable};
use crate::array::Array;

/// The variables that have not been taken yet. Converters write equal arrays once, under the first
/// of their names; the other names are aliases.
pub(super) struct Variables {
    by_name: BTreeMap<String, Variable>,
    aliases: BTreeMap<String, String>,
    /// Names of variables and aliases that have not been taken.
    untaken: BTreeSet<String>,
}

impl Variables {
    pub(super) fn new(Binary { variables, aliases }: Binary) -> Self {
        let untaken = variables.keys().chain(aliases.keys()).cloned().collect();
        Self {
            by_name: variables,
            aliases,
            untaken,
        }
    }

    /// The names that have not been taken, in alphabetical order.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.untaken.iter().map(String::as_str)
    }

    /// Whether there is a variable or an alias of this name that has not been taken.
    pub(super) fn has(&self, name: &str) -> bool {
        self.untaken.contains(name)
    }

    /// Whether two names stand for one variable.
    pub(super) fn are_one(&self, first: &str, second: &str) -> bool {
        self.has(first) && self.has(second) && self.resolve(first) == self.resolve(second)
    }

    /// The shape of a variable.
    pub(super) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.get(name).map(|variable| &variable.shape[..])
    }

    /// A variable, without taking it.
    pub(super) fn get(&self, name: &str) -> Option<&Variable> {
        if self.has(name) {
            self.by_name.get(self.resolve(name))
        } else {
            None
        }
    }

    /// Takes a single number; `None` if it is not there.
    ///
    /// # Errors
    /// It is an array.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<f32>> {
        self.take(name)
            .map(|variable| single(name, &variable))
            .transpose()
    }

    /// Takes a flag, or returns the default if it is not there.
    ///
    /// # Errors
    /// As [`Self::number`].
    pub(super) fn flag(&mut self, name: &str, default: bool) -> Result<bool> {
        Ok(self.number(name)?.map_or(default, |number| number != 0.0))
    }

    /// Takes a matrix of any size.
    ///
    /// # Errors
    /// There is none, or it is no matrix; or as [`Self::array`].
    pub(super) fn matrix(&mut self, name: &str) -> Result<Array> {
        let shape = self
            .shape(name)
            .with_context(|| format!("there is no `{name}`"))?
            .to_vec();
        ensure!(
            shape.len() == 2 && !shape.contains(&0),
            "`{name}` of shape {shape:?} is no matrix"
        );
        self.array(name, &shape)
    }

    /// Takes an array, which must have this shape, dequantized.
    ///
    /// # Errors
    /// There is none, it is of another shape, its scales are missing, or a value is not finite.
    pub(super) fn array(&mut self, name: &str, expected: &[usize]) -> Result<Array> {
        let scales_name = format!("{}_scale", self.resolve(name));
        let variable = self
            .take(name)
            .with_context(|| format!("there is no `{name}`"))?;
        let shape = &variable.shape;
        ensure!(
            shape == expected,
            "`{name}` is {shape:?}, where {expected:?} is expected"
        );
        let mut values = variable.numbers();
        if matches!(variable.kind, Kind::I8 | Kind::I16) {
            let scales = self
                .by_name
                .get(&scales_name)
                .with_context(|| format!("there is no `{scales_name}`"))?;
            let rows = shape.first().copied().unwrap_or(1);
            dequantize(name, &mut values, &scales.numbers(), rows)?;
            self.untaken.remove(&scales_name);
        }
        ensure!(
            variable.kind != Kind::I32,
            "`{name}` holds whole numbers of 32 bits, which are no weights"
        );
        ensure!(
            values.iter().all(|value| value.is_finite()),
            "`{name}` holds NaN or infinity"
        );
        Ok(Array {
            shape: variable.shape,
            values,
        })
    }

    /// The name under which a variable is stored, for any of its names.
    fn resolve<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, String::as_str)
    }

    fn take(&mut self, name: &str) -> Option<Variable> {
        if !self.untaken.remove(name) {
            return None;
        }
        let own = self.resolve(name).to_owned();
        let mut aliases = self.aliases.iter().filter(|(_, name)| **name == own);
        // A large model should not be in memory twice: a variable that no other name needs is moved
        // out.
        if self.untaken.contains(&own) || aliases.any(|(alias, _)| self.untaken.contains(alias)) {
            self.by_name.get(&own).cloned()
        } else {
            self.by_name.remove(&own)
        }
    }
}

/// The number in a variable that holds a single one.
///
/// # Errors
/// It holds none, or several.
pub(super) fn single(name: &str, variable: &Variable) -> Result<f32> {
    match variable.numbers()[..] {
        [number] => Ok(number),
        _ => Err(failed!("`{name}` is no single number")),
    }
}

/// Divides quantized values by the scale of their row, or by the one scale of all.
fn dequantize(name: &str, values: &mut [f32], scales: &[f32], rows: usize) -> Result<()> {
    ensure!(
        [1, rows].contains(&scales.len()),
        "`{name}_scale` has {} numbers for {rows} rows",
        scales.len()
    );
    let width = values.len() / rows.max(1);
    for (row, values) in values.chunks_exact_mut(width.max(1)).enumerate() {
        let scale = scales[row % scales.len()];
        for value in values {
            *value /= scale;
        }
    }
    Ok(())
}
