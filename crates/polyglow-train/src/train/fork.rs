//! A new run that starts from the weights of another: fine-tuning, another schedule, another
//! corpus.

mod vocabulary;

use std::collections::HashMap;
use std::path::{self, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use burn::tensor::TensorData;
use polyglow_data::corpus::Corpus;
use polyglow_data::file;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::{Model, Position, parameter};
use polyglow_predict::error::{Context, Result, TrainError, failed, usage, with_hint};
use polyglow_predict::model::load_weights;
use polyglow_predict::tasks::facts;
use polyglow_predict::weights::Weights;
use serde::{Deserialize, Serialize};

use self::vocabulary::Vocabularies;
use super::resume::change;
use crate::config::Config;
use crate::plan::Plan;
use crate::run::{Checkpoint, Content, RunDirectory, TextHashes, TrainState};
use crate::train::{Optimizer, UpdateRule};

/// The beginnings of keys that a model and its ids depend on.
const FIXED: [&str; 2] = ["model.", TOKENIZER];
/// The beginning of keys that only its ids depend on.
const TOKENIZER: &str = "tokenizer.";
/// Keys among them that may change: they act during training only.
const FREE: [&str; 5] = [
    "model.dropout",
    "model.attention_dropout",
    "model.activation_dropout",
    "tokenizer.dropout",
    "tokenizer.sampling_alpha",
];

/// Keys that the number of positions depends on. Learned positions are weights of the model.
const POSITIONS: [&str; 4] = [
    "data.max_len",
    "data.context_len",
    "tokenizer.dropout",
    "tokenizer.sampling_alpha",
];

/// The beginning of the names of a head's parameters.
const HEAD: &str = "head.";

/// The file in a run's directory that says that it is a fork, and of which run.
const ORIGIN: &str = "origin.json";

/// The weights that a new run starts from.
#[derive(Clone, Debug)]
pub struct Start {
    /// The directory of the run.
    pub run: PathBuf,
    /// `best`, `last`, `step-N`, `average` or `ema`.
    pub checkpoint: String,
    /// Whether the new run has a vocabulary of its own: the config's, instead of that of the old
    /// run. Tokens that both have keep their weights.
    pub new_vocabulary: bool,
}

/// `origin.json`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Source {
    /// The run, as an absolute path.
    run: PathBuf,
    /// The checkpoint that was named.
    checkpoint: String,
}

