//! Hugging Face's folders: `config.json`, `model.safetensors` and tokenizers, for `from_pretrained`
//! of transformers.
//!
//! An encoder-decoder Transformer with norms after the sublayers is MarianMT (Junczys-Dowmunt et
//! al., 2018), and one with norms before them is Pegasus (Zhang et al., 2020). Both have polyglow's
//! sinusoids, but with all sines before all cosines: the residual stream is permuted to match, which
//! changes no result. Language models are GPT-2, classifiers of images `ViT`.

mod gpt2;
mod name;
mod pickle;
mod read;
mod stack;
mod text;
mod tokens;
mod vit;
mod write;

use std::collections::HashMap;
use std::path::Path;

use polyglow_data::pair_tags::PairTags;
use polyglow_model::registry::Named;
use polyglow_model::{Activation, Arch, LmShape, TransformerShape, VitShape};
use polyglow_predict::error::{Context, Result, TrainError, failed, usage, with_hint};
use polyglow_predict::tasks::TaskFacts;
use safetensors::tensor::{Dtype, TensorView};

use self::read::PICKLE;
use self::write::Class;
use super::array::{Array, Arrays};
use super::format::{Format, TAGS, Writing};
use super::portable::Portable;
use super::{Precision, folder};

const MODEL: &str = "model.safetensors";
const CONFIG: &str = "config.json";
const GENERATION: &str = "generation_config.json";

/// The format `huggingface`.
#[derive(Debug)]
pub(crate) struct Huggingface;

impl Named for Huggingface {
    fn name(&self) -> &'static str {
        "huggingface"
    }
}

impl Format for Huggingface {
    fn title(&self) -> &'static str {
        "Hugging Face's transformers"
    }

    fn library(&self) -> &'static str {
        "transformers"
    }

    fn usage(&self, task: &TaskFacts, _: bool) -> &'static str {
        if task.generates() {
            include_str!("usage/huggingface-text.md")
        } else if task.reads_images() {
            include_str!("usage/huggingface-images.md")
        } else {
            include_str!("usage/huggingface.md")
        }
    }

    fn tag_usage(&self, tags: &PairTags) -> Option<String> {
        let mut sentences = vec![TAGS.to_owned()];
        if !tags.src.is_empty() {
            sentences.push(format!(
                "The tokenizer puts `{}` before a source.",
                tags.src.join(" ")
            ));
        }
        if let Some(tag) = &tags.tgt {
            sentences.push(format!("An output begins with `{tag}`, by `forced_bos_token_id`, which `generate` takes as well: another \
                 tag is another language, if the model knows several."
            ));
        }
        Some(sentences.join(" "))
    }

    fn default_precision(&self, _: Arch, _: bool) -> Precision {
        Precision::Float32
    }

    fn check(&self, model: &Portable) -> Result<()> {
        Class::for_shape(&model.transformer()?)?;
        text::check(model)
    }

    fn check_writing(&self, writing: &Writing) -> Result<()> {
        if writing.precision == Precision::Float32 {
            return Ok(());
        }
        let error = failed!(
            "`--precision {}`: weights for Hugging Face are float32",
            writing.precision.name()
        );
        let hint = "`from_pretrained(..., dtype=\"float16\")` rounds them as it loads them";
        Err(with_hint(usage(error), hint))
    }

    fn write(&self, writing: &Writing, dir: &Path) -> Result<()> {
        write(writing.model, dir)
    }

    fn files(&self) -> Option<&'static str> {
        Some("`config.json` with `model.safetensors` or `pytorch_model.bin` (Hugging Face)")
    }

    fn is_in(&self, dir: &Path) -> bool {
        dir.join(CONFIG).is_file() && [MODEL, PICKLE].iter().any(|name| dir.join(name).is_file())
    }

    fn read(&self, dir: &Path) -> Result<Portable> {
        read::read(dir)
    }
}

/// Writes the files of a model into a directory.
///
/// # Errors
/// transformers has no class for it (exit code 2); the disk refuses.
fn write(model: &Portable, dir: &Path) -> Result<()> {
    let shape = model.shape()?;
    if let Some(shape) = shape.downcast_ref::<TransformerShape>() {
        let class = Class::for_shape(shape)?;
        text::write(model, shape.max_len, dir)?;
        let tensors = write::tensors(&model.arrays, shape)?;
        folder::write_file(dir, MODEL, &safetensors(&tensors)?)?;
        folder::write_json(dir, CONFIG, &write::config(model, shape, class))?;
        return folder::write_json(dir, GENERATION, &write::generation(model, shape)?);
    }
    if let Some(shape) = shape.downcast_ref::<LmShape>() {
        let tensors = gpt2::tensors(&model.arrays, shape)?;
        let tokenizer = &model.tokenizers.tgt;
        text::write_one(tokenizer, text::Added::Bos, &[], shape.stack.max_len, dir)?;
        folder::write_file(dir, MODEL, &safetensors(&tensors)?)?;
        folder::write_json(dir, GENERATION, &gpt2::generation(model))?;
        return folder::write_json(dir, CONFIG, &gpt2::config(model, shape, &tensors)?);
    }
    if let Some(shape) = shape.downcast_ref::<VitShape>() {
        let labels = vit::labels(&model.tokenizers.tgt);
        let tensors = vit::tensors(&model.arrays, shape, &labels)?;
        folder::write_file(dir, MODEL, &safetensors(&tensors)?)?;
        folder::write_json(dir, CONFIG, &vit::config(shape, &labels))?;
        return folder::write_json(dir, "preprocessor_config.json", &vit::preprocessor(shape));
    }
    Err(no_class(model.config.model.arch))
}

/// The error of an architecture for which transformers has no class.
fn no_class(arch: Arch) -> TrainError {
    let error = failed!(
        "Hugging Face has no class for a model of `model.arch = \"{}\"`",
        arch.name()
    );
    let reason = if arch.0.is_built_in() {
        "BERT and its family have a norm behind the embeddings, and there are no recurrent models nor such captioners"
    } else {
        "its layers are known to the program that registers this architecture, and to no other"
    };
    with_hint(usage(error), reason)
}

/// The name of an activation in transformers; of a gated one that of the function in its gate.
fn activation(activation: Activation) -> &'static str {
    match activation {
        Activation::Relu => "relu",
        Activation::Gelu => "gelu",
        Activation::Swish | Activation::Swiglu => "silu",
    }
}

/// Arrays as a safetensors file. Its metadata says that it is for PyTorch, without which transformers
/// refuses the file.
fn safetensors(arrays: &Arrays) -> Result<Vec<u8>> {
    let bytes: Vec<Vec<u8>> = arrays.0.values().map(Array::to_bytes).collect();
    let mut views = Vec::with_capacity(bytes.len());
    for ((name, array), bytes) in arrays.0.iter().zip(&bytes) {
        let view = TensorView::new(Dtype::F32, array.shape.clone(), bytes)
            .with_context(|| format!("`{name}`"))?;
        views.push((name.as_str(), view));
    }
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    Ok(safetensors::serialize(views, Some(metadata))?)
}
