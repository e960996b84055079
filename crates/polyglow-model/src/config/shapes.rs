//! Complete shapes of the built-in architectures, one per file: sizes, checks, and what a forward pass costs.

mod encoder;
mod lm;
mod rnn;
mod rnn_lm;
mod skip_gram;
mod transformer;
mod vit;

pub use encoder::{EncoderShape, Head, Pooling};
pub use lm::LmShape;
pub use rnn::RnnShape;
pub use rnn_lm::RnnLmShape;
pub use skip_gram::SkipGramShape;
pub use transformer::TransformerShape;
pub use vit::{ImageShape, VitShape};
