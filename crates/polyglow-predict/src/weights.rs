//! Named tensors in safetensors files: a format that is data and nothing else.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use burn::tensor::{DType, TensorData};
use half::{bf16, f16};
use polyglow_model::quantization::{self, Int8Weights, Layout, MOST_INT8_INPUTS};
use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorView};

use crate::error::{Context, Result, TrainError, bail, ensure, failed};

/// What the name of a matrix in 8 bits is followed by in that of its scales.
const SCALE: &str = ".scale";

/// The tensors of one file, read whole.
#[derive(Debug)]
pub struct Weights {
    path: PathBuf,
    tensors: BTreeMap<String, TensorData>,
}

/// The name that a parameter has now; those of a Vision Transformer's patches had none in common.
fn renamed(name: String) -> String {
    if let Some(rest) = name.strip_prefix("patch.") {
        return format!("patches.projection.{rest}");
    }
    let is_old = ["row_position.", "column_position."]
        .iter()
        .any(|old| name.starts_with(old));
    if is_old {
        format!("patches.{name}")
    } else {
        name
    }
}

impl Weights {
    /// Reads every tensor of a file; sizes and offsets are checked against the file before anything
    /// is made of them.
    ///
    /// # Errors
    /// A file that cannot be read, is not a safetensors file, or holds numbers of another kind than
    /// `F32`, `F16`, `BF16` (both become `F32`) and `I8`.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
        Self::parse(&bytes, path)
    }

    /// Reads every tensor of a file's content; `path` is for error messages.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        let file = path.display();
        let parsed =
            SafeTensors::deserialize(bytes).with_context(|| format!("`{file}` is damaged"))?;
        let mut tensors = BTreeMap::new();
        for (name, view) in parsed.iter() {
            let shape = view.shape().to_vec();
            let (fours, twos) = (
                view.data().as_chunks::<4>().0.iter(),
                view.data().as_chunks::<2>().0.iter(),
            );
            let data = match view.dtype() {
                Dtype::F32 => TensorData::new(
                    fours.map(|bytes| f32::from_le_bytes(*bytes)).collect(),
                    shape,
                ),
                Dtype::F16 => TensorData::new(
                    twos.map(|bytes| f16::from_le_bytes(*bytes).to_f32())
                        .collect(),
                    shape,
                ),
                Dtype::BF16 => TensorData::new(
                    twos.map(|bytes| bf16::from_le_bytes(*bytes).to_f32())
                        .collect(),
                    shape,
                ),
                Dtype::I8 => TensorData::new(
                    view.data()
                        .iter()
                        .map(|byte| *byte as i8)
                        .collect::<Vec<_>>(),
                    shape,
                ),
                dtype => {
                    bail!("`{file}`: tensor `{name}` holds {dtype:?}, not F32, F16, BF16 or I8")
                }
            };
            tensors.insert(renamed(name.to_owned()), data);
        }
        Self::new(path, tensors)
    }

    /// Tensors that were read from the file at `path`.
    ///
    /// # Errors
    /// One holds a number that is not finite.
    pub fn new(path: &Path, tensors: BTreeMap<String, TensorData>) -> Result<Self> {
        for (name, data) in &tensors {
            let finite = data
                .as_slice::<f32>()
                .map_or(true, |values| values.iter().all(|value| value.is_finite()));
            ensure!(
                finite,
                "`{}`: tensor `{name}` holds NaN or infinity",
                path.display()
            );
        }
        Ok(Self {
            path: path.to_owned(),
            tensors,
        })
    }

    /// Whether there are matrices in 8 bits.
    pub fn is_int8(&self) -> bool {
        self.tensors.values().any(|data| data.dtype() == DType::I8)
    }

    /// Takes the tensor of this name and shape out.
    ///
    /// # Errors
    /// It is not there, has another shape (the message names both), or has 8 bits.
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
        let values = self
            .take_typed(name, &shape, DType::I8)?
            .iter::<i8>()
            .collect();
        let scales = self
            .take(&format!("{name}{SCALE}"), &scales)?
            .iter::<f32>()
            .collect();
        Ok(Int8Weights { values, scales })
    }

    /// Matrices in 8 bits as what they stand for; the others as they are.
    ///
    /// # Errors
    /// The scales of a matrix are missing, or of another shape.
    pub fn dequantize(mut self) -> Result<Self> {
        let int8 = self
            .tensors
            .iter()
            .filter(|(_, data)| data.dtype() == DType::I8);
        let int8: Vec<(String, Vec<usize>)> = int8
            .map(|(name, data)| (name.clone(), data.shape().to_vec()))
            .collect();
        for (name, shape) in int8 {
            let shape: [usize; 2] = shape.try_into().map_err(|shape| {
                failed!(
                    "`{}`: tensor `{name}` is {shape:?}, not a matrix",
                    self.path.display()
                )
            })?;
            let scale = self
                .tensors
                .get(&format!("{name}{SCALE}"))
                .map(|data| data.shape().to_vec());
            let layout = if scale == Some(vec![1, shape[1]]) {
                Layout::InOut
            } else {
                Layout::OutIn
            };
            let values = self
                .take_int8(&name, shape, layout)?
                .dequantize(shape, layout);
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
        let found = data.shape().to_vec();
        ensure!(
            found == shape,
            "`{file}`: tensor `{name}` is {found:?}, not {shape:?} as the config asks for"
        );
        let kind = data.dtype();
        ensure!(
            kind == dtype,
            "`{file}`: tensor `{name}` holds {kind:?}, but must hold {dtype:?}"
        );
        Ok(data)
    }

    /// What has not been taken, by name.
    pub fn rest(&self) -> impl Iterator<Item = (&String, &TensorData)> {
        self.tensors.iter()
    }

    /// Checks that everything has been taken.
    ///
    /// # Errors
    /// Names a tensor that nobody asked for.
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

/// Number of values in a file, from its header alone.
///
/// # Errors
/// The file cannot be read, or is not a safetensors file.
pub fn count(path: &Path) -> Result<u64> {
    let read = || -> Result<u64> {
        let mut file = File::open(path)?;
        let mut length = [0; 8];
        file.read_exact(&mut length)?;
        let mut header = Vec::new();
        file.take(u64::from_le_bytes(length))
            .read_to_end(&mut header)?;
        let metadata: Metadata = serde_json::from_slice(&header)?;
        let product = |size: u64, &dim: &usize| size.checked_mul(dim as u64);
        let add =
            |total: u64, shape: &[usize]| total.checked_add(shape.iter().try_fold(1, product)?);
        let mut shapes = metadata.tensors().into_values().map(|info| &*info.shape);
        shapes
            .try_fold(0, add)
            .context("its tensors have too many values")
    };
    read().with_context(|| format!("cannot read `{}`", path.display()))
}

/// Writes tensors to a new file and has the disk confirm it.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, tensors: &[(String, TensorData)]) -> Result<()> {
    let views = views(tensors)?;
    let write = || -> Result<()> {
        // The library's files are the owner's alone; these are to be like all others of a run.
        let permissions = File::create(path)?.metadata()?.permissions();
        safetensors::serialize_to_file(views, None, path).map_err(|error| match error {
            // It says what its cause says.
            SafeTensorError::IoError(error) => TrainError::from(error),
            error => error.into(),
        })?;
        fs::set_permissions(path, permissions)?;
        Ok(File::open(path)?.sync_all()?)
    };
    // Not with its directory, which has a passing name until the checkpoint is complete.
    write().with_context(|| {
        format!(
            "cannot write `{}`",
            path.file_name().unwrap_or_default().display()
        )
    })
}

