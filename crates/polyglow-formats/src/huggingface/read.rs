//! Reads a folder of MarianMT or Pegasus.

use std::path::{Path, PathBuf};

use polyglow_model::search::{LengthPenalty, SearchConfig};
use polyglow_model::{Activation, Norm, Position, TieEmbeddings, TransformerShape};
use polyglow_predict::error::{Context, Result, bail, ensure, failed, with_hint};
use polyglow_predict::weights::Weights;
use polyglow_train::run::read_weights;
use serde_json::Value;

use super::name::{OUTPUT, OUTPUT_BIAS, POSITIONS, SHARED, SRC_EMBEDDING, TGT_EMBEDDING, names};
use super::tokens::{pieces, tokenizer, with_bos};
use super::{CONFIG, GENERATION, MODEL, pickle};
use crate::array::{Array, Arrays};
use crate::folder::{self, Keys};
use crate::part::{Role, alternating, blank_shape, model_config, parts, reorder};
use crate::portable::Portable;

/// The weights as PyTorch itself saves them.
pub(super) const PICKLE: &str = "pytorch_model.bin";
/// The most layers of a stack that a config may have: more would take memory before the weights
/// turn out to be missing.
const MOST_LAYERS: usize = 1024;
/// The largest width of a layer, for the same reason.
const WIDEST: usize = 1 << 18;

/// Reads a model.
///
/// # Errors
/// A file is missing, damaged or too large, or the model has layers or options that polyglow's
/// Transformer lacks.
pub(super) fn read(dir: &Path) -> Result<Portable> {
    let path = dir.join(CONFIG);
    let json = folder::read_json(&path)?;
    let config = Keys {
        path: &path,
        json: &json,
    };
    let shape = shape(&config)?;
    let (weights_path, weights) = weights(dir)?;
    let mut arrays =
        arrays(weights, &shape, &json).with_context(|| format!("`{}`", weights_path.display()))?;
    let mut model = model_config(&shape);
    let tokenizers = match tokenizer(dir)? {
        Some(tokenizer) => with_bos(tokenizer, &config, &mut arrays)?,
        None => pieces(dir, &config)?.adopt(&mut model, &mut arrays)?,
    };
    // Both may have added a bias.
    model.output_bias = arrays.0.contains_key("output_bias");
    let mut portable = Portable::new(&model, tokenizers, arrays, shape.max_len - 1);
    portable.config.search = search(dir)?;
    let languages = dir.join("tokenizer_config.json");
    let languages = folder::read_json_if_there(&languages)?.unwrap_or_default();
    portable.config.data.src = language(&languages["source_lang"]);
    portable.config.data.tgt = language(&languages["target_lang"]);
    Ok(portable)
}

/// The code of a language, if there is one.
fn language(value: &Value) -> Option<String> {
    let code = value.as_str()?;
    (!code.is_empty()).then(|| code.to_owned())
}

/// The shape of the model that a `config.json` describes, without its vocabularies.
fn shape(config: &Keys<'_>) -> Result<TransformerShape> {
    let path = config.path.display();
    let norm = norm(config)?;
    let activation = activation(config)?;
    ensure!(
        config.flag("scale_embedding", false)?,
        "`{path}`: `scale_embedding` is false, and ours are scaled"
    );
    let tie_embeddings = tie_embeddings(config, norm)?;
    let d_model = config.size("d_model")?;
    let num_heads = config.same("encoder_attention_heads", "decoder_attention_heads")?;
    ensure!(
        num_heads > 0
            && d_model > 0
            && d_model.is_multiple_of(num_heads)
            && d_model.is_multiple_of(2),
        "`{path}`: {num_heads} heads and sines and cosines do not share a width of {d_model}"
    );
    let d_ff = config.same("encoder_ffn_dim", "decoder_ffn_dim")?;
    ensure!(d_ff > 0, "`{path}`: `encoder_ffn_dim` is 0");
    let num_encoder_layers = config.size("encoder_layers")?;
    let num_decoder_layers = config.size("decoder_layers")?;
    ensure!(
        num_encoder_layers.max(num_decoder_layers) <= MOST_LAYERS && d_model.max(d_ff) <= WIDEST,
        "`{path}`: its sizes are beyond those of any model"
    );
    let max_len = config.size("max_position_embeddings")?;
    ensure!(
        (2..=1 << 16).contains(&max_len),
        "`{path}`: `max_position_embeddings` is {max_len}"
    );
    Ok(TransformerShape {
        max_len,
        d_model,
        d_ff,
        num_heads,
        num_encoder_layers,
        num_decoder_layers,
        dropout: dropout(config, "dropout"),
        attention_dropout: dropout(config, "attention_dropout"),
        activation_dropout: dropout(config, "activation_dropout"),
        activation,
        norm,
        position: Position::Sinusoidal,
        tie_embeddings,
        ..blank_shape()
    })
}

