//! Integration tests of polyglow-data: from files to batches.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot continue should stop where it is"
)]

mod batching;
mod captions;
mod classification;
mod cleaning;
mod corpus;
mod id_cache;
mod image_set;
mod labeled;
mod mixtures;
mod moses;
mod ngram;
mod prefetch;
mod segmenter;
mod sentencepiece;
mod shapes;
mod skip_gram;
mod tagged;
mod tmx;
mod tokenizer;
mod toy;
mod window;
