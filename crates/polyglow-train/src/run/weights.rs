//! Files of weights: read, written, and counted.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use burn::tensor::TensorData;
use polyglow_predict::error::{Context, Result};
use polyglow_predict::weights::{self, Weights};
use safetensors::SafeTensorError;
use safetensors::tensor::{Metadata, TensorView};

/// Reads every tensor of a file, as [`Weights::parse`] does of bytes.
///
/// # Errors
/// The file cannot be read, and those of [`Weights::parse`].
pub fn read_weights(path: &Path) -> Result<Weights> {
    let bytes = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Weights::parse(&bytes, path)
}

/// Counts the values in a file, from its header alone.
///
/// # Errors
/// The file cannot be read, or is not a safetensors file.
pub(super) fn count(path: &Path) -> Result<u64> {
    let metadata = read_header(path);
    metadata
        .and_then(|metadata| num_values(&metadata).context("its tensors have too many values"))
        .with_context(|| format!("cannot read `{}`", path.display()))
}

/// Reads the header of a file: its length in 8 bytes, and then JSON.
fn read_header(path: &Path) -> Result<Metadata> {
    let mut file = File::open(path)?;
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let mut header = Vec::new();
    // Without an allocation of that length first: a damaged file may name any number.
    file.take(u64::from_le_bytes(length))
        .read_to_end(&mut header)?;
    Ok(serde_json::from_slice(&header)?)
}

/// Counts the values of all tensors; returns `None` for more than fit in 64 bits.
fn num_values(metadata: &Metadata) -> Option<u64> {
    let mut total: u64 = 0;
    for info in metadata.tensors().into_values() {
        let mut size: u64 = 1;
        for &dim in &info.shape {
            size = size.checked_mul(dim as u64)?;
        }
        total = total.checked_add(size)?;
    }
    Some(total)
}

/// Writes tensors to a new file and has the disk confirm it.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(path: &Path, tensors: &[(String, TensorData)]) -> Result<()> {
    let written = write_views(path, weights::views(tensors)?);
    // Without its directory, which has a temporary name until the checkpoint is complete.
    let name = path.file_name().unwrap_or_default().display();
    written.with_context(|| format!("cannot write `{name}`"))
}

fn write_views(path: &Path, views: Vec<(&str, TensorView<'_>)>) -> Result<()> {
    // The library makes files that only their owner can read; these get the permissions that all
    // other files of a run have.
    let permissions = File::create(path)?.metadata()?.permissions();
    match safetensors::serialize_to_file(views, None, path) {
        // Its cause alone, whose message it would repeat.
        Err(SafeTensorError::IoError(error)) => return Err(error.into()),
        written => written?,
    }
    fs::set_permissions(path, permissions)?;
    Ok(File::open(path)?.sync_all()?)
}

#[cfg(test)]
mod tests {
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
        let mut read = read_weights(&path).expect("it can be read");
        assert!(
            read.take("b", &[3, 2])
                .expect_err("wrong shape")
                .to_string()
                .contains("[2, 3]")
        );
        let mut read2 = read_weights(&path).expect("it can be read");
        let bits = |values: &[f32]| {
            values
                .iter()
                .map(|value| value.to_bits())
                .collect::<Vec<_>>()
        };
        let values_read: Vec<f32> = read2
            .take("b", &[2, 3])
            .expect("it is there")
            .iter::<f32>()
            .collect();
        assert_eq!(bits(&values_read), bits(&values));
        read2.finish().expect("nothing is left");
    }
}
