//! The model card: a `README.md` that begins with what a model hub reads, and says the rest to
//! people.

use std::fmt::Write;

use polyglow_data::config::TrainFiles;
use polyglow_predict::error::Result;
use polyglow_predict::tasks::facts;
use polyglow_train::config::Config;
use polyglow_train::run::{Checkpoint, RunDirectory, TextHashes, records};
use serde_json::Value;

use super::portable::Portable;
use super::{Precision, Target};

/// What a card says of a run, beside its model.
pub(super) struct Card {
    /// The name of the run's directory.
    name: String,
    checkpoint: String,
    step: u64,
    /// With which the test sets were translated.
    beam_size: usize,
    /// SHA-256 of the weights that were exported.
    weights: Option<String>,
    text: Option<TextHashes>,
    /// Records of tests of this step, and their sets.
    tests: Vec<Value>,
}

impl Card {
    /// Of a checkpoint of a run, which was asked for by the name `asked`.
    ///
    /// # Errors
    /// The records or the config cannot be read.
    pub(super) fn new(run: &RunDirectory, asked: &str, checkpoint: &Checkpoint) -> Result<Self> {
        let of_name = |path: &std::path::Path| {
            path.file_name()
                .map(|name| name.to_string_lossy().into_owned())
        };
        let root = std::path::absolute(run.root()).unwrap_or_else(|_| run.root().to_owned());
        let step = checkpoint.state.step;
        let place = of_name(&checkpoint.path).unwrap_or_default();
        // Averages were made after the same step, and the scores are not theirs.
        let is_scored =
            asked != "ema" && ["best", "last", &format!("step-{step}")].contains(&&*place);
        let is_test = |record: &Value| {
            is_scored && record["kind"] == "test" && record["step"].as_u64() == Some(step)
        };
        Ok(Self {
            name: of_name(&root).unwrap_or_else(|| "model".to_owned()),
            checkpoint: if asked == "ema" {
                format!("ema of {place}")
            } else {
                place
            },
            step,
            beam_size: run.config()?.search.beam_size,
            weights: checkpoint
                .model_hash()
                .filter(|_| asked != "ema")
                .map(str::to_owned),
            text: checkpoint.state.text.clone(),
            tests: records::read(&run.metrics_path())?
                .into_iter()
                .filter(is_test)
                .collect(),
        })
    }

    /// The card.
    pub(super) fn text(&self, model: &Portable, target: Target, precision: Precision) -> String {
        let mut text = String::from("---\n");
        self.front_matter(&mut text, &model.config, target);
        text.push_str("---\n\n");
        self.body(&mut text, model, target, precision);
        text
    }

    fn front_matter(&self, text: &mut String, config: &Config, target: Target) {
        let line = |text: &mut String, line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        if let Some((src, tgt)) = languages(config) {
            line(text, "language:");
            line(text, &format!("- {}", quoted(&src)));
            line(text, &format!("- {}", quoted(&tgt)));
        }
        if let Some(license) = &config.license {
            line(text, &format!("license: {}", quoted(license)));
        }
        line(text, &format!("library_name: {}", target.library()));
        let tag = facts(config.model.task()).hub_tag;
        line(text, &format!("pipeline_tag: {tag}"));
        line(text, &format!("tags:\n- {tag}\n- polyglow"));
        let scored: Vec<&Value> = self
            .tests
            .iter()
            .filter(|test| test["bleu"].is_number())
            .collect();
        if scored.is_empty() {
            return;
        }
        line(text, "metrics:\n- bleu\n- chrf");
        line(
            text,
            &format!("model-index:\n- name: {}\n  results:", quoted(&self.name)),
        );
        for test in scored {
            let split = test["split"].as_str().unwrap_or("test");
            line(
                text,
                "  - task:\n      type: translation\n      name: Translation",
            );
            line(
                text,
                &format!(
                    "    dataset:\n      type: {0}\n      name: {0}\n      split: {0}",
                    quoted(split)
                ),
            );
            line(text, "    metrics:");
            for (key, name) in [("bleu", "BLEU"), ("chrf", "chrF")] {
                if let Some(value) = test[key].as_f64() {
                    line(
                        text,
                        &format!("    - type: {key}\n      value: {value:.2}\n      name: {name}"),
                    );
                }
            }
        }
    }

