//! The model card: a `README.md` that begins with YAML for a model hub, and tells people the rest.

use std::fmt::Write;
use std::path::Path;

use polyglow_data::config::{DataConfig, TrainFiles};
use polyglow_metrics::Measure;
use polyglow_predict::error::Result;
use polyglow_predict::tasks::{TaskFacts, facts};
use polyglow_train::config::Config;
use polyglow_train::run::{Checkpoint, RunDirectory, TextHashes, records};
use serde_json::Value;

use super::Precision;
use super::format::Format;
use super::portable::Portable;

/// The scores that a card lists.
const SCORES: [Measure; 2] = [Measure::BLEU, Measure::CHRF];

/// The facts of a run and its checkpoint that a card states.
pub(super) struct Card {
    /// The name of the run's directory.
    name: String,
    /// The name of the checkpoint's directory, or `ema of` it.
    checkpoint: String,
    step: u64,
    /// The beam size with which the test sets were translated.
    beam_size: usize,
    /// SHA-256 of the weights that were exported.
    weights: Option<String>,
    text: Option<TextHashes>,
    /// The records of tests of this checkpoint, one for each set.
    tests: Vec<Value>,
}

impl Card {
    /// Gathers the facts of a checkpoint, which the user has requested as `requested`.
    ///
    /// # Errors
    /// The records or the config cannot be read.
    pub(super) fn new(
        run: &RunDirectory,
        requested: &str,
        checkpoint: &Checkpoint,
    ) -> Result<Self> {
        let is_ema = requested == "ema";
        let step = checkpoint.state.step;
        let directory = file_name(&checkpoint.path).unwrap_or_default();
        // Averages are of the same step, but the scores are those of the checkpoint itself.
        let own_names = ["best", "last", &format!("step-{step}")];
        let is_scored = !is_ema && own_names.contains(&&*directory);
        let mut tests = records::read(&run.metrics_path())?;
        tests.retain(|record| {
            is_scored && record["kind"] == "test" && record["step"].as_u64() == Some(step)
        });
        let root = std::path::absolute(run.root()).unwrap_or_else(|_| run.root().to_owned());
        Ok(Self {
            name: file_name(&root).unwrap_or_else(|| "model".to_owned()),
            checkpoint: if is_ema {
                format!("ema of {directory}")
            } else {
                directory
            },
            step,
            beam_size: run.config()?.search.beam_size,
            weights: checkpoint
                .model_hash()
                .filter(|_| !is_ema)
                .map(str::to_owned),
            text: checkpoint.state.text.clone(),
            tests,
        })
    }

    /// Writes the card of a model that is exported to a format.
    pub(super) fn text(
        &self,
        model: &Portable,
        format: &dyn Format,
        precision: Precision,
    ) -> String {
        let mut text = String::from("---\n");
        // Writing to a string does not fail.
        let _ = self.front_matter(&mut text, &model.config, format);
        text.push_str("---\n\n");
        let _ = self.body(&mut text, model, format, precision);
        text
    }

    /// The YAML block that model hubs read.
    fn front_matter(
        &self,
        text: &mut String,
        config: &Config,
        format: &dyn Format,
    ) -> std::fmt::Result {
        if let Some((src, tgt)) = languages(config) {
            writeln!(text, "language:")?;
            writeln!(text, "- {}", quoted(&src))?;
            writeln!(text, "- {}", quoted(&tgt))?;
        }
        if let Some(license) = &config.license {
            writeln!(text, "license: {}", quoted(license))?;
        }
        let tag = facts(config.model.task()).hub_tag;
        writeln!(text, "library_name: {}", format.library())?;
        writeln!(text, "pipeline_tag: {tag}")?;
        writeln!(text, "tags:\n- {tag}\n- polyglow")?;
        self.model_index(text)
    }

