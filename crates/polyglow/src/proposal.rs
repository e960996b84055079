//! Sizes and settings for a corpus, a machine and a time: what `polyglow new` writes, and
//! `check --hours` proposes.
//!
//! `docs/first-config.md` has the rules, and says which of them are guesses that nothing was
//! measured for yet.

mod keys;
mod measuring;

use polyglow_data::tokenizer::Kind;
use polyglow_model::{ModelConfig, Preset};
use polyglow_train::config::Config;
use serde::Serialize;

use crate::inspection::duration;
pub(crate) use measuring::{prepare, propose_for, seconds};

/// A size of a model to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Size {
    /// The preset that it starts from.
    pub(crate) preset: Preset,
    /// Layers of the encoder and of the decoder.
    pub(crate) num_layers: usize,
    /// The peak of the learning rate.
    pub(crate) lr: f64,
    /// Target tokens that it must see to be better than the next smaller size.
    pub(crate) least_tokens: f64,
}

/// The sizes, the smallest first.
pub(crate) const SIZES: [Size; 4] = [
    Size {
        preset: Preset::Tiny,
        num_layers: 2,
        lr: 3e-3,
        least_tokens: 0.0,
    },
    Size {
        preset: Preset::Small,
        num_layers: 2,
        lr: 2e-3,
        least_tokens: 2e6,
    },
    Size {
        preset: Preset::Small,
        num_layers: 3,
        lr: 1.5e-3,
        least_tokens: 1e7,
    },
    Size {
        preset: Preset::Base,
        num_layers: 6,
        lr: 7e-4,
        least_tokens: 3e8,
    },
];

/// Share of the time that is kept free for what is not measured, such as saving checkpoints.
const SPARE: f64 = 0.03;
/// Share of the time that validations may take.
const VALIDATING: f64 = 0.1;
/// Validations at most: more of them show no more of the curve.
const MOST_VALIDATIONS: f64 = 20.0;
/// The time of a search with the default beam, as a multiple of greedy search.
const BEAM: f64 = 3.0;
/// Steps at least, also if they take longer than the time: with fewer nothing is learned.
const FEWEST_STEPS: f64 = 50.0;
/// Share of the steps in which the learning rate climbs.
const WARM_UP: f64 = 0.1;
/// The longest climb.
const LONGEST_WARM_UP: f64 = 4000.0;

impl Size {
    /// Sets the keys of a config that belong to the size, and leaves those to the preset that
    /// another one has decided.
    pub(crate) fn set(&self, config: &mut Config) {
        config.model = ModelConfig {
            preset: Some(self.preset),
            num_encoder_layers: Some(self.num_layers),
            num_decoder_layers: Some(self.num_layers),
            d_model: None,
            d_ff: None,
            num_heads: None,
            dropout: None,
            ..config.model.clone()
        };
        config.train.lr = self.lr;
    }

    fn name(&self) -> &'static str {
        match self.preset {
            Preset::Tiny => "tiny",
            Preset::Small => "small",
            Preset::Base => "base",
            Preset::Big => "big",
        }
    }
}

/// Chooses the size of the vocabulary by the number of pairs: each token must be seen often enough
/// to learn its vector.
pub(crate) fn vocab_size(pairs: u64) -> usize {
    const SIZES: [(u64, usize); 3] = [(100_000, 4000), (500_000, 8000), (2_000_000, 16_000)];
    SIZES
        .iter()
        .find(|(below, _)| pairs < *below)
        .map_or(32_000, |(_, size)| *size)
}

/// Chooses the size of batches by the seconds of the training: in a short time many small steps are
/// better than few large ones.
pub(crate) fn max_tokens(seconds: f64) -> usize {
    match seconds {
        ..1800.0 => 1024,
        ..14_400.0 => 2048,
        _ => 4096,
    }
}

/// The corpus, as far as settings depend on it.
#[derive(Clone, Debug)]
pub(crate) struct Corpus {
    /// Pairs to train on.
    pub(crate) pairs: u64,
    /// Target tokens in them.
    pub(crate) tgt_tokens: u64,
    /// The length of a side that hardly any pair exceeds, in tokens.
    pub(crate) longest: usize,
    /// Sentences of all test sets, for each sentence of the validation set.
    pub(crate) tests: f64,
    /// The kind of its tokens.
    pub(crate) kind: Kind,
}

