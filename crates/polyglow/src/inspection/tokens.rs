//! Whether the tokenizers were made for the text: those that a fork brings along may not have been.

use std::fs;
use std::path::Path;

use polyglow_data::tokenizer::Kind;
use polyglow_train::run::RunDirectory;
use polyglow_train::{Config, Plan};
use serde_json::Value;

use super::text::{SideStatistics, SplitReport};
use super::warning::Warning;

/// Tokens for each character above which text is cut into bytes.
const BYTES: f64 = 1.2;
/// The ratio of tokens per character to those of the tokenizer's own text above which there are too
/// many.
const TOO_MANY: f64 = 1.5;

/// The training text that the tokenizers of a fork were made for.
pub(super) struct OwnText {
    /// Source and target language, where they are named.
    languages: Option<[String; 2]>,
    /// Of the source and of the target.
    sides: [Own; 2],
}

/// A side of it.
struct Own {
    mean_len: f64,
    /// None in the reports of earlier versions.
    tokens_per_char: Option<f64>,
}

impl OwnText {
    /// Reads the report of the run from which a fork comes; `None` if it has none.
    pub(super) fn of_run(root: &Path) -> Option<Self> {
        let run = RunDirectory::new(root);
        let report: Value = serde_json::from_slice(&fs::read(run.inspection_path()).ok()?).ok()?;
        let train = report["splits"].get(0)?;
        let languages = run.config().ok().and_then(|config| languages(&config));
        Some(Self {
            languages,
            sides: [Own::read(&train["src"])?, Own::read(&train["tgt"])?],
        })
    }
}

impl Own {
    /// Reads the figures of a side in a run's report.
    fn read(side: &Value) -> Option<Self> {
        Some(Self {
            mean_len: side["mean_len"].as_f64()?,
            tokens_per_char: side["tokens_per_char"].as_f64(),
        })
    }
}

fn languages(config: &Config) -> Option<[String; 2]> {
    config
        .data
        .languages()
        .ok()
        .map(|(src, tgt)| [src.to_owned(), tgt.to_owned()])
}

/// Returns warnings about tokenizers that do not fit the text. `own` is the text that those of a
/// fork were made for.
pub(super) fn find(plan: &Plan, train: &SplitReport, own: Option<&OwnText>) -> Vec<Warning> {
    let config = &plan.config;
    let of_subwords = matches!(
        config.tokenizer.kind,
        Kind::Bpe | Kind::WordBpe | Kind::Unigram
    );
    let mut warnings = Vec::new();
    let now = languages(config);
    if let Some((before, now)) = own
        .and_then(|own| own.languages.clone())
        .zip(now)
        .filter(|(before, now)| before != now)
    {
        let [src, tgt] = before;
        let [new_src, new_tgt] = now;
        let message = format!(
            "the run was trained from `{src}` to `{tgt}`, and is now trained from `{new_src}` to `{new_tgt}`"
        );
        let hint = "a fork keeps the tokenizers; a new run without `--fork` makes its own";
        warnings.push(Warning::new(message, hint));
    }
    for (side, (name, found)) in [("source", &train.src), ("target", &train.tgt)]
        .into_iter()
        .enumerate()
    {
        let own = own.map(|own| &own.sides[side]);
        if let Some(message) = ill_fitting(name, found, own, of_subwords) {
            let hint = "a tokenizer made for this text makes shorter sequences, which train faster and better: leave out \
                        `--fork` or `tokenizer.path`, or raise `tokenizer.vocab_size`";
            warnings.push(Warning::new(message, hint));
        }
    }
    warnings
}

/// Why the tokenizer of a side does not fit its text, if it does not.
fn ill_fitting(
    side: &str,
    found: &SideStatistics,
    own: Option<&Own>,
    of_subwords: bool,
) -> Option<String> {
    let &SideStatistics {
        mean_len,
        tokens_per_char,
        ..
    } = found;
    if let Some(own) = own {
        let times = match own.tokens_per_char {
            Some(own) => tokens_per_char / own.max(f64::MIN_POSITIVE),
            // Sentences may be longer for other reasons.
            None => mean_len / own.mean_len.max(f64::MIN_POSITIVE) / TOO_MANY,
        };
        if times > TOO_MANY && tokens_per_char > 0.0 {
            return Some(format!(
                "train: the tokenizer does not fit the {side}: {mean_len:.1} tokens a sentence, and {:.1} in the text that it \
                 was made for; {times:.1} times as many for each character",
                own.mean_len
            ));
        }
    }
    (of_subwords && tokens_per_char > BYTES).then(|| {
        format!(
            "train: the tokenizer does not fit the {side}: it makes {tokens_per_char:.1} tokens of a character, {mean_len:.1} a \
             sentence, as if it knew bytes alone"
        )
    })
}

#[cfg(test)]
mod tests {
    use polyglow_data::example::SideReport;

    use super::*;

    fn side(mean_len: f64, tokens_per_char: f64) -> SideStatistics {
        SideStatistics {
            side: SideReport::default(),
            mean_len,
            unknown_rate: 0.0,
            tokens_per_char,
            changed_words: 0,
        }
    }

    #[test]
    fn a_tokenizer_fits_until_it_makes_half_as_many_tokens_again_as_of_its_own_text() {
        let own = Own {
            mean_len: 12.4,
            tokens_per_char: Some(0.3),
        };
        assert_eq!(
            ill_fitting("target", &side(17.0, 0.44), Some(&own), true),
            None
        );
        let found =
            ill_fitting("target", &side(55.4, 2.1), Some(&own), true).expect("it does not fit");
        assert!(
            found.contains("55.4 tokens a sentence, and 12.4 in the text"),
            "{found}"
        );
        // Reports of earlier versions have no characters.
        let old = Own {
            tokens_per_char: None,
            ..own
        };
        assert_eq!(
            ill_fitting("target", &side(26.0, 0.4), Some(&old), true),
            None
        );
        assert!(ill_fitting("target", &side(55.4, 0.9), Some(&old), true).is_some());
    }

    #[test]
    fn without_its_own_text_only_bytes_are_told() {
        assert_eq!(ill_fitting("source", &side(30.0, 1.0), None, true), None);
        assert!(
            ill_fitting("source", &side(60.0, 2.0), None, true)
                .is_some_and(|found| found.contains("bytes alone"))
        );
        assert_eq!(ill_fitting("source", &side(60.0, 2.0), None, false), None);
    }
}
