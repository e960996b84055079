//! From a config to what runs: everything that a config leaves open is decided here, once.

use std::sync::Arc;

use burn::tensor::Device;
use polyglow_data::batching::{BatchingConfig, Selection};
use polyglow_data::config::Content;
use polyglow_data::corpus::read_images;
use polyglow_data::sources::{BatchSource, Sharded};
use polyglow_data::tokenizer::Tokenizers;
use polyglow_metrics::{Measure, TokenizerChoice, TokenizerName};
use polyglow_model::quantization::has_int8_kernels;
use polyglow_model::search::SearchConfig;
use polyglow_model::{ModelShape, Precision, computes_on_host};
use polyglow_predict::device;
use polyglow_predict::error::{Result, TrainError, failed, usage, with_hint};
use polyglow_predict::group::{Group, alone};
use polyglow_predict::measures::LOSS;
use polyglow_predict::runner::Options;
use polyglow_predict::settings::{DEFAULT_MAX_TOKENS, default_pad_multiple};
use polyglow_predict::tasks::{TaskFacts, TaskUse, facts, task_use};

use crate::config::{BestMetric, Config, MaxTokens, TrainConfig};

/// Shards of a micro-batch at most on the CPU: the number of cores that one keeps busy. Gradients are
/// summed shard by shard, so another number would change the last digits of every training.
const MOST_SHARDS: usize = 8;

/// The plan of a run: a config and, as plain values, all that it leaves open.
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
    /// The config as a run keeps it, with the keys that were left open filled in. Where a training is
    /// prepared, `train.max_tokens = "auto"` is also replaced by the number that fits the device
    /// ([`Plan::with_max_tokens`]), and a `train.tokenize` that depends on the text by a name
    /// ([`Plan::with_tokenizer`]).
    pub config: Config,
    /// The task that a model is trained for.
    pub task: Arc<dyn TaskUse>,
    /// The kinds of examples that the corpus consists of.
    pub content: Content,
    /// The device that computes, without autodiff.
    pub device: Device,
    /// Whether the device computes in host memory.
    pub on_host: bool,
    /// Whether training runs the fused kernels of polyglow-kernels.
    pub has_kernels: bool,
    /// Padded positions of a batch at most: `train.max_tokens`. For `"auto"` it is the default, which
    /// everything uses but a training, which measures first what fits.
    pub max_tokens: usize,
    /// The number that padded lengths are rounded up to multiples of.
    pub pad_multiple: usize,
    /// The width of the model's hidden states, by which one of the schedules scales.
    pub d_model: usize,
    /// The score by which the best checkpoint is chosen.
    pub best_metric: BestMetric,
    /// The group of processes that run it together; one alone is a group, too.
    pub group: Arc<dyn Group>,
    /// The rules that select the examples of each epoch: those that the run began with.
    pub selection: Selection,
}

impl Plan {
    /// Plans the run of a config on the device that the config names.
    ///
    /// # Errors
    /// The device is not available.
    pub fn new(config: Config) -> Result<Self> {
        Self::for_rank(config, alone())
    }

