//! Text: lines of files become pairs of sentences, and tokenizers turn sentences into ids and back.

pub mod alignment;
#[cfg(feature = "training")]
pub mod compression;
#[cfg(feature = "training")]
pub mod corpus;
pub(crate) mod encoding;
#[cfg(feature = "training")]
pub mod labeled;
#[cfg(feature = "training")]
pub mod lines;
#[cfg(feature = "training")]
pub mod ngram;
pub mod pair;
#[cfg(feature = "training")]
pub mod pair_files;
pub mod pair_tags;
#[cfg(feature = "training")]
pub mod raw_bytes;
pub mod script;
pub mod special;
#[cfg(feature = "training")]
pub mod tagged;
pub mod tokenizer;
#[cfg(feature = "training")]
pub mod word_vectors;
