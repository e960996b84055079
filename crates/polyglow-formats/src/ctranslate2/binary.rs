//! `model.bin`, version 6: named variables and aliases, little-endian.

use std::collections::BTreeMap;
use std::path::Path;

use half::{bf16, f16};
use polyglow_predict::error::{Context, Result, bail, ensure, failed};

use crate::array::Array;

/// The version of the format that is written and read.
const VERSION: u32 = 6;
/// The name of the specification of encoder-decoder Transformers.
const SPECIFICATION: &str = "TransformerSpec";
/// The newest revision of the specification that can be read, and the one that is written.
const REVISION: u32 = 7;
/// The most axes that a variable may have.
const MOST_AXES: u8 = 8;

/// The data types, by the numbers that the format has for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    F32 = 0,
    I8 = 1,
    I16 = 2,
    I32 = 3,
    F16 = 4,
    BF16 = 5,
}

impl Kind {
    fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::F32),
            1 => Some(Self::I8),
            2 => Some(Self::I16),
            3 => Some(Self::I32),
            4 => Some(Self::F16),
            5 => Some(Self::BF16),
            _ => None,
        }
    }

    /// The size of an element, in bytes.
    fn size(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::I8 => 1,
        }
    }
}

/// An array or a single number, little-endian.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variable {
    /// Empty for a single number.
    pub(super) shape: Vec<usize>,
    pub(super) kind: Kind,
    pub(super) bytes: Vec<u8>,
}

impl Variable {
    pub(super) fn int8(number: i8) -> Self {
        Self::single(Kind::I8, &number.to_le_bytes())
    }

    pub(super) fn int16(number: i16) -> Self {
        Self::single(Kind::I16, &number.to_le_bytes())
    }

    pub(super) fn int32(number: i32) -> Self {
        Self::single(Kind::I32, &number.to_le_bytes())
    }

    pub(super) fn float(number: f32) -> Self {
        Self::single(Kind::F32, &number.to_le_bytes())
    }

    fn single(kind: Kind, bytes: &[u8]) -> Self {
        Self {
            shape: Vec::new(),
            kind,
            bytes: bytes.to_vec(),
        }
    }

    pub(super) fn float32(array: &Array) -> Self {
        Self {
            shape: array.shape.clone(),
            kind: Kind::F32,
            bytes: array.to_bytes(),
        }
    }

    pub(super) fn float16(array: &Array) -> Self {
        let bytes = array
            .values
            .iter()
            .flat_map(|value| f16::from_f32(*value).to_le_bytes())
            .collect();
        Self {
            shape: array.shape.clone(),
            kind: Kind::F16,
            bytes,
        }
    }

    /// The elements as `f32`, whatever their data type is.
    pub(super) fn numbers(&self) -> Vec<f32> {
        match self.kind {
            Kind::F32 => self.elements(f32::from_le_bytes),
            Kind::I8 => self.elements(|[byte]| f32::from(byte as i8)),
            Kind::I16 => self.elements(|bytes| i16::from_le_bytes(bytes).into()),
            Kind::I32 => self.elements(|bytes| i32::from_le_bytes(bytes) as f32),
            Kind::F16 => self.elements(|bytes| f16::from_le_bytes(bytes).to_f32()),
            Kind::BF16 => self.elements(|bytes| bf16::from_le_bytes(bytes).to_f32()),
        }
    }

    fn elements<const SIZE: usize>(&self, element: impl Fn([u8; SIZE]) -> f32) -> Vec<f32> {
        let (elements, _) = self.bytes.as_chunks::<SIZE>();
        elements.iter().map(|bytes| element(*bytes)).collect()
    }
}

/// The content of a `model.bin`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Binary {
    pub(super) variables: BTreeMap<String, Variable>,
    /// Other names of variables, with their own names.
    pub(super) aliases: BTreeMap<String, String>,
}