/// A size on this machine.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Measured {
    /// The size that was measured.
    pub(crate) size: Size,
    /// Number of trained values.
    pub(crate) parameters: usize,
    /// Target tokens per second while it makes steps.
    pub(crate) tokens_per_second: f64,
    /// Seconds of a step.
    pub(crate) step_seconds: f64,
    /// Seconds of a validation; 0 without a validation set.
    pub(crate) validation_seconds: f64,
}

/// The time of a training, and the part of it before the first step, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) seconds: f64,
    pub(crate) before: f64,
}

/// Settings, each with its reason.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Proposal {
    /// The time, in seconds.
    pub(crate) seconds: f64,
    /// Keys of a config in the order of a file.
    pub(crate) keys: Vec<Key>,
    /// Sentences about what was measured and what to expect.
    pub(crate) summary: Vec<String>,
    /// The sizes that were tried.
    pub(crate) measured: Vec<Measured>,
}

/// A key of a config.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Key {
    /// Its table.
    pub(crate) table: &'static str,
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// Its value as TOML.
    pub(crate) value: String,
    /// Why it has that value.
    pub(crate) reason: String,
}

impl Proposal {
    /// The keys as TOML, with their reasons as comments; the table `open` has begun before.
    pub(crate) fn toml(&self, open: &str) -> String {
        let mut text = String::new();
        let mut table = open;
        for key in &self.keys {
            if key.table != table {
                table = key.table;
                let blank = if text.is_empty() && open.is_empty() {
                    ""
                } else {
                    "\n"
                };
                text += &[blank, "[", table, "]\n"].concat();
            }
            let setting = format!("{} = {}", key.name, key.value);
            let line = if key.reason.is_empty() {
                setting
            } else {
                format!("{setting:<28}# {}", key.reason)
            };
            text += &(line + "\n");
        }
        text
    }
}

/// The training of a size in the time.
struct Course {
    measured: Measured,
    steps: f64,
    validations: f64,
    /// Target tokens that it sees.
    tokens: f64,
    seconds: f64,
}

impl Course {
    fn new(measured: Measured, corpus: &Corpus, budget: Budget) -> Self {
        let Measured {
            tokens_per_second,
            step_seconds,
            validation_seconds,
            ..
        } = measured;
        let tests = BEAM * corpus.tests * validation_seconds;
        let usable = (1.0 - SPARE) * budget.seconds - budget.before - tests;
        let affordable = if validation_seconds > 0.0 {
            VALIDATING * usable / validation_seconds
        } else {
            1.0
        };
        let validations = affordable.clamp(1.0, MOST_VALIDATIONS).floor();
        let steps = ((usable - validations * validation_seconds) / step_seconds)
            .max(FEWEST_STEPS)
            .floor();
        let tokens = steps * step_seconds * tokens_per_second;
        let seconds =
            budget.before + tests + steps * step_seconds + validations * validation_seconds;
        Self {
            measured,
            steps,
            validations,
            tokens,
            seconds,
        }
    }
}

/// Chooses the probability of dropout by the number of epochs: a model memorizes a text that it
/// reads often.
fn dropout(epochs: f64) -> f64 {
    match epochs {
        ..15.0 => 0.1,
        ..60.0 => 0.2,
        _ => 0.3,
    }
}

