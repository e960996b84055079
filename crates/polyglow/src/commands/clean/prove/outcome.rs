//! The results of trainings with and without each group of filters.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use polyglow_metrics::significance::{DEFAULT_BOOTSTRAP_SAMPLES, DEFAULT_SEED, paired_bootstrap};
use polyglow_metrics::{BleuOptions, Metric, Score, Statistics, segment_statistics};
use serde::Serialize;

use super::texts::{TrainingText, WITHOUT};

/// The probability below which a difference is called one, of all that are tested together.
const SIGNIFICANT: f64 = 0.05;

/// The score below which a model has learned too little to judge its text by.
const LEAST_BLEU: f64 = 6.0;

/// The results of all trainings.
#[derive(Serialize)]
pub(super) struct Proof {
    pub(super) steps: u64,
    pub(super) seeds: usize,
    /// Pairs of the text before it is cleaned.
    pub(super) pairs: u64,
    /// The cleaned text first.
    pub(super) texts: Vec<Outcome>,
}

/// The results of the trainings on one text.
#[derive(Serialize)]
pub(super) struct Outcome {
    name: String,
    /// The files that another program has written, as `data.train` names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<PathBuf>,
    /// Pairs of the text.
    pairs: u64,
    /// BLEU on the validation set, for each seed.
    bleu: Vec<f64>,
    mean_bleu: f64,
    /// BLEU of the cleaned text minus that of this one; 0 for itself.
    gain: f64,
    /// The probability of a difference at least this great if both texts were as good: by which
    /// sentences the validation set has, not by which seeds there were. 1 for the cleaned text.
    p_value: f64,
}

impl Outcome {
    /// Scores the translations of each seed, and compares them with those of the cleaned text, whose
    /// outcome and counts are `cleaned`.
    pub(super) fn new(
        text: &TrainingText,
        pairs: u64,
        bleu: &BleuOptions,
        seeds: &[Statistics],
        cleaned: Option<&(Self, Statistics)>,
    ) -> anyhow::Result<(Self, Statistics)> {
        let scores: Vec<f64> = seeds.iter().map(|seed| score(bleu, seed)).collect();
        let mean_bleu = scores.iter().sum::<f64>() / scores.len() as f64;
        // A sentence is resampled together with all of its translations.
        let mut all = seeds[0].clone();
        for seed in &seeds[1..] {
            all.add(seed);
        }
        let (mut gain, mut p_value) = (0.0, 1.0);
        if let Some((outcome, counts)) = cleaned {
            gain = outcome.mean_bleu - mean_bleu;
            // Of outputs that score alike the test says the contrary: no resampled difference is
            // greater than none.
            let [cleaned_score, own_score] = [counts, &all].map(|counts| score(bleu, counts));
            if (cleaned_score - own_score).abs() > f64::EPSILON {
                let samples = DEFAULT_BOOTSTRAP_SAMPLES;
                p_value = paired_bootstrap(bleu, counts, &all, samples, DEFAULT_SEED)?.p_value;
            }
        }
        let outcome = Self {
            name: text.name.clone(),
            prefix: text.prefix().map(Path::to_owned),
            pairs,
            bleu: scores,
            mean_bleu,
            gain,
            p_value,
        };
        Ok((outcome, all))
    }

    /// The group of filters without which the text is better, with every seed and by more than chance.
    fn harmful_group(&self, cleaned: &Self, num_tests: usize) -> Option<&str> {
        let group = self.name.strip_prefix(WITHOUT)?;
        let mut seeds = self.bleu.iter().zip(&cleaned.bleu);
        let is_better = seeds.all(|(without, with)| without > with);
        let has_learned = self.mean_bleu >= LEAST_BLEU;
        (has_learned && is_better && self.p_value < SIGNIFICANT / num_tests as f64).then_some(group)
    }
}

/// Counts what BLEU counts, in each line.
///
/// # Errors
/// There are not as many lines as references.
pub(super) fn count(
    bleu: &BleuOptions,
    lines: &[String],
    references: &[String],
) -> polyglow_train::Result<Statistics> {
    Ok(segment_statistics(bleu, lines, &[references.to_vec()])?)
}

/// BLEU of all lines.
pub(super) fn score(bleu: &BleuOptions, counts: &Statistics) -> f64 {
    bleu.score(&counts.sum()).value()
}

