//! A folder of MarianMT or Pegasus as our model.

use std::path::{Path, PathBuf};

use polyglow_model::search::{LengthPenalty, SearchConfig};
use polyglow_model::{Activation, Norm, Position, TieEmbeddings, TransformerShape};
use polyglow_predict::error::{Context, Result, bail, ensure, failed, with_hint};
use polyglow_predict::weights::Weights;
use serde_json::Value;

use super::name::{OUTPUT, OUTPUT_BIAS, POSITIONS, SHARED, SRC_EMBEDDING, TGT_EMBEDDING, names};
use super::tokens::{pieces, tokenizer, with_begin_mark};
use super::{CONFIG, GENERATION, MODEL, pickle};
use crate::array::{Array, Arrays};
use crate::folder::{self, Keys};
use crate::part::{Role, alternating, blank_shape, model_config, parts, reorder};
use crate::portable::Portable;

/// The weights as PyTorch itself saves them.
const PICKLE: &str = "pytorch_model.bin";
/// The most layers of a stack, and the widest of them: more is no model, and would take memory
/// before it is missed.
const MOST_LAYERS: usize = 1024;
const WIDEST: usize = 1 << 18;

/// Whether a folder holds such a model.
pub(in super::super) fn is_in(dir: &Path) -> bool {
    dir.join(CONFIG).is_file() && [MODEL, PICKLE].iter().any(|name| dir.join(name).is_file())
}

/// Reads a model.
///
/// # Errors
/// A file is missing, damaged or too large, or the model is none of ours.
pub(in super::super) fn read(dir: &Path) -> Result<Portable> {
    let path = dir.join(CONFIG);
    let json = folder::read_json(&path)?;
    let config = Keys {
        path: &path,
        json: &json,
    };
    let shape = shape(&config)?;
    let (path, weights) = weights(dir)?;
    let mut arrays =
        arrays(weights, &shape, &json).with_context(|| format!("`{}`", path.display()))?;
    let mut model = model_config(&shape);
    let tokenizers = match tokenizer(dir)? {
        Some(tokenizer) => with_begin_mark(tokenizer, &config, &mut arrays)?,
        None => pieces(dir, &config)?.adopt(&mut model, &mut arrays)?,
    };
    model.output_bias = arrays.0.contains_key("output_bias");
    let mut portable = Portable::new(&model, tokenizers, arrays, shape.max_len - 1);
    portable.config.search = search(dir)?;
    let languages =
        folder::read_json_if_there(&dir.join("tokenizer_config.json"))?.unwrap_or_default();
    let language = |key: &str| {
        languages[key]
            .as_str()
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
    };
    (portable.config.data.src, portable.config.data.tgt) =
        (language("source_lang"), language("target_lang"));
    Ok(portable)
}

/// The shape that a `config.json` tells of; vocabularies are left out.
fn shape(config: &Keys<'_>) -> Result<TransformerShape> {
    let path = config.path.display();
    let norm = match config.text("model_type")? {
        "marian" => Norm::Post,
        "pegasus" => Norm::Pre,
        other => {
            let error = failed!(
                "`{path}`: `model_type` is \"{other}\"; \"marian\" and \"pegasus\" can be read"
            );
            return Err(with_hint(error, "OPUS-MT's models are \"marian\""));
        }
    };
    let activation = match config.text("activation_function")? {
        "relu" => Activation::Relu,
        "swish" | "silu" => Activation::Swish,
        "gelu" => Activation::Gelu,
        other => bail!("`{path}`: `activation_function` is \"{other}\", which is none of ours"),
    };
    ensure!(
        config.flag("scale_embedding", false)?,
        "`{path}`: `scale_embedding` is false, and ours are scaled"
    );
    let tied = config.flag("tie_word_embeddings", true)?;
    let shared = norm == Norm::Pre || config.flag("share_encoder_decoder_embeddings", true)?;
    let tie_embeddings = match (shared, tied) {
        (true, true) => TieEmbeddings::All,
        (false, true) => TieEmbeddings::Decoder,
        _ => TieEmbeddings::None,
    };
    let (d_model, num_heads) = (
        config.size("d_model")?,
        config.same("encoder_attention_heads", "decoder_attention_heads")?,
    );
    ensure!(
        num_heads > 0
            && d_model > 0
            && d_model.is_multiple_of(num_heads)
            && d_model.is_multiple_of(2),
        "`{path}`: {num_heads} heads and sines and cosines do not share a width of {d_model}"
    );
    let d_ff = config.same("encoder_ffn_dim", "decoder_ffn_dim")?;
    ensure!(d_ff > 0, "`{path}`: `encoder_ffn_dim` is 0");
    let [num_encoder_layers, num_decoder_layers] = [
        config.size("encoder_layers")?,
        config.size("decoder_layers")?,
    ];
    ensure!(
        num_encoder_layers.max(num_decoder_layers) <= MOST_LAYERS && d_model.max(d_ff) <= WIDEST,
        "`{path}`: its sizes are beyond those of any model"
    );
    let max_len = config.size("max_position_embeddings")?;
    ensure!(
        (2..=1 << 16).contains(&max_len),
        "`{path}`: `max_position_embeddings` is {max_len}"
    );
    let dropout = |key: &str| {
        config.json[key]
            .as_f64()
            .filter(|value| (0.0..1.0).contains(value))
            .unwrap_or(0.0)
    };
    Ok(TransformerShape {
        max_len,
        d_model,
        d_ff,
        num_heads,
        num_encoder_layers,
        num_decoder_layers,
        dropout: dropout("dropout"),
        attention_dropout: dropout("attention_dropout"),
        activation_dropout: dropout("activation_dropout"),
        activation,
        norm,
        position: Position::Sinusoidal,
        tie_embeddings,
        ..blank_shape()
    })
}

