//! Before the first step: text becomes tokenizers and ids, in a directory of its own.

mod ids;
mod ranks;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::schedule::OwnSchedule;
use burn::tensor::Device;
use polyglow_data::batching::Selection;
use polyglow_data::corpus::Corpus;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_metrics::Tokenizer as BleuTokenizer;
use polyglow_model::Precision;
use polyglow_predict::device;
use polyglow_predict::error::{Result, ensure, failed, usage, with_hint};
use polyglow_predict::group::{Group, alone};

use super::fork::{self, Origin, Start};
use super::optimizer::{MakeRule, UpdateRule, rule};
use super::resume::check_same_config;
use super::{Ending, Stop, find_max_tokens, fit};
use crate::config::{Config, MaxTokens, TrainConfig};
use crate::observer::Observer;
use crate::plan::Plan;
use crate::run::{Lock, RunDirectory, TextHashes, TrainState};
use crate::tasks::{Setting, Task, TrainingData, configured};
use ids::{encode, tokenizers};
pub use ranks::check_one_config;
use ranks::{check_share, shared_tokenizers};
pub use text::Text;

/// A training that can start or resume, with everything that it needs.
///
/// ```
/// use polyglow_train::{Config, Ending, Silent, Stop, Training};
///
/// let text = "data.corpus = 'digits'
///     tokenizer.kind = 'word'
///     model = { d_model = 16, d_ff = 16, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
///     train = { max_steps = 2, max_tokens = 200 }";
/// let dir = tempfile::tempdir()?;
/// let mut training = Training::prepare(Config::from_text(text, &[])?, dir.path(), &mut Silent)?;
/// assert!(training.is_new()?);
/// let (ending, state) = training.run(&Stop::default(), &mut Silent)?;
/// assert_eq!((ending, state.step), (Ending::Done, 2));
/// assert!(dir.path().join("checkpoints/step-2/model.safetensors").is_file());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Training {
    /// The plan of the training.
    pub plan: Plan,
    /// The directory that everything is written to.
    pub run: RunDirectory,
    /// The data as it was read.
    pub text: Text,
    /// Both sides' tokenizers.
    pub tokenizers: Tokenizers,
    /// The training data, as models read it.
    pub data: TrainingData,
    /// The tokenizer of BLEU.
    pub bleu: BleuTokenizer,
    /// Prevents concurrent training in the directory; rank 0 has it.
    pub(super) lock: Option<Lock>,
    /// The hashes of the texts and tokenizers, which checkpoints keep.
    pub(crate) hashes: TextHashes,
    origin: Option<Origin>,
    /// The update rule of the weights.
    pub(super) rule: MakeRule,
    /// A schedule of the caller's own.
    pub(super) schedule: Option<OwnSchedule>,
}

impl Training {
    /// Prepares a training in the directory `run`, or resumes the one that is there: with the same
    /// config it continues where it was stopped.
    ///
    /// The directory is made once everything that can be checked without training is known to be
    /// right.
    ///
    /// # Errors
    /// The config is wrong, or another than the run's
    /// ([`ErrorKind::Usage`](crate::ErrorKind::Usage)); the device is not there; the data cannot be
    /// read; another process trains there; the disk fails.
    pub fn prepare(
        config: Config,
        run: impl AsRef<Path>,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        config.validate().map_err(usage)?;
        Self::prepare_among(&alone(), config, None, run, observer)
    }

    /// As [`Self::prepare`], or as [`Self::fork`] if there is a `start`, in every process of a
    /// group that trains together.
    ///
    /// Only rank 0 writes to the run. The others read it, and where they do not see it, as on a
    /// machine that does not share the disk, have ids of their own in a directory of the same name;
    /// their text must be the same.
    ///
    /// # Errors
    /// As [`Self::prepare`] and [`Self::fork`]; a rank has another config than rank 0 (exit code
    /// 2), but for its device and the paths of texts with the same content;
    /// `train.accumulate_steps` is less than the size of the group.
    pub fn prepare_among(
        group: &Arc<dyn Group>,
        config: Config,
        start: Option<&Start>,
        run: impl AsRef<Path>,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        check_one_config(&**group, &config)?;
        check_share(&**group, &config)?;
        config.validate().map_err(usage)?;
        Self::prepare_in(
            group,
            config,
            Text::open,
            RunDirectory::new(run.as_ref()),
            observer,
            |run, config| match start {
                Some(start) => Origin::find(start, run, config),
                None => no_origin(run),
            },
        )
    }

    /// As [`Self::prepare`], on data that is in memory; `config.data` then names none, and only
    /// says how it is read: [`Config::for_memory`] makes such a config.
    ///
    /// To resume the run, pass the same data again.
    ///
    /// # Errors
    /// As [`Self::prepare`]; the data does not have the content that the config's model reads.
    pub fn prepare_with(
        config: Config,
        text: Text,
        run: impl AsRef<Path>,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        config.validate_for_memory().map_err(usage)?;
        check_content(&config, "training", &text.train)?;
        if let Some(valid) = &text.valid {
            check_content(&config, "validation", valid)?;
        }
        let run = RunDirectory::new(run.as_ref());
        Self::prepare_in(
            &alone(),
            config,
            |_| Ok(text),
            run,
            observer,
            |run, _| no_origin(run),
        )
    }

