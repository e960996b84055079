//! The `[train]` section: how long, how fast, and by which measure a model is trained.

use std::path::PathBuf;

use polyglow_metrics::{Tokenizer, TokenizerChoice};
use polyglow_model::Precision;
use polyglow_model::registry::Choice;
use polyglow_predict::error::{Result, ensure, usage, with_hint};
use polyglow_predict::measures::MetricRow;
use serde::{Deserialize, Serialize};

use super::max_tokens::MaxTokens;
use crate::AugmentationRow;
use crate::tasks::TaskRow;
use crate::train::{OptimizerRow, ScheduleRow};

/// The update rule, a row of the table of optimizers: `adam` (Kingma and Ba, 2015; weight decay is
/// added to the gradient), `adamw` (decoupled weight decay; Loshchilov and Hutter, 2019),
/// `adafactor` (Shazeer and Stern, 2018), `lion` (Chen et al., 2023), or one that was registered.
pub type OptimizerKind = Choice<OptimizerRow>;

/// The learning rate as a function of the step, a row of the table of schedules.
///
/// `noam` is `lr * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)` (Vaswani et al., 2017,
/// section 5.3). All other built-in ones climb linearly to `lr` over `warmup_steps`; then `constant`
/// stays, `inverse_sqrt` is `lr * sqrt(warmup_steps / step)`, `linear` and `cosine` fall to 0 one
/// step after the last, in a line or along half a cosine (Loshchilov and Hutter, 2017).
pub type ScheduleKind = Choice<ScheduleRow>;

/// The score of the validation set that decides which checkpoint is the best, and when patience
/// ends: a row of the table of metrics.
pub type BestMetric = Choice<MetricRow>;

/// A change of examples before they are trained on, which the program has registered.
pub type AugmentationKind = Choice<AugmentationRow>;

/// A task, a row of the table of tasks.
pub type TaskKind = Choice<TaskRow>;

/// The `[train]` section. A step is one update of the weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// What is learned, by the name of a task; default: what the architecture is for. A task that the
    /// program has registered has its own batches, its own loss and its own validation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskKind>,
    /// How examples are changed each time before they are trained on, by the name under which the
    /// program has registered it; default not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub augmentation: Option<AugmentationKind>,
    /// Tokens in a micro-batch: rows times the longest padded side, source or target; or `"auto"`;
    /// default 4096.
    pub max_tokens: MaxTokens,
    /// Padded lengths are rounded up to multiples of this, in tokens; default 1 on a CPU, 8 on a
    /// GPU, where every shape is compiled for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pad_multiple: Option<usize>,
    /// `"f32"`, or `"bf16"` or `"f16"` for matrix products of rounded factors over f32 weights,
    /// while the model is trained; search and validation are f32 in any case; default `"f32"`.
    pub precision: Precision,
    /// Whether the backward pass recomputes cheap intermediate values instead of keeping them;
    /// default false.
    pub gradient_checkpointing: bool,
    /// Micro-batches whose gradients are summed for one step; default 1.
    pub accumulate_steps: usize,
    /// Steps to train; the run ends with whichever of this and `max_epochs` comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u64>,
    /// Passes over the training set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_epochs: Option<u64>,
    /// `"adam"`, `"adamw"`, `"adafactor"` or `"lion"`; default `"adam"`.
    pub optimizer: OptimizerKind,
    /// Decay of the running means of the gradient and of its square, per step; for `lion` of the
    /// gradient's mean in the update, and as it is kept; not for `adafactor`; default
    /// `[0.9, 0.98]`.
    pub betas: [f64; 2],
    /// Added to the root of the squared gradient's mean, by `adam` and `adamw`; default 1e-9.
    pub eps: f64,
    /// Peak learning rate, or under `noam` the factor before the formula; default 1e-3.
    pub lr: f64,
    /// `"constant"`, `"linear"`, `"cosine"`, `"inverse_sqrt"` or `"noam"`; default
    /// `"inverse_sqrt"`.
    pub schedule: ScheduleKind,
    /// Steps over which the learning rate climbs; default 4000.
    pub warmup_steps: u64,
    /// Probability taken from the right token and spread over all of them (Szegedy et al., 2016);
    /// default 0.1.
    pub label_smoothing: f64,
    /// Weight of guided alignment (Chen et al., 2016), which teaches the last layer's attention,
    /// averaged over heads, the links of `data.alignments`; 0 turns it off; default 0.
    pub alignment_weight: f64,
    /// Largest norm of all gradients together; 0 turns clipping off; default 1.
    pub clip_norm: f64,
    /// Largest number of steps in a row that are skipped because their loss or gradient is not
    /// finite; one more ends training; with 0 the first does; default 20.
    pub max_skipped_steps: u64,
    /// Seconds that the processes of a training wait for one that does not answer; default 1800.
    pub rank_timeout: u64,
    /// The format in which the processes of a training exchange gradients: `"f32"`, or `"bf16"` for
    /// half the bytes, rounded to 8 significant bits; they are added in f32; default `"f32"`.
    pub exchange_precision: Precision,
    /// Weight decay, on weight matrices only; default 0.
    pub weight_decay: f64,
    /// Parameters that stay as they are, by their names or the beginnings of these, as in
    /// `["encoder", "src_embedding"]`; default none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub freeze: Vec<String>,
    /// Decay of the exponential moving average of the weights, per step; 0 keeps none; default 0.
    pub ema_decay: f64,
    /// `"bleu"`, `"chrf"` or `"loss"`: what `best` and `patience` follow; default `"bleu"` for
    /// translation, else `"loss"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_metric: Option<BestMetric>,
    /// BLEU's tokenizer: `"auto"`, or one of sacreBLEU's names; default `"auto"`, which follows
    /// `data.tgt`, and where that names no language whose script has no spaces, the script of the
    /// target text.
    pub tokenize: TokenizerChoice,
    /// Folder of a compiled MeCab dictionary, for `ja-mecab` and `ko-mecab`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dictionary: Option<PathBuf>,
    /// A SentencePiece model, for `flores101` and `flores200`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spm: Option<PathBuf>,
    /// Steps between validations; default 1000.
    pub validate_every: u64,
    /// Steps between checkpoints; default 1000.
    pub save_every: u64,
    /// Steps between progress reports; default 50.
    pub log_every: u64,
    /// Whether the records are also written for TensorBoard, in addition to `metrics.jsonl`; default
    /// false.
    pub tensorboard: bool,
    /// Newest checkpoints to keep, in addition to the best; default 5.
    pub keep_last: usize,
    /// Validations without improvement after which training ends; 0 never ends it; default 0.
    pub patience: u64,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            task: None,
            augmentation: None,
            max_tokens: MaxTokens::default(),
            pad_multiple: None,
            precision: Precision::default(),
            gradient_checkpointing: false,
            accumulate_steps: 1,
            max_steps: None,
            max_epochs: None,
            optimizer: OptimizerKind::default(),
            betas: [0.9, 0.98],
            eps: 1e-9,
            lr: 1e-3,
            schedule: ScheduleKind::default(),
            warmup_steps: 4000,
            label_smoothing: 0.1,
            alignment_weight: 0.0,
            clip_norm: 1.0,
            max_skipped_steps: 20,
            rank_timeout: 1800,
            exchange_precision: Precision::default(),
            weight_decay: 0.0,
            freeze: Vec::new(),
            ema_decay: 0.0,
            best_metric: None,
            tokenize: TokenizerChoice::Auto,
            dictionary: None,
            spm: None,
            validate_every: 1000,
            save_every: 1000,
            log_every: 50,
            tensorboard: false,
            keep_last: 5,
            patience: 0,
        }
    }
}

