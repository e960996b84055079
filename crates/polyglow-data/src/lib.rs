//! From text and images to padded batches of token ids, in plain host memory.
//!
//! This is the data side of polyglow, which trains Transformers for translation and related tasks.
//! It knows neither models nor tensors: a batch consists of vectors of integers, or of pixels. Data
//! flows in this order:
//!
//! 1. [`config`] says which files, or which generated corpus ([`toy`]), are read; [`corpus`]
//!    streams their pairs, and [`image_set`] holds images.
//! 2. [`tokenizer`] learns a vocabulary, and turns text into ids and back.
//! 3. [`id_cache`] keeps the ids of a corpus on disk, so that memory hardly grows with the text.
//! 4. [`sources`] make batches, one kind for each kind of data: [`batching`] groups items of
//!    similar length, in an order that is a pure function of the seed, the epoch and the position,
//!    so that training can be resumed anywhere, and [`padded`] makes rectangles of their rows.
//! 5. [`prefetch`] does all this in a background thread.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//!
//! use polyglow_data::batching::{BatchingConfig, Selection};
//! use polyglow_data::config::{Content, DataConfig, Split};
//! use polyglow_data::corpus::Corpus;
//! use polyglow_data::example::configured_filter;
//! use polyglow_data::id_cache::IdCache;
//! use polyglow_data::sources::{BatchSource, PairSource};
//! use polyglow_data::tokenizer::{Segmentation, TokenizerConfig, Tokenizers};
//!
//! // A generated corpus; with files, set `train`, `src` and `tgt` instead.
//! let data = DataConfig::embedded("digits");
//! let corpus = Corpus::open(&data, Content::PAIRS, Split::Valid)?;
//! let config = TokenizerConfig { vocab_size: 270, ..TokenizerConfig::default() };
//! let tokenizers = Tokenizers::train(&config, &corpus, &mut |_, _| {})?;
//!
//! let dir = tempfile::tempdir()?;
//! let (path, filter) = (dir.path().join("valid.ids"), configured_filter(&data, Content::PAIRS));
//! let (cache, report) = IdCache::open_or_build(&path, &corpus, &tokenizers, filter.as_deref(), &mut |_, _| {})?;
//! assert_eq!(report.kept, 500);
//!
//! let batching = BatchingConfig { max_tokens: 1000, pad_multiple: 1, seed: 1, segmentation: Segmentation::Fixed, selection: Selection::V2 };
//! let source = PairSource::new(Arc::new(cache), batching, false)?;
//! let plan = source.plan(0)?;
//! let batch = source.batch(0, plan.batch(0))?;
//! assert_eq!(batch.src.ids.len(), batch.src.num_rows() * batch.src.len);
//! assert!(batch.tgt_in.num_positions() <= 1000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! Both are on by default.
//!
//! - `training`: everything that reads corpora, trains tokenizers and plans epochs. What
//!   translating needs remains without it: tokenizers from bytes or files, and batches of given
//!   ids.
//! - `native-tokenizers`: the C and C++ parts of Hugging Face's `tokenizers`. Without it everything
//!   is Rust.
//!
//! With neither feature the crate compiles for a browser.

pub mod align;
mod batches;
#[cfg(feature = "training")]
pub mod clean;
pub mod config;
pub mod error;
pub mod file;
#[cfg(feature = "training")]
mod images;
pub mod random;
mod text;
#[cfg(feature = "training")]
pub mod toy;

// What a source of text is: files and generated corpora become pairs, and tokenizers turn text into
// ids.
pub use text::{alignment, pair, pair_tags, script, special, tokenizer};
#[cfg(feature = "training")]
pub use text::{
    compression, corpus, labeled, lines, ngram, pair_files, pair_scores, raw_bytes, tagged,
    word_vectors,
};
// What a source of images is.
#[cfg(feature = "training")]
pub use images::image_set;
// From a corpus to batches, in the order in which data flows.
#[cfg(feature = "training")]
pub use batches::{augmentation, batching, id_cache, prefetch, segmenter, sources, window};
pub use batches::{batch, example, masking, noise, padded, skip_gram};