impl Binary {
    /// Returns the bytes of the file.
    ///
    /// # Errors
    /// A variable is larger than 4 GiB, which the format cannot express.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        // About 128 bytes for each name and shape.
        let sizes = self.variables.values();
        let size: usize = sizes.map(|variable| variable.bytes.len() + 128).sum();
        let mut out = Vec::with_capacity(size);
        out.extend(VERSION.to_le_bytes());
        put_text(&mut out, SPECIFICATION)?;
        out.extend(REVISION.to_le_bytes());
        put_count(&mut out, self.variables.len())?;
        for (name, Variable { shape, kind, bytes }) in &self.variables {
            put_text(&mut out, name)?;
            out.push(shape.len() as u8);
            for &len in shape {
                put_count(&mut out, len)?;
            }
            out.push(*kind as u8);
            put_count(&mut out, bytes.len()).with_context(|| {
                format!("`{name}` is larger than a variable of CTranslate2 may be")
            })?;
            out.extend_from_slice(bytes);
        }
        put_count(&mut out, self.aliases.len())?;
        for (alias, name) in &self.aliases {
            put_text(&mut out, alias)?;
            put_text(&mut out, name)?;
        }
        Ok(out)
    }

    /// Parses the bytes of a file; `path` is for error messages. Sizes are checked against the length
    /// of the file before memory is allocated for them.
    ///
    /// # Errors
    /// The file is cut off, of another version or model, or contradicts itself.
    pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        let mut reader = Reader { bytes, position: 0 };
        let binary = reader.binary();
        binary.with_context(|| format!("`{}`, at byte {}", path.display(), reader.position))
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) -> Result<()> {
    let count = u32::try_from(count).map_err(|_| failed!("{count} does not fit into 32 bits"))?;
    out.extend(count.to_le_bytes());
    Ok(())
}

fn put_text(out: &mut Vec<u8>, text: &str) -> Result<()> {
    let len =
        u16::try_from(text.len() + 1).map_err(|_| failed!("the name `{text}` is too long"))?;
    out.extend(len.to_le_bytes());
    out.extend(text.as_bytes());
    out.push(0);
    Ok(())
}

