//! Named tensors in the bytes of safetensors files, a format that holds data and no code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::{DType, TensorData};
use half::{bf16, f16};
use polyglow_model::quantization::{self, Int8Weights, Layout, MOST_INT8_INPUTS};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::error::{Context, Result, bail, ensure, failed};

/// The ending of the name of a matrix in 8 bits that makes the name of its scales.
const SCALE: &str = ".scale";

/// The tensors of one file, read whole.
#[derive(Debug)]
pub struct Weights {
    path: PathBuf,
    tensors: BTreeMap<String, TensorData>,
}

/// Returns the current name of a parameter. Files of earlier versions had other names for the patches
/// of a Vision Transformer.
fn current_name(name: &str) -> String {
    if let Some(rest) = name.strip_prefix("patch.") {
        return format!("patches.projection.{rest}");
    }
    if name.starts_with("row_position.") || name.starts_with("column_position.") {
        return format!("patches.{name}");
    }
    name.to_owned()
}

impl Weights {
    /// Reads every tensor from the bytes of a file; `path` is for error messages. Sizes and offsets are
    /// checked against the bytes before memory is allocated for them. `F16` and `BF16` become `F32`.
    ///
    /// # Errors
    /// They are not a safetensors file, or hold another type of elements than `F32`, `F16`, `BF16`
    /// and `I8`; a tensor holds NaN or infinity.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        let file = path.display();
        let parsed =
            SafeTensors::deserialize(bytes).with_context(|| format!("`{file}` is damaged"))?;
        let mut tensors = BTreeMap::new();
        for (name, view) in parsed.iter() {
            let data = tensor_data(&view).with_context(|| {
                let dtype = view.dtype();
                format!("`{file}`: tensor `{name}` holds {dtype:?}, not F32, F16, BF16 or I8")
            })?;
            tensors.insert(current_name(name), data);
        }
        Self::new(path, tensors)
    }

    /// Makes them of tensors that were read from the file at `path`.
    ///
    /// # Errors
    /// A tensor holds NaN or infinity.
    pub fn new(path: &Path, tensors: BTreeMap<String, TensorData>) -> Result<Self> {
        for (name, data) in &tensors {
            // Matrices in 8 bits are no slice of f32, and always finite.
            let values = data.as_slice::<f32>().unwrap_or_default();
            ensure!(
                values.iter().all(|value| value.is_finite()),
                "`{}`: tensor `{name}` holds NaN or infinity",
                path.display()
            );
        }
        Ok(Self {
            path: path.to_owned(),
            tensors,
        })
    }

    /// Returns whether there are matrices in 8 bits.
    pub fn is_int8(&self) -> bool {
        self.tensors.values().any(|data| data.dtype() == DType::I8)
    }

    /// Takes the tensor of this name and shape out.
    ///
    /// # Errors
    /// There is no such tensor, or it has another shape (the message names both), or 8 bits.
    pub fn take(&mut self, name: &str, shape: &[usize]) -> Result<TensorData> {
        self.take_typed(name, shape, DType::F32)
    }

    /// Takes the matrix in 8 bits of this name and shape out, with its scales.
    ///
    /// # Errors
    /// As [`Self::take`], for either; or it has more inputs than can be summed.
    pub fn take_int8(
        &mut self,
        name: &str,
        shape: [usize; 2],
        layout: Layout,
    ) -> Result<Int8Weights> {
        let scales = scale_shape(name, shape, layout)
            .with_context(|| format!("`{}`", self.path.display()))?;
        let values = self.take_typed(name, &shape, DType::I8)?;
        let scales = self.take(&format!("{name}{SCALE}"), &scales)?;
        Ok(Int8Weights {
            values: values.iter::<i8>().collect(),
            scales: scales.iter::<f32>().collect(),
        })
    }

    /// Replaces matrices in 8 bits by the f32 values that they stand for; other tensors stay.
    ///
    /// # Errors
    /// The scales of a matrix are missing, or of another shape.
    pub fn dequantize(mut self) -> Result<Self> {
        let mut int8 = Vec::new();
        for (name, data) in &self.tensors {
            if data.dtype() == DType::I8 {
                int8.push((name.clone(), data.shape().to_vec()));
            }
        }
        for (name, shape) in int8 {
            let shape: [usize; 2] = shape.try_into().map_err(|shape| {
                failed!(
                    "`{}`: tensor `{name}` is {shape:?}, not a matrix",
                    self.path.display()
                )
            })?;
            // The file does not name the layout, but the shape of the scales shows it.
            let scales = self.tensors.get(&format!("{name}{SCALE}"));
            let is_in_out = scales.is_some_and(|scales| scales.shape().to_vec() == [1, shape[1]]);
            let layout = if is_in_out {
                Layout::InOut
            } else {
                Layout::OutIn
            };
            let matrix = self.take_int8(&name, shape, layout)?;
            let values = matrix.dequantize(shape, layout);
            self.tensors.insert(name, TensorData::new(values, shape));
        }
        Ok(self)
    }

    fn take_typed(&mut self, name: &str, shape: &[usize], dtype: DType) -> Result<TensorData> {
        let file = self.path.display();
        let data = self
            .tensors
            .remove(name)
            .with_context(|| format!("`{file}` has no tensor `{name}`"))?;
        let actual = data.shape().to_vec();
        ensure!(
            actual == shape,
            "`{file}`: tensor `{name}` is {actual:?}, not {shape:?} as the config asks for"
        );
        let actual = data.dtype();
        ensure!(
            actual == dtype,
            "`{file}`: tensor `{name}` holds {actual:?}, but must hold {dtype:?}"
        );
        Ok(data)
    }

    /// Returns the tensors that have not been taken, by name.
    pub fn rest(&self) -> impl Iterator<Item = (&String, &TensorData)> {
        self.tensors.iter()
    }

    /// Checks that every tensor has been taken.
    ///
    /// # Errors
    /// A tensor is left, which the message names.
    pub fn finish(self) -> Result<()> {
        match self.tensors.keys().next() {
            None => Ok(()),
            Some(name) => bail!(
                "`{}` holds `{name}`, which is not part of the model that the config describes",
                self.path.display()
            ),
        }
    }
}