/// What [`write()`] writes.
///
/// # Errors
/// As [`write()`], but for the file.
pub fn to_bytes(tensors: &[(String, TensorData)]) -> Result<Vec<u8>> {
    Ok(safetensors::serialize(views(tensors)?, None)?)
}

fn views(tensors: &[(String, TensorData)]) -> Result<Vec<(&str, TensorView<'_>)>> {
    let view = |(name, data)| {
        let (name, data): (&String, &TensorData) = (name, data);
        let dtype = match data.dtype() {
            DType::F32 => Dtype::F32,
            DType::I8 => Dtype::I8,
            dtype => bail!("tensor `{name}` holds {dtype:?}, not F32 or I8"),
        };
        Ok((
            name.as_str(),
            TensorView::new(dtype, data.shape().to_vec(), data.as_bytes())?,
        ))
    };
    tensors
        .iter()
        .map(|(name, data)| view((name, data)))
        .collect()
}

/// Tensors with every matrix in 8 bits, and with its scales, by which its values are to be
/// multiplied.
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
        tensors.push((name.clone(), TensorData::new(int8.values, shape)));
        tensors.push((
            format!("{name}{SCALE}"),
            TensorData::new(int8.scales, scales),
        ));
    }
    Ok(tensors)
}

/// The shape of a matrix's scales, one per output, in a form that broadcasts over the matrix.
fn scale_shape(name: &str, [rows, columns]: [usize; 2], layout: Layout) -> Result<[usize; 2]> {
    let (d_in, shape) = match layout {
        Layout::InOut => (rows, [1, columns]),
        Layout::OutIn => (columns, [rows, 1]),
    };
    ensure!(
        d_in <= MOST_INT8_INPUTS,
        "the {d_in} inputs of `{name}` are too many for sums of bytes"
    );
    Ok(shape)
}