    /// As [`Self::new`], for one of the processes of a group. Those of one machine take a device each,
    /// as far as there are several.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_rank(config: Config, group: Arc<dyn Group>) -> Result<Self> {
        let device = device::open_for(&config.device, group.local_rank())?;
        Ok(Self::on(config, device, None).with_group(group))
    }

    /// As [`Self::new`], on a device that is open already. `before` is the config of the run that is
    /// resumed, if any: the values that were decided when it began are kept, since the order of the
    /// data depends on them.
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
        let task = task_use(&config.model, &config.data);
        task.fill_in(&mut config.data);
        fill_in_tokenizer(&mut config, facts);
        let train = &config.train;
        // The fused kernels are for `flex` and for GPUs. They keep what their backward pass needs,
        // while checkpointing is to recompute it.
        let has_kernels = (has_int8_kernels(&device) || !on_host) && !train.gradient_checkpointing;
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

    /// Wraps a source so that on a CPU each of its batches comes in shards, one for each core.
    pub fn sharded<S: BatchSource>(&self, source: &Arc<S>) -> Arc<Sharded<S>> {
        Arc::new(Sharded::new(Arc::clone(source), self.most_shards()))
    }

    /// Returns the number of shards of a micro-batch at most.
    pub(crate) fn most_shards(&self) -> usize {
        if self.on_host { MOST_SHARDS } else { 1 }
    }

    /// Returns the plan as a process of this group has it.
    #[must_use]
    pub fn with_group(mut self, group: Arc<dyn Group>) -> Self {
        self.group = group;
        self
    }

    /// Returns the plan of a run that began with these rules.
    #[must_use]
    pub fn with_selection(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// Returns the plan with this size of batches, in tokens, also in its config.
    #[must_use]
    pub fn with_max_tokens(mut self, max_tokens: usize) -> Self {
        self.max_tokens = max_tokens;
        self.config.train.max_tokens = MaxTokens::Tokens(max_tokens);
        self
    }

    /// Returns the plan with this tokenizer of BLEU in its config.
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

    /// Returns the options of a runner for a model that reads `longest` tokens of a side at most.
    pub fn runner_options(&self, search: SearchConfig, longest: usize) -> Options {
        Options {
            task: Arc::clone(&self.task),
            search,
            device: self.device.clone(),
            max_tokens: self.max_tokens,
            pad_multiple: self.pad_multiple,
            longest,
            group: Arc::clone(&self.group),
            tags: self.config.data.tags(),
            image_reader: Some(|names, config| Ok(read_images(names, config)?)),
        }
    }

    /// Returns the sizes, the seed and the rules by which examples are put into batches.
    pub fn batching(&self) -> BatchingConfig {
        BatchingConfig {
            max_tokens: self.max_tokens,
            pad_multiple: self.pad_multiple,
            seed: self.config.seed,
            segmentation: self.config.tokenizer.segmentation(),
            selection: self.selection,
        }
    }

    /// Returns the device that a model is trained on: one that differentiates, with gradient
    /// checkpointing if the config has it.
    ///
    /// # Errors
    /// It does not compute in `train.precision` ([`ErrorKind::Usage`](crate::ErrorKind::Usage)), or
    /// only in kernels that another key turns off.
    pub fn training_device(&self) -> Result<Device> {
        let train = &self.config.train;
        if !train.precision.is_supported(&self.device) {
            return Err(self.unsupported_precision());
        }
        if train.precision != Precision::F32 && self.on_host && train.gradient_checkpointing {
            let error = failed!(
                "`train.precision = \"{}\"`: on a CPU kernels round, and `train.gradient_checkpointing` turns them off",
                train.precision.name()
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

    /// Makes the error of a device that does not compute in `train.precision`.
    fn unsupported_precision(&self) -> TrainError {
        let precision = self.config.train.precision;
        let format = precision.name();
        let name = &self.config.device;
        let reason = if name != "flex" {
            ""
        } else if cfg!(feature = "avx512") {
            ": this CPU has neither AMX-BF16 nor AVX512-BF16"
        } else {
            ": this build, without the feature `avx512`, uses neither AMX-BF16 nor AVX512-BF16"
        };
        let error = failed!(
            "`train.precision = \"{format}\"`: the device `{name}` does not compute in {format}{reason}"
        );
        let advice = if precision == Precision::F16 {
            "set `train.precision = \"f32\"`, or take a GPU with f16, as nearly all have"
        } else {
            "set `train.precision = \"f32\"`, on GPUs `\"f16\"`, or take a device that does: `cuda` on NVIDIA GPUs since Ampere, or \
             `flex` on Intel's server CPUs since Sapphire Rapids and AMD's since Zen 4"
        };
        with_hint(usage(error), advice)
    }
}

/// Takes over the values that were decided when the run that is resumed began, where the config
/// leaves them open.
fn keep(train: &mut TrainConfig, before: &TrainConfig) {
    train.pad_multiple = train.pad_multiple.or(before.pad_multiple);
    if train.max_tokens == MaxTokens::Auto {
        train.max_tokens = before.max_tokens;
    }
    if train.tokenize == TokenizerChoice::Auto {
        train.tokenize = before.tokenize;
    }
}

/// Returns the default of `train.best_metric`: BLEU for output that is compared with references,
/// without which there is no other measure than the loss.
fn default_metric(facts: &TaskFacts) -> BestMetric {
    let measure = if facts.has_references() {
        Measure::BLEU
    } else {
        LOSS
    };
    BestMetric::named(measure.key).expect("it is built in")
}

/// Fills in the tokenizer of BLEU, as far as the language decides it.
fn fill_in_tokenizer(config: &mut Config, facts: &TaskFacts) {
    let Config { data, train, .. } = config;
    if facts.has_references() {
        let [_, language] = data.named_languages();
        let language = language.unwrap_or_default();
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
        assert_eq!(plan_.best_metric.name(), "bleu");
        assert_eq!(plan_.config.train.best_metric, Some(plan_.best_metric));
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
