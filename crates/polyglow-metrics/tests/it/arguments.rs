//! The options of sacreBLEU's metrics under its own names, and what they are called here.

use polyglow_metrics::{BleuOptions, ChrfOptions, Smoothing, TerOptions, Tokenizer, TokenizerName};
use serde::Deserialize;

/// One of the tokenizers that need no file.
pub(crate) fn golden_tokenizer(name: &str) -> Tokenizer {
    let name: TokenizerName = name.parse().expect("sacreBLEU knows the tokenizer");
    name.open(None, None).expect("it needs no file")
}

/// The options of sacreBLEU's `BLEU`, with its names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BleuArguments {
    tokenize: Option<String>,
    smooth_method: Option<String>,
    smooth_value: Option<f64>,
    max_ngram_order: Option<usize>,
    #[serde(default)]
    lowercase: bool,
    #[serde(default)]
    effective_order: bool,
}

impl BleuArguments {
    pub(crate) fn options(&self) -> BleuOptions {
        let tokenizer = self.tokenize.as_deref().unwrap_or("13a");
        let method = self.smooth_method.as_deref().unwrap_or("exp");
        BleuOptions {
            tokenizer: golden_tokenizer(tokenizer),
            smoothing: Smoothing::new(method, self.smooth_value)
                .expect("sacreBLEU knows the method"),
            lowercase: self.lowercase,
            effective_order: self.effective_order,
            max_order: self.max_ngram_order.unwrap_or(4),
        }
    }
}

/// The options of sacreBLEU's `CHRF`, with its names.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChrfArguments {
    char_order: Option<usize>,
    #[serde(default)]
    word_order: usize,
    beta: Option<u32>,
    #[serde(default)]
    lowercase: bool,
    #[serde(default)]
    whitespace: bool,
    #[serde(default)]
    eps_smoothing: bool,
}

impl ChrfArguments {
    pub(crate) fn options(&self) -> ChrfOptions {
        ChrfOptions {
            char_order: self.char_order.unwrap_or(6),
            word_order: self.word_order,
            beta: self.beta.unwrap_or(2),
            lowercase: self.lowercase,
            whitespace: self.whitespace,
            eps_smoothing: self.eps_smoothing,
        }
    }
}

/// The options of sacreBLEU's `TER`, with its names.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "these are the four switches of sacreBLEU's TER"
)]
pub(crate) struct TerArguments {
    normalized: bool,
    no_punct: bool,
    asian_support: bool,
    case_sensitive: bool,
}

impl TerArguments {
    pub(crate) fn options(&self) -> TerOptions {
        TerOptions {
            case_sensitive: self.case_sensitive,
            normalized: self.normalized,
            no_punctuation: self.no_punct,
            asian_support: self.asian_support,
        }
    }
}