    fn body(&self, text: &mut String, model: &Portable, target: Target, precision: Precision) {
        // Writing to a text does not fail.
        let _ = self.try_body(text, model, target, precision);
    }

    fn try_body(
        &self,
        text: &mut String,
        model: &Portable,
        target: Target,
        precision: Precision,
    ) -> std::fmt::Result {
        let config = &model.config;
        let facts = facts(config.model.task());
        let tag = facts.hub_tag;
        let what = facts.description;
        let what = match languages(config).filter(|_| tag == "translation") {
            Some((src, tgt)) => format!("{what} from {src} to {tgt}"),
            None => what.to_owned(),
        };
        writeln!(text, "# {}\n", self.name)?;
        writeln!(
            text,
            "{what}, trained with polyglow and written for {} in {}. The weights are those of the checkpoint `{}`, after \
             step {}.\n",
            target.title(),
            precision.name(),
            self.checkpoint,
            self.step
        )?;
        writeln!(
            text,
            "## Use\n\n{}\n",
            target.usage(facts, model.tokenizers.is_shared())
        )?;
        self.scores(text)?;
        writeln!(text, "## Data\n")?;
        let train = match (&config.data.corpus, &config.data.train) {
            (Some(corpus), _) => format!("the embedded corpus `{corpus}`"),
            (None, Some(TrainFiles::One(path))) => format!("`{}`", path.display()),
            (None, Some(TrainFiles::Weighted(list))) => list
                .iter()
                .map(|entry| format!("`{}`", entry.path.display()))
                .collect::<Vec<_>>()
                .join(", "),
            (None, None) => "not known here".to_owned(),
        };
        writeln!(text, "Training text: {train}.\n")?;
        writeln!(text, "| SHA-256 of | |\n|---|---|")?;
        let hashes = self.text.iter().flat_map(|text| {
            [
                ("the training text", &text.train),
                ("the validation text", &text.valid),
                ("the tokenizers", &text.tokenizers),
            ]
        });
        for (name, hash) in hashes.filter(|(_, hash)| !hash.is_empty()) {
            writeln!(text, "| {name} | `{hash}` |")?;
        }
        if let Some(weights) = &self.weights {
            writeln!(text, "| the weights, as the run has them | `{weights}` |")?;
        }
        let config = config.to_toml().unwrap_or_default();
        writeln!(text, "\n## Config\n\n```toml\n{}\n```", config.trim_end())
    }

    fn scores(&self, text: &mut String) -> std::fmt::Result {
        if self.tests.is_empty() {
            return Ok(());
        }
        let beam_size = self.beam_size;
        writeln!(
            text,
            "## Scores\n\nOf the weights in f32, with a beam of {beam_size}:\n\n| set | score | signature |\n|---|---|---|"
        )?;
        for test in &self.tests {
            let split = test["split"].as_str().unwrap_or("test");
            for (key, name) in [("bleu", "BLEU"), ("chrf", "chrF")] {
                if let Some(value) = test[key].as_f64() {
                    let signature = test["signatures"][key]
                        .as_str()
                        .unwrap_or_default()
                        .replace('|', "\\|");
                    writeln!(text, "| {split} | {name} {value:.2} | `{signature}` |")?;
                }
            }
        }
        writeln!(text)
    }
}

/// Source and target language, where both are known.
pub(super) fn languages(config: &Config) -> Option<(String, String)> {
    let (src, tgt) = config.data.languages().ok()?;
    Some((src.to_owned(), tgt.to_owned()))
}

/// A text in YAML: quotes and escapes are those of JSON.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
