//! A config from a file, with overrides, and every check of its values.

use std::fs;
use std::path::Path;

use polyglow_predict::error::{Context, Result, bail, ensure, failed, usage, with_hint};
use polyglow_predict::tasks::facts;

use super::{Config, overrides};
use crate::filters::check_names;
use crate::tasks;

impl Config {
    /// Reads a config file, applies overrides (`train.lr=3e-4`), and checks every value. What it
    /// leaves open stays open, until a [`Plan`](crate::plan::Plan) fills it in.
    ///
    /// # Errors
    /// Everything that is wrong is the user's to correct (exit code 2): a file that cannot be read,
    /// an unknown key or a value of the wrong type with its line and a caret, an override that does
    /// not fit, a value out of range.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Self> {
        Self::load_checked(path, overrides, Self::validate)
    }

    /// As [`Self::load`], of the copy that a run keeps: it names no data if that was given in
    /// memory.
    pub(crate) fn load_copy(path: &Path, overrides: &[String]) -> Result<Self> {
        Self::load_checked(path, overrides, Self::validate_copy)
    }

    fn validate_copy(&self) -> Result<()> {
        if self.data.has_source() {
            self.validate()
        } else {
            self.validate_for_memory()
        }
    }

    fn load_checked(
        path: &Path,
        overrides: &[String],
        check: fn(&Self) -> Result<()>,
    ) -> Result<Self> {
        let file = path.display();
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read the config `{file}`"));
        let text = text.map_err(|error| match path.join("config.toml") {
            copy if copy.is_file() => with_hint(
                usage(error),
                format!("the config of this run is `{}`", copy.display()),
            ),
            _ => usage(error),
        })?;
        let config = Self::parse(&text).with_context(|| format!("in the config `{file}`"))?;
        let config = if overrides.is_empty() {
            config
        } else {
            overrides::apply(&text, overrides)?
        };
        // A value that is out of range may come from an override.
        let place = if overrides.is_empty() {
            "in the config"
        } else {
            "with `--set`, in the config"
        };
        check(&config)
            .with_context(|| format!("{place} `{file}`"))
            .map_err(usage)?;
        Ok(config)
    }

    /// As [`Self::load`], of a text that is in no file.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn from_text(text: &str, overrides: &[String]) -> Result<Self> {
        let config = overrides::apply(text, overrides)?;
        config.validate().map_err(usage)?;
        Ok(config)
    }

    /// As [`Self::from_text`], for data that is given in memory, as to
    /// [`Training::prepare_with`](crate::Training::prepare_with): the text and the overrides name
    /// none.
    ///
    /// ```
    /// use polyglow_train::Config;
    ///
    /// let text = "tokenizer.kind = 'word'\ntrain.max_steps = 100";
    /// let config = Config::for_memory(text, &["train.max_steps=2".to_owned()])?;
    /// assert_eq!(config.train.max_steps, Some(2));
    ///
    /// let error = Config::for_memory(text, &["data.corpus=digits".to_owned()]).unwrap_err();
    /// assert!(error.to_string().contains("other data is given in memory"), "{error}");
    /// # Ok::<(), polyglow_train::TrainError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::load`]; data is named.
    pub fn for_memory(text: &str, overrides: &[String]) -> Result<Self> {
        let config = overrides::apply(text, overrides)?;
        config.validate_for_memory().map_err(usage)?;
        Ok(config)
    }

    /// Checks every section's values.
    ///
    /// # Errors
    /// The message names the key, its value and what is allowed.
    pub fn validate(&self) -> Result<()> {
        self.data.validate(self.content())?;
        self.validate_values()
    }

    /// As [`Self::validate`], for data that is given in memory.
    ///
    /// # Errors
    /// As [`Self::validate`]; the config names data as well.
    pub(crate) fn validate_for_memory(&self) -> Result<()> {
        let named = self.data.has_source() || self.data.has_valid();
        ensure!(
            !named,
            "`[data]` names data, and other data is given in memory"
        );
        ensure!(
            self.data.max_examples.is_none(),
            "`data.max_examples`: all of the data that is given in memory is used"
        );
        self.data.validate_reading(self.content())?;
        self.validate_values()
    }

    fn validate_values(&self) -> Result<()> {
        // TOML's integers end here, and the seed is written into the run's own config.
        ensure!(
            i64::try_from(self.seed).is_ok(),
            "`seed = {}`: must be at most {}",
            self.seed,
            i64::MAX
        );
        let content = self.content();
        check_names(&self.data.filters)?;
        self.tokenizer.validate()?;
        self.model.validate()?;
        self.train.validate()?;
        self.search.validate()?;
        if content.is_text_of_targets() {
            let arch = self.model.arch.name();
            let shared = self.tokenizer.shared;
            ensure!(
                shared,
                "`tokenizer.shared = false`: `model.arch = \"{arch}\"` has text of one side"
            );
        }
        tasks::check_config(self)?;
        self.validate_best_metric()?;
        ensure!(
            self.train.max_epochs.is_none() || !self.data.has_steps(),
            "`train.max_epochs`: corpora of `data.train` have steps, with which epochs have no one length; give \
             `train.max_steps`"
        );
        let weight = self.train.alignment_weight;
        if weight > 0.0 {
            let key = format!("`train.alignment_weight = {weight}`");
            ensure!(
                self.model.has_attention(),
                "{key}: this model has no attention to a source"
            );
            ensure!(
                self.data.is_aligned(),
                "{key}: there are no `data.alignments` to learn from; \"learned\" makes them from the text"
            );
            if let Some(changing) = self.tokenizer.segmentation().key() {
                bail!(
                    "{key}: the alignments do not fit tokens that change with `{changing}`; leave that out"
                );
            }
            ensure!(
                self.train.augmentation.is_none(),
                "{key}: the alignments do not fit examples that `train.augmentation` changes"
            );
            ensure!(
                !self.data.has_noise_everywhere(),
                "{key}: the alignments do not fit sources with noise, and all have some; leave `[data.noise]` out, or for \
                 one of the corpora"
            );
        }
        Ok(())
    }

    /// Checks that the task gives the score that chooses the best checkpoint, as far as it is known
    /// before a validation.
    fn validate_best_metric(&self) -> Result<()> {
        let Some(metric) = self.train.best_metric else {
            return Ok(());
        };
        let facts = facts(self.model.task());
        let is_given = if metric.0.is_built_in() {
            facts
                .all_scores()
                .any(|measure| measure == metric.0.measure)
        } else {
            facts.has_references() || !metric.0.needs_references()
        };
        if is_given {
            return Ok(());
        }
        let arch = self.model.arch.name();
        let keys: Vec<&str> = facts.all_scores().map(|measure| measure.key).collect();
        let error = failed!(
            "`train.best_metric = \"{}\"`: `model.arch = \"{arch}\"` has no such score",
            metric.name()
        );
        Err(with_hint(
            error,
            format!("its scores are `{}`", keys.join("`, `")),
        ))
    }
}
