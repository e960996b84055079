//! Models of one stack: language models as GPT-2 (Radford et al., 2019), and Vision Transformers
//! (Dosovitskiy et al., 2021).

use std::collections::BTreeMap;

use polyglow_model::{
    Activation, ImageShape, LmShape, Norm, PatchShape, Pooling, Position, TieEmbeddings,
    TransformerShape, VitShape,
};
use polyglow_predict::error::{Result, TrainError, failed, usage};
use serde_json::{Value, json};

use super::activation;
use crate::array::{Array, Arrays};
use crate::portable::Portable;
use crate::sinusoids::sinusoids;

/// Fewest positions of a table that is not trained.
const POSITIONS: usize = 1024;

fn refused(class: &str, reason: &str) -> TrainError {
    usage(failed!(
        "Hugging Face has no class for this model: {reason}, and {class} does not have that"
    ))
}

/// Refuses layers that neither class has.
fn check(stack: &TransformerShape, class: &str) -> Result<()> {
    if stack.norm != Norm::Pre {
        return Err(refused(
            class,
            "its norms are behind the sublayers (`norm = \"post\"`)",
        ));
    }
    if stack.activation == Activation::Swiglu {
        return Err(refused(
            class,
            "its feed-forward blocks are gated (`\"swiglu\"`)",
        ));
    }
    Ok(())
}

/// The tensors and `config.json` of a language model.
///
/// # Errors
/// GPT-2 is another model (exit code 2); a parameter is missing.
pub(super) fn gpt2(model: &Portable, LmShape { stack }: &LmShape) -> Result<(Arrays, Value)> {
    check(stack, "GPT-2")?;
    let (ours, mut theirs) = (&model.arrays, Arrays::default());
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
    // Ours are scaled where they are read and not where they project, so there are two matrices.
    let scale = (stack.d_model as f64).sqrt() as f32;
    let mut scaled = embedding.clone();
    for value in &mut scaled.values {
        *value *= scale;
    }
    let size = positions.height();
    theirs.put("transformer.wte.weight", scaled);
    theirs.put("transformer.wpe.weight", positions);
    theirs.put("lm_head.weight", output);
    for layer in 0..stack.num_decoder_layers {
        let (ours_of, theirs_of) = (
            format!("stack.layers.{layer}"),
            format!("transformer.h.{layer}"),
        );
        // GPT-2 has its matrices as ours: inputs by outputs.
        for (name, part) in [
            ("attn.c_attn", "self_attention.qkv"),
            ("attn.c_proj", "self_attention.output"),
            ("mlp.c_fc", "feed_forward.inner"),
            ("mlp.c_proj", "feed_forward.outer"),
        ] {
            for leaf in ["weight", "bias"] {
                theirs.put(
                    format!("{theirs_of}.{name}.{leaf}"),
                    ours.get(&format!("{ours_of}.{part}.{leaf}"))?.clone(),
                );
            }
        }
        norm(
            ours,
            &mut theirs,
            &format!("{ours_of}.self_attention_residual.norm"),
            &format!("{theirs_of}.ln_1"),
        )?;
        norm(
            ours,
            &mut theirs,
            &format!("{ours_of}.feed_forward_residual.norm"),
            &format!("{theirs_of}.ln_2"),
        )?;
    }
    norm(ours, &mut theirs, "stack.norm", "transformer.ln_f")?;
    Ok((theirs, gpt2_config(model, stack, size)))
}

fn gpt2_config(model: &Portable, stack: &TransformerShape, positions: usize) -> Value {
    let marks = model.tokenizers.tgt.special();
    json!({
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": stack.tgt_vocab_size,
        "n_positions": positions,
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
        "torch_dtype": "float32",
        "pad_token_id": marks.pad,
        "bos_token_id": marks.bos,
        "eos_token_id": marks.eos,
    })
}

/// `generation_config.json` of a language model: what ours never writes may not come out.
pub(super) fn generation(model: &Portable) -> Value {
    let marks = model.tokenizers.tgt.special();
    json!({
        "pad_token_id": marks.pad,
        "bos_token_id": marks.bos,
        "eos_token_id": marks.eos,
        "bad_words_ids": [[marks.pad], [marks.bos], [marks.unk]],
    })
}