    /// As [`Self::prepare`], with the weights of another run, and with its tokenizers if `start`
    /// does not say otherwise.
    ///
    /// # Errors
    /// As [`Self::prepare`]; there is no such run or checkpoint, or its weights fit another config.
    pub fn fork(
        config: Config,
        start: &Start,
        run: impl AsRef<Path>,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        Self::prepare_among(&alone(), config, Some(start), run, observer)
    }

    fn prepare_in(
        group: &Arc<dyn Group>,
        config: Config,
        text: impl FnOnce(&Plan) -> Result<Text>,
        run: RunDirectory,
        observer: &mut dyn Observer,
        find_origin: impl FnOnce(&RunDirectory, &Config) -> Result<Option<Origin>>,
    ) -> Result<Self> {
        let device = device::open_for(&config.device, group.local_rank())?;
        let (selection, before) = group.share(|| begun(&run))?;
        let before = before.map(|before| Config::parse(&before)).transpose()?;
        let mut plan = Plan::on(config, device, before.as_ref())
            .with_group(Arc::clone(group))
            .with_selection(selection);
        plan.training_device()?;
        if plan.on_host && plan.config.train.precision == Precision::F16 {
            tracing::warn!(
                "`train.precision = \"f16\"`: a CPU imitates it, and computes faster in f32"
            );
        }
        let text = text(&plan)?;
        let mut lock = None;
        let mut origin = None;
        // Rank 0 alone looks into the run and locks it: the others may be on machines that do not
        // see it, and would find it locked where they do.
        group.share(|| {
            // Before the lock, which writes a file: a wrong name of a run leaves nothing behind.
            origin = find_origin(&run, &plan.config)?;
            lock = Some(run.lock()?);
            check_leaves_nothing_behind(&run)?;
            check_same_config(&run, &plan.config)
        })?;
        let bleu = bleu_tokenizer(&plan, &text)?;
        if plan.task.facts().has_references() {
            plan = plan.with_tokenizer(bleu.name());
        }
        let shared = shared_tokenizers(&**group, &text, || {
            tokenizers(&run, origin.as_ref(), &plan.config, &text, observer)
        })?;
        let (tokenizers, hashes) = shared;
        // In turn, so that the ranks of a machine read the ids that the first of them has written.
        let data = group.in_turn(|| {
            if !group.is_first() {
                run.make_cache()?;
            }
            encode(&run, &plan, &text, &tokenizers, observer)
        })?;
        if plan.config.train.max_tokens == MaxTokens::Auto {
            let setting = setting(&plan, &tokenizers, &text, &bleu)?;
            let own = find_max_tokens(setting, &plan.model_shape(&tokenizers)?, &data, observer)?;
            // What fits the smallest device: all ranks must plan the same batches.
            let max_tokens = group.gather(own)?.into_iter().min().unwrap_or(own);
            tracing::info!(
                "train.max_tokens = {max_tokens}: what fits the memory of a GPU, or on a CPU the default; this run keeps the value"
            );
            plan = plan.with_max_tokens(max_tokens);
        }
        group.share(|| run.create(&plan.config))?;
        let rule = MakeRule {
            name: None,
            make: Box::new(rule),
        };
        Ok(Self {
            plan,
            run,
            text,
            tokenizers,
            data,
            bleu,
            lock,
            hashes,
            origin,
            rule,
            schedule: None,
        })
    }

