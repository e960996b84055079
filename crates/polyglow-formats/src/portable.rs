//! A model outside of a run: what every format is written from, and read into.

use std::path::Path;

use burn::tensor::{Device, TensorData};
use polyglow_data::config::DataConfig;
use polyglow_data::tokenizer::{Tokenizer, TokenizerConfig, Tokenizers};
use polyglow_model::{ModelConfig, ModelShape, TransformerShape};
use polyglow_predict::error::{Context, Result, ensure, failed, usage, with_hint};
use polyglow_predict::model::check_beam;
use polyglow_predict::runner::Runner;
use polyglow_train::Plan;
use polyglow_train::config::{Config, TrainConfig};
use polyglow_train::run::{Content, RunDirectory, TextHashes, TrainState, hash};

use super::array::{Array, Arrays};
use super::folder::Folder;

/// The bias of a token that must never come out: it has less than 1e-40 of the best token's
/// probability. Weights hold no infinity, and a much lower bias would be most of a smoothed loss.
pub(crate) const NEVER: f32 = -100.0;

/// A model outside of a run: its config, its tokenizers and its weights in f32.
#[derive(Clone)]
pub struct Portable {
    /// What a run of this model has as its config.
    pub config: Config,
    /// Both sides' tokenizers.
    pub tokenizers: Tokenizers,
    /// The weights by our names, in f32.
    pub arrays: Arrays,
}

impl Portable {
    /// A model of which only the `[model]` table, the languages and the longest sequence are known.
    pub(crate) fn new(
        model: &ModelConfig,
        tokenizers: Tokenizers,
        arrays: Arrays,
        max_len: usize,
    ) -> Self {
        let config = Config {
            data: DataConfig {
                max_len,
                ..DataConfig::default()
            },
            tokenizer: TokenizerConfig {
                shared: tokenizers.is_shared(),
                ..TokenizerConfig::default()
            },
            model: model.resolve(),
            // One of the two must say when a training ends, and a config that is forked has a
            // corpus to say more.
            train: TrainConfig {
                max_epochs: Some(1),
                ..TrainConfig::default()
            },
            ..Config::default()
        };
        Self {
            config,
            tokenizers,
            arrays,
        }
    }

    /// The shape of the model.
    ///
    /// # Errors
    /// Config and tokenizers do not fit each other.
    pub(crate) fn shape(&self) -> Result<ModelShape> {
        Plan::new(self.config.clone())?.model_shape(&self.tokenizers)
    }

    /// The shape of the encoder-decoder Transformer that it is.
    ///
    /// # Errors
    /// It is another model (exit code 2).
    pub(crate) fn transformer(&self) -> Result<TransformerShape> {
        if let ModelShape::Transformer(shape) = self.shape()? {
            return Ok(shape);
        }
        let arch = self.config.model.arch.name();
        let error = failed!("a model of `model.arch = \"{arch}\"` does not go into this format");
        Err(with_hint(
            usage(error),
            "it is for encoder-decoder Transformers, `model.arch = \"transformer\"`",
        ))
    }

    /// The model, ready to translate.
    ///
    /// # Errors
    /// A weight is missing, left over, or of another shape than the config asks for.
    pub fn runner(&self, device: &Device) -> Result<Runner> {
        let plan = Plan::on(self.config.clone(), device.clone(), None);
        check_beam(&plan.config.search, &self.tokenizers)?;
        let shape = plan.model_shape(&self.tokenizers)?;
        let mut arrays = self.arrays.clone();
        let model = load_weights_of(&shape, &mut arrays, device)?;
        let longest = shape.vocabulary().max_len - 1;
        let options = plan.runner_options(plan.config.search.clone(), longest);
        Ok(Runner::new(model, &self.tokenizers, options))
    }

    /// Makes sure that the weights are those of the config.
    ///
    /// # Errors
    /// A weight is missing, left over, or of another shape than the config asks for.
    pub(crate) fn check(&self, device: &Device) -> Result<()> {
        load_weights_of(&self.shape()?, &mut self.arrays.clone(), device).map(drop)
    }