/// The file of the weights, and what it holds.
fn weights(dir: &Path) -> Result<(PathBuf, Weights)> {
    let path = dir.join(MODEL);
    if path.is_file() {
        let weights = Weights::read(&path)?;
        return Ok((path, weights));
    }
    let path = dir.join(PICKLE);
    let weights = pickle::read(&path)?;
    Ok((path, weights))
}

/// The weights by our names and in our order.
fn arrays(weights: Weights, shape: &TransformerShape, config: &Value) -> Result<Arrays> {
    let mut theirs = Arrays::of(weights)?;
    let mut ours = Arrays::default();
    let d_model = shape.d_model;
    for part in parts(shape) {
        let names = names(part);
        let [first, second] = part.parameters();
        let [inputs, outputs] = part.size(shape);
        let width = outputs / names.len();
        let is_norm = part.block.role() == Role::Norm;
        let (mut weights, mut biases) = (Vec::new(), Vec::new());
        for name in names {
            let wanted: &[usize] = if is_norm { &[width] } else { &[width, inputs] };
            weights.push(take(&mut theirs, &format!("{name}.weight"), wanted)?.transposed());
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
    reorder(&mut ours, shape, &alternating(d_model))?;
    Ok(ours)
}

fn embeddings(
    theirs: &mut Arrays,
    ours: &mut Arrays,
    shape: &TransformerShape,
    config: &Value,
) -> Result<()> {
    let size = |key: &str| config[key].as_u64().map(|size| size as usize);
    let src_size = size("vocab_size").context("there is no `vocab_size`")?;
    let tgt_size = size("decoder_vocab_size").unwrap_or(src_size);
    ensure!(
        shape.tie_embeddings != TieEmbeddings::All || tgt_size == src_size,
        "one embedding has {src_size} tokens for the source and {tgt_size} for the target"
    );
    // Several names may mean one matrix, which is there once.
    let table = |names: &[&str], rows: usize| -> Result<Array> {
        let name = names
            .iter()
            .find(|name| theirs.0.contains_key(**name))
            .unwrap_or(&names[0]);
        let table = theirs.get(name)?.clone();
        let wanted = [rows, shape.d_model];
        ensure!(
            table.shape == wanted,
            "the tensor `{name}` is {:?}, not {wanted:?} as `{CONFIG}` asks for",
            table.shape
        );
        Ok(table)
    };
    if shape.tie_embeddings == TieEmbeddings::All {
        ours.put(
            "src_embedding.weight",
            table(&[SHARED, SRC_EMBEDDING, TGT_EMBEDDING, OUTPUT], src_size)?,
        );
    } else {
        ours.put(
            "src_embedding.weight",
            table(&[SRC_EMBEDDING, SHARED], src_size)?,
        );
        ours.put(
            "tgt_embedding.weight",
            table(&[TGT_EMBEDDING, SHARED], tgt_size)?,
        );
    }
    if shape.tie_embeddings == TieEmbeddings::None {
        ours.put("output.weight", table(&[OUTPUT], tgt_size)?.transposed());
    }
    let bias = if theirs.0.contains_key(OUTPUT_BIAS) {
        take(theirs, OUTPUT_BIAS, &[1, tgt_size])?.values
    } else {
        Vec::new()
    };
    if bias.iter().any(|value| value.to_bits() != 0) {
        ours.put("output_bias", Array::vector(bias));
    }
    // Older files repeat a matrix that several names mean.
    for name in [SHARED, SRC_EMBEDDING, TGT_EMBEDDING, OUTPUT] {
        theirs.0.remove(name);
    }
    Ok(())
}

fn take(arrays: &mut Arrays, name: &str, wanted: &[usize]) -> Result<Array> {
    let array = arrays
        .0
        .remove(name)
        .with_context(|| format!("there is no tensor `{name}`"))?;
    ensure!(
        array.shape == wanted,
        "the tensor `{name}` is {:?}, not {wanted:?} as `{CONFIG}` asks for",
        array.shape
    );
    Ok(array)
}

/// How the folder says to search; ours where it does not.
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
