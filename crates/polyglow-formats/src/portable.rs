//! A model outside of a run, which every format is written from and read into.

use std::path::Path;

use burn::tensor::{Device, TensorData};
use polyglow_data::config::DataConfig;
use polyglow_data::tokenizer::{Tokenizer, TokenizerConfig, Tokenizers};
use polyglow_model::{Model, ModelConfig, ModelShape, TransformerShape, parameter};
use polyglow_predict::error::{Context, Result, TrainError, ensure, failed, usage, with_hint};
use polyglow_predict::model::check_beam;
use polyglow_predict::runner::Runner;
use polyglow_train::Plan;
use polyglow_train::config::{Config, TrainConfig};
use polyglow_train::run::{Content, RunDirectory, TextHashes, TrainState, hash};

use super::array::{Array, Arrays};
use super::folder::Folder;

/// The bias of a token that the model must never write: it gets less than 1e-40 of the best token's
/// probability. Weights hold no infinity, and a much lower bias would dominate a loss with label
/// smoothing.
pub(crate) const NEVER: f32 = -100.0;

/// A model outside of a run: its config, its tokenizers and its weights in f32.
#[derive(Clone)]
pub struct Portable {
    /// The config that a run of this model has.
    pub config: Config,
    /// Both sides' tokenizers.
    pub tokenizers: Tokenizers,
    /// The weights by polyglow's names, in f32.
    pub arrays: Arrays,
}

impl Portable {
    /// Makes a model of which only the `[model]` table and the longest sequence are known. The rest
    /// of its config are defaults.
    pub fn new(
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
    pub fn shape(&self) -> Result<ModelShape> {
        Plan::new(self.config.clone())?.model_shape(&self.tokenizers)
    }

    /// The shape of the model, which must be an encoder-decoder Transformer.
    ///
    /// # Errors
    /// It has another architecture (exit code 2).
    pub fn transformer(&self) -> Result<TransformerShape> {
        if let Some(shape) = self.shape()?.downcast_ref() {
            return Ok(TransformerShape::clone(shape));
        }
        let arch = self.config.model.arch.name();
        let error = failed!("a model of `model.arch = \"{arch}\"` does not go into this format");
        Err(with_hint(
            usage(error),
            "it is for encoder-decoder Transformers, `model.arch = \"transformer\"`",
        ))
    }

    /// Loads the model onto a device, ready to translate.
    ///
    /// # Errors
    /// A weight is missing, left over, or of another shape than the config asks for.
    pub fn runner(&self, device: &Device) -> Result<Runner> {
        let plan = Plan::on(self.config.clone(), device.clone(), None);
        check_beam(&plan.config.search, &self.tokenizers)?;
        let shape = plan.model_shape(&self.tokenizers)?;
        let mut arrays = self.arrays.clone();
        let model = load_weights(&shape, &mut arrays, device)?;
        let longest = shape.vocabulary().max_len - 1;
        let options = plan.runner_options(plan.config.search.clone(), longest);
        Ok(Runner::new(model, &self.tokenizers, options))
    }

    /// Checks that the weights fit the config.
    ///
    /// # Errors
    /// A weight is missing, left over, or of another shape than the config asks for.
    pub(crate) fn check(&self, device: &Device) -> Result<()> {
        load_weights(&self.shape()?, &mut self.arrays.clone(), device).map(drop)
    }

    /// Creates a run from the model: its config, its tokenizers, and its weights as the checkpoint
    /// `step-0`. The directory `path` must not exist yet or be empty; it appears as a whole or not
    /// at all.
    ///
    /// # Errors
    /// `path` exists already (exit code 2); the weights do not fit; the disk refuses.
    pub fn create_run(self, path: &Path) -> Result<RunDirectory> {
        let folder = Folder::create(path)?;
        let device = polyglow_predict::device::open(&self.config.device)?;
        let plan = Plan::on(self.config.clone(), device, None);
        let text = TextHashes {
            tokenizers: hash(&self.tokenizers)?,
            ..TextHashes::default()
        };
        let shape = plan.model_shape(&self.tokenizers)?;
        // Weights that do not fit are an error before anything is written.
        load_weights(&shape, &mut self.arrays.clone(), &plan.device)?;
        let run = RunDirectory::new(folder.path());
        run.create(&plan.config)?;
        self.tokenizers.save(folder.path())?;
        let content = Content {
            model: self.arrays.into_tensors(),
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

    /// Gives both sides vocabularies of their own: id `i` of a side gets the embedding of the
    /// foreign id `rows[i]`, or zeros where that is `None`. The search never writes target ids
    /// without a row, nor those for which `never` is true.
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
        // Where all embeddings are tied, the source's is also the target's.
        let target = match arrays.0.get("tgt_embedding.weight") {
            Some(target) => target.clone(),
            None => source.clone(),
        };
        check_rows(&source, src)?;
        check_rows(&target, tgt)?;
        let mut bias = match arrays.0.get("output_bias") {
            Some(bias) => {
                ensure!(
                    bias.shape == [target.height()],
                    "the output's bias is not as long as its vocabulary"
                );
                bias.rows(tgt).values
            }
            None => vec![0.0; tgt.len()],
        };
        for (id, bias) in bias.iter_mut().enumerate() {
            if tgt[id].is_none() || never(id) {
                *bias = NEVER;
            }
        }
        arrays.put("output_bias", Array::vector(bias));
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

/// Checks that a table of embeddings has all of these rows.
fn check_rows(table: &Array, rows: &[Option<usize>]) -> Result<()> {
    let num_rows = table.height();
    match rows.iter().flatten().find(|&&row| row >= num_rows) {
        Some(row) => Err(failed!(
            "token {row} has no embedding: there are {num_rows}"
        )),
        None => Ok(()),
    }
}

/// Makes a model of arrays, all of which it takes.
fn load_weights(shape: &ModelShape, arrays: &mut Arrays, device: &Device) -> Result<Model> {
    let model = parameter::replace(shape.blank(device), |name, expected| {
        let Array { shape, values } = arrays
            .0
            .remove(name)
            .with_context(|| format!("there is no tensor `{name}`"))?;
        ensure!(
            shape == expected,
            "the tensor `{name}` is {shape:?}, not {expected:?} as the config asks for"
        );
        Ok::<_, TrainError>(TensorData::new(values, shape))
    })?;
    match arrays.0.keys().next() {
        None => Ok(model),
        Some(name) => Err(failed!(
            "there is a tensor `{name}`, which the config has no place for"
        )),
    }
}

/// The tokenizers of polyglow in a folder: `tokenizer.json`, or `tokenizer.src.json` and
/// `tokenizer.tgt.json`; `None` if it has neither.
///
/// # Errors
/// One is damaged.
pub(crate) fn tokenizers_in(dir: &Path) -> Result<Option<Tokenizers>> {
    if dir.join("tokenizer.json").is_file() || dir.join("tokenizer.src.json").is_file() {
        Ok(Some(Tokenizers::load(dir)?))
    } else {
        Ok(None)
    }
}

/// Makes tokenizers of two, one for each side.
pub(crate) fn per_side(src: Tokenizer, tgt: Tokenizer) -> Tokenizers {
    Tokenizers {
        src: src.into(),
        tgt: tgt.into(),
    }
}
