//! Writes an encoder-decoder Transformer as MarianMT or Pegasus.

use polyglow_model::search::{LengthPenalty, SearchMethod};
use polyglow_model::{Activation, Norm, Position, TieEmbeddings, TransformerShape};
use polyglow_predict::error::{Result, TrainError, failed, usage, with_hint};
use serde_json::{Value, json};

use super::activation;
use super::name::{OUTPUT, OUTPUT_BIAS, POSITIONS, SHARED, SRC_EMBEDDING, TGT_EMBEDDING, names};
use crate::array::{Array, Arrays};
use crate::part::{Role, parts, reorder, sines_first, tgt_embedding};
use crate::portable::{NEVER, Portable};
use crate::sinusoids::sinusoids;

/// The classes of transformers that compute as polyglow's Transformer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Norms after the sublayers.
    Marian,
    /// Norms before them.
    Pegasus,
}

impl Class {
    /// Returns the class for a model.
    ///
    /// # Errors
    /// There is none (exit code 2); the hint names a format that represents every Transformer.
    pub(super) fn for_shape(shape: &TransformerShape) -> Result<Self> {
        if shape.position != Position::Sinusoidal {
            return Err(refused("its positions are not sinusoidal"));
        }
        match (shape.activation, shape.norm, shape.tie_embeddings) {
            (Activation::Swiglu, ..) => {
                Err(refused("its feed-forward blocks are gated (`\"swiglu\"`)"))
            }
            (_, Norm::Post, _) => Ok(Self::Marian),
            (_, Norm::Pre, TieEmbeddings::All) => Ok(Self::Pegasus),
            (_, Norm::Pre, _) => Err(refused(
                "with `norm = \"pre\"` it is Pegasus, which shares all embeddings (`tie_embeddings = \"all\"`)",
            )),
        }
    }
}

fn refused(reason: &str) -> TrainError {
    let error = failed!("Hugging Face has no class for this model: {reason}");
    with_hint(
        usage(error),
        "`--to ctranslate2` takes every encoder-decoder Transformer",
    )
}

/// The number of rows of both embeddings: transformers 4 requires as many for the source as for the
/// target.
pub(super) fn vocab_size(shape: &TransformerShape) -> usize {
    shape.src_vocab_size.max(shape.tgt_vocab_size)
}

/// The tensors by the names of transformers.
///
/// # Errors
/// A parameter is missing.
pub(super) fn tensors(arrays: &Arrays, shape: &TransformerShape) -> Result<Arrays> {
    let mut ours = arrays.clone();
    reorder(&mut ours, shape, &sines_first(shape.d_model))?;
    let mut theirs = Arrays::default();
    for part in parts(shape) {
        let names = names(part);
        let [first, second] = part.parameters();
        let first = ours.get(&first)?;
        let second = ours.get(&second)?;
        if part.block.role() == Role::Norm {
            theirs.put(format!("{}.weight", names[0]), first.clone());
            theirs.put(format!("{}.bias", names[0]), second.clone());
            continue;
        }
        let weights = first.split(names.len());
        let biases = second.split(names.len());
        for (name, (weight, bias)) in names.iter().zip(weights.iter().zip(biases)) {
            theirs.put(format!("{name}.weight"), weight.transposed());
            theirs.put(format!("{name}.bias"), bias);
        }
    }
    put_embeddings(&ours, &mut theirs, shape)?;
    if shape.norm == Norm::Pre {
        // transformers 4 warns of Pegasus without its tables, which it makes itself.
        let table = sinusoids(positions(shape), shape.d_model).columns(&sines_first(shape.d_model));
        for name in POSITIONS {
            theirs.put(name, table.clone());
        }
    }
    Ok(theirs)
}

/// The embeddings, the output and its bias, with the same number of rows for both sides.
fn put_embeddings(ours: &Arrays, theirs: &mut Arrays, shape: &TransformerShape) -> Result<()> {
    let size = vocab_size(shape);
    let src = filled(ours.get("src_embedding.weight")?, size);
    if shape.tie_embeddings == TieEmbeddings::All {
        theirs.put(SHARED, src);
    } else {
        theirs.put(SRC_EMBEDDING, src);
        theirs.put(TGT_EMBEDDING, filled(ours.get(tgt_embedding(shape))?, size));
    }
    if shape.tie_embeddings == TieEmbeddings::None {
        let output = ours.get("output.weight")?.transposed();
        theirs.put(OUTPUT, filled(&output, size));
    }
    let mut bias = match ours.0.get("output_bias") {
        Some(bias) => bias.values.clone(),
        None => vec![0.0; shape.tgt_vocab_size],
    };
    // Ids that only the source has are never written.
    bias.resize(size, NEVER);
    theirs.put(OUTPUT_BIAS, Array::matrix(bias, [1, size]));
    Ok(())
}

