//! A trained model as it comes out of a run directory.

use std::path::Path;

use burn::tensor::Device;
use polyglow_data::framing::Framing;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::attention::AttentionKind;
use polyglow_model::quantization::{self, Int8Matrix};
use polyglow_model::search::SearchConfig;
use polyglow_model::{ImageShape, Model, ModelShape, Task, Vocabulary, parameter};

use super::RunDirectory;
use crate::config::Config;
use crate::error::{Context, Result, TrainError, ensure, failed, usage, with_hint};
use crate::predict::translate::{Member, Translator};
use crate::run::Checkpoint;
use crate::run::weights::Weights;
use crate::train::{batching, pad_multiple};

/// A trained model with all that is needed to use it.
pub struct TrainedModel {
    /// The run's configuration.
    pub config: Config,
    /// Both sides' tokenizers.
    pub tokenizers: Tokenizers,
    /// The model, on a device that does not differentiate.
    pub model: Model,
    /// The checkpoint that the weights came from.
    pub checkpoint: Checkpoint,
}

impl TrainedModel {
    /// Loads the model at `path`: the best checkpoint of a run directory, or a checkpoint in one.
    ///
    /// # Errors
    /// There is neither at `path`; or as [`RunDirectory::load`].
    pub fn load(path: &Path, device: &Device) -> Result<Self> {
        let run = path.parent().and_then(Path::parent).filter(|_| Checkpoint::is_at(path));
        match run {
            Some(run) => RunDirectory::existing(run)?.load(&path.to_string_lossy(), device),
            None => RunDirectory::existing(path)?.load("best", device),
        }
    }
}

/// What translates with these models together; at least one, all of the same target vocabulary.
///
/// # Errors
/// The target vocabularies or the tasks differ; the beam is wider than the vocabulary (exit code 2).
pub fn translator<'a>(models: &'a [TrainedModel], config: &'a Config, device: &'a Device) -> Result<Translator<'a>> {
    let first = models.first().context("there is no model")?;
    let tgt = &*first.tokenizers.tgt;
    for other in &models[1..] {
        let (ours, theirs) = (first.checkpoint.path.display(), other.checkpoint.path.display());
        let same = other.tokenizers.tgt.to_json()? == tgt.to_json()?;
        ensure!(same, "`{ours}` and `{theirs}` cannot decide together: their target vocabularies differ");
        let alike = first.model.task() == other.model.task();
        ensure!(alike, "`{ours}` and `{theirs}` cannot decide together: they were made for different tasks");
    }
    check_beam(&config.search, &first.tokenizers)?;
    let members = models.iter().map(|model| Member { model: &model.model, src: &model.tokenizers.src }).collect();
    let (max_tokens, pad_multiple) = (config.train.max_tokens.tokens(), pad_multiple(config));
    let framing = config.framing();
    Ok(Translator { members, tgt, search: &config.search, device, max_tokens, pad_multiple, framing })
}

/// Checks that models translate.
///
/// # Errors
/// They do not (exit code 2).
pub fn check_translates(models: &[TrainedModel]) -> Result<()> {
    models.iter().try_for_each(|model| check_task(model, |task| task == Task::Translation))
}

/// Checks that a model is for a wanted task.
///
/// # Errors
/// It is not (exit code 2); what it can do is said.
pub fn check_task(model: &TrainedModel, wanted: fn(Task) -> bool) -> Result<()> {
    let task = model.model.task();
    if wanted(task) {
        return Ok(());
    }
    let (is, advice) = match task {
        Task::Translation => ("translates", "`polyglow translate` is for it, and `polyglow evaluate` scores it"),
        Task::Language => ("has no source", "`polyglow generate` writes text with it, `polyglow evaluate` scores it"),
        Task::Words => ("has no source", "`polyglow embeddings` explores its vectors, `polyglow evaluate` scores it"),
        Task::Labels | Task::Images => {
            ("gives labels", "`polyglow classify` says what something is, `polyglow evaluate` scores it")
        }
        Task::Masked => (
            "finds hidden tokens",
            "`polyglow evaluate` scores it, and `polyglow train CONFIG --run RUN --fork NEW_RUN` teaches it labels",
        ),
    };
    let (path, arch) = (model.checkpoint.path.display(), model.config.model.arch.name());
    Err(with_hint(usage(failed!("`{path}` has `model.arch = \"{arch}\"`, which {is}")), advice))
}