    /// Returns whether no step has been made in the directory.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn is_new(&self) -> Result<bool> {
        Ok(self.run.checkpoints(1).steps()?.is_empty())
    }

    /// Returns the run whose weights this one begins with, if it is a fork.
    pub fn origin(&self) -> Option<PathBuf> {
        fork::origin_of(&self.run)
    }

    /// Replaces `train.optimizer` by an update rule of the caller's own.
    ///
    /// The run keeps `name`, in which the settings of the rule may stand, and is resumed only with
    /// a rule of the same name.
    #[must_use]
    pub fn with_rule(
        mut self,
        name: impl Into<String>,
        rule: impl Fn(&TrainConfig) -> Box<dyn UpdateRule> + Send + Sync + 'static,
    ) -> Self {
        self.rule = MakeRule {
            name: Some(name.into()),
            make: Box::new(rule),
        };
        self
    }

    /// Replaces `train.schedule` by a schedule of the caller's own: `learning_rate` is called with
    /// the number of each step, from 1, and returns its learning rate, which the records hold.
    ///
    /// The run keeps `name`, and is resumed only with a schedule of the same name.
    ///
    /// ```
    /// # use polyglow_train::{Config, Silent, Stop, Training};
    /// # let text = "data.corpus = 'digits'
    /// #     tokenizer.kind = 'word'
    /// #     model = { d_model = 16, d_ff = 16, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
    /// #     train = { max_steps = 4, max_tokens = 200, log_every = 1 }";
    /// # let dir = tempfile::tempdir()?;
    /// # let config = Config::from_text(text, &[])?;
    /// let training = Training::prepare(config, dir.path(), &mut Silent)?;
    /// let mut training = training.with_schedule("halved", |step| 1e-3 * 0.5_f64.powf(step as f64));
    /// training.run(&Stop::default(), &mut Silent)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_schedule(
        mut self,
        name: impl Into<String>,
        learning_rate: impl Fn(u64) -> f64 + Send + Sync + 'static,
    ) -> Self {
        self.schedule = Some(OwnSchedule {
            name: name.into(),
            learning_rate: Arc::new(learning_rate),
        });
        self
    }

    /// Returns what the built-in tasks take from this training.
    ///
    /// # Errors
    /// The config's model does not fit the tokenizers.
    pub fn setting(&self) -> Result<Setting> {
        setting(&self.plan, &self.tokenizers, &self.text, &self.bleu)
    }

    /// Trains to the end, or until `stop` or the observer requests it; returns why training ended,
    /// and its last state.
    ///
    /// # Errors
    /// Too many losses or gradients in a row are not finite; the device or the disk fails.
    pub fn run(
        &mut self,
        stop: &Stop,
        observer: &mut dyn Observer,
    ) -> Result<(Ending, TrainState)> {
        if let Some(origin) = self.origin.take() {
            origin.copy_weights(
                &self.run,
                &self.plan,
                &self.tokenizers,
                &self.hashes,
                (self.rule.make)(&self.plan.config.train),
            )?;
        }
        let model = self
            .plan
            .model_shape(&self.tokenizers)?
            .init(self.plan.config.seed, &self.plan.training_device()?);
        let task = configured(self.setting()?, &self.data)?;
        fit(self, &task, model, stop, observer)
    }

    /// As [`Self::run`], for a task or a model of the caller's own. `model` makes the model on the
    /// device that it is called with; its weights are replaced by those of the newest checkpoint
    /// where there is one.
    ///
    /// The run keeps the names of the model's type and of the task ([`Task::name`]), and is resumed
    /// only with the same.
    ///
    /// # Errors
    /// As [`Self::run`]; the training is a fork, which only the built-in models can be.
    pub fn run_with<T: Task>(
        &self,
        task: &T,
        model: impl FnOnce(&Device) -> T::Model,
        stop: &Stop,
        observer: &mut dyn Observer,
    ) -> Result<(Ending, TrainState)> {
        ensure!(
            self.origin.is_none(),
            "only the built-in models can be forked"
        );
        fit(
            self,
            task,
            model(&self.plan.training_device()?),
            stop,
            observer,
        )
    }
}

/// Reads what the training that is resumed began with, if one is: the rules that select the data,
/// and its config.
fn begun(run: &RunDirectory) -> Result<(Selection, Option<String>)> {
    run.check_is_ours()?;
    let config = if run.config_path().is_file() {
        Some(run.config()?.to_toml()?)
    } else {
        None
    };
    Ok((run.selection()?, config))
}

/// Makes sure that data in memory has the content that the config's model reads.
fn check_content(config: &Config, name: &str, corpus: &Corpus) -> Result<()> {
    let required = config.content();
    let content = corpus.content();
    ensure!(
        content == required,
        "the {name} data is {content:?}, and the config's model reads {required:?}"
    );
    Ok(())
}

/// Makes sure that a training may begin with weights of its own.
fn no_origin(run: &RunDirectory) -> Result<Option<Origin>> {
    fork::check_is_no_fork(run).map(|()| None)
}

fn setting(
    plan: &Plan,
    tokenizers: &Tokenizers,
    text: &Text,
    bleu: &BleuTokenizer,
) -> Result<Setting> {
    let longest = plan.model_shape(tokenizers)?.vocabulary().max_len - 1;
    Ok(Setting {
        plan: plan.clone(),
        tokenizers: tokenizers.clone(),
        valid: Arc::clone(&text.held_out),
        bleu: bleu.clone(),
        longest,
    })
}

/// Chooses BLEU's tokenizer: by its key, or else by the script of the validation text or, without
/// one, of the training text.
fn bleu_tokenizer(plan: &Plan, text: &Text) -> Result<BleuTokenizer> {
    if !plan.task.facts().has_references() {
        return Ok(BleuTokenizer::default());
    }
    plan.config
        .train
        .bleu_tokenizer(text.some_targets()?.iter().map(String::as_str))
}

/// Makes sure that a training that would begin is not in the directory of one that has only weights
/// left.
fn check_leaves_nothing_behind(run: &RunDirectory) -> Result<()> {
    let checkpoints = run.checkpoints(1);
    let left = checkpoints.named()?;
    if !checkpoints.steps()?.is_empty() || left.is_empty() {
        return Ok(());
    }
    let error = failed!(
        "`{}` has the checkpoint `{}`, but no `step-N` to resume from, and a new training would replace its records",
        run.root().display(),
        left.join("`, `")
    );
    Err(with_hint(
        error,
        "restore a checkpoint `step-N`, or give the new training another directory with `--run`",
    ))
}
