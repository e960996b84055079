//! Named arrays in host memory, and conversions between layouts.

use std::collections::BTreeMap;

use burn::tensor::TensorData;
use polyglow_predict::error::{Result, ensure, failed};
use polyglow_predict::weights::Weights;

/// An array of `f32` with one or two axes, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// The elements, as many as the shape says.
    pub values: Vec<f32>,
}

impl Array {
    /// Makes an array with one axis.
    pub(crate) fn vector(values: Vec<f32>) -> Self {
        Self {
            shape: vec![values.len()],
            values,
        }
    }

    /// Makes an array of shape `[rows, columns]`.
    ///
    /// # Panics
    /// There are not as many values as the shape says.
    pub(crate) fn matrix(values: Vec<f32>, shape: [usize; 2]) -> Self {
        assert_eq!(values.len(), shape[0] * shape[1], "the values of a matrix");
        Self {
            shape: shape.to_vec(),
            values,
        }
    }

    /// The values as bytes, little-endian.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 * self.values.len());
        for value in &self.values {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// The length of the last axis.
    pub(crate) fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// The length of the first axis.
    pub(crate) fn height(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// The transpose of a matrix; a copy of a vector.
    #[must_use]
    pub(crate) fn transposed(&self) -> Self {
        let [rows, columns] = self.shape[..] else {
            return self.clone();
        };
        let mut values = Vec::with_capacity(self.values.len());
        for column in 0..columns {
            values.extend(self.values.iter().skip(column).step_by(columns).take(rows));
        }
        Self {
            shape: vec![columns, rows],
            values,
        }
    }

    /// The columns with these indices, in this order; elements of a vector.
    #[must_use]
    pub(crate) fn columns(&self, order: &[usize]) -> Self {
        let mut shape = self.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = order.len();
        }
        let mut values = Vec::new();
        for row in self.values.chunks_exact(self.width().max(1)) {
            values.extend(order.iter().map(|&column| row[column]));
        }
        Self { shape, values }
    }

    /// The rows with these indices, in this order, and a row of zeros for `None`; elements of a
    /// vector.
    #[must_use]
    pub(crate) fn rows(&self, order: &[Option<usize>]) -> Self {
        let width = if self.shape.len() == 1 {
            1
        } else {
            self.width()
        };
        let mut shape = self.shape.clone();
        shape[0] = order.len();
        let mut values = Vec::with_capacity(order.len() * width);
        for row in order {
            match *row {
                Some(row) => values.extend_from_slice(&self.values[row * width..][..width]),
                None => values.resize(values.len() + width, 0.0),
            }
        }
        Self { shape, values }
    }

    /// Cuts the last axis into equal parts.
    pub(crate) fn split(&self, num_parts: usize) -> Vec<Self> {
        let width = self.width() / num_parts.max(1);
        let mut parts = Vec::with_capacity(num_parts);
        for part in 0..num_parts {
            let columns: Vec<usize> = (part * width..(part + 1) * width).collect();
            parts.push(self.columns(&columns));
        }
        parts
    }

    /// Puts arrays of the same height side by side along the last axis.
    ///
    /// # Errors
    /// Their heights differ, or there are none.
    pub(crate) fn joined(parts: &[Self]) -> Result<Self> {
        let first = parts
            .first()
            .ok_or_else(|| failed!("there is nothing to put side by side"))?;
        let mut shape = first.shape.clone();
        let width: usize = parts.iter().map(Self::width).sum();
        if let Some(last) = shape.last_mut() {
            *last = width;
        }
        let rows: usize = first.shape.iter().rev().skip(1).product();
        for part in parts {
            ensure!(
                part.shape.len() == first.shape.len() && part.values.len() == rows * part.width(),
                "matrices of different heights cannot be put side by side"
            );
        }
        let mut values = Vec::with_capacity(rows * width);
        for row in 0..rows {
            for part in parts {
                values.extend_from_slice(&part.values[row * part.width()..][..part.width()]);
            }
        }
        Ok(Self { shape, values })
    }
}

/// Arrays by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrays(pub BTreeMap<String, Array>);

impl Arrays {
    /// Takes everything from a file of weights, 8-bit matrices dequantized.
    ///
    /// # Errors
    /// The scales of a matrix are missing.
    pub(crate) fn from_weights(weights: Weights) -> Result<Self> {
        let weights = if weights.is_int8() {
            weights.dequantize()?
        } else {
            weights
        };
        let mut arrays = Self::default();
        for (name, data) in weights.rest() {
            let array = Array {
                shape: data.shape().to_vec(),
                values: data.iter().collect(),
            };
            arrays.put(name, array);
        }
        Ok(arrays)
    }

    /// The array with a name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn get(&self, name: &str) -> Result<&Array> {
        self.0
            .get(name)
            .ok_or_else(|| failed!("there is no tensor `{name}`"))
    }

    /// Adds an array, or replaces that of the same name.
    pub(crate) fn put(&mut self, name: impl Into<String>, array: Array) {
        self.0.insert(name.into(), array);
    }

    /// The arrays as checkpoints have them.
    pub(crate) fn into_tensors(self) -> Vec<(String, TensorData)> {
        let arrays = self.0.into_iter();
        arrays
            .map(|(name, Array { shape, values })| (name, TensorData::new(values, shape)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_turn_split_and_join() {
        let matrix = Array::matrix((0u8..6).map(f32::from).collect(), [2, 3]);
        assert_eq!(
            matrix.transposed(),
            Array::matrix(vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0], [3, 2])
        );
        assert_eq!(
            matrix.columns(&[2, 0]),
            Array::matrix(vec![2.0, 0.0, 5.0, 3.0], [2, 2])
        );
        assert_eq!(
            matrix.rows(&[None, Some(1)]).values,
            [0.0, 0.0, 0.0, 3.0, 4.0, 5.0]
        );
        assert_eq!(Array::joined(&matrix.split(3)).expect("they fit"), matrix);
        let vector = Array::vector(vec![1.0, 2.0, 3.0, 4.0]);
        assert_eq!(Array::joined(&vector.split(2)).expect("they fit"), vector);
        assert_eq!(vector.rows(&[Some(3)]).values, [4.0]);
        assert!(Array::joined(&[vector, matrix]).is_err());
    }
}
