//! The built-in architectures, one per file: each implements the traits of [`crate::architecture`].

mod captioner;
mod encoder_only;
mod lm;
mod rnn;
mod rnn_lm;
mod skip_gram;
mod transformer;
mod vit;

pub use captioner::{CaptionCache, Captioner, TextDecoder};
pub use encoder_only::{EncoderOnly, TextEncoder};
pub use lm::{LanguageModel, TextCache};
pub use rnn::{Rnn, RnnCache};
pub use rnn_lm::{RecurrentLanguageModel, States};
pub use skip_gram::SkipGramModel;
pub use transformer::{Memory, Transformer};
pub use vit::Vit;
