#![doc = include_str!("../README.md")]

mod beam;
mod translator;
#[cfg(target_arch = "wasm32")]
mod wasm;

pub use beam::{Beam, Next, Row, Token};
pub use polyglow_predict::sentences::Part;
pub use translator::{Translation, TranslationRequest, Translator};
