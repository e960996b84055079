//! As much of protocol buffers as a SentencePiece model has: numbers, bytes and single floats.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// A whole number, an enumeration or a flag.
    Number(u64),
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
    /// A number of 32 bits.
    Float(f32),
    /// A number of 64 bits, which no field that is read here has.
    Wide,
}

impl<'a> Value<'a> {
    /// The whole number, or what is wrong.
    pub(super) fn number(self) -> Result<u64, String> {
        if let Self::Number(number) = self { Ok(number) } else { Err(mismatch("a whole number")) }
    }

    /// The bytes, or what is wrong.
    pub(super) fn bytes(self) -> Result<&'a [u8], String> {
        if let Self::Bytes(bytes) = self { Ok(bytes) } else { Err(mismatch("bytes")) }
    }

    /// The float, or what is wrong.
    pub(super) fn float(self) -> Result<f32, String> {
        if let Self::Float(float) = self { Ok(float) } else { Err(mismatch("a float")) }
    }
}

fn mismatch(wanted: &str) -> String {
    format!("it is no SentencePiece model: a field is not {wanted}")
}

/// The fields of a message, by number, in their order.
pub(super) struct Fields<'a> {
    all: &'a [u8],
    place: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { all: message, place: 0 }
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.all.get(self.place)?;
            self.place += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let end = self.place.checked_add(usize::try_from(len).ok()?)?;
        let bytes = self.all.get(self.place..end)?;
        self.place = end;
        Some(bytes)
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Wide)?,
            2 => {
                let len = self.varint()?;
                Value::Bytes(self.take(len)?)
            }
            5 => Value::Float(f32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.place >= self.all.len() {
            return None;
        }
        let start = self.place;
        let field = self.field();
        if field.is_none() {
            self.place = self.all.len();
        }
        Some(field.ok_or_else(|| format!("it is no SentencePiece model, or cut off: no field at byte {start}")))
    }
}

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn number(mut self, field: u64, number: u64) -> Self {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    pub(super) fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    pub(super) fn float(mut self, field: u64, float: f32) -> Self {
        self.varint(field << 3 | 5);
        self.0.extend(float.to_le_bytes());
        self
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_cut_off_is_an_error() {
        let inner = Message::default().float(2, -1.5).finish();
        let bytes = Message::default().number(3, 300).bytes(70, &inner).finish();
        let fields: Vec<_> = Fields::of(&bytes).collect::<Result<_, _>>().expect("it is whole");
        assert_eq!(fields, [(3, Value::Number(300)), (70, Value::Bytes(&inner))]);
        assert_eq!(Fields::of(&inner).next(), Some(Ok((2, Value::Float(-1.5)))));
        for end in [1, 2, 4, 5, 7, bytes.len() - 1] {
            assert!(Fields::of(&bytes[..end]).any(|field| field.is_err()), "{end}");
        }
        assert!(Fields::of(&[0xff; 12]).next().is_some_and(|field| field.is_err()));
    }
}