    /// Makes a run of it in a directory that is not there yet: its config, its tokenizers, and its
    /// weights as the checkpoint `step-0`.
    ///
    /// # Errors
    /// There is something already (exit code 2); the weights do not fit; the disk refuses.
    pub fn create_run(self, path: &Path) -> Result<RunDirectory> {
        let folder = Folder::create(path)?;
        let plan = Plan::on(
            self.config.clone(),
            polyglow_predict::device::open(&self.config.device)?,
            None,
        );
        let text = TextHashes {
            tokenizers: hash(&self.tokenizers)?,
            ..TextHashes::default()
        };
        let shape = plan.model_shape(&self.tokenizers)?;
        let mut arrays = self.arrays;
        load_weights_of(&shape, &mut arrays.clone(), &plan.device)?;
        let run = RunDirectory::new(folder.place());
        run.create(&plan.config)?;
        self.tokenizers.save(folder.place())?;
        let model = std::mem::take(&mut arrays).into_tensors();
        let content = Content {
            model,
            optimizer: Vec::new(),
            ema: Vec::new(),
        };
        let state = TrainState {
            text: Some(text),
            ..TrainState::default()
        };
        run.checkpoints(plan.config.train.keep_last)
            .save(&content, &state)?;
        folder.commit()?;
        Ok(RunDirectory::new(path))
    }

    /// Gives both sides vocabularies of their own: id `i` of a side gets what the foreign id
    /// `rows[i]` had, or zeros where there is none. Target ids that have none, or are in `never`,
    /// do not come out of a search.
    ///
    /// # Errors
    /// A foreign id is beyond the embeddings.
    pub(crate) fn choose_rows(
        arrays: &mut Arrays,
        src: &[Option<usize>],
        tgt: &[Option<usize>],
        never: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let source = arrays.get("src_embedding.weight")?.clone();
        let target = arrays
            .0
            .get("tgt_embedding.weight")
            .cloned()
            .unwrap_or_else(|| source.clone());
        for (table, rows) in [(&source, src), (&target, tgt)] {
            let beyond = rows.iter().flatten().find(|&&row| row >= table.height());
            if let Some(row) = beyond {
                return Err(failed!(
                    "token {row} has no embedding: there are {}",
                    table.height()
                ));
            }
        }
        let bias = match arrays.0.get("output_bias") {
            Some(bias) => {
                ensure!(
                    bias.shape == [target.height()],
                    "the output's bias is not as long as its vocabulary"
                );
                bias.rows(tgt).values
            }
            None => vec![0.0; tgt.len()],
        };
        let is_never = |id: usize| tgt[id].is_none() || never(id);
        let bias = bias
            .into_iter()
            .enumerate()
            .map(|(id, bias)| if is_never(id) { NEVER } else { bias });
        arrays.put("output_bias", Array::vector(bias.collect()));
        if let Some(output) = arrays.0.get("output.weight") {
            ensure!(
                output.width() == target.height(),
                "the output's matrix is not as wide as its vocabulary"
            );
            let chosen = output.transposed().rows(tgt).transposed();
            arrays.put("output.weight", chosen);
        }
        arrays.put("src_embedding.weight", source.rows(src));
        arrays.put("tgt_embedding.weight", target.rows(tgt));
        Ok(())
    }
}

fn load_weights_of(
    shape: &ModelShape,
    arrays: &mut Arrays,
    device: &Device,
) -> Result<polyglow_model::Model> {
    let model = polyglow_model::parameter::replace(shape.blank(device), |name, wanted| {
        let Array { shape, values } = arrays
            .0
            .remove(name)
            .with_context(|| format!("there is no tensor `{name}`"))?;
        ensure!(
            shape == wanted,
            "the tensor `{name}` is {shape:?}, not {wanted:?} as the config asks for"
        );
        Ok::<_, polyglow_predict::TrainError>(TensorData::new(values, shape))
    })?;
    match arrays.0.keys().next() {
        None => Ok(model),
        Some(name) => Err(failed!(
            "there is a tensor `{name}`, which the config has no place for"
        )),
    }
}

/// The tokenizers that a folder brings along: `tokenizer.json`, or `tokenizer.src.json` and
/// `tokenizer.tgt.json`; none if it has neither.
///
/// # Errors
/// One is damaged.
pub(crate) fn tokenizers_in(dir: &Path) -> Result<Option<Tokenizers>> {
    let has = ["tokenizer.json", "tokenizer.src.json"]
        .iter()
        .any(|name| dir.join(name).is_file());
    if has {
        Ok(Some(Tokenizers::load(dir)?))
    } else {
        Ok(None)
    }
}

/// Two tokenizers, one for each side.
pub(crate) fn per_side(src: Tokenizer, tgt: Tokenizer) -> Tokenizers {
    Tokenizers {
        src: src.into(),
        tgt: tgt.into(),
    }
}
