//! Hugging Face's folders: `config.json`, `model.safetensors` and tokenizers, for `from_pretrained`
//! of transformers.
//!
//! An encoder-decoder Transformer with norms behind the sublayers is MarianMT (Junczys-Dowmunt et
//! al., 2018), and one with norms before them is Pegasus (Zhang et al., 2020). Both have our
//! sinusoids, but with all sines before all cosines: the residual stream is put into that order,
//! which changes nothing else.

mod name;
mod pickle;
mod read;
mod stack;
mod text;
mod tokens;
mod write;

use std::collections::HashMap;
use std::path::Path;

use polyglow_model::{Activation, ModelShape};
use polyglow_predict::error::{Context, Result, failed, usage, with_hint};
use safetensors::tensor::{Dtype, TensorView};

use self::write::Class;
use super::array::{Array, Arrays};
use super::folder;
use super::portable::Portable;

pub(super) use read::{is_in, read};

const MODEL: &str = "model.safetensors";
const CONFIG: &str = "config.json";
const GENERATION: &str = "generation_config.json";

/// Writes a model.
///
/// # Errors
/// transformers has no class for it (exit code 2); the disk refuses.
pub(super) fn write(model: &Portable, dir: &Path) -> Result<()> {
    match model.shape()? {
        ModelShape::Transformer(shape) => {
            let class = Class::of(&shape)?;
            text::write(model, shape.max_len, dir)?;
            folder::write(
                dir,
                MODEL,
                &safetensors(&write::tensors(&model.arrays, &shape)?)?,
            )?;
            folder::write_json(dir, CONFIG, &write::config(model, &shape, class))?;
            folder::write_json(dir, GENERATION, &write::generation(model, &shape))
        }
        ModelShape::Lm(shape) => {
            let (tensors, config) = stack::gpt2(model, &shape)?;
            text::write_one(
                &model.tokenizers.tgt,
                text::Mark::Begin,
                shape.stack.max_len,
                dir,
            )?;
            folder::write(dir, MODEL, &safetensors(&tensors)?)?;
            folder::write_json(dir, GENERATION, &stack::generation(model))?;
            folder::write_json(dir, CONFIG, &config)
        }
        ModelShape::Vit(shape) => {
            let (tensors, config, preprocessor) = stack::vit(model, &shape)?;
            folder::write(dir, MODEL, &safetensors(&tensors)?)?;
            folder::write_json(dir, CONFIG, &config)?;
            folder::write_json(dir, "preprocessor_config.json", &preprocessor)
        }
        ModelShape::Rnn(_)
        | ModelShape::RnnLm(_)
        | ModelShape::SkipGram(_)
        | ModelShape::Encoder(_)
        | ModelShape::Captioner(_) => {
            let arch = model.config.model.arch.name();
            let error =
                failed!("Hugging Face has no class for a model of `model.arch = \"{arch}\"`");
            Err(with_hint(
                usage(error),
                "BERT and its family have a norm behind the embeddings, and there are no recurrent models nor such captioners",
            ))
        }
    }
}

/// Makes sure that transformers has a class for an encoder-decoder Transformer, and for its
/// tokenizers.
///
/// # Errors
/// It has none (exit code 2).
pub(super) fn check(model: &Portable) -> Result<()> {
    Class::of(&model.transformer()?)?;
    text::check(model)
}

/// The name that transformers has for an activation without a gate.
fn activation(activation: Activation) -> &'static str {
    match activation {
        Activation::Relu => "relu",
        Activation::Gelu => "gelu",
        Activation::Swish | Activation::Swiglu => "silu",
    }
}

/// Arrays as a safetensors file that says it is for PyTorch, as transformers wants it.
fn safetensors(arrays: &Arrays) -> Result<Vec<u8>> {
    let bytes: Vec<(&String, &Array, Vec<u8>)> = arrays
        .0
        .iter()
        .map(|(name, array)| (name, array, array.to_bytes()))
        .collect();
    let views = bytes.iter().map(|(name, array, bytes)| {
        let view = TensorView::new(Dtype::F32, array.shape.clone(), bytes)
            .with_context(|| format!("`{name}`"))?;
        Ok((name.as_str(), view))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    Ok(safetensors::serialize(views, Some(metadata))?)
}
