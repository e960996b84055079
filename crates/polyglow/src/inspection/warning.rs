//! Warnings about a config and its data, with what to do about them.

use std::fmt;

use polyglow_train::config::Config;
use polyglow_train::train::{Bytes, DiskEstimate, MemoryEstimate};
use serde::Serialize;

use super::BatchesReport;
use super::text::SplitReport;
use polyglow_data::clean::findings::{Check, Finding};

/// Share of unknown tokens above which a vocabulary looks wrong.
const UNKNOWN: f64 = 0.01;
/// Share of the pairs left out above which a corpus or a limit looks wrong.
const LEFT_OUT: f64 = 0.1;

/// Something that is rarely intended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Warning {
    /// The suspicion, with the figures behind it.
    pub(crate) message: String,
    /// Advice on what to do about it.
    pub(crate) hint: String,
}

impl Warning {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{}; {}", self.message, self.hint)
    }
}

/// Warns of the pairs of the splits.
pub(super) fn of_text(splits: &[SplitReport], findings: &[Finding]) -> Vec<Warning> {
    splits
        .iter()
        .flat_map(|split| of_split(split, findings))
        .collect()
}

/// Warns of a config, given its number of steps and the links of its text.
pub(super) fn of_config(
    config: &Config,
    batches: &BatchesReport,
    links: Option<u64>,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(links) = links.filter(|links| *links == 0 || config.train.alignment_weight == 0.0) {
        let message = format!("`data.alignments` has {links} links, which are not used");
        let hint = "guided alignment needs links, and a `train.alignment_weight` above 0";
        warnings.push(Warning::new(message, hint));
    }
    if !config.data.has_valid() {
        let hint =
            "without it overfitting goes unnoticed: there is no `best` checkpoint and no patience";
        warnings.push(Warning::new("there is no `data.valid`", hint));
    }
    let warmup = config.train.warmup_steps;
    let steps = batches.steps;
    if warmup >= steps {
        let message =
            format!("the warm-up of {warmup} steps is not shorter than the training of {steps}");
        let hint =
            "the learning rate never reaches its peak; lower `train.warmup_steps` or train longer";
        warnings.push(Warning::new(message, hint));
    }
    warnings
}

/// Warns of a lack of memory or disk space. `available` is the memory that was free before the
/// trial step, where the model is in it.
pub(super) fn of_machine(
    memory: &MemoryEstimate,
    available: Option<u64>,
    disk: &DiskEstimate,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(free) = available.filter(|free| *free < memory.total) {
        let message = format!(
            "training takes about {} of memory, and {} is free",
            Bytes(memory.total),
            Bytes(free)
        );
        warnings.push(Warning::new(
            message,
            "lower `train.max_tokens`, or take a smaller model",
        ));
    }
    if let Some(free) = disk.free.filter(|free| *free < disk.total) {
        let message = format!(
            "the run takes up to {} on its disk, and {} is free",
            Bytes(disk.total),
            Bytes(free)
        );
        let hint =
            "make room, lower `train.keep_last`, or give a directory on another disk with `--run`";
        warnings.push(Warning::new(message, hint));
    }
    warnings
}