/// A table with rows of zeros up to a size.
fn filled(table: &Array, size: usize) -> Array {
    let height = table.height();
    let rows: Vec<Option<usize>> = (0..size).map(|row| (row < height).then_some(row)).collect();
    table.rows(&rows)
}

/// The most positions of a text. Programs that read the model may not lengthen its tables, so that a
/// model of short texts needs room for an output.
fn positions(shape: &TransformerShape) -> usize {
    shape.max_len.max(512)
}

/// `config.json` of a model.
pub(super) fn config(model: &Portable, shape: &TransformerShape, class: Class) -> Value {
    let special = model.tokenizers.tgt.special();
    let size = vocab_size(shape);
    let (architecture, model_type) = match class {
        Class::Marian => ("MarianMTModel", "marian"),
        Class::Pegasus => ("PegasusForConditionalGeneration", "pegasus"),
    };
    let mut config = json!({
        "architectures": [architecture],
        "model_type": model_type,
        "is_encoder_decoder": true,
        "vocab_size": size,
        "d_model": shape.d_model,
        "encoder_layers": shape.num_encoder_layers,
        "decoder_layers": shape.num_decoder_layers,
        "encoder_attention_heads": shape.num_heads,
        "decoder_attention_heads": shape.num_heads,
        "encoder_ffn_dim": shape.d_ff,
        "decoder_ffn_dim": shape.d_ff,
        "activation_function": activation(shape.activation),
        "scale_embedding": true,
        "max_position_embeddings": positions(shape),
        "dropout": shape.dropout,
        "attention_dropout": shape.attention_dropout,
        "activation_dropout": shape.activation_dropout,
        "dtype": "float32",
        // The name that transformers 4 has for `dtype`.
        "torch_dtype": "float32",
        "pad_token_id": special.pad,
        "bos_token_id": special.bos,
        "eos_token_id": special.eos,
        "forced_eos_token_id": special.eos,
        "decoder_start_token_id": special.bos,
        "tie_word_embeddings": shape.tie_embeddings != TieEmbeddings::None,
    });
    if class == Class::Marian {
        config["decoder_vocab_size"] = size.into();
        config["static_position_embeddings"] = true.into();
        config["normalize_before"] = false.into();
        config["share_encoder_decoder_embeddings"] =
            (shape.tie_embeddings == TieEmbeddings::All).into();
    }
    config
}

/// `generation_config.json` of a model: the search of the run's config, as far as transformers has
/// it, which begins with the tag of the target.
///
/// # Errors
/// The vocabulary lacks the tag.
pub(super) fn generation(model: &Portable, shape: &TransformerShape) -> Result<Value> {
    let special = model.tokenizers.tgt.special();
    let search = &model.config.search;
    if search.length_penalty == LengthPenalty::Wu || search.diversity_groups > 1 {
        tracing::warn!(
            "transformers has neither `search.length_penalty = \"wu\"` nor groups of beams: it searches otherwise"
        );
    }
    let mut generation = json!({
        "pad_token_id": special.pad,
        "bos_token_id": special.bos,
        "eos_token_id": special.eos,
        "forced_eos_token_id": special.eos,
        "decoder_start_token_id": special.bos,
        "num_beams": search.beam_size,
        // A search ends when as many hypotheses have ended as the beam is wide, as ours does.
        "early_stopping": search.beam_size > 1,
        "length_penalty": if search.length_penalty == LengthPenalty::None { 0.0 } else { search.length_alpha },
        // Our limit is a multiple of the source's length; transformers has one for all sources.
        "max_length": positions(shape),
        // Our search never writes these.
        "bad_words_ids": [[special.pad], [special.bos]],
        "renormalize_logits": true,
        "no_repeat_ngram_size": search.no_repeat_ngram,
        "repetition_penalty": search.repetition_penalty,
    });
    if let [tag] = model.config.data.tags().tgt_ids(&model.tokenizers.tgt)?[..] {
        generation["forced_bos_token_id"] = tag.into();
    }
    if search.method == SearchMethod::Sample {
        generation["do_sample"] = true.into();
        generation["num_beams"] = 1.into();
        generation["early_stopping"] = false.into();
        generation["temperature"] = search.temperature.into();
        generation["top_k"] = search.top_k.into();
        generation["top_p"] = search.top_p.into();
    }
    Ok(generation)
}