/// Checks that a model shows where in the source it looks.
///
/// # Errors
/// It has no attention to the source (exit code 2).
pub fn check_attends(model: &TrainedModel) -> Result<()> {
    let (num_layers, _) = model.model.shape().attention(AttentionKind::Cross);
    if num_layers == 0 {
        let path = model.checkpoint.path.display();
        return Err(usage(failed!(
            "`{path}` has no attention to the source, so it does not tell which word is from which"
        )));
    }
    Ok(())
}

/// Checks that there are as many tokens as a beam is to keep hypotheses.
///
/// # Errors
/// There are fewer (exit code 2).
pub fn check_beam(search: &SearchConfig, tokenizers: &Tokenizers) -> Result<()> {
    let (width, vocab_size) = (search.width(), tokenizers.tgt.vocab_size());
    if width > vocab_size {
        return Err(usage(failed!("a beam of {width} is wider than the target vocabulary of {vocab_size} tokens")));
    }
    Ok(())
}

/// The shape of the model that a configuration and its tokenizers ask for.
///
/// # Errors
/// A size does not fit, such as tied embeddings over separate vocabularies.
pub fn model_shape(config: &Config, tokenizers: &Tokenizers) -> Result<ModelShape> {
    let vocabulary = Vocabulary {
        src_size: tokenizers.src.vocab_size(),
        tgt_size: tokenizers.tgt.vocab_size(),
        shared: tokenizers.is_shared(),
        src_pad_id: tokenizers.src.special().pad,
        tgt_pad_id: tokenizers.tgt.special().pad,
        // The longest sentence and its end mark; BPE dropout may lengthen a sentence that was just short enough.
        max_len: match config.framing() {
            Framing::Windows { context_len } => context_len.get(),
            Framing::Pairs | Framing::Labels | Framing::Images { .. } | Framing::Masked | Framing::SkipGrams(_) => {
                batching(config).planned_len(config.data.max_len) + 1
            }
        },
        image: config.data.image_shape().map(|[height, width, channels]| ImageShape { height, width, channels }),
    };
    Ok(config.model.shape(vocabulary)?.with_precision(config.train.precision))
}

/// A model of these weights for a search: matrices in 8 bits stay so where the device has a kernel for them.
///
/// # Errors
/// A tensor is missing, left over, or of another shape.
pub fn load_for_search(shape: &ModelShape, mut weights: Weights, device: &Device) -> Result<Model> {
    let mut model = shape.blank(device);
    if !weights.is_int8() {
        return load_weights(model, weights);
    }
    if !quantization::has_int8_kernels(device) {
        tracing::info!("the matrices have 8 bits; this device multiplies them in 32: only `flex` is faster with them");
        return load_weights(model, weights.dequantize()?);
    }
    model = quantization::quantize(model, |name, layout, weight| {
        let int8 = weights.take_int8(name, weight.dims(), layout)?;
        Ok::<_, TrainError>(Int8Matrix::new(&int8, weight.dims(), layout))
    })?;
    load_weights(model, weights)
}

/// Gives every parameter its value from a file.
///
/// # Errors
/// A tensor is missing, left over, or of another shape.
pub fn load_weights(model: Model, mut weights: Weights) -> Result<Model> {
    let model = parameter::replace(model, |name, shape| weights.take(name, shape))?;
    weights.finish()?;
    Ok(model)
}