impl TrainConfig {
    /// Checks every value, and those that depend on each other.
    ///
    /// # Errors
    /// The message names the key, its value and what is allowed.
    pub fn validate(&self) -> Result<()> {
        self.validate_counts()?;
        self.validate_rates()?;
        self.schedule.0.check(self)
    }

    /// Opens BLEU's tokenizer. Where the config leaves it open, the script of `references` decides.
    ///
    /// # Errors
    /// It needs a dictionary or a model that is missing or cannot be used
    /// ([`ErrorKind::Usage`](crate::ErrorKind::Usage)).
    pub fn bleu_tokenizer<'a>(
        &self,
        references: impl IntoIterator<Item = &'a str>,
    ) -> Result<Tokenizer> {
        let name = self
            .tokenize
            .for_text(references, self.dictionary.is_some());
        name.open(self.dictionary.as_deref(), self.spm.as_deref()).map_err(|error| {
            let advice = "`train.dictionary` names the folder of a dictionary, `train.spm` the file of a model; \
                          `train.tokenize = \"char\"` needs neither";
            with_hint(usage(error), advice)
        })
    }

    fn validate_counts(&self) -> Result<()> {
        // TOML's integers have a sign, and a run that outlives this many steps needs no limit.
        const MOST: u64 = i64::MAX as u64;
        let counts = [
            (
                "max_tokens",
                self.max_tokens.tokens().unwrap_or(1) as u64,
                1,
            ),
            ("pad_multiple", self.pad_multiple.unwrap_or(1) as u64, 1),
            ("accumulate_steps", self.accumulate_steps as u64, 1),
            ("max_steps", self.max_steps.unwrap_or(1), 1),
            ("max_epochs", self.max_epochs.unwrap_or(1), 1),
            ("warmup_steps", self.warmup_steps, 0),
            ("validate_every", self.validate_every, 1),
            ("save_every", self.save_every, 1),
            ("log_every", self.log_every, 1),
            ("keep_last", self.keep_last as u64, 1),
            ("patience", self.patience, 0),
            ("max_skipped_steps", self.max_skipped_steps, 0),
            ("rank_timeout", self.rank_timeout, 1),
        ];
        for (key, value, least) in counts {
            ensure!(
                value >= least,
                "`train.{key} = {value}`: must be at least {least}"
            );
            ensure!(
                value <= MOST,
                "`train.{key} = {value}`: must be at most {MOST}"
            );
        }
        ensure!(
            self.max_steps.is_some() || self.max_epochs.is_some(),
            "neither `train.max_steps` nor `train.max_epochs` is set: one of them must say when training ends"
        );
        ensure!(
            self.precision != Precision::F16 || self.max_skipped_steps > 0,
            "`train.max_skipped_steps = 0`: with `train.precision = \"f16\"` the loss is multiplied by a scale, which is found by steps that \
             are skipped; set it to 1 or more"
        );
        ensure!(
            self.exchange_precision != Precision::F16,
            "`train.exchange_precision = \"f16\"`: sums of gradients may be larger than f16 holds; set it to `\"bf16\"` or `\"f32\"`"
        );
        Ok(())
    }

    fn validate_rates(&self) -> Result<()> {
        let [beta_1, beta_2] = self.betas;
        for beta in [beta_1, beta_2] {
            let inside = (0.0..1.0).contains(&beta);
            ensure!(
                inside,
                "`train.betas = [{beta_1}, {beta_2}]`: both must be at least 0 and below 1"
            );
        }
        for (key, value) in [
            ("label_smoothing", self.label_smoothing),
            ("ema_decay", self.ema_decay),
        ] {
            ensure!(
                (0.0..1.0).contains(&value),
                "`train.{key} = {value}`: must be at least 0 and below 1"
            );
        }
        for (key, value) in [("lr", self.lr), ("eps", self.eps)] {
            ensure!(
                value > 0.0 && value.is_finite(),
                "`train.{key} = {value}`: must be above 0 and finite"
            );
        }
        for (key, value) in [
            ("alignment_weight", self.alignment_weight),
            ("clip_norm", self.clip_norm),
            ("weight_decay", self.weight_decay),
        ] {
            ensure!(
                value >= 0.0 && value.is_finite(),
                "`train.{key} = {value}`: must be at least 0 and finite"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use polyglow_metrics::TokenizerName;

    use super::*;

    fn error(toml: &str) -> String {
        let config: TrainConfig =
            toml::from_str(toml).expect("the keys are known and of the right type");
        config
            .validate()
            .expect_err("a value is out of range")
            .to_string()
    }

    #[test]
    fn the_defaults_only_lack_an_end() {
        assert!(error("").contains("neither `train.max_steps` nor `train.max_epochs` is set"));
        assert!(
            TrainConfig {
                max_epochs: Some(1),
                ..TrainConfig::default()
            }
            .validate()
            .is_ok()
        );
    }

    #[test]
    fn a_value_out_of_range_is_named_with_its_key() {
        assert_eq!(
            error("max_steps = 1\nlr = nan"),
            "`train.lr = NaN`: must be above 0 and finite"
        );
        assert_eq!(
            error("max_steps = 1\nbetas = [0.9, 1.0]"),
            "`train.betas = [0.9, 1]`: both must be at least 0 and below 1"
        );
        assert!(error("max_steps = 0").starts_with("`train.max_steps = 0`"));
        assert!(
            error("max_steps = 1\nlabel_smoothing = 1.0")
                .starts_with("`train.label_smoothing = 1`")
        );
        assert!(error("max_steps = 1\nclip_norm = -1").starts_with("`train.clip_norm = -1`"));
        assert!(error("max_steps = 1\nclip_norm = inf").starts_with("`train.clip_norm = inf`"));
    }

    #[test]
    fn a_warm_up_must_end_before_a_schedule_that_ends() {
        assert!(
            error("max_steps = 100\nschedule = 'cosine'\nwarmup_steps = 100")
                .contains("below `train.max_steps")
        );
        assert!(error("max_steps = 100\nwarmup_steps = 0").contains("at least 1"));
        let config: TrainConfig =
            toml::from_str("max_steps = 100\nschedule = 'constant'\nwarmup_steps = 0").expect("ok");
        assert!(config.validate().is_ok());
    }

    #[test]
    fn names_are_spelled_as_in_the_literature() {
        let toml = "schedule = 'inverse_sqrt'\noptimizer = 'adamw'\ntokenize = '13a'\nbest_metric = 'chrf'";
        let config: TrainConfig = toml::from_str(toml).expect("every name is known");
        assert_eq!(config.schedule.name(), "inverse_sqrt");
        assert_eq!(config.optimizer.name(), "adamw");
        assert_eq!(config.tokenize, TokenizerChoice::Named(TokenizerName::V13a));
        assert_eq!(config.best_metric, BestMetric::named("chrf"));
    }
}