/// The position of the norms, which follows from the class of the model.
fn norm(config: &Keys<'_>) -> Result<Norm> {
    match config.text("model_type")? {
        "marian" => Ok(Norm::Post),
        "pegasus" => Ok(Norm::Pre),
        other => {
            let path = config.path.display();
            let error = failed!(
                "`{path}`: `model_type` is \"{other}\"; \"marian\" and \"pegasus\" can be read"
            );
            Err(with_hint(error, "OPUS-MT's models are \"marian\""))
        }
    }
}

fn activation(config: &Keys<'_>) -> Result<Activation> {
    let path = config.path.display();
    match config.text("activation_function")? {
        "relu" => Ok(Activation::Relu),
        "swish" | "silu" => Ok(Activation::Swish),
        "gelu" => Ok(Activation::Gelu),
        other => bail!("`{path}`: `activation_function` is \"{other}\", which is none of ours"),
    }
}

/// Returns which of the embeddings and the output are one matrix. Pegasus always shares both
/// embeddings.
fn tie_embeddings(config: &Keys<'_>, norm: Norm) -> Result<TieEmbeddings> {
    let is_tied = config.flag("tie_word_embeddings", true)?;
    let is_shared = norm == Norm::Pre || config.flag("share_encoder_decoder_embeddings", true)?;
    Ok(match (is_shared, is_tied) {
        (true, true) => TieEmbeddings::All,
        (false, true) => TieEmbeddings::Decoder,
        _ => TieEmbeddings::None,
    })
}

/// A probability of dropout. It matters only if the model is trained further, so a missing or odd
/// one is 0.
fn dropout(config: &Keys<'_>, key: &str) -> f64 {
    let value = config.json[key].as_f64();
    value
        .filter(|value| (0.0..1.0).contains(value))
        .unwrap_or(0.0)
}

/// The weights, and the path of their file.
fn weights(dir: &Path) -> Result<(PathBuf, Weights)> {
    let path = dir.join(MODEL);
    if path.is_file() {
        let weights = read_weights(&path)?;
        return Ok((path, weights));
    }
    let path = dir.join(PICKLE);
    let weights = pickle::read(&path)?;
    Ok((path, weights))
}

/// The weights by our names and in our order.
fn arrays(weights: Weights, shape: &TransformerShape, config: &Value) -> Result<Arrays> {
    let mut theirs = Arrays::from_weights(weights)?;
    let mut ours = Arrays::default();
    for part in parts(shape) {
        let names = names(part);
        let [first, second] = part.parameters();
        let [inputs, outputs] = part.size(shape);
        let width = outputs / names.len();
        let weight_shape = if part.block.role() == Role::Norm {
            vec![width]
        } else {
            vec![width, inputs]
        };
        // Ours are side by side in one matrix, inputs by outputs.
        let mut weights = Vec::new();
        let mut biases = Vec::new();
        for name in names {
            let weight = take(&mut theirs, &format!("{name}.weight"), &weight_shape)?;
            weights.push(weight.transposed());
            biases.push(take(&mut theirs, &format!("{name}.bias"), &[width])?);
        }
        ours.put(first, Array::joined(&weights)?);
        ours.put(second, Array::joined(&biases)?);
    }
    embeddings(&mut theirs, &mut ours, shape, config)?;
    for name in POSITIONS {
        theirs.0.remove(name);
    }
    if let Some(name) = theirs.0.keys().next() {
        bail!("it holds `{name}`, for which our model has no place");
    }
    // Their sinusoids are all sines before all cosines.
    reorder(&mut ours, shape, &alternating(shape.d_model))?;
    Ok(ours)
}