/// Proposes settings: the largest of the measured sizes that sees enough of the text in the time.
fn propose(corpus: &Corpus, measured: &[Measured], budget: Budget) -> Option<Proposal> {
    let mut courses: Vec<Course> = measured
        .iter()
        .map(|&measured| Course::new(measured, corpus, budget))
        .collect();
    // The smallest needs no tokens, so that there is always one.
    let chosen = courses
        .iter()
        .rposition(|course| course.tokens >= course.measured.size.least_tokens)
        .unwrap_or(0);
    if courses.is_empty() {
        return None;
    }
    let course = courses.swap_remove(chosen);
    let Measured {
        parameters,
        tokens_per_second,
        ..
    } = course.measured;
    let summary = vec![
        format!(
            "{} pairs of {} target tokens; {parameters} parameters",
            corpus.pairs, corpus.tgt_tokens
        ),
        format!(
            "expected: {} on this machine, as busy as it was; {tokens_per_second:.0} target tokens/s",
            duration(course.seconds)
        ),
    ];
    let keys = [
        keys::for_text(corpus),
        keys::for_model(&course, corpus),
        keys::for_training(&course, budget),
    ]
    .concat();
    Some(Proposal {
        seconds: budget.seconds,
        keys,
        summary,
        measured: measured.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus() -> Corpus {
        Corpus {
            pairs: 30_000,
            tgt_tokens: 400_000,
            longest: 45,
            tests: 1.0,
            kind: Kind::Bpe,
        }
    }

    fn measured(size: Size, tokens_per_second: f64) -> Measured {
        // Steps of 800 tokens.
        let step_seconds = 800.0 / tokens_per_second;
        Measured {
            size,
            parameters: 1_000_000,
            tokens_per_second,
            step_seconds,
            validation_seconds: 2.0,
        }
    }

    fn value(proposal: &Proposal, name: &str) -> String {
        proposal
            .keys
            .iter()
            .find(|key| key.name == name)
            .expect("the key is there")
            .value
            .clone()
    }

    fn all(factor: f64) -> Vec<Measured> {
        SIZES
            .iter()
            .zip([16_000.0, 6000.0, 4000.0, 800.0])
            .map(|(&size, rate)| measured(size, factor * rate))
            .collect()
    }

    #[test]
    fn the_time_is_spent_on_steps_validations_and_the_test() {
        let budget = Budget {
            seconds: 600.0,
            before: 20.0,
        };
        let course = Course::new(measured(SIZES[0], 16_000.0), &corpus(), budget);
        // 582 seconds without what is spare, less 20 before and 6 for the test: 556, of which a
        // tenth validates.
        assert_eq!((course.validations, course.steps), (20.0, 10_320.0));
        assert!((course.seconds - 582.0).abs() < 0.1, "{}", course.seconds);
        assert!((course.tokens - 10_320.0 * 800.0).abs() < 1e-3);
    }

    #[test]
    fn more_time_takes_a_larger_model_and_more_epochs_more_dropout() {
        let propose = |seconds: f64| {
            propose(
                &corpus(),
                &all(1.0),
                Budget {
                    seconds,
                    before: 20.0,
                },
            )
            .expect("sizes were measured")
        };
        let (short, long) = (propose(240.0), propose(400.0 * 3600.0));
        assert_eq!(value(&short, "preset"), "\"tiny\"");
        assert_eq!(
            (value(&short, "dropout"), value(&short, "max_tokens")),
            ("0.1".to_owned(), "1024".to_owned())
        );
        assert_eq!(value(&long, "preset"), "\"base\"");
        assert_eq!(
            (value(&long, "dropout"), value(&long, "warmup_steps")),
            ("0.3".to_owned(), "4000".to_owned())
        );
        assert_eq!(value(&short, "max_len"), "48");
    }

    #[test]
    fn what_is_proposed_is_a_config_with_reasons() {
        let proposal = propose(
            &corpus(),
            &all(1.0),
            Budget {
                seconds: 600.0,
                before: 20.0,
            },
        )
        .expect("sizes");
        let text = format!("data.corpus = \"mini-en-de\"\n{}", proposal.toml(""));
        let text = text
            .replace("[data]", "")
            .replacen("max_len", "data.max_len", 1);
        Config::from_text(&text, &[])
            .expect("it is a config")
            .validate()
            .expect("its values are allowed");
        assert!(text.contains("# the text is read "), "{text}");
        assert!(
            propose(
                &corpus(),
                &[],
                Budget {
                    seconds: 600.0,
                    before: 0.0
                }
            )
            .is_none()
        );
    }

    #[test]
    fn a_time_that_is_no_time_is_refused() {
        assert!((seconds(0.5).expect("half an hour") - 1800.0).abs() < 1e-9);
        assert!(
            [0.0, -1.0, 0.001, f64::NAN, f64::INFINITY]
                .into_iter()
                .all(|hours| seconds(hours).is_err())
        );
    }
}
