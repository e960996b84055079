//! Parallel text becomes padded batches of token ids: `text -> ids -> batch`, in plain host memory.
//!
//! In the order in which data flows: [`config`] and [`corpus`] turn files into [`corpus::Pair`]s, [`tokenizer`] turns
//! text into ids and back, [`id_cache`] keeps the ids of a corpus on disk, [`batching`] plans an [`epoch`], [`framing`] says
//! what a row is, [`batch`] pads and shifts, [`dropout`] varies BPE segmentations, and [`prefetch`] makes batches ahead of
//! time in the background.
//!
//! Text of one side goes the same way, as lines or, by [`window`], as a stream. Beside it are what other tasks learn from,
//! [`labeled`] text, an [`image_set`] and [`word_vectors`], and what language models are compared with, [`ngram`].

pub mod config;
pub mod error;
mod examples;
pub mod file;
mod images;
pub mod random;
mod text;
pub mod toy;

// What a source of text is: files and generated corpora become pairs, and tokenizers turn text into ids.
pub use text::{alignment, corpus, labeled, lines, ngram, special, tokenizer, word_vectors};
// What a source of images is.
pub use images::image_set;
// From a corpus to batches, in the order in which data flows.
pub use examples::{batch, batching, dropout, epoch, example, framing, id_cache, masking, prefetch, skip_gram, window};
