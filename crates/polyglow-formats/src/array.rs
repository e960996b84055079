//! Named arrays in host memory, and how they are turned from one layout into another.

use std::collections::BTreeMap;

use burn::tensor::TensorData;
use polyglow_predict::error::{Result, ensure, failed};
use polyglow_predict::weights::Weights;

/// Numbers of one or two axes, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Length of each axis.
    pub shape: Vec<usize>,
    /// As many as the shape says.
    pub values: Vec<f32>,
}

impl Array {
    /// A vector.
    pub(crate) fn vector(values: Vec<f32>) -> Self {
        Self {
            shape: vec![values.len()],
            values,
        }
    }

    /// A matrix.
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

    /// Length of the last axis.
    pub(crate) fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Length of the first axis.
    pub(crate) fn height(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// The transpose of a matrix; a vector as it is.
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

    /// The places of the last axis in another order.
    #[must_use]
    pub(crate) fn columns(&self, order: &[usize]) -> Self {
        let mut shape = self.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = order.len();
        }
        let rows = self.values.chunks_exact(self.width().max(1));
        Self {
            shape,
            values: rows
                .flat_map(|row| order.iter().map(|&place| row[place]))
                .collect(),
        }
    }

    /// These rows, in this order; a row of zeros for `None`.
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

    /// As many equal parts side by side along the last axis.
    pub(crate) fn split(&self, parts: usize) -> Vec<Self> {
        let width = self.width() / parts.max(1);
        let part =
            |part: usize| self.columns(&(part * width..(part + 1) * width).collect::<Vec<_>>());
        (0..parts).map(part).collect()
    }

    /// Arrays of one height side by side along the last axis.
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
        let fits = parts.iter().all(|part| {
            part.shape.len() == first.shape.len() && part.values.len() == rows * part.width()
        });
        ensure!(
            fits,
            "matrices of different heights cannot be put side by side"
        );
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
    /// All that a file of weights holds; matrices in 8 bits as what they stand for.
    ///
    /// # Errors
    /// The scales of a matrix are missing.
    pub(crate) fn of(weights: Weights) -> Result<Self> {
        let weights = if weights.is_int8() {
            weights.dequantize()?
        } else {
            weights
        };
        let array = |data: &TensorData| Array {
            shape: data.shape().to_vec(),
            values: data.iter().collect(),
        };
        Ok(Self(
            weights
                .rest()
                .map(|(name, data)| (name.clone(), array(data)))
                .collect(),
        ))
    }

    /// The array of this name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn get(&self, name: &str) -> Result<&Array> {
        self.0
            .get(name)
            .ok_or_else(|| failed!("there is no tensor `{name}`"))
    }

    /// Adds an array.
    pub(crate) fn put(&mut self, name: impl Into<String>, array: Array) {
        self.0.insert(name.into(), array);
    }

    /// As checkpoints hold them.
    pub(crate) fn into_tensors(self) -> Vec<(String, TensorData)> {
        self.0
            .into_iter()
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