/// The tensors, `config.json` and `preprocessor_config.json` of a Vision Transformer.
///
/// # Errors
/// Their class is another model (exit code 2); a parameter is missing.
pub(super) fn vit(model: &Portable, shape: &VitShape) -> Result<(Arrays, Value, Value)> {
    let VitShape {
        stack,
        pooling,
        patches:
            PatchShape {
                image:
                    ImageShape {
                        height,
                        width,
                        channels,
                    },
                ..
            },
    } = shape;
    check(stack, "ViT")?;
    if *pooling != Pooling::Class {
        return Err(refused(
            "ViT",
            "it takes the mean over all patches (`pooling = \"mean\"`)",
        ));
    }
    let (ours, mut theirs) = (&model.arrays, Arrays::default());
    embeddings(ours, &mut theirs, shape)?;
    for layer in 0..stack.num_encoder_layers {
        let (ours_of, theirs_of) = (
            format!("stack.layers.{layer}"),
            format!("vit.encoder.layer.{layer}"),
        );
        let part = |name: &str, leaf: &str| ours.get(&format!("{ours_of}.{name}.{leaf}"));
        let three = part("self_attention.qkv", "weight")?.split(3).into_iter();
        let three = three.zip(part("self_attention.qkv", "bias")?.split(3));
        for (name, (weight, bias)) in ["query", "key", "value"].into_iter().zip(three) {
            theirs.put(
                format!("{theirs_of}.attention.attention.{name}.weight"),
                weight.transposed(),
            );
            theirs.put(format!("{theirs_of}.attention.attention.{name}.bias"), bias);
        }
        for (name, ours) in [
            ("attention.output.dense", "self_attention.output"),
            ("intermediate.dense", "feed_forward.inner"),
            ("output.dense", "feed_forward.outer"),
        ] {
            theirs.put(
                format!("{theirs_of}.{name}.weight"),
                part(ours, "weight")?.transposed(),
            );
            theirs.put(
                format!("{theirs_of}.{name}.bias"),
                part(ours, "bias")?.clone(),
            );
        }
        let before = format!("{ours_of}.self_attention_residual.norm");
        norm(
            ours,
            &mut theirs,
            &before,
            &format!("{theirs_of}.layernorm_before"),
        )?;
        let after = format!("{ours_of}.feed_forward_residual.norm");
        norm(
            ours,
            &mut theirs,
            &after,
            &format!("{theirs_of}.layernorm_after"),
        )?;
    }
    norm(ours, &mut theirs, "stack.norm", "vit.layernorm")?;
    // Our marks are no labels, and never come out.
    let labels = &model.tokenizers.tgt;
    let is_label = |id: &u32| !labels.special().is_silent(*id) && *id != labels.special().unk;
    let ids: Vec<u32> = (0..labels.vocab_size() as u32).filter(is_label).collect();
    let rows: Vec<Option<usize>> = ids.iter().map(|&id| Some(id as usize)).collect();
    theirs.put(
        "classifier.weight",
        ours.get("head.weight")?.transposed().rows(&rows),
    );
    theirs.put("classifier.bias", ours.get("head.bias")?.rows(&rows));
    let names: Vec<String> = ids
        .iter()
        .map(|&id| labels.token(id).unwrap_or_default())
        .collect();
    // Bytes become numbers from -1 to 1.
    let preprocessor = json!({
        "image_processor_type": "ViTImageProcessor",
        "do_resize": true, "size": {"height": height, "width": width},
        "do_rescale": true, "rescale_factor": 1.0 / 255.0,
        "do_normalize": true, "image_mean": vec![0.5; *channels], "image_std": vec![0.5; *channels],
    });
    Ok((theirs, vit_config(shape, &names), preprocessor))
}

fn vit_config(shape: &VitShape, labels: &[String]) -> Value {
    let VitShape { stack, patches, .. } = shape;
    let PatchShape {
        image: ImageShape {
            height,
            width,
            channels,
        },
        patch_size,
    } = patches;
    let names = || (0u32..).zip(labels);
    let id2label: BTreeMap<u32, &String> = names().collect();
    let label2id: BTreeMap<&String, u32> = names().map(|(id, name)| (name, id)).collect();
    json!({
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        "hidden_size": stack.d_model,
        "num_hidden_layers": stack.num_encoder_layers,
        "num_attention_heads": stack.num_heads,
        "intermediate_size": stack.d_ff,
        "hidden_act": activation(stack.activation),
        "hidden_dropout_prob": stack.dropout,
        "attention_probs_dropout_prob": stack.attention_dropout,
        "layer_norm_eps": 1e-5,
        "image_size": [height, width],
        "patch_size": patch_size,
        "num_channels": channels,
        "qkv_bias": true,
        "dtype": "float32",
        "torch_dtype": "float32",
        "id2label": id2label,
        "label2id": label2id,
    })
}

/// Patches, positions and the class vector, before which there is no position.
fn embeddings(ours: &Arrays, theirs: &mut Arrays, shape: &VitShape) -> Result<()> {
    let ([rows, columns], d_model) = (shape.patches.grid(), shape.stack.d_model);
    let (channels, size) = (shape.patches.image.channels, shape.patches.patch_size);
    let (by_row, by_column) = (
        ours.get("patches.row_position.weight")?,
        ours.get("patches.column_position.weight")?,
    );
    let mut positions = vec![0.0; d_model];
    for row in 0..rows {
        for column in 0..columns {
            let both = by_row.values[row * d_model..][..d_model]
                .iter()
                .zip(&by_column.values[column * d_model..]);
            positions.extend(both.map(|(row, column)| row + column));
        }
    }
    let class = ours.get("pool.class_embedding.weight")?.values.clone();
    theirs.put(
        "vit.embeddings.cls_token",
        Array {
            shape: vec![1, 1, d_model],
            values: class,
        },
    );
    let positions = Array {
        shape: vec![1, rows * columns + 1, d_model],
        values: positions,
    };
    theirs.put("vit.embeddings.position_embeddings", positions);
    // Ours are pixel by pixel, and theirs channel by channel.
    let order: Vec<usize> = (0..channels)
        .flat_map(|channel| (0..size * size).map(move |pixel| pixel * channels + channel))
        .collect();
    let patch = ours
        .get("patches.projection.weight")?
        .transposed()
        .columns(&order);
    let patch = Array {
        shape: vec![d_model, channels, size, size],
        values: patch.values,
    };
    theirs.put("vit.embeddings.patch_embeddings.projection.weight", patch);
    theirs.put(
        "vit.embeddings.patch_embeddings.projection.bias",
        ours.get("patches.projection.bias")?.clone(),
    );
    Ok(())
}

fn norm(ours: &Arrays, theirs: &mut Arrays, from: &str, to: &str) -> Result<()> {
    theirs.put(
        format!("{to}.weight"),
        ours.get(&format!("{from}.gamma"))?.clone(),
    );
    theirs.put(
        format!("{to}.bias"),
        ours.get(&format!("{from}.beta"))?.clone(),
    );
    Ok(())
}
