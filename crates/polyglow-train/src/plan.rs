//! What the user wrote becomes what runs: everything that a config leaves open is decided here,
//! once.

use std::sync::Arc;

use burn::tensor::Device;
use polyglow_data::batching::{BatchingConfig, Selection};
use polyglow_data::config::Content;
use polyglow_data::corpus::read_images;
use polyglow_data::sources::{BatchSource, Sharded};
use polyglow_data::tokenizer::Tokenizers;
use polyglow_metrics::{TokenizerChoice, TokenizerName};
use polyglow_model::quantization::has_int8_kernels;
use polyglow_model::search::SearchConfig;
use polyglow_model::{ModelShape, Precision, Task as TaskKind, computes_on_host};
use polyglow_predict::device;
use polyglow_predict::error::{Result, failed, usage, with_hint};
use polyglow_predict::group::{Group, alone};
use polyglow_predict::runner::Options;
use polyglow_predict::settings::{DEFAULT_MAX_TOKENS, default_pad_multiple};
use polyglow_predict::tasks::{TaskFacts, TaskUse, facts, task_use};

use crate::config::{BestMetric, Config, MaxTokens, TrainConfig};

/// Shards of a micro-batch at most on the CPU: cores that one keeps busy. Another number is another
/// training, to the last digits.
const MOST_SHARDS: usize = 8;

/// What runs: a config and, as plain values, all that it leaves open.
///
/// ```
/// use polyglow_train::{Config, Plan};
///
/// let plan = Plan::new(Config::from_text("data.corpus = 'digits'\ntrain.max_steps = 2", &[])?)?;
/// assert_eq!((plan.task.facts().name, plan.pad_multiple), ("translation", 1));
/// assert_eq!((plan.max_tokens, plan.d_model), (4096, 256));
/// assert!(plan.config.model.d_model.is_some());
/// # Ok::<(), polyglow_train::TrainError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    /// The config as a run keeps it, with the keys that were left open filled in. A training that
    /// is prepared also replaces `train.max_tokens = "auto"` by the number that it found
    /// ([`Plan::with_max_tokens`]), and a `train.tokenize` that depends on the text
    /// ([`Plan::with_tokenizer`]).
    pub config: Config,
    /// What is learned.
    pub task: Arc<dyn TaskUse>,
    /// What the corpus is made of.
    pub content: Content,
    /// Where it runs, without autodiff.
    pub device: Device,
    /// Whether that computes in host memory.
    pub on_host: bool,
    /// Whether training runs the fused kernels of polyglow-kernels.
    pub has_kernels: bool,
    /// Padded positions of a batch at most: `train.max_tokens`. For `"auto"` it is the default,
    /// with which everything runs but a training, which looks for the number first.
    pub max_tokens: usize,
    /// What padded lengths are multiples of.
    pub pad_multiple: usize,
    /// The width of the model's hidden states, by which one of the schedules scales.
    pub d_model: usize,
    /// The score by which the best checkpoint is chosen.
    pub best_metric: BestMetric,
    /// The processes that it runs in.
    pub group: Arc<dyn Group>,
    /// The rules that select what is trained on: those that the run began with.
    pub selection: Selection,
}

impl Plan {
    /// Plans what a config asks for, on the device that it names.
    ///
    /// # Errors
    /// The device is not there.
    pub fn new(config: Config) -> Result<Self> {
        Self::for_rank(config, alone())
    }