impl Source {
    fn read(new: &RunDirectory) -> Result<Option<Self>> {
        let path = new.root().join(ORIGIN);
        match fs::read(&path) {
            Ok(text) => Ok(Some(
                serde_json::from_slice(&text)
                    .with_context(|| format!("in `{}`", path.display()))?,
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
        }
    }
}

/// Makes sure that a run is not an interrupted fork that never got its weights.
///
/// # Errors
/// It is (exit code 2).
pub(super) fn check_is_no_fork(run: &RunDirectory) -> Result<()> {
    match Source::read(run)? {
        Some(Source { run: origin, .. }) if run.checkpoints(1).steps()?.is_empty() => {
            let error = failed!(
                "`{}` was started as a fork of `{}`, but the weights were never copied",
                run.root().display(),
                origin.display()
            );
            Err(with_hint(
                usage(error),
                "give the command with `--fork` again, or another directory",
            ))
        }
        _ => Ok(()),
    }
}

/// Returns the run that a fork comes from, as an absolute path; `None` where the run is no fork, or
/// its file cannot be read.
pub(super) fn origin_of(run: &RunDirectory) -> Option<PathBuf> {
    Source::read(run).ok().flatten().map(|source| source.run)
}

/// The run that a fork comes from, with the weights of its checkpoint.
pub(super) struct Origin {
    source: Source,
    tokenizers: Tokenizers,
    /// Whether the new model has another head.
    new_head: bool,
    new_vocabulary: bool,
    checkpoint: Checkpoint,
    weights: Weights,
}

impl Origin {
    /// Reads the checkpoint that `start` names, from which the run `new` is to begin. Returns
    /// `None` if it has begun: then the old run may be gone.
    ///
    /// # Errors
    /// There is no such run, no such checkpoint in it, or it is `new` itself; `new` is a run that
    /// has another origin; the new config has another model or tokenizer (exit code 2).
    pub(super) fn find(start: &Start, new: &RunDirectory, config: &Config) -> Result<Option<Self>> {
        let Start {
            run,
            checkpoint,
            new_vocabulary,
        } = start;
        let absolute = path::absolute(run).context("cannot find the current directory")?;
        let source = Source {
            run: absolute,
            checkpoint: checkpoint.clone(),
        };
        if !new.checkpoints(1).steps()?.is_empty() {
            return match Source::read(new)? {
                Some(old) if old == source => Ok(None),
                old => Err(other_origin(new, old.as_ref())),
            };
        }
        let run = RunDirectory::existing(run).map_err(|error| {
            with_hint(error, "`--run OLD_RUN` names the run that a fork starts from, `--fork NEW_RUN` the new one")
        })?;
        let new_head = has_new_head(config, &run.config()?);
        check_fits(config, &run, new_head, *new_vocabulary)?;
        let tokenizers = run.tokenizers()?;
        let (checkpoint, weights) = run.weights(checkpoint)?;
        if weights.is_int8() {
            let error = failed!(
                "`{}` has 8-bit matrices, which cannot be trained",
                checkpoint.path.display()
            );
            return Err(with_hint(
                usage(error),
                "fork from the checkpoint that it was quantized from",
            ));
        }
        Ok(Some(Self {
            source,
            tokenizers,
            new_head,
            new_vocabulary: *new_vocabulary,
            checkpoint,
            weights,
        }))
    }

    /// Returns the tokenizers of the new run: those of the old one, but for the labels of a new
    /// head, which are those of `train`; `None` if it is to have its own.
    ///
    /// # Errors
    /// The labels cannot be read.
    pub(super) fn tokenizers(&self, config: &Config, train: &Corpus) -> Result<Option<Tokenizers>> {
        if self.new_vocabulary {
            return Ok(None);
        }
        if self.new_head && facts(config.model.task()).gives_labels() {
            return Ok(Some(Tokenizers::with_labels(
                Arc::clone(&self.tokenizers.src),
                train,
            )?));
        }
        Ok(Some(self.tokenizers.clone()))
    }

    /// Notes in the new run's directory where its weights come from, before it has any.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn note(&self, new: &RunDirectory) -> Result<()> {
        let path = new.root().join(ORIGIN);
        let text = serde_json::to_string_pretty(&self.source)? + "\n";
        file::replace(&path, text.as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Writes the weights into the new run as its checkpoint `step-0`, from which training then
    /// resumes as from any other.
    ///
    /// # Errors
    /// The checkpoint is damaged or does not fit; the new one cannot be written.
    pub(super) fn copy_weights(
        self,
        new: &RunDirectory,
        plan: &Plan,
        tokenizers: &Tokenizers,
        text: &TextHashes,
        rule: Box<dyn UpdateRule>,
    ) -> Result<()> {
        let Self {
            checkpoint,
            weights,
            new_head,
            new_vocabulary,
            tokenizers: old,
            ..
        } = self;
        let config = &plan.config;
        let fresh = plan
            .model_shape(tokenizers)?
            .init(config.seed, &plan.device.clone().autodiff());
        let vocabularies = new_vocabulary.then_some(Vocabularies {
            old: &old,
            new: tokenizers,
        });
        let model = if new_head || new_vocabulary {
            carry_over(fresh, weights, new_head, vocabularies.as_ref())?
        } else {
            load_weights(fresh, weights)?
        };
        // Fresh, as the old optimizer's means belong to other data and another learning rate.
        let optimizer = Optimizer::with_rule(rule, &config.train, &model);
        let content = Content {
            model: parameter::read(&model),
            optimizer: optimizer.state(),
            ema: optimizer.ema(),
        };
        let state = TrainState {
            text: Some(text.clone()),
            ..TrainState::default()
        };
        new.checkpoints(config.train.keep_last)
            .save(&content, &state)?;
        let carried = match vocabularies.map(|vocabularies| vocabularies.shared()) {
            Some((all, known)) => {
                format!(
                    "the layers, and the embeddings of {known} of {all} tokens, the others are drawn;"
                )
            }
            None if new_head => {
                "the embedding, the layers and the tokenizer of the text; the head and its labels,"
                    .to_owned()
            }
            None => "the weights and the tokenizers;".to_owned(),
        };
        tracing::info!(
            "forked from `{}`, after step {}: carried over are {carried} the steps, the learning rate, the optimizer's \
             state, the EMA, the order of the data and the best score start again",
            checkpoint.path.display(),
            checkpoint.state.step
        );
        Ok(())
    }
}

/// Replaces the parameters of a fresh model by those of the old one, except for a new head, and for
/// the tokens that only the new vocabulary has.
fn carry_over(
    fresh: Model,
    mut weights: Weights,
    new_head: bool,
    vocabularies: Option<&Vocabularies<'_>>,
) -> Result<Model> {
    let drawn: HashMap<String, TensorData> = parameter::read(&fresh).into_iter().collect();
    let model = parameter::replace(fresh, |name, shape| match (drawn.get(name), vocabularies) {
        (Some(values), _) if new_head && name.starts_with(HEAD) => Ok(values.clone()),
        (Some(values), Some(vocabularies)) => vocabularies.carry(name, shape, values, &mut weights),
        _ => weights.take(name, shape),
    })?;
    weights.finish()?;
    Ok(model)
}

/// Makes the error of a run that has begun, but not as this fork.
fn other_origin(new: &RunDirectory, old: Option<&Source>) -> TrainError {
    let root = new.root().display();
    let is = match old {
        Some(old) => {
            let run = old.run.display();
            format!("a fork of `{run}`, checkpoint `{}`", old.checkpoint)
        }
        None => "not a fork".to_owned(),
    };
    with_hint(
        usage(failed!("`{root}` exists, and is {is}")),
        "name another directory with `--fork`, or resume this one with `--run`",
    )
}

/// Returns whether an encoder that was trained on hidden tokens is to be trained on labels.
fn has_new_head(config: &Config, old: &Config) -> bool {
    let (new, old) = (facts(config.model.task()), facts(old.model.task()));
    old.predicts_hidden_tokens() && new.gives_labels()
}

/// Makes sure that the weights of `run` fit a config.
fn check_fits(
    config: &Config,
    run: &RunDirectory,
    new_head: bool,
    new_vocabulary: bool,
) -> Result<()> {
    let old = run.config()?;
    let has_other_positions = config.model.position == Position::Learned
        && config.settings().num_positions() != old.settings().num_positions();
    let mut changes = Vec::new();
    for difference in config.differences(&old)? {
        let key = difference.key.as_str();
        let is_free = FREE.contains(&key)
            || new_head && key == "model.head"
            || new_vocabulary && key.starts_with(TOKENIZER) && key != "tokenizer.shared";
        let is_fixed = FIXED.iter().any(|fixed| key.starts_with(fixed)) && !is_free;
        if is_fixed || has_other_positions && POSITIONS.contains(&key) {
            changes.push(change(&difference));
        }
    }
    if changes.is_empty() {
        return Ok(());
    }
    let error = failed!(
        "the weights of `{}` fit another config: {}",
        run.root().display(),
        changes.join("; ")
    );
    Err(with_hint(
        usage(error),
        "a fork keeps the model and the tokenizer, but for dropout and `tokenizer.sampling_alpha`, and may teach labels to what found hidden tokens; \
         with learned positions it keeps their number, too; set the rest back, or take the config's tokenizer with `--new-vocabulary`",
    ))
}
