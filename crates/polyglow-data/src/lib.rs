//! Parallel text becomes padded batches of token ids: `text -> ids -> batch`, in plain host memory.

pub mod config;
pub mod error;
mod examples;
pub mod file;
#[cfg(feature = "training")]
mod images;
pub mod random;
mod text;
#[cfg(feature = "training")]
pub mod toy;

// What a source of text is: files and generated corpora become pairs, and tokenizers turn text into ids.
pub use text::{alignment, special, tokenizer};
#[cfg(feature = "training")]
pub use text::{corpus, labeled, lines, ngram, word_vectors};
// What a source of images is.
#[cfg(feature = "training")]
pub use images::image_set;
// From a corpus to batches, in the order in which data flows.
pub use examples::{batch, example, framing, masking, skip_gram};
#[cfg(feature = "training")]
pub use examples::{batching, dropout, epoch, id_cache, prefetch, window};
