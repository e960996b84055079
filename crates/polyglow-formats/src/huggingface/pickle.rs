//! `pytorch_model.bin`: the weights as PyTorch saves them, a program in Python's pickle format.
//!
//! The program is not run: what describes tensors is taken up, and the call of a function is a
//! value that nobody asks for.

use std::path::Path;

use burn::tensor::{DType, TensorData};
use polyglow_predict::error::{Context, Result, TrainError, ensure};
use polyglow_predict::weights::Weights;
use pytorch_reader::{DType as Theirs, PytorchReader, Tensor};

/// Tensors may share numbers, as tied matrices do; more values than this for each byte of the file
/// are no model, but a trap.
const MOST_FOR_A_BYTE: u64 = 8;

/// Reads the tensors of a file; those of whole numbers are counters and tables of PyTorch's own,
/// and left out.
///
/// # Errors
/// It cannot be read, is damaged, or holds no tensors by name.
pub(super) fn read(path: &Path) -> Result<Weights> {
    let open = || {
        let tensors = PytorchReader::new(path)
            .map_err(TrainError::from_any)?
            .into_tensors();
        let all: u64 = tensors
            .values()
            .map(|tensor| tensor.byte_len() as u64)
            .sum();
        ensure!(
            all <= path.metadata()?.len() * MOST_FOR_A_BYTE,
            "its tensors would have {all} bytes"
        );
        let floats = tensors
            .into_iter()
            .filter_map(|(name, tensor)| float(&tensor).map(|kind| (name, tensor, kind)));
        floats
            .map(|(name, tensor, kind)| Ok((name, values(&tensor, kind)?)))
            .collect::<Result<_>>()
    };
    let tensors = Weights::new(
        path,
        open().with_context(|| format!("`{}`", path.display()))?,
    )?;
    ensure!(
        tensors.rest().next().is_some(),
        "`{}` holds no tensors by name",
        path.display()
    );
    Ok(tensors)
}

/// The kind of numbers, if they are floats.
fn float(tensor: &Tensor) -> Option<DType> {
    match tensor.dtype() {
        Theirs::F64 => Some(DType::F64),
        Theirs::F32 => Some(DType::F32),
        Theirs::F16 => Some(DType::F16),
        Theirs::BF16 => Some(DType::BF16),
        _ => None,
    }
}

fn values(tensor: &Tensor, kind: DType) -> Result<TensorData> {
    let shape = tensor.shape().to_vec();
    Ok(TensorData::from_bytes_vec(tensor.read()?, shape, kind).convert::<f32>())
}
