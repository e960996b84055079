//! Where the numbers of saved tensors are: in a zip archive, or behind the program in files from before PyTorch 1.6.

use std::collections::HashMap;

use half::{bf16, f16};

use super::machine::{Item, Tensor, run};
use crate::error::{Context, Result, bail, ensure};
use crate::formats::zip;

/// What the first program of the older format is, in its first eight bytes.
const MAGIC: i64 = 0xa86a_20f9_469c_fc6c_u64.cast_signed();
/// Programs before that of the weights: what it is, its version, the machine.
const PREFACE: usize = 3;

/// The bytes of each storage, by its key.
pub(super) struct Storages<'a>(HashMap<String, &'a [u8]>);

/// The program's result and the numbers beside it.
///
/// # Errors
/// It is in neither format, or damaged.
pub(super) fn open(bytes: &[u8]) -> Result<(Item, Storages<'_>)> {
    if bytes.starts_with(b"PK") { open_archive(bytes) } else { open_old(bytes) }
}

fn open_archive(bytes: &[u8]) -> Result<(Item, Storages<'_>)> {
    let (mut program, mut storages) = (None, HashMap::new());
    for (name, content) in zip::entries(bytes)? {
        // All entries are in one folder.
        let name = name.split_once('/').map_or(name, |(_, name)| name);
        if name == "data.pkl" {
            program = Some(run(content)?.0);
        } else if name == "byteorder" {
            ensure!(content == b"little", "its numbers are not little-endian");
        } else if let Some(key) = name.strip_prefix("data/") {
            storages.insert(key.to_owned(), content);
        }
    }
    Ok((program.context("it is a zip archive without `data.pkl`")?, Storages(storages)))
}

/// Programs one after the other: what it is, its version, the machine, the weights, and the keys of the storages; then each
/// storage with its length before it.
fn open_old(bytes: &[u8]) -> Result<(Item, Storages<'_>)> {
    let mut rest = bytes;
    let mut next = || -> Result<Item> {
        let (item, len) = run(rest)?;
        rest = &rest[len..];
        Ok(item)
    };
    ensure!(next()? == Item::Number(MAGIC), "it is no file of PyTorch");
    for _ in 1..PREFACE {
        next()?;
    }
    let (program, keys) = (next()?, next()?);
    let Item::Dict(keys) = keys else { bail!("its list of storages is none") };
    let kinds = kinds(&program);
    let mut storages = HashMap::new();
    for (key, _) in keys {
        let Item::Text(key) = key else { bail!("the key of a storage is no text") };
        let (len, after) = rest.split_first_chunk::<8>().context("it is cut off")?;
        let width = kinds.get(&key).map_or(Ok(0), |kind| width(kind))?;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok().and_then(|len| len.checked_mul(width));
        let (storage, after) = len
            .and_then(|len| after.split_at_checked(len))
            .with_context(|| format!("its storage `{key}` is cut off"))?;
        storages.insert(key, storage);
        rest = after;
    }
    Ok((program, Storages(storages)))
}

/// The kind of each storage that a tensor is over.
fn kinds(program: &Item) -> HashMap<String, &'static str> {
    let Item::Dict(entries) = program else { return HashMap::new() };
    let of = |(_, value): &(Item, Item)| match value {
        Item::Tensor(tensor) => Some((tensor.key.clone(), tensor.kind)),
        _ => None,
    };
    entries.iter().filter_map(of).collect()
}

/// Bytes of a number of this kind.
fn width(kind: &str) -> Result<usize> {
    Ok(match kind {
        "torch FloatStorage" | "torch IntStorage" => 4,
        "torch HalfStorage" | "torch BFloat16Storage" | "torch ShortStorage" => 2,
        "torch DoubleStorage" | "torch LongStorage" => 8,
        "torch ByteStorage" | "torch CharStorage" | "torch BoolStorage" => 1,
        other => bail!("numbers of the kind `{other}` are unknown"),
    })
}

impl Storages<'_> {
    /// The values of a tensor, row by row.
    ///
    /// # Errors
    /// Its storage is missing or too short, or its numbers are no floats.
    pub(super) fn values(&self, tensor: &Tensor) -> Result<Vec<f32>> {
        let Tensor { kind, key, offset, shape, strides } = tensor;
        let storage = self.0.get(key).with_context(|| format!("there is no storage `{key}`"))?;
        let width = width(kind)?;
        let count = shape.iter().try_fold(1usize, |count, &len| count.checked_mul(len));
        let count = count.filter(|count| *count <= storage.len()).context("it is larger than its storage")?;
        let number = |place: usize| -> Result<f32> {
            let bytes = place.checked_mul(width).and_then(|start| storage.get(start..start.checked_add(width)?));
            let bytes = bytes.context("it reaches beyond its storage")?;
            Ok(match (*kind, bytes) {
                ("torch FloatStorage", &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
                ("torch HalfStorage", &[a, b]) => f16::from_le_bytes([a, b]).to_f32(),
                ("torch BFloat16Storage", &[a, b]) => bf16::from_le_bytes([a, b]).to_f32(),
                _ => bail!("its numbers are of the kind `{kind}`, not floats of 32 or 16 bits"),
            })
        };
        let mut values = Vec::with_capacity(count);
        let mut index = vec![0usize; shape.len()];
        for _ in 0..count {
            let steps = index
                .iter()
                .zip(strides)
                .try_fold(*offset, |place, (index, stride)| place.checked_add(index.checked_mul(*stride)?));
            values.push(number(steps.context("it reaches beyond its storage")?)?);
            for (index, len) in index.iter_mut().zip(shape).rev() {
                *index += 1;
                if *index < *len {
                    break;
                }
                *index = 0;
            }
        }
        Ok(values)
    }
}
