//! What a trained model is used for: one path each from lines to lines, to labels, to scores and to links between words.

pub mod alignment;
pub mod classification;
pub mod confusion;
pub mod evaluation;
pub mod forced;
pub mod split;
pub mod translate;
pub mod unknown_words;
