//! The file of a model: a message of Protocol Buffers, `sentencepiece_model.proto`, of which only the
//! fields that cutting text needs are read.

use prost::Message;

/// The content of a file, or what is wrong with it.
type Parsed<T> = Result<T, &'static str>;

/// The role of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceKind {
    Normal,
    /// Cut out of any text, whatever its score.
    UserDefined,
    /// In the vocabulary, but never used.
    Unused,
    /// The unknown piece, control symbols and bytes, which no text is cut into.
    Other,
}

/// A piece of text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    /// The log-probability, in nats.
    pub(super) score: f32,
    pub(super) kind: PieceKind,
}

/// The normalization of text before it is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "these are SentencePiece's four switches, independent of each other"
)]
pub(super) struct NormalizerSettings {
    /// The compiled rules for characters.
    pub(super) characters: Vec<u8>,
    /// Whether a space is put before the text.
    pub(super) dummy_prefix: bool,
    /// Whether spaces at both ends, and all but one of several, are removed.
    pub(super) single_spaces: bool,
    /// Whether a space becomes U+2581.
    pub(super) visible_spaces: bool,
    /// Whether a word has its space behind it and not before.
    pub(super) spaces_behind: bool,
}

/// The part of a model that is read.
pub(super) struct Model {
    pub(super) pieces: Vec<Piece>,
    pub(super) normalizer: NormalizerSettings,
    pub(super) byte_fallback: bool,
}

/// The messages, with the fields that are read here.
mod proto {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Model {
        #[prost(message, repeated, tag = "1")]
        pub(super) pieces: Vec<Piece>,
        #[prost(message, optional, tag = "2")]
        pub(super) trainer: Option<Trainer>,
        #[prost(message, optional, tag = "3")]
        pub(super) normalizer: Option<Normalizer>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Piece {
        #[prost(string, optional, tag = "1")]
        pub(super) text: Option<String>,
        #[prost(float, optional, tag = "2")]
        pub(super) score: Option<f32>,
        #[prost(int32, optional, tag = "3", default = "1")]
        pub(super) kind: Option<i32>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Trainer {
        #[prost(int32, optional, tag = "3", default = "1")]
        pub(super) model_type: Option<i32>,
        #[prost(bool, optional, tag = "24")]
        pub(super) treat_whitespace_as_suffix: Option<bool>,
        #[prost(bool, optional, tag = "35")]
        pub(super) byte_fallback: Option<bool>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Normalizer {
        #[prost(bytes = "vec", optional, tag = "2")]
        pub(super) charsmap: Option<Vec<u8>>,
        #[prost(bool, optional, tag = "3", default = "true")]
        pub(super) add_dummy_prefix: Option<bool>,
        #[prost(bool, optional, tag = "4", default = "true")]
        pub(super) remove_extra_whitespaces: Option<bool>,
        #[prost(bool, optional, tag = "5", default = "true")]
        pub(super) escape_whitespaces: Option<bool>,
    }
}

impl Model {
    /// Parses the bytes of a file.
    ///
    /// # Errors
    /// The file is no such message, or of another type of model.
    pub(super) fn parse(file: &[u8]) -> Parsed<Self> {
        const UNIGRAM: i32 = 1;
        let model = proto::Model::decode(file)
            .map_err(|_| "it is damaged, cut off, or no message of Protocol Buffers")?;
        let trainer = model.trainer.unwrap_or_default();
        let normalizer = model.normalizer.unwrap_or_default();
        if trainer.model_type() != UNIGRAM {
            return Err("it is not of the type `unigram`");
        }
        let pieces = model.pieces.into_iter().map(Piece::new);
        let pieces = pieces.collect::<Parsed<Vec<_>>>()?;
        if !pieces.iter().any(|piece| piece.kind == PieceKind::Normal) {
            return Err("it has no pieces");
        }
        let normalizer = NormalizerSettings {
            dummy_prefix: normalizer.add_dummy_prefix(),
            single_spaces: normalizer.remove_extra_whitespaces(),
            visible_spaces: normalizer.escape_whitespaces(),
            spaces_behind: trainer.treat_whitespace_as_suffix(),
            characters: normalizer.charsmap.unwrap_or_default(),
        };
        Ok(Self {
            pieces,
            normalizer,
            byte_fallback: trainer.byte_fallback(),
        })
    }
}

impl Piece {
    fn new(piece: proto::Piece) -> Parsed<Self> {
        let score = piece.score();
        let kind = match piece.kind() {
            1 => PieceKind::Normal,
            4 => PieceKind::UserDefined,
            5 => PieceKind::Unused,
            _ => PieceKind::Other,
        };
        if !score.is_finite() {
            return Err("a score is not a number");
        }
        Ok(Self {
            text: piece.text.unwrap_or_default(),
            score,
            kind,
        })
    }

    /// The byte of its text at an index, if it is so long.
    pub(super) fn byte(&self, index: usize) -> Option<u8> {
        self.text.as_bytes().get(index).copied()
    }
}
