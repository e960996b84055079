//! `pytorch_model.bin`: the weights as PyTorch saves them, a program in Python's pickle format.
//!
//! The program is not run: the reader takes the descriptions of tensors out of it, and a call of a
//! function is a value that it ignores. So a file cannot run code here.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::{DType, TensorData};
use polyglow_predict::error::{Context, Result, TrainError, ensure};
use polyglow_predict::weights::Weights;
use pytorch_reader::{DType as Theirs, PytorchReader, Tensor};

/// The most bytes of tensors for each byte of the file. Tensors may share memory, as tied matrices
/// do, but a file that makes much more of it is made to exhaust the memory.
const MOST_FOR_A_BYTE: u64 = 8;

/// Reads the tensors of a file. Tensors of integers are counters and tables of PyTorch's own, and
/// left out.
///
/// # Errors
/// It cannot be read, is damaged, or holds no tensors by name.
pub(super) fn read(path: &Path) -> Result<Weights> {
    let tensors = floats(path).with_context(|| format!("`{}`", path.display()))?;
    let tensors = Weights::new(path, tensors)?;
    ensure!(
        tensors.rest().next().is_some(),
        "`{}` holds no tensors by name",
        path.display()
    );
    Ok(tensors)
}

fn floats(path: &Path) -> Result<BTreeMap<String, TensorData>> {
    let reader = PytorchReader::new(path).map_err(TrainError::from_any)?;
    let tensors = reader.into_tensors();
    let sizes = tensors.values().map(|tensor| tensor.byte_len() as u64);
    let num_bytes: u64 = sizes.sum();
    ensure!(
        num_bytes <= path.metadata()?.len() * MOST_FOR_A_BYTE,
        "its tensors would have {num_bytes} bytes"
    );
    let mut floats = BTreeMap::new();
    for (name, tensor) in tensors {
        if let Some(kind) = float(&tensor) {
            floats.insert(name, values(&tensor, kind)?);
        }
    }
    Ok(floats)
}

/// The data type of a tensor, if it is one of floats.
fn float(tensor: &Tensor) -> Option<DType> {
    match tensor.dtype() {
        Theirs::F64 => Some(DType::F64),
        Theirs::F32 => Some(DType::F32),
        Theirs::F16 => Some(DType::F16),
        Theirs::BF16 => Some(DType::BF16),
        _ => None,
    }
}

/// The elements of a tensor in f32.
fn values(tensor: &Tensor, kind: DType) -> Result<TensorData> {
    let shape = tensor.shape().to_vec();
    Ok(TensorData::from_bytes_vec(tensor.read()?, shape, kind).convert::<f32>())
}