    /// The scores as a model hub reads them; nothing without BLEU.
    fn model_index(&self, text: &mut String) -> std::fmt::Result {
        let mut scored = self.tests.clone();
        scored.retain(|test| test["bleu"].is_number());
        if scored.is_empty() {
            return Ok(());
        }
        writeln!(text, "metrics:\n- bleu\n- chrf")?;
        let name = quoted(&self.name);
        writeln!(text, "model-index:\n- name: {name}\n  results:")?;
        for test in &scored {
            let split = quoted(test["split"].as_str().unwrap_or("test"));
            writeln!(text, "  - task:")?;
            writeln!(text, "      type: translation\n      name: Translation")?;
            writeln!(text, "    dataset:")?;
            writeln!(text, "      type: {split}\n      name: {split}")?;
            writeln!(text, "      split: {split}")?;
            writeln!(text, "    metrics:")?;
            for Measure { key, title, .. } in SCORES {
                if let Some(value) = test[key].as_f64() {
                    writeln!(text, "    - type: {key}")?;
                    writeln!(text, "      value: {value:.2}\n      name: {title}")?;
                }
            }
        }
        Ok(())
    }

    /// The part for people, in Markdown.
    fn body(
        &self,
        text: &mut String,
        model: &Portable,
        format: &dyn Format,
        precision: Precision,
    ) -> std::fmt::Result {
        let config = &model.config;
        let facts = facts(config.model.task());
        writeln!(text, "# {}\n", self.name)?;
        writeln!(
            text,
            "{}, trained with polyglow and written for {} in {}. The weights are those of the checkpoint `{}`, after \
             step {}.\n",
            description(config, facts),
            format.title(),
            precision.name(),
            self.checkpoint,
            self.step
        )?;
        let usage = format.usage(facts, model.tokenizers.is_shared());
        writeln!(text, "## Use\n\n{usage}\n")?;
        let tags = config.data.tags();
        if let Some(usage) = format.tag_usage(&tags).filter(|_| !tags.is_empty()) {
            writeln!(text, "{usage}\n")?;
        }
        self.scores(text)?;
        self.data(text, &config.data)?;
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
            for Measure { key, title, .. } in SCORES {
                let Some(value) = test[key].as_f64() else {
                    continue;
                };
                let signature = test["signatures"][key].as_str().unwrap_or_default();
                // Signatures are full of `|`, which would begin a new column.
                let signature = signature.replace('|', "\\|");
                writeln!(text, "| {split} | {title} {value:.2} | `{signature}` |")?;
            }
        }
        writeln!(text)
    }

    fn data(&self, text: &mut String, config: &DataConfig) -> std::fmt::Result {
        writeln!(text, "## Data\n")?;
        writeln!(text, "Training text: {}.\n", training_text(config))?;
        writeln!(text, "| SHA-256 of | |\n|---|---|")?;
        if let Some(hashes) = &self.text {
            for (name, hash) in [
                ("the training text", &hashes.train),
                ("the validation text", &hashes.valid),
                ("the tokenizers", &hashes.tokenizers),
            ] {
                if !hash.is_empty() {
                    writeln!(text, "| {name} | `{hash}` |")?;
                }
            }
        }
        if let Some(weights) = &self.weights {
            writeln!(text, "| the weights, as the run has them | `{weights}` |")?;
        }
        Ok(())
    }
}

/// The last component of a path.
fn file_name(path: &Path) -> Option<String> {
    let name = path.file_name()?;
    Some(name.to_string_lossy().into_owned())
}

/// A phrase for the kind of model, with its languages if it translates.
fn description(config: &Config, facts: &TaskFacts) -> String {
    let what = facts.description;
    match languages(config) {
        Some((src, tgt)) if facts.hub_tag == "translation" => {
            format!("{what} from {src} to {tgt}")
        }
        _ => what.to_owned(),
    }
}

/// The files of the training text, or the embedded corpus.
fn training_text(config: &DataConfig) -> String {
    if let Some(corpus) = &config.corpus {
        return format!("the embedded corpus `{corpus}`");
    }
    match &config.train {
        Some(TrainFiles::One(path)) => format!("`{}`", path.display()),
        Some(TrainFiles::Weighted(list)) => {
            let paths: Vec<String> = list
                .iter()
                .map(|entry| format!("`{}`", entry.path.display()))
                .collect();
            paths.join(", ")
        }
        None => "not known here".to_owned(),
    }
}

/// The source and the target language of a config, if both are known.
pub(super) fn languages(config: &Config) -> Option<(String, String)> {
    let (src, tgt) = config.data.languages().ok()?;
    Some((src.to_owned(), tgt.to_owned()))
}

/// A text as YAML has it, with the quotes and escapes of JSON.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
