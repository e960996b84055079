//! The file of a model: a message of Protocol Buffers, `sentencepiece_model.proto`.

/// What is wrong with a file.
type Parsed<T> = Result<T, &'static str>;

/// What a piece is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceKind {
    Normal,
    /// Found in any text, whatever its score.
    UserDefined,
    /// Known, and not to be used.
    Unused,
    /// The unknown piece, and those that stand for no text.
    Other,
}

/// A piece of text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    /// Logarithm of its probability.
    pub(super) score: f32,
    pub(super) kind: PieceKind,
}

/// How text is changed before it is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "these are SentencePiece's four switches, independent of each other")]
pub(super) struct NormalizerSettings {
    /// Characters and what they become.
    pub(super) characters: Vec<u8>,
    /// Whether a space is put before the text.
    pub(super) dummy_prefix: bool,
    /// Whether spaces at both ends, and all but one of several, are removed.
    pub(super) single_spaces: bool,
    /// Whether a space becomes U+2581.
    pub(super) visible_spaces: bool,
    /// Whether the space of a word stands behind it.
    pub(super) spaces_behind: bool,
}

/// All that is read of a model.
pub(super) struct Model {
    pub(super) pieces: Vec<Piece>,
    pub(super) normalizer: NormalizerSettings,
    pub(super) byte_fallback: bool,
}

/// The value of a field, by its type.
enum Value<'a> {
    Number(u64),
    Bits(u32),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    fn is_true(&self) -> bool {
        matches!(self, Self::Number(1..))
    }
}

impl Model {
    /// # Errors
    /// The file is no such message, or of another type of model.
    pub(super) fn parse(file: &[u8]) -> Parsed<Self> {
        const UNIGRAM: u64 = 1;
        let mut pieces = Vec::new();
        let (mut byte_fallback, mut model_type) = (false, UNIGRAM);
        let mut normalizer = NormalizerSettings {
            characters: Vec::new(),
            dummy_prefix: true,
            single_spaces: true,
            visible_spaces: true,
            spaces_behind: false,
        };
        for_each_field(file, |field, value| {
            match (field, value) {
                (1, Value::Bytes(piece)) => pieces.push(parse_piece(piece)?),
                (2, Value::Bytes(trainer)) => for_each_field(trainer, |field, value| {
                    match (field, &value) {
                        (3, Value::Number(number)) => model_type = *number,
                        (24, _) => normalizer.spaces_behind = value.is_true(),
                        (35, _) => byte_fallback = value.is_true(),
                        _ => {}
                    }
                    Ok(())
                })?,
                (3, Value::Bytes(settings)) => for_each_field(settings, |field, value| {
                    match (field, &value) {
                        (2, Value::Bytes(characters)) => normalizer.characters = characters.to_vec(),
                        (3, _) => normalizer.dummy_prefix = value.is_true(),
                        (4, _) => normalizer.single_spaces = value.is_true(),
                        (5, _) => normalizer.visible_spaces = value.is_true(),
                        _ => {}
                    }
                    Ok(())
                })?,
                _ => {}
            }
            Ok(())
        })?;
        if model_type != UNIGRAM {
            return Err("it is not of the type `unigram`");
        }
        if !pieces.iter().any(|piece| piece.kind == PieceKind::Normal) {
            return Err("it has no pieces");
        }
        Ok(Self { pieces, normalizer, byte_fallback })
    }
}

fn parse_piece(message: &[u8]) -> Parsed<Piece> {
    let mut piece = Piece { text: String::new(), score: 0.0, kind: PieceKind::Normal };
    for_each_field(message, |field, value| {
        match (field, value) {
            (1, Value::Bytes(text)) => {
                String::from_utf8(text.to_vec()).map_err(|_| "a piece is not UTF-8")?.clone_into(&mut piece.text);
            }
            (2, Value::Bits(score)) => piece.score = f32::from_bits(score),
            (3, Value::Number(1)) => piece.kind = PieceKind::Normal,
            (3, Value::Number(4)) => piece.kind = PieceKind::UserDefined,
            (3, Value::Number(5)) => piece.kind = PieceKind::Unused,
            (3, Value::Number(_)) => piece.kind = PieceKind::Other,
            _ => {}
        }
        Ok(())
    })?;
    if piece.score.is_finite() { Ok(piece) } else { Err("a score is not a number") }
}

/// Goes through the fields of a message.
fn for_each_field<'a>(mut message: &'a [u8], mut visit: impl FnMut(u64, Value<'a>) -> Parsed<()>) -> Parsed<()> {
    while !message.is_empty() {
        let key = take_number(&mut message)?;
        let value = match key & 7 {
            0 => Value::Number(take_number(&mut message)?),
            1 => Value::Bytes(take(&mut message, 8)?),
            2 => {
                let len = usize::try_from(take_number(&mut message)?).map_err(|_| CUT_OFF)?;
                Value::Bytes(take(&mut message, len)?)
            }
            5 => {
                let bytes = take(&mut message, 4)?;
                Value::Bits(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            }
            _ => return Err("it is no message of Protocol Buffers"),
        };
        visit(key >> 3, value)?;
    }
    Ok(())
}

const CUT_OFF: &str = "it is cut off, or no message of Protocol Buffers";

fn take<'a>(message: &mut &'a [u8], len: usize) -> Parsed<&'a [u8]> {
    let (taken, rest) = message.split_at_checked(len).ok_or(CUT_OFF)?;
    *message = rest;
    Ok(taken)
}

/// Seven bits a byte, the low ones first; the last byte has no high bit.
fn take_number(message: &mut &[u8]) -> Parsed<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(message, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(CUT_OFF)
}
