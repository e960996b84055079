//! Complete shapes of the built-in architectures, one per file: sizes, checks, what a forward pass
//! costs, and the row of the table of architectures.

pub(super) mod captioner;
pub(super) mod encoder;
mod keys;
pub(super) mod lm;
pub(super) mod rnn;
pub(super) mod rnn_lm;
pub(super) mod skip_gram;
pub(super) mod transformer;
pub(super) mod vit;

pub use captioner::{CaptionDecoder, CaptionerShape};
pub use encoder::{Body, EncoderShape, Head, Pooling};
pub use lm::LmShape;
pub use rnn::RnnShape;
pub use rnn_lm::RnnLmShape;
pub use skip_gram::SkipGramShape;
pub use transformer::TransformerShape;
pub use vit::{ImageShape, PatchShape, VitShape};
