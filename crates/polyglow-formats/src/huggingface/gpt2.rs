//! Language models as GPT-2 (Radford et al., 2019).

use polyglow_model::{LmShape, Position, TieEmbeddings};
use polyglow_predict::error::Result;
use serde_json::{Value, json};

use super::activation;
use super::stack::{check, copy_norm, refused};
use crate::array::{Array, Arrays};
use crate::portable::Portable;
use crate::sinusoids::sinusoids;

/// The fewest rows of a table of positions that is not trained. It limits the length of a text, so a
/// model without trained positions gets room for more than it was trained on.
const POSITIONS: usize = 1024;

/// The name of the table of positions.
const POSITION_TABLE: &str = "transformer.wpe.weight";

/// The linear maps of a layer, as their name and ours.
const LINEAR: [(&str, &str); 4] = [
    ("attn.c_attn", "self_attention.qkv"),
    ("attn.c_proj", "self_attention.output"),
    ("mlp.c_fc", "feed_forward.inner"),
    ("mlp.c_proj", "feed_forward.outer"),
];

/// The tensors of a language model by the names of transformers.
///
/// # Errors
/// GPT-2 is another model (exit code 2); a parameter is missing.
pub(super) fn tensors(ours: &Arrays, LmShape { stack }: &LmShape) -> Result<Arrays> {
    check(stack, "GPT-2")?;
    let mut theirs = Arrays::default();
    let rows = stack.max_len.max(POSITIONS);
    let positions = match stack.position {
        Position::Learned => ours.get("position.weight")?.clone(),
        Position::Sinusoidal => sinusoids(rows, stack.d_model),
        Position::None => Array::matrix(vec![0.0; rows * stack.d_model], [rows, stack.d_model]),
        Position::Rotary => return Err(refused("GPT-2", "its positions are rotary")),
    };
    let embedding = ours.get("embedding.weight")?;
    let output = match stack.tie_embeddings {
        TieEmbeddings::None => ours.get("output.weight")?.transposed(),
        TieEmbeddings::Decoder | TieEmbeddings::All => embedding.clone(),
    };
    // We scale embeddings by `sqrt(d_model)` as they are read, and GPT-2 does not. As an output they
    // are not scaled, so tied embeddings become two matrices.
    let scale = (stack.d_model as f64).sqrt() as f32;
    let mut scaled = embedding.clone();
    for value in &mut scaled.values {
        *value *= scale;
    }
    theirs.put("transformer.wte.weight", scaled);
    theirs.put(POSITION_TABLE, positions);
    theirs.put("lm_head.weight", output);
    for layer in 0..stack.num_decoder_layers {
        put_layer(ours, &mut theirs, layer)?;
    }
    copy_norm(ours, &mut theirs, "stack.norm", "transformer.ln_f")?;
    Ok(theirs)
}

fn put_layer(ours: &Arrays, theirs: &mut Arrays, layer: usize) -> Result<()> {
    let our_layer = format!("stack.layers.{layer}");
    let their_layer = format!("transformer.h.{layer}");
    // GPT-2 has matrices as ours, inputs by outputs, and queries, keys and values side by side.
    for (their_name, our_name) in LINEAR {
        for leaf in ["weight", "bias"] {
            let array = ours.get(&format!("{our_layer}.{our_name}.{leaf}"))?;
            theirs.put(format!("{their_layer}.{their_name}.{leaf}"), array.clone());
        }
    }
    for (their_name, our_name) in [
        ("ln_1", "self_attention_residual.norm"),
        ("ln_2", "feed_forward_residual.norm"),
    ] {
        let from = format!("{our_layer}.{our_name}");
        let to = format!("{their_layer}.{their_name}");
        copy_norm(ours, theirs, &from, &to)?;
    }
    Ok(())
}

/// `config.json` of a language model with these [`tensors`].
///
/// # Errors
/// The tensors have no positions.
pub(super) fn config(
    model: &Portable,
    LmShape { stack }: &LmShape,
    tensors: &Arrays,
) -> Result<Value> {
    let special = model.tokenizers.tgt.special();
    Ok(json!({
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": stack.tgt_vocab_size,
        "n_positions": tensors.get(POSITION_TABLE)?.height(),
        "n_embd": stack.d_model,
        "n_layer": stack.num_decoder_layers,
        "n_head": stack.num_heads,
        "n_inner": stack.d_ff,
        "activation_function": activation(stack.activation),
        "layer_norm_epsilon": 1e-5,
        "embd_pdrop": stack.dropout,
        "resid_pdrop": stack.dropout,
        "attn_pdrop": stack.attention_dropout,
        "tie_word_embeddings": false,
        "dtype": "float32",
        // The name that transformers 4 has for `dtype`.
        "torch_dtype": "float32",
        "pad_token_id": special.pad,
        "bos_token_id": special.bos,
        "eos_token_id": special.eos,
    }))
}

/// `generation_config.json` of a language model. Tokens that our search never writes are forbidden.
pub(super) fn generation(model: &Portable) -> Value {
    let special = model.tokenizers.tgt.special();
    json!({
        "pad_token_id": special.pad,
        "bos_token_id": special.bos,
        "eos_token_id": special.eos,
        "bad_words_ids": [[special.pad], [special.bos], [special.unk]],
    })
}
