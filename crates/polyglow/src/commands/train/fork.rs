//! A new run that starts from the weights of another: fine-tuning, another schedule, another corpus.

use anyhow::anyhow;
use burn::tensor::Device;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::{Transformer, parameter};

use crate::config::{Config, Difference};
use crate::failure::{usage, with_hint};
use crate::run_directory::{RunDirectory, load_weights, model_config};
use crate::train::checkpoint::Content;
use crate::train::{Optimizer, TextHashes, TrainState};

/// What a model and its ids depend on, in the beginnings of keys.
const FIXED: [&str; 2] = ["model.", "tokenizer."];
/// What of it may change: it acts during training only.
const FREE: [&str; 4] = ["model.dropout", "model.attention_dropout", "model.activation_dropout", "tokenizer.dropout"];

/// Where a fork comes from.
pub(super) struct Origin {
    run: RunDirectory,
    checkpoint: String,
}

impl Origin {
    /// The checkpoint of that name in `run`, from which `new` is to start.
    ///
    /// # Errors
    /// There is no run in `run`, or it is `new` itself; the new config asks for another model or tokenizer (exit code 2).
    pub(super) fn open(
        run: &RunDirectory,
        checkpoint: &str,
        new: &RunDirectory,
        config: &Config,
    ) -> anyhow::Result<Self> {
        let run = RunDirectory::existing(run.root())?;
        let same = new.root().canonicalize().is_ok_and(|new| run.root().canonicalize().is_ok_and(|old| old == new));
        if same {
            let error = usage(anyhow!("`--fork {}` is the run itself", new.root().display()));
            return Err(with_hint(error, "give the new run a directory of its own"));
        }
        let fixed = |difference: &Difference| {
            let key = difference.key.as_str();
            FIXED.iter().any(|fixed| key.starts_with(fixed)) && !FREE.contains(&key)
        };
        let changes: Vec<String> = config
            .differences(&run.config()?)?
            .into_iter()
            .filter(fixed)
            .map(|Difference { key, ours, theirs }| format!("`{key} = {theirs}`, now `{ours}`"))
            .collect();
        if !changes.is_empty() {
            let error = anyhow!("the weights of `{}` fit another config: {}", run.root().display(), changes.join("; "));
            return Err(with_hint(
                usage(error),
                "a fork keeps the model and the tokenizer, but for dropout; set them back",
            ));
        }
        Ok(Self { run, checkpoint: checkpoint.to_owned() })
    }

    /// The tokenizers, which the new run takes over.
    ///
    /// # Errors
    /// They are missing or damaged.
    pub(super) fn tokenizers(&self) -> anyhow::Result<Tokenizers> {
        self.run.tokenizers()
    }

    /// Writes the weights into the new run as its checkpoint `step-0`, from which training then goes on as from any.
    ///
    /// # Errors
    /// The checkpoint is damaged or does not fit; the new one cannot be written.
    pub(super) fn plant(
        &self,
        new: &RunDirectory,
        config: &Config,
        tokenizers: &Tokenizers,
        text: &TextHashes,
        device: &Device,
    ) -> anyhow::Result<()> {
        let (found, weights) = self.run.weights(&self.checkpoint)?;
        let fresh = Transformer::new(&model_config(config, tokenizers)?, config.seed, &device.clone().autodiff());
        let model = load_weights(fresh, weights)?;
        let optimizer = Optimizer::new(&config.train, &model);
        let content =
            Content { model: parameter::read(&model), optimizer: optimizer.state(), average: optimizer.average() };
        let state = TrainState { text: Some(text.clone()), ..TrainState::default() };
        new.checkpoints(config.train.keep_last).save(&content, &state)?;
        tracing::info!(
            "forked from `{}`, after step {}: carried over are the weights and the tokenizers; the steps, the learning \
             rate, the optimizer's state, the moving average, the order of the data and the best score begin anew",
            found.path.display(),
            found.state.step
        );
        Ok(())
    }
}