    /// As [`Self::new`], of one of several processes, each of which has a device of its own where
    /// there are several.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_rank(config: Config, group: Arc<dyn Group>) -> Result<Self> {
        let device = device::open_for(&config.device, group.local_rank())?;
        Ok(Self::on(config, device, None).with_group(group))
    }

    /// As [`Self::new`], on a device that is open already. `before` is the config of the run that
    /// is resumed, if one is: what that found out when it began is kept, since the order of the
    /// data depends on it.
    pub fn on(config: Config, device: Device, before: Option<&Config>) -> Self {
        let on_host = computes_on_host(&device);
        let mut config = Config {
            model: config.model.resolve(),
            ..config
        };
        if let Some(before) = before {
            keep(&mut config.train, &before.train);
        }
        let facts = facts(config.model.task());
        let best_metric = config.train.best_metric.unwrap_or(default_metric(facts));
        // GPU kernels are tuned and compiled for each shape, so there should be few shapes; a CPU
        // computes only what it must.
        let pad_multiple = config.train.pad_multiple;
        let pad_multiple = pad_multiple.unwrap_or_else(|| default_pad_multiple(on_host));
        let max_tokens = config.train.max_tokens.tokens();
        let max_tokens = max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
        config.train.best_metric = Some(best_metric);
        config.train.pad_multiple = Some(pad_multiple);
        fill_in_data(&mut config, facts);
        let train = &config.train;
        // They are for `flex` and for every GPU, and keep what their backward pass needs.
        let has_kernels = (has_int8_kernels(&device) || !on_host) && !train.gradient_checkpointing;
        let task = task_use(&config.model, &config.data);
        Self {
            max_tokens,
            pad_multiple,
            d_model: config.model.width(),
            best_metric,
            config,
            task,
            content: facts.content,
            device,
            on_host,
            has_kernels,
            group: alone(),
            selection: Selection::default(),
        }
    }

    /// Batches of `source` as a training takes them: in shards where it runs on the cores of a CPU.
    pub fn sharded<S: BatchSource>(&self, source: &Arc<S>) -> Arc<Sharded<S>> {
        Arc::new(Sharded::new(Arc::clone(source), self.most_shards()))
    }

    /// Shards of a micro-batch at most: as many cores as one can keep busy.
    pub(crate) fn most_shards(&self) -> usize {
        if self.on_host { MOST_SHARDS } else { 1 }
    }

    /// The plan of one of several processes.
    #[must_use]
    pub fn with_group(mut self, group: Arc<dyn Group>) -> Self {
        self.group = group;
        self
    }

    /// The plan of a run that began with these rules.
    #[must_use]
    pub fn with_selection(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// The plan with this size of batches, in tokens.
    #[must_use]
    pub fn with_max_tokens(mut self, max_tokens: usize) -> Self {
        self.max_tokens = max_tokens;
        self.config.train.max_tokens = MaxTokens::Tokens(max_tokens);
        self
    }

    /// The plan with this tokenizer of BLEU.
    #[must_use]
    pub fn with_tokenizer(mut self, name: TokenizerName) -> Self {
        self.config.train.tokenize = TokenizerChoice::Named(name);
        self
    }

    /// Returns the shape of the model, which depends on the sizes of the vocabularies.
    ///
    /// # Errors
    /// A size does not fit, such as tied embeddings over separate vocabularies.
    pub fn model_shape(&self, tokenizers: &Tokenizers) -> Result<ModelShape> {
        self.config.settings().shape(tokenizers)
    }

    /// Returns how a model is used that reads `longest` tokens of a side at most.
    pub fn runner_options(&self, search: SearchConfig, longest: usize) -> Options {
        Options {
            task: Arc::clone(&self.task),
            search,
            device: self.device.clone(),
            max_tokens: self.max_tokens,
            pad_multiple: self.pad_multiple,
            longest,
            group: Arc::clone(&self.group),
            image_reader: Some(|names, config| Ok(read_images(names, config)?)),
        }
    }

    /// How examples are put into batches.
    pub fn batching(&self) -> BatchingConfig {
        BatchingConfig {
            max_tokens: self.max_tokens,
            pad_multiple: self.pad_multiple,
            seed: self.config.seed,
            dropout: self.config.tokenizer.dropout,
            selection: self.selection,
        }
    }

    /// The device that a model is trained on: one that differentiates, in the way that the config
    /// asks for.
    ///
    /// # Errors
    /// It does not compute in `train.precision` ([`ErrorKind::Usage`](crate::ErrorKind::Usage)), or
    /// only in kernels that another key turns off.
    pub fn training_device(&self) -> Result<Device> {
        let train = &self.config.train;
        let format = train.precision.name();
        if !train.precision.is_supported(&self.device) {
            let name = &self.config.device;
            let reason = if self.config.device != "flex" {
                ""
            } else if cfg!(feature = "avx512") {
                ": this CPU has neither AMX-BF16 nor AVX512-BF16"
            } else {
                ": this build, without the feature `avx512`, uses neither AMX-BF16 nor AVX512-BF16"
            };
            let error = failed!(
                "`train.precision = \"{format}\"`: the device `{name}` does not compute in {format}{reason}"
            );
            let advice = if train.precision == Precision::F16 {
                "set `train.precision = \"f32\"`, or take a GPU with f16, as nearly all have"
            } else {
                "set `train.precision = \"f32\"`, on GPUs `\"f16\"`, or take a device that does: `cuda` on NVIDIA GPUs since Ampere, or \
                 `flex` on Intel's server CPUs since Sapphire Rapids and AMD's since Zen 4"
            };
            return Err(with_hint(usage(error), advice));
        }
        if train.precision != Precision::F32 && self.on_host && train.gradient_checkpointing {
            let error = failed!(
                "`train.precision = \"{format}\"`: on a CPU kernels round, and `train.gradient_checkpointing` turns them off"
            );
            return Err(with_hint(
                usage(error),
                "leave `train.gradient_checkpointing` out: on a CPU it saves no memory",
            ));
        }
        let device = self.device.clone().autodiff();
        Ok(if train.gradient_checkpointing {
            device.gradient_checkpointing()
        } else {
            device
        })
    }
}

