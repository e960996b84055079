//! `pytorch_model.bin`: the weights as PyTorch saves them, a program in Python's pickle format.
//!
//! The program is not run. What it may say is what saved weights say: dictionaries and tuples of texts and numbers, and
//! tensors over the numbers that lie beside it. Anything else, such as the call of a function, is refused.

mod machine;
mod storage;

use std::path::Path;

use burn::tensor::TensorData;

use self::machine::Item;
use super::super::folder;
use crate::error::{Context, Result, ensure};
use crate::predict::weights::Weights;

/// The largest file that is read.
const MOST: u64 = 1 << 36;

/// Reads the tensors of a file.
///
/// # Errors
/// It cannot be read, is damaged, or holds something else than tensors by name.
pub(super) fn read(path: &Path) -> Result<Weights> {
    let bytes = folder::read(path, MOST)?;
    let tensors = parse(&bytes).with_context(|| format!("`{}`", path.display()))?;
    Weights::new(path, tensors.into_iter().collect())
}

fn parse(bytes: &[u8]) -> Result<Vec<(String, TensorData)>> {
    let (program, storages) = storage::open(bytes)?;
    let Item::Dict(entries) = program else {
        return Err(crate::TrainError::new("it holds something else than weights by name"));
    };
    let mut tensors = Vec::new();
    for (name, value) in entries {
        let (Item::Text(name), Item::Tensor(tensor)) = (&name, &value) else {
            // What PyTorch notes beside the weights, such as the versions of its modules.
            continue;
        };
        let values = storages.values(tensor).with_context(|| format!("the tensor `{name}`"))?;
        tensors.push((name.clone(), TensorData::new(values, tensor.shape.clone())));
    }
    ensure!(!tensors.is_empty(), "it holds no tensors by name");
    Ok(tensors)
}
