//! Scores translations against references, number for number as sacreBLEU 2.6 does.
//!
//! A metric is a plain struct of options ([`BleuOptions`], [`ChrfOptions`], [`TerOptions`]) that implements [`Metric`]. It counts
//! each segment once ([`segment_statistics`]); every score is then a function of summed counts, so that a corpus, a
//! sentence and a resampled corpus are all scored by the same code. [`significance`] tells whether two systems differ.
//!
//! ```
//! use polyglow_metrics::{BleuOptions, Metric, corpus_score};
//!
//! let bleu = BleuOptions::default();
//! let hypotheses = ["The dog bit the man.", "It was not surprising."];
//! let references = vec![vec!["The dog bit the man.", "It was not unexpected."]];
//! let score = corpus_score(&bleu, &hypotheses, &references)?;
//! assert_eq!(format!("{:.2}", score.score), "74.19");
//! println!("{score} {}", bleu.signature(references.len()));
//! # Ok::<(), polyglow_metrics::MetricError>(())
//! ```

mod arithmetic;
mod bleu;
mod chrf;
mod error;
mod exact_match;
mod metric;
mod ngram;
mod python;
mod score;
mod signature;
pub mod significance;
mod smoothing;
mod statistics;
mod ter;
mod tokenizer;

pub use arithmetic::{Arithmetic, ResampledScore};
pub use bleu::{BleuOptions, BleuScore};
pub use chrf::{ChrfOptions, ChrfScore};
pub use error::MetricError;
pub use exact_match::exact_match;
pub use metric::{Metric, corpus_score, segment_statistics, sentence_scores};
pub use python::lines;
pub use score::Score;
pub use signature::Signature;
pub use smoothing::Smoothing;
pub use statistics::Statistics;
pub use ter::{TerOptions, TerScore};
pub use tokenizer::Tokenizer;