/// Returns the elements of a tensor, f16 and bf16 as f32; `None` for other types.
fn tensor_data(view: &TensorView<'_>) -> Option<TensorData> {
    let shape = view.shape().to_vec();
    let bytes = view.data();
    let (fours, _) = bytes.as_chunks::<4>();
    let (twos, _) = bytes.as_chunks::<2>();
    let values: Vec<f32> = match view.dtype() {
        Dtype::F32 => fours.iter().map(|four| f32::from_le_bytes(*four)).collect(),
        Dtype::F16 => twos
            .iter()
            .map(|two| f16::from_le_bytes(*two).to_f32())
            .collect(),
        Dtype::BF16 => twos
            .iter()
            .map(|two| bf16::from_le_bytes(*two).to_f32())
            .collect(),
        Dtype::I8 => {
            let values: Vec<i8> = bytes.iter().map(|byte| *byte as i8).collect();
            return Some(TensorData::new(values, shape));
        }
        _ => return None,
    };
    Some(TensorData::new(values, shape))
}

/// Returns the bytes of a file with these tensors.
///
/// # Errors
/// A tensor has another type of elements than f32 and i8.
pub fn to_bytes(tensors: &[(String, TensorData)]) -> Result<Vec<u8>> {
    Ok(safetensors::serialize(views(tensors)?, None)?)
}

/// Returns the tensors as the safetensors library wants them, in order to write them.
///
/// # Errors
/// As [`to_bytes`].
pub fn views(tensors: &[(String, TensorData)]) -> Result<Vec<(&str, TensorView<'_>)>> {
    let mut views = Vec::with_capacity(tensors.len());
    for (name, data) in tensors {
        let dtype = match data.dtype() {
            DType::F32 => Dtype::F32,
            DType::I8 => Dtype::I8,
            dtype => bail!("tensor `{name}` holds {dtype:?}, not F32 or I8"),
        };
        let view = TensorView::new(dtype, data.shape().to_vec(), data.as_bytes())?;
        views.push((name.as_str(), view));
    }
    Ok(views)
}

/// Returns the tensors with every weight matrix in 8 bits, followed by its scales, by which its values
/// are multiplied.
///
/// # Errors
/// A matrix has more inputs than can be summed.
pub fn quantize(weights: &Weights) -> Result<Vec<(String, TensorData)>> {
    let mut tensors = Vec::new();
    for (name, data) in weights.rest() {
        let Some(layout) = quantization::layout(name, data.shape()) else {
            tensors.push((name.clone(), data.clone()));
            continue;
        };
        let shape = [data.shape()[0], data.shape()[1]];
        let scales = scale_shape(name, shape, layout)?;
        let values: Vec<f32> = data.iter::<f32>().collect();
        let int8 = Int8Weights::quantize(&values, shape, layout);
        let scales = TensorData::new(int8.scales, scales);
        tensors.push((name.clone(), TensorData::new(int8.values, shape)));
        tensors.push((format!("{name}{SCALE}"), scales));
    }
    Ok(tensors)
}

