//! What is suspicious about a config and its data, and what to do about it.

use std::fmt;

use polyglow_model::Precision;
use polyglow_train::config::Config;
use serde::Serialize;

use super::BatchesReport;
use super::text::SplitReport;

/// Share of unknown tokens above which a vocabulary looks wrong.
const UNKNOWN: f64 = 0.01;
/// Share of duplicates above which a corpus looks wrong.
const DUPLICATES: f64 = 0.1;
/// Share of copies of the source above which a corpus looks wrong.
const COPIES: f64 = 0.05;
/// Share of the pairs left out above which a corpus or a limit looks wrong.
const LEFT_OUT: f64 = 0.1;

/// Something that is rarely intended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Warning {
    /// What was found.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{}; {}", self.message, self.hint)
    }
}

/// Goes through everything that can be suspicious.
pub(super) fn find(
    config: &Config,
    splits: &[SplitReport],
    batches: &BatchesReport,
    links: Option<u64>,
) -> Vec<Warning> {
    let embedded = config.data.corpus.is_some();
    let mut warnings: Vec<Warning> = splits.iter().flat_map(|split| of_split(split, embedded)).collect();
    if let Some(links) = links.filter(|links| *links == 0 || config.train.alignment_weight == 0.0) {
        let message = format!("`data.alignments` has {links} links, which are not used");
        let hint = "guided alignment needs links, and a `train.alignment_weight` above 0";
        warnings.push(Warning { message, hint: hint.to_owned() });
    }
    if !splits.iter().any(|split| split.name == "valid") {
        let message = "there is no `data.valid`".to_owned();
        let hint = "without it overfitting goes unnoticed: there is no `best` checkpoint and no patience";
        warnings.push(Warning { message, hint: hint.to_owned() });
    }
    if config.train.precision == Precision::Bf16 && config.device == "flex" {
        let message = "`train.precision = \"bf16\"` is only emulated on `flex`".to_owned();
        let hint = "it shows the effect on the loss; \"f32\" is much faster there";
        warnings.push(Warning { message, hint: hint.to_owned() });
    }
    let (warmup, steps) = (config.train.warmup_steps, batches.steps);
    if warmup >= steps {
        let message = format!("the warm-up of {warmup} steps is not shorter than the training of {steps}");
        let hint = "the learning rate never reaches its peak; lower `train.warmup_steps` or train longer";
        warnings.push(Warning { message, hint: hint.to_owned() });
    }
    warnings
}

/// Nobody can change what an embedded corpus repeats; but that its scores are of what was trained on, all should know.
fn of_split(split: &SplitReport, embedded: bool) -> Vec<Warning> {
    let name = &split.name;
    let mut warnings = Vec::new();
    let mut warn = |suspicious: bool, message: String, hint: &str| {
        if suspicious {
            warnings.push(Warning { message, hint: hint.to_owned() });
        }
    };
    for (language, side) in [("source", &split.src), ("target", &split.tgt)] {
        let rate = side.unknown_rate;
        let message = format!("{name}: {} of the {language} tokens are unknown to the vocabulary", percent(rate));
        let hint = "raise `tokenizer.vocab_size`, or take `tokenizer.kind = \"bpe\"`, which knows every text";
        warn(rate > UNKNOWN, message, hint);
    }
    let count = |count: u64| (count, percent(split.share(count)));
    let (left_out, share) = count(split.left_out());
    let SplitReport { empty, too_long, ratio, .. } = split;
    warn(
        split.share(left_out) > LEFT_OUT,
        format!(
            "{name}: {left_out} pairs ({share}) are left out: {empty} with an empty side, {too_long} too long, {ratio} by length ratio"
        ),
        "look whether lines belong together, or raise `data.max_len` or `data.max_length_ratio`",
    );
    let (duplicates, share) = count(split.duplicates);
    warn(
        !embedded && split.share(duplicates) > DUPLICATES,
        format!("{name}: {duplicates} pairs ({share}) repeat an earlier one"),
        "remove them: repeated pairs are memorized, and count several times in scores",
    );
    let (copies, share) = count(split.copies);
    warn(
        !embedded && split.share(copies) > COPIES,
        format!("{name}: {copies} pairs ({share}) have a target that is their source"),
        "remove them: a model that sees copies learns to copy",
    );
    let (in_train, share) = count(split.in_train.unwrap_or(0));
    let hint = if embedded {
        "the corpus is so, and scores on this set are in part of what was trained on"
    } else {
        "remove them from it: scores on what was trained on say little about other text"
    };
    warn(in_train > 0, format!("{name}: {in_train} sentences ({share}) are also in the training text"), hint);
    warnings
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use polyglow_data::example::SideReport;

    use super::super::text::SideStatistics;
    use super::*;

    fn clean() -> SplitReport {
        let side = SideReport { tokens: 1000, longest: 20, unknown: 10 };
        let side = SideStatistics { side, mean_len: 10.0, unknown_rate: 0.01 };
        SplitReport {
            name: "train".to_owned(),
            pairs: 100,
            kept: 90,
            empty: 10,
            too_long: 0,
            ratio: 0,
            src: side.clone(),
            tgt: side,
            duplicates: 10,
            copies: 5,
            in_train: None,
        }
    }

    #[test]
    fn what_is_at_a_limit_is_not_suspicious_and_what_is_above_is() {
        assert_eq!(of_split(&clean(), false), []);
        let repeated = SplitReport { duplicates: 50, copies: 50, in_train: Some(1), ..clean() };
        let embedded = of_split(&repeated, true);
        assert!(embedded.len() == 1 && embedded[0].hint.starts_with("the corpus is so"), "{embedded:?}");
        let unknown = SideStatistics { unknown_rate: 0.011, ..clean().tgt };
        let suspicious = [
            (SplitReport { tgt: unknown, ..clean() }, "train: 1.1 % of the target tokens are unknown"),
            (SplitReport { kept: 89, too_long: 1, ..clean() }, "train: 11 pairs (11.0 %) are left out"),
            (SplitReport { duplicates: 11, ..clean() }, "train: 11 pairs (11.0 %) repeat"),
            (SplitReport { copies: 6, ..clean() }, "train: 6 pairs (6.0 %) have a target that is their source"),
            (SplitReport { in_train: Some(1), ..clean() }, "train: 1 sentences (1.0 %) are also in"),
        ];
        for (split, message) in suspicious {
            let warnings = of_split(&split, false);
            assert!(warnings.len() == 1 && warnings[0].message.starts_with(message), "{warnings:?}");
        }
    }
}