/// Reads values one after the other.
struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    fn binary(&mut self) -> Result<Binary> {
        let version = self.u32()?;
        ensure!(
            version == VERSION,
            "it is of version {version} of the format, or no model of CTranslate2; version {VERSION} can be read, which \
             CTranslate2's converters write since its version 3"
        );
        let specification = self.text()?;
        ensure!(
            specification == SPECIFICATION,
            "it is a `{specification}`; only a `{SPECIFICATION}` can be read"
        );
        let revision = self.u32()?;
        ensure!(
            revision <= REVISION,
            "it is of revision {revision} of the `{SPECIFICATION}`, which is newer than {REVISION}, the newest that can be read"
        );
        let mut binary = Binary::default();
        for _ in 0..self.u32()? {
            let (name, variable) = self.variable()?;
            ensure!(
                binary.variables.insert(name.clone(), variable).is_none(),
                "`{name}` is there twice"
            );
        }
        for _ in 0..self.u32()? {
            let alias = self.text()?;
            let name = self.text()?;
            ensure!(
                binary.variables.contains_key(&name),
                "`{alias}` is to be `{name}`, which is not there"
            );
            ensure!(
                !binary.variables.contains_key(&alias),
                "`{alias}` is a variable and another name of `{name}`"
            );
            ensure!(
                binary.aliases.insert(alias.clone(), name).is_none(),
                "`{alias}` is there twice"
            );
        }
        ensure!(
            self.position == self.bytes.len(),
            "{} bytes follow the end",
            self.bytes.len() - self.position
        );
        Ok(binary)
    }

    fn variable(&mut self) -> Result<(String, Variable)> {
        let name = self.text()?;
        let [rank] = self.take()?;
        ensure!(rank <= MOST_AXES, "`{name}` has {rank} axes");
        let mut shape = Vec::new();
        for _ in 0..rank {
            shape.push(self.u32()? as usize);
        }
        let [kind] = self.take()?;
        let Some(kind) = Kind::from_number(kind) else {
            bail!("`{name}` has numbers of the unknown kind {kind}")
        };
        let len = self.u32()? as usize;
        // Lengths of axes that are made up may overflow.
        let mut count = Some(1usize);
        for &axis in &shape {
            count = count.and_then(|count| count.checked_mul(axis));
        }
        let expected = count.and_then(|count| count.checked_mul(kind.size()));
        ensure!(
            expected == Some(len),
            "`{name}` of shape {shape:?} has {len} bytes of {kind:?}"
        );
        let bytes = self.slice(len).with_context(|| format!("`{name}`"))?;
        let variable = Variable {
            shape,
            kind,
            bytes: bytes.to_vec(),
        };
        Ok((name, variable))
    }

    /// Reads a text: its length, the bytes, and a 0, which counts.
    fn text(&mut self) -> Result<String> {
        let len = usize::from(u16::from_le_bytes(self.take()?));
        let Some((0, text)) = self.slice(len)?.split_last() else {
            bail!("a name has no end")
        };
        let text = str::from_utf8(text).context("a name is not UTF-8")?;
        Ok(text.to_owned())
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let slice = self.slice(N)?;
        slice.try_into().map_err(|_| failed!("it is cut off"))
    }

    fn slice(&mut self, len: usize) -> Result<&'a [u8]> {
        let num_left = self.bytes.len() - self.position;
        ensure!(
            len <= num_left,
            "it is cut off: {len} bytes are wanted, {num_left} are left"
        );
        let slice = &self.bytes[self.position..][..len];
        self.position += len;
        Ok(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary() -> Binary {
        let array = Array::matrix(vec![1.0, -2.5, 0.0, 3.0], [2, 2]);
        let variables = [
            ("a", Variable::float32(&array)),
            ("b/flag", Variable::int8(1)),
            ("c", Variable::float16(&array)),
            ("d", Variable::int32(7)),
        ];
        let variables = variables
            .into_iter()
            .map(|(name, variable)| (name.to_owned(), variable))
            .collect();
        Binary {
            variables,
            aliases: [("z".to_owned(), "a".to_owned())].into(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = binary().to_bytes().expect("it fits");
        let read = Binary::parse(&bytes, Path::new("model.bin")).expect("it is whole");
        assert_eq!(read, binary());
        assert_eq!(read.variables["c"].numbers(), [1.0, -2.5, 0.0, 3.0]);
        assert_eq!(read.variables["d"].numbers(), [7.0]);
    }

    #[test]
    fn every_file_that_is_cut_off_and_what_follows_the_end_is_an_error() {
        let mut bytes = binary().to_bytes().expect("it fits");
        for end in 0..bytes.len() {
            let error = Binary::parse(&bytes[..end], Path::new("model.bin"))
                .expect_err("it is cut off")
                .to_string();
            assert!(error.starts_with("`model.bin`, at byte "), "{error}");
        }
        bytes.push(0);
        let error = Binary::parse(&bytes, Path::new("model.bin"))
            .expect_err("something follows")
            .to_string();
        assert!(error.ends_with("1 bytes follow the end"), "{error}");
    }

    #[test]
    fn sizes_that_do_not_fit_are_errors_before_memory_is_taken() {
        let bytes = binary().to_bytes().expect("it fits");
        // Both axes of `a` and its bytes, and the number of variables; the axes are behind version,
        // specification, revision, count, name and rank.
        let axes = 4 + (2 + 16) + 4 + 4 + (2 + 2) + 1;
        for offset in [axes, axes + 4, axes + 9, 26] {
            let mut bytes = bytes.clone();
            bytes[offset..offset + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            let result = Binary::parse(&bytes, Path::new("model.bin"));
            assert!(result.is_err(), "{offset}");
        }
    }
}
