//! Scores translations against references, number for number as
//! [sacreBLEU](https://github.com/mjpost/sacrebleu) 2.6.
//!
//! # Which metric
//!
//! | metric | options | compares | best |
//! |---|---|---|---|
//! | BLEU | [`BleuOptions`] | n-grams of words, up to four | 100 |
//! | chrF, chrF++ | [`ChrfOptions`] | n-grams of characters, in chrF++ of words too | 100 |
//! | TER | [`TerOptions`] | edits of words, with shifts of phrases, per hundred reference words | 0 |
//! | exact match | [`exact_match()`] | whole lines | 1 |
//! | F1 of spans | [`span_scores()`] | spans, such as names, of tagged sentences | 1 |
//!
//! BLEU is what most papers report. chrF needs no word boundaries and gives credit for a right stem
//! with a wrong ending, so prefer it for morphologically rich languages. TER estimates the work of
//! a post-editor. Exact match suits tasks with one right answer. [`Measure`] has the keys and
//! titles of these four. Precision, recall and F1 of spans judge a tagger, and are seqeval's.
//!
//! # Which options
//!
//! All defaults are sacreBLEU's; keep them for scores that others can compare with theirs. Three
//! are worth a thought:
//!
//! - [`BleuOptions::tokenizer`]: hypotheses and references are plain, detokenized text, and BLEU
//!   splits it into words itself. [`TokenizerChoice::Auto`] chooses for a language or a text whose
//!   script has no spaces; text that is tokenized already needs [`Tokenizer::None`].
//! - [`BleuOptions::effective_order`]: turn it on for [`sentence_scores`]: a sentence may have
//!   fewer than four words.
//! - [`ChrfOptions::plus_plus`] counts words too, which makes it sensitive to their order.
//!
//! # What a signature says
//!
//! Scores are comparable only if they were computed in the same way. [`Metric::signature`] records
//! that way; report it with every score.
//! `nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:polyglow-metrics-0.1.0` says: two
//! references per segment, case kept, no effective order, tokenizer `13a`, [`Smoothing::Exp`], and
//! which program computed it. Without the version, it is the signature that sacreBLEU prints.
//!
//! # Example
//!
//! The text and its BLEU and chrF are those of sacreBLEU's README.
//!
//! ```
//! use polyglow_metrics::{BleuOptions, ChrfOptions, Metric, TerOptions, corpus_score, exact_match};
//!
//! let hypotheses = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."];
//! // One stream per reference, with one line per hypothesis.
//! let references = [
//!     vec!["The dog bit the man.", "It was not unexpected.", "The man bit him first."],
//!     vec!["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."],
//! ];
//!
//! let bleu = BleuOptions::default();
//! let score = corpus_score(&bleu, &hypotheses, &references)?;
//! let expected = "BLEU = 48.53 82.4/50.0/45.5/37.5 (BP = 0.943 ratio = 0.944 hyp_len = 17 ref_len = 18)";
//! assert_eq!(score.to_string(), expected);
//! let signature = bleu.signature(references.len()).to_string();
//! assert!(signature.starts_with("nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:polyglow-metrics-"));
//!
//! let chrf = corpus_score(&ChrfOptions::default(), &hypotheses, &references)?;
//! assert_eq!(chrf.to_string(), "chrF2 = 59.73");
//! let ter = corpus_score(&TerOptions::default(), &hypotheses, &references)?;
//! assert_eq!(ter.to_string(), "TER = 40.00");
//! assert_eq!(exact_match(&hypotheses, &references[0])?, 1.0 / 3.0);
//! # Ok::<(), polyglow_metrics::MetricError>(())
//! ```
//!
//! # How it works
//!
//! A metric is a plain struct of options that implements [`Metric`]. It counts each segment once
//! ([`segment_statistics`]); every score is then a function of summed counts, so the same code
//! scores a corpus ([`corpus_score`]), a sentence ([`sentence_scores`]) and a resampled corpus.
//! [`significance`] resamples the counts to tell whether two systems differ by more than chance.
//!
//! Scores differ from sacreBLEU's by less than 1e-11, p-values not at all. Quirks of sacreBLEU are
//! imitated, and a comment at each says so.

mod bleu;
mod chrf;
mod error;
mod exact_match;
mod measure;
mod metric;
mod ngram;
mod python;
mod score;
mod signature;
pub mod significance;
mod spans;
mod statistics;
mod ter;
mod tokenizer;

pub use bleu::smoothing::Smoothing;
pub use bleu::{BleuOptions, BleuScore};
pub use chrf::{ChrfOptions, ChrfScore};
pub use error::MetricError;
pub use exact_match::exact_match;
pub use measure::Measure;
pub use metric::{Metric, corpus_score, segment_statistics, sentence_scores};
pub use python::arithmetic::{Arithmetic, ResampledScore};
pub use python::lines;
pub use score::Score;
pub use signature::Signature;
pub use spans::{Span, SpanScores, has_spans, span_scores, spans};
pub use statistics::Statistics;
pub use ter::{TerOptions, TerScore};
pub use tokenizer::{
    MecabDictionary, SentencePieceModel, Tokenizer, TokenizerChoice, TokenizerName,
};