/// Keeps what the run that is resumed found out when it began, where the config leaves it open.
fn keep(train: &mut TrainConfig, before: &TrainConfig) {
    train.pad_multiple = train.pad_multiple.or(before.pad_multiple);
    if train.max_tokens == MaxTokens::Auto {
        train.max_tokens = before.max_tokens;
    }
    if train.tokenize == TokenizerChoice::Auto {
        train.tokenize = before.tokenize;
    }
}

/// Returns the score that decides where a config does not say: only what is compared with
/// references can be scored by another measure than the loss.
fn default_metric(facts: &TaskFacts) -> BestMetric {
    if facts.has_references() {
        BestMetric::Bleu
    } else {
        BestMetric::Loss
    }
}

/// Fills in the keys that depend on what the data are: their tables, and the tokenizer of BLEU as
/// far as the language decides it.
fn fill_in_data(config: &mut Config, facts: &TaskFacts) {
    let Config { data, train, .. } = config;
    match facts.kind {
        TaskKind::Words => data.words = Some(data.words()),
        _ if facts.reads_images() => data.images = Some(data.images()),
        _ => {}
    }
    if facts.has_references() {
        let language = data.tgt.as_deref().unwrap_or_default();
        let has_dictionary = train.dictionary.is_some();
        train.tokenize = train.tokenize.for_language(language, has_dictionary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::new(Config::from_text(text, &[]).expect("it is a config"))
            .expect("flex is in this build")
    }

    #[test]
    fn a_plan_leaves_nothing_open_and_plans_to_itself() {
        let plan_ = plan("data.corpus = 'digits'\ntrain.max_steps = 1");
        assert_eq!(
            (plan_.task.facts().name, plan_.content, plan_.pad_multiple),
            ("translation", Content::PAIRS, 1)
        );
        assert!(plan_.on_host && plan_.has_kernels);
        assert_eq!(plan_.best_metric, BestMetric::Bleu);
        assert_eq!(plan_.config.train.best_metric, Some(BestMetric::Bleu));
        assert!(plan_.config.model.d_model.is_some());
        let text = plan_.config.to_toml().expect("it can be written");
        assert_eq!(plan(&text).config, plan_.config);
    }

    #[test]
    fn a_run_that_goes_on_keeps_what_it_found_out() {
        let text = "data.corpus = 'digits'\ntrain.max_steps = 1\ntrain.max_tokens = 'auto'";
        let config = Config::from_text(text, &[]).expect("it is a config");
        let before = plan(text)
            .with_max_tokens(123)
            .with_tokenizer(TokenizerName::Char);
        let mut before = before.config;
        before.train.pad_multiple = Some(4);
        let device = device::open("flex").expect("flex is in this build");
        let plan = Plan::on(config, device, Some(&before));
        assert_eq!((plan.max_tokens, plan.pad_multiple), (123, 4));
        assert_eq!(plan.config.train.max_tokens, MaxTokens::Tokens(123));
        assert_eq!(
            plan.config.train.tokenize,
            TokenizerChoice::Named(TokenizerName::Char)
        );
    }

    #[test]
    fn the_target_language_decides_the_tokenizer_of_translations_alone() {
        let of = |text: &str| {
            plan(&format!("train.max_steps = 1\ndata.train = 'a'\n{text}"))
                .config
                .train
                .tokenize
        };
        let named = TokenizerChoice::Named;
        assert_eq!(
            of("data.src = 'en'\ndata.tgt = 'zh'"),
            named(TokenizerName::Chinese)
        );
        assert_eq!(
            of("data.src = 'en'\ndata.tgt = 'ja'"),
            named(TokenizerName::Char)
        );
        let with_dictionary = "data.src = 'en'\ndata.tgt = 'ja'\ntrain.dictionary = 'ipadic'";
        assert_eq!(of(with_dictionary), named(TokenizerName::Japanese));
        assert_eq!(
            of("data.src = 'ja'\ndata.tgt = 'en'"),
            TokenizerChoice::Auto
        );
        assert_eq!(
            of("data.tgt = 'ja'\nmodel.arch = 'lm'"),
            TokenizerChoice::Auto
        );
        assert_eq!(
            of("data.src = 'en'\ndata.tgt = 'ja'\ntrain.tokenize = 'none'"),
            named(TokenizerName::None)
        );
    }
}
