//! SentencePiece's protocol buffers (its `sentencepiece_model.proto`), as far as they are read and
//! written here.

use prost::{Enumeration, Message};

/// A whole model.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Model {
    #[prost(message, repeated, tag = "1")]
    pub(super) pieces: Vec<Piece>,
    #[prost(message, optional, tag = "2")]
    pub(super) trainer: Option<Trainer>,
    #[prost(message, optional, tag = "3")]
    pub(super) normalizer: Option<Normalizer>,
}

/// An entry of the vocabulary.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Piece {
    #[prost(string, optional, tag = "1")]
    pub(super) text: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub(super) score: Option<f32>,
    #[prost(enumeration = "PieceKind", optional, tag = "3", default = "Normal")]
    pub(super) kind: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum PieceKind {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6,
}

/// The settings of the training, and the ids and spellings of the special tokens.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Trainer {
    #[prost(enumeration = "ModelKind", optional, tag = "3", default = "Unigram")]
    pub(super) kind: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub(super) vocab_size: Option<i32>,
    #[prost(bool, optional, tag = "24")]
    pub(super) treat_whitespace_as_suffix: Option<bool>,
    #[prost(bool, optional, tag = "35")]
    pub(super) byte_fallback: Option<bool>,
    #[prost(int32, optional, tag = "40")]
    pub(super) unk_id: Option<i32>,
    #[prost(int32, optional, tag = "41")]
    pub(super) bos_id: Option<i32>,
    #[prost(int32, optional, tag = "42")]
    pub(super) eos_id: Option<i32>,
    #[prost(int32, optional, tag = "43")]
    pub(super) pad_id: Option<i32>,
    #[prost(string, optional, tag = "45")]
    pub(super) unk_piece: Option<String>,
    #[prost(string, optional, tag = "46")]
    pub(super) bos_piece: Option<String>,
    #[prost(string, optional, tag = "47")]
    pub(super) eos_piece: Option<String>,
    #[prost(string, optional, tag = "48")]
    pub(super) pad_piece: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum ModelKind {
    Unigram = 1,
    Bpe = 2,
    Word = 3,
    Char = 4,
}

/// The normalization of text.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Normalizer {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    /// A table of characters, compiled by SentencePiece.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) charsmap: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "3", default = "true")]
    pub(super) add_dummy_prefix: Option<bool>,
    #[prost(bool, optional, tag = "4", default = "true")]
    pub(super) remove_extra_whitespaces: Option<bool>,
    #[prost(bool, optional, tag = "5", default = "true")]
    pub(super) escape_whitespaces: Option<bool>,
}
