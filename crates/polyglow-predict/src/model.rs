//! A model from what it is made of: a config, tokenizers and weights, as bytes or as files. Opens
//! no file.

use std::path::Path;

use burn::module::Module;
use burn::tensor::Device;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::quantization::{self, Int8Matrix};
use polyglow_model::search::SearchConfig;
use polyglow_model::{Model, ModelShape, computes_on_host, parameter};

use crate::error::{Result, TrainError, failed, usage, with_hint};
use crate::group::alone;
use crate::runner::{Options, Runner};
use crate::settings::{Settings, default_pad_multiple};
use crate::weights::Weights;

impl Runner {
    /// Makes the model of a run from the content of its files: `config.toml`, the tokenizers, and
    /// `model.safetensors` of a checkpoint.
    ///
    /// Opens no file and asks for no time, so that it works in a browser, too.
    ///
    /// # Errors
    /// Something of it is damaged, or does not fit the rest.
    pub fn from_bytes(
        config: &str,
        tokenizers: &Tokenizers,
        weights: &[u8],
        device: Device,
    ) -> Result<Self> {
        let settings = Settings::parse(config)?;
        check_beam(&settings.search, tokenizers)?;
        let shape = settings.shape(tokenizers)?;
        let weights = Weights::parse(weights, Path::new("model.safetensors"))?;
        let model = load_for_search(&shape, weights, &device)?;
        let pad_multiple = settings.train.pad_multiple;
        let options = Options {
            task: settings.task(),
            max_tokens: settings.train.max_tokens,
            pad_multiple: pad_multiple
                .unwrap_or_else(|| default_pad_multiple(computes_on_host(&device))),
            longest: shape.vocabulary().max_len - 1,
            search: settings.search,
            tags: settings.data.tags(),
            device,
            group: alone(),
            image_reader: None,
        };
        Ok(Self::new(model, tokenizers, options))
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
