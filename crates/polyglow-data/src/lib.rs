//! Parallel text becomes padded batches of token ids: `text -> ids -> batch`, in plain host memory.
//!
//! In the order in which data flows: [`config`] and [`corpus`] turn files into [`corpus::Pair`]s, [`tokenizer`] turns
//! text into ids and back, [`id_cache`] keeps the ids of a corpus on disk, [`batching`] plans an [`epoch`], [`framing`] says
//! what a row is, [`batch`] pads and shifts, [`dropout`] varies BPE segmentations, and [`prefetch`] makes batches ahead of
//! time in the background.
//!
//! Text of one side goes the same way, as lines or, by [`window`], as a stream. Beside it are what other tasks learn from,
//! [`labeled`] text, an [`image_set`] and [`word_vectors`], and what language models are compared with, [`ngram`].

pub mod alignment;
pub mod batch;
pub mod batching;
pub mod config;
pub mod corpus;
pub mod dropout;
pub mod epoch;
pub mod error;
pub mod example;
pub mod framing;
pub mod id_cache;
pub mod image_set;
pub mod labeled;
pub mod lines;
pub mod masking;
pub mod ngram;
pub mod prefetch;
pub mod random;
pub mod skip_gram;
pub mod special;
pub mod tokenizer;
pub mod toy;
pub mod window;
pub mod word_vectors;
