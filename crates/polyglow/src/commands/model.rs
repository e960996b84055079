//! The arguments of every command that uses a trained model.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use polyglow_data::config::{DataConfig, Direction, Split};
use polyglow_metrics::TokenizerChoice;
use polyglow_model::search::{SearchConfig, SearchMethod, SearchRequest};
use polyglow_predict::group::{Group, alone};
use polyglow_train::Plan;
use polyglow_train::config::Config;
use polyglow_train::run::{RunDirectory, TrainedModel};

use super::counts;
use crate::failure::{usage, with_hint};

/// Keys that may differ from the training: those on which neither the model nor its ids depend.
pub(crate) const FREE_KEYS: [&str; 7] = [
    "search.",
    "data.",
    "train.tokenize=",
    "train.dictionary=",
    "train.spm=",
    "train.max_tokens=",
    "train.rank_timeout=",
];

/// A pair of languages in words, with the tags that stand for them.
fn described(direction: &Direction) -> String {
    let Direction { src, tgt, tags } = direction;
    let with_tag = |language: &str, tag: Option<&String>| match tag {
        Some(tag) => format!("`{language}` (`{tag}`)"),
        None => format!("`{language}`"),
    };
    let src = with_tag(src, tags.src.first());
    format!("{src} to {}", with_tag(tgt, tags.tgt.as_ref()))
}

/// Which model to use, and how.
#[derive(Args, Clone)]
pub(super) struct ModelArgs {
    /// Directory of the run
    pub(super) run: PathBuf,
    /// `best`, `last`, `step-N`, `average`, `ema`, `int8`, or the path of a checkpoint
    #[arg(long, value_name = "NAME", default_value = "best")]
    pub(super) checkpoint: String,
    /// Another model for an ensemble with the first: a run directory or a checkpoint; may be
    /// repeated
    #[arg(long, value_name = "PATH")]
    pub(super) ensemble: Vec<PathBuf>,
    /// Beam size, 1 for greedy search [default: the config's]; or number of samples to draw, of
    /// which the best are taken [default: as many as are asked for]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = counts())]
    pub(super) beam_size: Option<usize>,
    /// Override a key of `[search]` or `[data]`, `train.tokenize`, `train.dictionary`, `train.spm`,
    /// `train.max_tokens` or `train.rank_timeout`, as in `search.length_alpha=0.6`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) overrides: Vec<String>,
    /// Device to run on, as `polyglow devices` lists it [default: the config's]
    #[arg(long, value_name = "NAME")]
    pub(super) device: Option<String>,
}

/// The languages of a model that knows several.
#[derive(Args, Default)]
pub(super) struct LanguageArgs {
    /// Language to translate from, of a model that was trained for several: as a corpus of
    /// `data.train` names it in `src`, or its tag [default: `data.src`]
    #[arg(long, value_name = "LANGUAGE")]
    pub(super) from: Option<String>,
    /// Language to translate to, of a model that was trained for several: as a corpus of
    /// `data.train` names it in `tgt`, or its tag [default: `data.tgt`]
    #[arg(long, value_name = "LANGUAGE")]
    pub(super) to: Option<String>,
}

impl LanguageArgs {
    /// Chooses the languages, and the tags that go with them, in a config.
    ///
    /// # Errors
    /// The model was not trained to translate between them (exit code 2).
    fn choose(&self, data: &mut DataConfig) -> anyhow::Result<()> {
        let Self { from, to } = self;
        let directions = data.directions();
        // Where no language is named, what is asked for cannot be checked.
        if (from.is_none() && to.is_none()) || directions.is_empty() {
            return Ok(());
        }
        let matches = |direction: &&Direction| {
            let Direction { src, tgt, tags } = direction;
            from.as_ref()
                .is_none_or(|from| from == src || tags.src.contains(from))
                && to
                    .as_ref()
                    .is_none_or(|to| to == tgt || tags.tgt.as_ref() == Some(to))
        };
        // Of several the run's own comes first, and its own languages are meant where one is left
        // open.
        let Some(direction) = directions.iter().find(matches) else {
            let error = usage(anyhow!(
                "the model was not trained to translate {}",
                self.requested()
            ));
            let known: Vec<String> = directions.iter().map(described).collect();
            return Err(with_hint(
                error,
                format!("it translates {}", known.join(", ")),
            ));
        };
        data.set_direction(direction.clone());
        Ok(())
    }

    /// Checks that a set is in the requested languages, as far as the names of files tell them: both
    /// sides of a TSV file are of the run's own languages.
    ///
    /// # Errors
    /// It cannot be (exit code 2).
    pub(super) fn check_set(
        &self,
        model: &ModelArgs,
        config: &Config,
        split: Split<'_>,
    ) -> anyhow::Result<()> {
        let own = RunDirectory::existing(&model.run)?.config()?;
        let key = match split {
            Split::Valid => "data.valid",
            Split::Train | Split::Test(_) => "data.test",
        };
        let is_named = |set: &String| set.starts_with(key);
        let is_other = own.data.languages().ok() != config.data.languages().ok();
        if split == Split::Train || !is_other || model.overrides.iter().any(is_named) {
            return Ok(());
        }
        let is_by_language = config.data.is_by_language(split);
        if is_by_language {
            return Ok(());
        }
        let error = usage(anyhow!(
            "the set is in the languages of the run's own config, not {}",
            self.requested()
        ));
        Err(with_hint(
            error,
            "name one in these languages, as in `--set data.test=FILE`",
        ))
    }