/// Prints a line for each text, and what follows.
pub(super) fn print(out: &mut impl Write, proof: &Proof) -> io::Result<()> {
    let Proof { steps, seeds, .. } = proof;
    writeln!(
        out,
        "BLEU on the validation set after {steps} steps, seeds: {seeds}; no text has held-out sentences"
    )?;
    writeln!(
        out,
        "\n{:<20} {:>10} {:>7} {:>12} {:>7}",
        "text", "pairs", "BLEU", "cleaned text", "p"
    )?;
    let cleaned = &proof.texts[0];
    let Outcome {
        name,
        pairs,
        mean_bleu,
        ..
    } = cleaned;
    writeln!(out, "{name:<20} {pairs:>10} {mean_bleu:>7.2}")?;
    let others = &proof.texts[1..];
    for outcome in others {
        let Outcome {
            name,
            pairs,
            mean_bleu,
            gain,
            p_value,
            ..
        } = outcome;
        writeln!(
            out,
            "{name:<20} {pairs:>10} {mean_bleu:>7.2} {gain:>+12.2} {p_value:>7.3}"
        )?;
    }
    if proof.texts.iter().all(|text| text.mean_bleu < LEAST_BLEU) {
        writeln!(
            out,
            "\nthese models have learned too little to judge a text by: give more `--steps` and another \
             `--out`; a short training learns more with `--set model.norm=pre --set model.dropout=0.1 \
             --set train.lr=2e-3 --set train.warmup_steps=400`"
        )?;
    }
    for outcome in others {
        if let Some(group) = outcome.harmful_group(cleaned, others.len()) {
            writeln!(
                out,
                "\n`{group}` hurts this text: clean it with `--without {group}`, or with \
                 `without = [\"{group}\"]` in `[data.clean]`"
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFERENCES: [&str; 3] = [
        "the dog sleeps in the house",
        "a cat sees the small bird",
        "we have eaten all the apples",
    ];

    /// Sixty lines, of which `num_wrong` are wrong.
    fn counts(bleu: &BleuOptions, num_wrong: usize) -> Statistics {
        let references: Vec<String> = (0..60)
            .map(|line| REFERENCES[line % 3].to_owned())
            .collect();
        let lines: Vec<String> = (0..60)
            .map(|line| {
                let reference = REFERENCES[line % 3];
                if line < num_wrong {
                    reference.replace(" the ", " no ")
                } else {
                    reference.to_owned()
                }
            })
            .collect();
        count(bleu, &lines, &references).expect("as many lines")
    }

    /// A proof with a text without `rules`, and for each of two seeds how many lines are wrong.
    fn proof(cleaned: [usize; 2], without: [usize; 2]) -> (Proof, String) {
        let bleu = BleuOptions::default();
        let seeds = |wrong: [usize; 2]| wrong.map(|wrong| counts(&bleu, wrong));
        let [with, without_rules] = ["cleaned", "without-rules"].map(TrainingText::named);
        let cleaned = Outcome::new(&with, 9, &bleu, &seeds(cleaned), None).expect("it counts");
        let without = seeds(without);
        let without = Outcome::new(&without_rules, 12, &bleu, &without, Some(&cleaned))
            .expect("it counts")
            .0;
        let proof = Proof {
            steps: 5,
            seeds: 2,
            pairs: 12,
            texts: vec![cleaned.0, without],
        };
        let printed = printed_of(&proof);
        (proof, printed)
    }

    fn printed_of(proof: &Proof) -> String {
        let mut printed = Vec::new();
        print(&mut printed, proof).expect("it can be written");
        String::from_utf8(printed).expect("it is UTF-8")
    }

    #[test]
    fn a_group_is_called_harmful_if_every_seed_is_better_without_it_by_more_than_chance() {
        let (better, printed) = proof([0, 0], [40, 40]);
        assert!(better.texts[1].gain > 5.0 && better.texts[1].p_value < 0.05);
        assert!(
            printed.contains('+') && !printed.contains("hurts"),
            "{printed}"
        );
        let (worse, printed) = proof([40, 40], [0, 0]);
        assert!((better.texts[1].gain + worse.texts[1].gain).abs() < 1e-9);
        assert!(printed.contains("`--without rules`"), "{printed}");
        assert!(!printed.contains("too little"), "{printed}");
        // The same differences between models that have hardly learned anything.
        let mut weak = worse;
        for text in &mut weak.texts {
            text.mean_bleu = LEAST_BLEU - 0.5;
        }
        let printed = printed_of(&weak);
        assert!(
            printed.contains("too little") && !printed.contains("hurts"),
            "{printed}"
        );
        // One seed says the contrary; then nothing is said.
        let (mixed, printed) = proof([40, 1], [0, 4]);
        assert!(mixed.texts[1].gain < 0.0, "{printed}");
        assert!(!printed.contains("hurts"), "{printed}");
        let (equal, _) = proof([3, 3], [3, 3]);
        assert!(equal.texts[1].gain.abs() < 1e-9 && equal.texts[1].p_value > 0.5);
    }

    #[test]
    fn models_that_have_learned_little_judge_no_text() {
        let bleu = BleuOptions::default();
        let references: Vec<String> = REFERENCES.map(str::to_owned).to_vec();
        let seeds = |line: &str| {
            let lines = vec![line.to_owned(); REFERENCES.len()];
            [count(&bleu, &lines, &references).expect("as many lines")]
        };
        let [with, without] = ["cleaned", "without-rules"].map(TrainingText::named);
        let cleaned = Outcome::new(&with, 9, &bleu, &seeds("x x"), None).expect("it counts");
        let without = Outcome::new(&without, 12, &bleu, &seeds("y"), Some(&cleaned));
        let proof = Proof {
            steps: 5,
            seeds: 1,
            pairs: 12,
            texts: vec![cleaned.0, without.expect("it counts").0],
        };
        assert!(proof.texts[1].mean_bleu < LEAST_BLEU);
        assert!((proof.texts[1].p_value - 1.0).abs() < 1e-9);
        let printed = printed_of(&proof);
        assert!(printed.contains("have learned too little"), "{printed}");
    }
}