/// Returns the shape of a matrix's scales, one per output, in a form that broadcasts over the matrix.
///
/// # Errors
/// The matrix has more inputs than can be summed.
fn scale_shape(name: &str, [rows, columns]: [usize; 2], layout: Layout) -> Result<[usize; 2]> {
    let d_in = match layout {
        Layout::InOut => rows,
        Layout::OutIn => columns,
    };
    ensure!(
        d_in <= MOST_INT8_INPUTS,
        "the {d_in} inputs of `{name}` are too many for sums of bytes"
    );
    Ok(match layout {
        Layout::InOut => [1, columns],
        Layout::OutIn => [rows, 1],
    })
}

/// Checks that the bytes of a file hold these tensors, bit for bit.
///
/// # Errors
/// They are no safetensors file, or hold other tensors.
pub fn confirm(bytes: &[u8], tensors: &[(String, TensorData)]) -> Result<()> {
    let parsed = SafeTensors::deserialize(bytes)?;
    ensure!(
        parsed.len() == tensors.len(),
        "{} tensors were written, {} are there",
        tensors.len(),
        parsed.len()
    );
    for (name, data) in tensors {
        ensure!(
            parsed.tensor(name)?.data() == data.as_bytes(),
            "the tensor `{name}` is not what was written"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes these tensors, and returns what is read back.
    fn written(tensors: &[(String, TensorData)]) -> Result<Weights> {
        let bytes = to_bytes(tensors).expect("they are f32 or i8");
        Weights::parse(&bytes, Path::new("a.safetensors"))
    }

    #[test]
    fn patches_are_found_under_their_old_names() {
        let names = [
            "patch.weight",
            "patch.bias.moment",
            "row_position.weight",
            "column_position.weight",
            "output.weight",
        ];
        let expected = [
            "patches.projection.weight",
            "patches.projection.bias.moment",
            "patches.row_position.weight",
            "patches.column_position.weight",
            "output.weight",
        ];
        assert_eq!(names.map(current_name), expected);
    }

    #[test]
    fn matrices_in_8_bits_come_back_within_half_a_step() {
        let values: Vec<f32> = (0..6).map(|index| (index as f32).sin()).collect();
        let tensor = |name: &str, shape: Vec<usize>| {
            (name.to_owned(), TensorData::new(values.clone(), shape))
        };
        let tensors = [
            tensor("src_embedding.weight", vec![3, 2]),
            tensor("output.weight", vec![2, 3]),
            tensor("encoder.norm.gamma", vec![6]),
        ];
        let float = written(&tensors).expect("it can be read");
        assert!(!float.is_int8());
        let int8 = quantize(&float).expect("it can be quantized");
        let read = || written(&int8).expect("it can be read");
        assert!(read().is_int8());
        let error = read()
            .take("output.weight", &[2, 3])
            .expect_err("8 bits")
            .to_string();
        assert!(error.contains("holds I8, but must hold F32"), "{error}");
        let scales = read()
            .take("src_embedding.weight.scale", &[3, 1])
            .expect("one a row");
        let mut meant = read().dequantize().expect("its scales are there");
        for (name, data) in &tensors {
            let largest = scales.iter::<f32>().fold(0.0, f32::max);
            let bound = if name.ends_with("gamma") {
                0.0
            } else {
                largest * 0.500_001
            };
            let meant = meant.take(name, data.shape()).expect("it is there");
            for (meant, value) in meant.iter::<f32>().zip(data.iter::<f32>()) {
                assert!(
                    (meant - value).abs() <= bound,
                    "{name}: {value} became {meant}"
                );
            }
        }
        meant.finish().expect("the scales are used up");
    }

    #[test]
    fn weights_that_are_no_numbers_are_an_error() {
        for ruined in [f32::NAN, f32::INFINITY] {
            let tensor = ("b".to_owned(), TensorData::new(vec![1.0, ruined], [2]));
            let error = written(&[tensor]).expect_err("it is ruined").to_string();
            assert!(
                error.ends_with("tensor `b` holds NaN or infinity"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_not_what_was_written_is_not_confirmed() {
        let tensors = [("b".to_owned(), TensorData::new(vec![1.0f32, 2.0], [2]))];
        let mut bytes = to_bytes(&tensors).expect("they are f32");
        confirm(&bytes, &tensors).expect("it is what was written");
        assert!(confirm(&bytes, &[]).is_err());
        *bytes.last_mut().expect("it is not empty") ^= 1;
        assert!(confirm(&bytes, &tensors).is_err());
    }

    #[test]
    fn a_header_that_claims_too_much_is_an_error_at_once() {
        let header = br#"{"a":{"dtype":"F32","shape":[1000000000000000],"data_offsets":[0,4000000000000000]}}"#;
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        let error = Weights::parse(&bytes, Path::new("a.safetensors"))
            .expect_err("it lies")
            .to_string();
        assert_eq!(
            error,
            "`a.safetensors` is damaged: incomplete metadata, file not fully covered"
        );
    }
}