/// Checks that a file's content is these tensors, bit for bit.
///
/// # Errors
/// It is not a safetensors file, or holds something else.
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
        assert_eq!(names.map(|name| super::renamed(name.to_owned())), expected);
    }

    use super::*;

    #[test]
    fn tensors_come_back_bit_for_bit() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("a.safetensors");
        let values = vec![0.1f32, -0.0, f32::MIN_POSITIVE, 3.0e38, 1.0, 2.0];
        write(
            &path,
            &[("b".to_owned(), TensorData::new(values.clone(), [2, 3]))],
        )
        .expect("it can be written");
        assert_eq!(count(&path).expect("it can be read"), 6);
        let mut read = Weights::read(&path).expect("it can be read");
        assert!(
            read.take("b", &[3, 2])
                .expect_err("wrong shape")
                .to_string()
                .contains("[2, 3]")
        );
        let mut read2 = Weights::read(&path).expect("it can be read");
        let bits = |values: &[f32]| {
            values
                .iter()
                .map(|value| value.to_bits())
                .collect::<Vec<_>>()
        };
        let found: Vec<f32> = read2
            .take("b", &[2, 3])
            .expect("it is there")
            .iter::<f32>()
            .collect();
        assert_eq!(bits(&found), bits(&values));
        read2.finish().expect("nothing is left");
    }

    #[test]
    fn matrices_in_8_bits_come_back_within_half_a_step() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("a.safetensors");
        let values: Vec<f32> = (0..6).map(|place| (place as f32).sin()).collect();
        let tensor = |name: &str, shape: Vec<usize>| {
            (name.to_owned(), TensorData::new(values.clone(), shape))
        };
        let tensors = [
            tensor("src_embedding.weight", vec![3, 2]),
            tensor("output.weight", vec![2, 3]),
            tensor("encoder.norm.gamma", vec![6]),
        ];
        write(&path, &tensors).expect("it can be written");
        let float = Weights::read(&path).expect("it can be read");
        assert!(!float.is_int8());
        let int8 = quantize(&float).expect("it can be quantized");
        write(&path, &int8).expect("it can be written");
        let read = || Weights::read(&path).expect("it can be read");
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
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("a.safetensors");
        for ruined in [f32::NAN, f32::INFINITY] {
            write(
                &path,
                &[("b".to_owned(), TensorData::new(vec![1.0, ruined], [2]))],
            )
            .expect("it can be written");
            let error = Weights::read(&path).expect_err("it is ruined").to_string();
            assert!(
                error.ends_with("tensor `b` holds NaN or infinity"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_not_what_was_written_is_not_confirmed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("a.safetensors");
        let tensors = [("b".to_owned(), TensorData::new(vec![1.0f32, 2.0], [2]))];
        write(&path, &tensors).expect("it can be written");
        let mut bytes = fs::read(&path).expect("it is there");
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