fn of_split(split: &SplitReport, findings: &[Finding]) -> Vec<Warning> {
    let name = &split.name;
    let mut warnings = Vec::new();
    for (language, side) in [("source", &split.src), ("target", &split.tgt)] {
        let rate = side.unknown_rate;
        if rate > UNKNOWN {
            let message = format!(
                "{name}: {} of the {language} tokens are unknown to the vocabulary",
                percent(rate)
            );
            let hint = "raise `tokenizer.vocab_size`, or take `tokenizer.kind = \"bpe\"`, which knows every text";
            warnings.push(Warning::new(message, hint));
        }
    }
    let left_out = split.left_out_by_length();
    let SplitReport {
        empty,
        too_long,
        ratio,
        ..
    } = split;
    let many_left_out = split.share(left_out) > LEFT_OUT;
    if many_left_out {
        let share = percent(split.share(left_out));
        let message = format!(
            "{name}: {left_out} pairs ({share}) are left out: {empty} with an empty side, {too_long} too long, {ratio} by length ratio"
        );
        let hint = "look whether lines belong together, or raise `data.max_len` or `data.max_length_ratio`";
        warnings.push(Warning::new(message, hint));
    }
    for finding in findings {
        let Finding {
            check,
            split,
            count,
            share,
            what,
            advice,
            ..
        } = finding;
        // The warning above has the pairs that are left out, whatever the reason.
        let is_reported =
            many_left_out && matches!(check, Check::Empty | Check::TooLong | Check::Ratio);
        if split == name && finding.is_suspicious() && !is_reported {
            let message = format!("{name}: {count} pairs ({}) {what}", percent(*share));
            warnings.push(Warning::new(message, *advice));
        }
    }
    warnings
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use polyglow_data::example::SideReport;

    use super::super::text::SideStatistics;
    use super::*;
    use polyglow_data::clean::findings::DETECTORS;

    fn clean() -> SplitReport {
        let side = SideReport {
            tokens: 1000,
            longest: 20,
            unknown: 10,
        };
        let side = SideStatistics {
            side,
            mean_len: 10.0,
            unknown_rate: 0.01,
            tokens_per_char: 0.3,
            changed_words: 0,
        };
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
            targets_in_train: None,
            length_correlation: None,
        }
    }

    fn finding(check: Check, share: f64) -> Finding {
        let (split, count) = ("train".to_owned(), (100.0 * share) as u64);
        let tolerated = DETECTORS[check as usize].tolerated(true, false);
        let (examples, lines) = (Vec::new(), BTreeMap::new());
        Finding {
            check,
            split,
            count,
            share,
            what: "are so",
            fate: "",
            advice: "remove them",
            tolerated,
            examples,
            lines,
        }
    }

    #[test]
    fn what_is_at_a_limit_is_not_suspicious_and_what_is_above_is() {
        let at_limits = [
            finding(Check::Duplicates, 0.02),
            finding(Check::Copies, 0.02),
            finding(Check::Html, 0.01),
        ];
        assert_eq!(of_split(&clean(), &at_limits), []);
        let unknown = SideStatistics {
            unknown_rate: 0.011,
            ..clean().tgt
        };
        let suspicious = [
            (
                SplitReport {
                    tgt: unknown,
                    ..clean()
                },
                vec![],
                "train: 1.1 % of the target tokens are unknown",
            ),
            (
                SplitReport {
                    kept: 89,
                    too_long: 1,
                    ..clean()
                },
                vec![],
                "train: 11 pairs (11.0 %) are left out",
            ),
            (
                clean(),
                vec![finding(Check::Duplicates, 0.03)],
                "train: 3 pairs (3.0 %) are so",
            ),
            (
                clean(),
                vec![finding(Check::Copies, 0.03)],
                "train: 3 pairs (3.0 %) are so",
            ),
            (
                clean(),
                vec![finding(Check::SourceInTrain, 0.01)],
                "train: 1 pairs (1.0 %) are so",
            ),
            (
                clean(),
                vec![finding(Check::Ratio, 0.02)],
                "train: 2 pairs (2.0 %) are so",
            ),
        ];
        for (split, findings, message) in suspicious {
            let warnings = of_split(&split, &findings);
            assert!(
                warnings.len() == 1 && warnings[0].message.starts_with(message),
                "{warnings:?}"
            );
        }
        // Pairs that are left out have one warning.
        let many = SplitReport {
            kept: 80,
            ratio: 10,
            ..clean()
        };
        assert_eq!(of_split(&many, &[finding(Check::Ratio, 0.1)]).len(), 1);
    }

    #[test]
    fn what_does_not_fit_the_machine_is_told_in_bytes() {
        let memory = MemoryEstimate {
            weights: 0,
            gradients: 0,
            optimizer: 0,
            ema: 0,
            activations: 0,
            total: 3 << 30,
        };
        let disk = DiskEstimate {
            checkpoint: 0,
            checkpoints: 2,
            average: 0,
            cache: 0,
            total: 2 << 30,
            free: Some(1 << 30),
        };
        let messages: Vec<String> = of_machine(&memory, Some(1 << 30), &disk)
            .into_iter()
            .map(|warning| warning.message)
            .collect();
        assert_eq!(
            messages,
            [
                "training takes about 3.0 GiB of memory, and 1.0 GiB is free",
                "the run takes up to 2.0 GiB on its disk, and 1.0 GiB is free"
            ]
        );
        assert!(of_machine(&memory, None, &DiskEstimate { free: None, ..disk }).is_empty());
    }
}
