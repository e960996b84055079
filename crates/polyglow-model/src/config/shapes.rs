//! Complete shapes of the built-in architectures, one per file: sizes, checks, and what a forward
//! pass costs.

mod captioner;
mod encoder;
mod lm;
mod rnn;
mod rnn_lm;
mod skip_gram;
mod transformer;
mod vit;

pub use captioner::{CaptionDecoder, CaptionerShape};
pub use encoder::{Body, EncoderShape, Head, Pooling};
pub use lm::LmShape;
pub use rnn::RnnShape;
pub use rnn_lm::RnnLmShape;
pub use skip_gram::SkipGramShape;
pub use transformer::TransformerShape;
pub use vit::{ImageShape, PatchShape, VitShape};