/// Takes the embeddings, the output and its bias.
fn embeddings(
    theirs: &mut Arrays,
    ours: &mut Arrays,
    shape: &TransformerShape,
    config: &Value,
) -> Result<()> {
    let src_size = config["vocab_size"].as_u64();
    let src_size = src_size.context("there is no `vocab_size`")? as usize;
    let tgt_size = config["decoder_vocab_size"]
        .as_u64()
        .map_or(src_size, |size| size as usize);
    ensure!(
        shape.tie_embeddings != TieEmbeddings::All || tgt_size == src_size,
        "one embedding has {src_size} tokens for the source and {tgt_size} for the target"
    );
    let src_shape = [src_size, shape.d_model];
    let tgt_shape = [tgt_size, shape.d_model];
    if shape.tie_embeddings == TieEmbeddings::All {
        let names = [SHARED, SRC_EMBEDDING, TGT_EMBEDDING, OUTPUT];
        let shared = first_of(theirs, &names, src_shape)?;
        ours.put("src_embedding.weight", shared);
    } else {
        let src = first_of(theirs, &[SRC_EMBEDDING, SHARED], src_shape)?;
        let tgt = first_of(theirs, &[TGT_EMBEDDING, SHARED], tgt_shape)?;
        ours.put("src_embedding.weight", src);
        ours.put("tgt_embedding.weight", tgt);
    }
    if shape.tie_embeddings == TieEmbeddings::None {
        let output = first_of(theirs, &[OUTPUT], tgt_shape)?;
        ours.put("output.weight", output.transposed());
    }
    if theirs.0.contains_key(OUTPUT_BIAS) {
        let bias = take(theirs, OUTPUT_BIAS, &[1, tgt_size])?.values;
        // Every file has the tensor, and most models no bias: all zeros.
        if bias.iter().any(|value| value.to_bits() != 0) {
            ours.put("output_bias", Array::vector(bias));
        }
    }
    // Older files have a matrix under each of its names.
    for name in [SHARED, SRC_EMBEDDING, TGT_EMBEDDING, OUTPUT] {
        theirs.0.remove(name);
    }
    Ok(())
}

/// A copy of the matrix that has several names, under the first of them that the file has: files
/// have a tied matrix once, under any of its names.
fn first_of(arrays: &Arrays, names: &[&str], shape: [usize; 2]) -> Result<Array> {
    let name = names
        .iter()
        .find(|name| arrays.0.contains_key(**name))
        .unwrap_or(&names[0]);
    let array = arrays.get(name)?;
    check_shape(name, array, &shape)?;
    Ok(array.clone())
}

fn take(arrays: &mut Arrays, name: &str, shape: &[usize]) -> Result<Array> {
    let array = arrays
        .0
        .remove(name)
        .with_context(|| format!("there is no tensor `{name}`"))?;
    check_shape(name, &array, shape)?;
    Ok(array)
}

fn check_shape(name: &str, array: &Array, expected: &[usize]) -> Result<()> {
    ensure!(
        array.shape == expected,
        "the tensor `{name}` is {:?}, not {expected:?} as `{CONFIG}` asks for",
        array.shape
    );
    Ok(())
}

/// The search that the folder's `generation_config.json` describes; a beam of 4 and the average
/// log-probability of tokens where it does not say.
fn search(dir: &Path) -> Result<SearchConfig> {
    let json = folder::read_json_if_there(&dir.join(GENERATION))?.unwrap_or_default();
    let beam_size = json["num_beams"]
        .as_u64()
        .filter(|size| (1..=1024).contains(size))
        .unwrap_or(4);
    let alpha = json["length_penalty"]
        .as_f64()
        .filter(|alpha| (0.0..=10.0).contains(alpha))
        .unwrap_or(1.0);
    Ok(SearchConfig {
        beam_size: beam_size as usize,
        length_penalty: LengthPenalty::Average,
        length_alpha: alpha,
        ..SearchConfig::default()
    })
}
