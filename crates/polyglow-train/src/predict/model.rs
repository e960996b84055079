//! A model from what it is made of: a config, tokenizers and weights, as bytes or as files. Opens
//! no file.

use std::path::Path;

use burn::module::Module;
use burn::tensor::Device;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::quantization::{self, Int8Matrix};
use polyglow_model::search::SearchConfig;
use polyglow_model::{ImageShape, Model, ModelShape, Vocabulary, parameter};

use super::runner::Runner;
use super::weights::Weights;
use crate::config::Config;
use crate::error::{Result, TrainError, failed, usage, with_hint};
use crate::plan::{Plan, TaskPlan};

impl Runner {
    /// The model of a run from the content of its files: `config.toml`, the tokenizers, and
    /// `model.safetensors` of a checkpoint.
    ///
    /// Opens no file and asks for no time, so that it works in a browser, too; see the feature
    /// `training`.
    ///
    /// # Errors
    /// Something of it is damaged, or does not fit the rest.
    pub fn from_bytes(
        config: &str,
        tokenizers: &Tokenizers,
        weights: &[u8],
        device: Device,
    ) -> Result<Self> {
        let plan = Plan::on(Config::parse(config)?, device, None);
        check_beam(&plan.config.search, tokenizers)?;
        let shape = model_shape(&plan, tokenizers)?;
        let weights = Weights::parse(weights, Path::new("model.safetensors"))?;
        let model = load_for_search(&shape, weights, &plan.device)?;
        let (search, longest) = (plan.config.search.clone(), shape.vocabulary().max_len - 1);
        Ok(Self::new(model, &plan, tokenizers, search, longest))
    }
}

/// Checks that there are as many tokens as a beam is to keep hypotheses.
///
/// # Errors
/// There are fewer (exit code 2).
pub fn check_beam(search: &SearchConfig, tokenizers: &Tokenizers) -> Result<()> {
    let (width, vocab_size) = (search.width(), tokenizers.tgt.vocab_size());
    if width > vocab_size {
        let error =
            failed!("a beam of {width} is wider than the target vocabulary of {vocab_size} tokens");
        return Err(with_hint(
            usage(error),
            "lower `search.beam_size`, or `--beam-size`",
        ));
    }
    Ok(())
}

/// The shape of the model that a plan and its tokenizers ask for.
///
/// # Errors
/// A size does not fit, such as tied embeddings over separate vocabularies.
pub fn model_shape(plan: &Plan, tokenizers: &Tokenizers) -> Result<ModelShape> {
    let config = &plan.config;
    // The longest sentence and its end mark; BPE dropout may lengthen a sentence that was just
    // short enough.
    let longest = || config.tokenizer.planned_len(config.data.max_len) + 1;
    let (max_len, image) = match plan.task {
        TaskPlan::Language {
            context_len: Some(context_len),
        } => (context_len.get(), None),
        TaskPlan::Images(images) | TaskPlan::Captions { images, .. } => {
            let [height, width, channels] = images.shape();
            (
                longest(),
                Some(ImageShape {
                    height,
                    width,
                    channels,
                }),
            )
        }
        TaskPlan::Translation
        | TaskPlan::Language { context_len: None }
        | TaskPlan::Words(_)
        | TaskPlan::Labels
        | TaskPlan::Masked => (longest(), None),
    };
    let vocabulary = Vocabulary {
        src_size: tokenizers.src.vocab_size(),
        tgt_size: tokenizers.tgt.vocab_size(),
        shared: tokenizers.is_shared(),
        src_pad_id: tokenizers.src.special().pad,
        tgt_pad_id: tokenizers.tgt.special().pad,
        max_len,
        image,
    };
    Ok(config
        .model
        .shape(vocabulary)?
        .with_precision(config.train.precision))
}

/// A model of these weights for a search: matrices in 8 bits stay so where the device has a kernel
/// for them.
///
/// # Errors
/// A tensor is missing, left over, or of another shape.
pub fn load_for_search(shape: &ModelShape, mut weights: Weights, device: &Device) -> Result<Model> {
    let mut model = shape.blank(device);
    if !weights.is_int8() {
        return load_weights(model, weights);
    }
    if !quantization::has_int8_kernels(device) {
        tracing::info!(
            "this device computes the 8-bit matrices in 32 bits: only `flex` is faster with them"
        );
        return load_weights(model, weights);
    }
    model = quantization::quantize(model, |name, layout, weight| {
        let int8 = weights.take_int8(name, weight.dims(), layout)?;
        Ok::<_, TrainError>(Int8Matrix::new(&int8, weight.dims(), layout))
    })?;
    load_weights(model, weights)
}

/// Gives every parameter its value from a file; matrices in 8 bits are read as the values that they
/// stand for.
///
/// # Errors
/// A tensor is missing, left over, or of another shape.
pub fn load_weights<M: Module>(model: M, weights: Weights) -> Result<M> {
    let mut weights = weights.dequantize()?;
    let model = parameter::replace(model, |name, shape| weights.take(name, shape))?;
    weights.finish()?;
    Ok(model)
}