    /// The requested languages, in words.
    fn requested(&self) -> String {
        let from = self.from.iter().map(|from| format!("from `{from}`"));
        let to = self.to.iter().map(|to| format!("to `{to}`"));
        from.chain(to).collect::<Vec<_>>().join(" ")
    }
}

impl ModelArgs {
    /// One checkpoint of a run, with the run's own config.
    pub(super) fn of_run(run: &Path, checkpoint: &str, device: Option<String>) -> Self {
        Self {
            run: run.to_owned(),
            checkpoint: checkpoint.to_owned(),
            ensemble: Vec::new(),
            beam_size: None,
            overrides: Vec::new(),
            device,
        }
    }

    /// Returns the run's plan with what the arguments change in it, on the device that they
    /// name.
    ///
    /// # Errors
    /// There is no such run or device; an override is wrong, or is of a key that the model depends
    /// on (exit code 2).
    pub(crate) fn open(&self) -> anyhow::Result<Plan> {
        self.open_among(alone())
    }

    /// As [`Self::open`], of one of several processes.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_among(&self, group: Arc<dyn Group>) -> anyhow::Result<Plan> {
        self.open_with(None, group)
    }

    /// As [`Self::open_among`], for one of several pairs of languages.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_for(
        &self,
        languages: &LanguageArgs,
        group: Arc<dyn Group>,
    ) -> anyhow::Result<Plan> {
        self.open_with(Some(languages), group)
    }

    /// Opens the plan of the run, with what the arguments change in its config.
    fn open_with(
        &self,
        languages: Option<&LanguageArgs>,
        group: Arc<dyn Group>,
    ) -> anyhow::Result<Plan> {
        check_free(&self.overrides, &FREE_KEYS)?;
        let mut overrides = self.overrides.clone();
        overrides.extend(
            self.beam_size
                .map(|beam_size| format!("search.beam_size={beam_size}")),
        );
        let run = RunDirectory::existing(&self.run)?;
        let mut config = run.config_with(&overrides)?;
        config.device = self.device.clone().unwrap_or(config.device);
        if let Some(languages) = languages {
            let [_, before] = config
                .data
                .named_languages()
                .map(|name| name.map(str::to_owned));
            languages.choose(&mut config.data)?;
            let is_named = |set: &String| set.starts_with("train.tokenize=");
            // What BLEU cuts depends on the language that is written.
            if config.data.named_languages()[1] != before.as_deref()
                && !overrides.iter().any(is_named)
            {
                config.train.tokenize = TokenizerChoice::Auto;
            }
        }
        Ok(Plan::for_rank(config, group)?)
    }

    /// Returns the request of a search for the `n_best` best, with the plan's width.
    ///
    /// # Errors
    /// `n_best` is more than the beam size (exit code 2).
    pub(crate) fn search(&self, plan: &Plan, n_best: usize) -> anyhow::Result<SearchRequest> {
        let SearchConfig {
            method, beam_size, ..
        } = plan.config.search;
        let mut overrides = self.overrides.iter();
        let is_requested =
            self.beam_size.is_some() || overrides.any(|set| set.starts_with("search.beam_size="));
        // The width in a run's config is that of its beam, not a number of samples.
        let has_width = is_requested || method != SearchMethod::Sample;
        let search = SearchRequest {
            beam_size: has_width.then_some(beam_size),
            n_best,
            ..SearchRequest::default()
        };
        // Neither number is 0, so the only possible error is the one that is reported here.
        search.validate().map_err(|_| {
            let error = anyhow!("`--n-best {n_best}` is more than the beam size, {beam_size}");
            with_hint(usage(error), format!("add `--beam-size {n_best}`"))
        })?;
        Ok(search)
    }

    /// The models, that of the run first.
    ///
    /// # Errors
    /// As [`RunDirectory::load`] and [`TrainedModel::load`].
    pub(crate) fn load(&self, plan: &Plan) -> anyhow::Result<Vec<TrainedModel>> {
        plan.group
            .wait_at_most(Duration::from_secs(plan.config.train.rank_timeout));
        let mut models =
            vec![RunDirectory::existing(&self.run)?.load(&self.checkpoint, &plan.device)?];
        for path in &self.ensemble {
            models.push(TrainedModel::load(path, &plan.device)?);
        }
        // Beside a training, or with a slow network disk, two ranks may find another `best`.
        let hashes: Vec<_> = models
            .iter()
            .map(|model| model.checkpoint.model_hash().map(str::to_owned))
            .collect();
        let group = &plan.group;
        for (rank, theirs) in group.gather(hashes.clone())?.into_iter().enumerate() {
            if theirs != hashes {
                let error = anyhow!(
                    "{} has other weights than {}",
                    group.name(rank),
                    group.name(group.rank())
                );
                return Err(with_hint(
                    error,
                    "all machines must see the same run; `--checkpoint step-N` names one for good",
                ));
            }
        }
        Ok(models)
    }
}

/// Makes sure that overrides change nothing that a trained model depends on: `free` is what keys
/// may begin with.
///
/// # Errors
/// One does (exit code 2).
pub(crate) fn check_free(overrides: &[String], free: &[&str]) -> anyhow::Result<()> {
    let Some(fixed) = overrides
        .iter()
        .find(|set| !free.iter().any(|free| set.starts_with(free)))
    else {
        return Ok(());
    };
    let error = usage(anyhow!(
        "`--set {fixed}`: the model was trained with that key and depends on it"
    ));
    let free: Vec<&str> = free
        .iter()
        .map(|key| key.trim_end_matches(['.', '=']))
        .collect();
    let free = free.join("`, `");
    Err(with_hint(
        error,
        format!(
            "`--set` may change `{free}` here; for another model, train with the changed config"
        ),
    ))
}
