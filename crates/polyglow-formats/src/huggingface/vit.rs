//! Classifiers of images as Vision Transformers (Dosovitskiy et al., 2021).

use std::collections::BTreeMap;

use polyglow_data::tokenizer::Tokenizer;
use polyglow_model::{ImageShape, Pooling, VitShape};
use polyglow_predict::error::Result;
use serde_json::{Value, json};

use super::activation;
use super::stack::{check, copy_norm, refused};
use crate::array::{Array, Arrays};

/// The linear maps of a layer but those of queries, keys and values, as their name and ours.
const LINEAR: [(&str, &str); 3] = [
    ("attention.output.dense", "self_attention.output"),
    ("intermediate.dense", "feed_forward.inner"),
    ("output.dense", "feed_forward.outer"),
];

/// The norms of a layer, as their name and ours.
const NORMS: [(&str, &str); 2] = [
    ("layernorm_before", "self_attention_residual.norm"),
    ("layernorm_after", "feed_forward_residual.norm"),
];

/// A label with its id in our vocabulary.
pub(super) struct Label {
    id: u32,
    name: String,
}

/// The labels of a vocabulary. Special tokens and unknown text are no labels and never come out, so
/// their outputs are left out.
pub(super) fn labels(vocabulary: &Tokenizer) -> Vec<Label> {
    let special = vocabulary.special();
    let mut labels = Vec::new();
    for id in 0..vocabulary.vocab_size() as u32 {
        if !special.is_silent(id) && id != special.unk {
            let name = vocabulary.token(id).unwrap_or_default();
            labels.push(Label { id, name });
        }
    }
    labels
}

/// The tensors of a Vision Transformer by the names of transformers.
///
/// # Errors
/// Their class is another model (exit code 2); a parameter is missing.
pub(super) fn tensors(ours: &Arrays, shape: &VitShape, labels: &[Label]) -> Result<Arrays> {
    check(&shape.stack, "ViT")?;
    if shape.pooling != Pooling::Class {
        return Err(refused(
            "ViT",
            "it takes the mean over all patches (`pooling = \"mean\"`)",
        ));
    }
    let mut theirs = Arrays::default();
    put_embeddings(ours, &mut theirs, shape)?;
    for layer in 0..shape.stack.num_encoder_layers {
        put_layer(ours, &mut theirs, layer)?;
    }
    copy_norm(ours, &mut theirs, "stack.norm", "vit.layernorm")?;
    let rows: Vec<Option<usize>> = labels.iter().map(|label| Some(label.id as usize)).collect();
    let classifier = ours.get("head.weight")?.transposed().rows(&rows);
    theirs.put("classifier.weight", classifier);
    theirs.put("classifier.bias", ours.get("head.bias")?.rows(&rows));
    Ok(theirs)
}

fn put_layer(ours: &Arrays, theirs: &mut Arrays, layer: usize) -> Result<()> {
    let our_layer = format!("stack.layers.{layer}");
    let their_layer = format!("vit.encoder.layer.{layer}");
    // Our queries, keys and values are side by side in one matrix.
    let qkv = format!("{our_layer}.self_attention.qkv");
    let weights = ours.get(&format!("{qkv}.weight"))?.split(3);
    let biases = ours.get(&format!("{qkv}.bias"))?.split(3);
    let parts = weights.into_iter().zip(biases);
    for (name, (weight, bias)) in ["query", "key", "value"].into_iter().zip(parts) {
        let to = format!("{their_layer}.attention.attention.{name}");
        theirs.put(format!("{to}.weight"), weight.transposed());
        theirs.put(format!("{to}.bias"), bias);
    }
    for (their_name, our_name) in LINEAR {
        let weight = ours.get(&format!("{our_layer}.{our_name}.weight"))?;
        let bias = ours.get(&format!("{our_layer}.{our_name}.bias"))?;
        let to = format!("{their_layer}.{their_name}");
        theirs.put(format!("{to}.weight"), weight.transposed());
        theirs.put(format!("{to}.bias"), bias.clone());
    }
    for (their_name, our_name) in NORMS {
        let from = format!("{our_layer}.{our_name}");
        let to = format!("{their_layer}.{their_name}");
        copy_norm(ours, theirs, &from, &to)?;
    }
    Ok(())
}

/// The class vector, the positions, and the projection of patches.
fn put_embeddings(ours: &Arrays, theirs: &mut Arrays, shape: &VitShape) -> Result<()> {
    let d_model = shape.stack.d_model;
    let class = Array {
        shape: vec![1, 1, d_model],
        values: ours.get("pool.class_embedding.weight")?.values.clone(),
    };
    theirs.put("vit.embeddings.cls_token", class);
    theirs.put(
        "vit.embeddings.position_embeddings",
        positions(ours, shape)?,
    );

    let channels = shape.patches.image.channels;
    let size = shape.patches.patch_size;
    // The inputs of our projection are pixel by pixel, those of their convolution channel by
    // channel.
    let mut order = Vec::with_capacity(channels * size * size);
    for channel in 0..channels {
        order.extend((0..size * size).map(|pixel| pixel * channels + channel));
    }
    let projection = ours.get("patches.projection.weight")?.transposed();
    let convolution = Array {
        shape: vec![d_model, channels, size, size],
        values: projection.columns(&order).values,
    };
    let bias = ours.get("patches.projection.bias")?.clone();
    let to = "vit.embeddings.patch_embeddings.projection";
    theirs.put(format!("{to}.weight"), convolution);
    theirs.put(format!("{to}.bias"), bias);
    Ok(())
}

/// One vector for each position, which is the sum of ours for its row and its column. The class
/// vector comes first, and has no position of ours: zeros.
fn positions(ours: &Arrays, shape: &VitShape) -> Result<Array> {
    let [num_rows, num_columns] = shape.patches.grid();
    let d_model = shape.stack.d_model;
    let rows = ours.get("patches.row_position.weight")?;
    let columns = ours.get("patches.column_position.weight")?;
    let mut values = vec![0.0; d_model];
    for row in rows.values.chunks(d_model).take(num_rows) {
        for column in columns.values.chunks(d_model).take(num_columns) {
            let pairs = row.iter().zip(column);
            values.extend(pairs.map(|(row, column)| row + column));
        }
    }
    Ok(Array {
        shape: vec![1, num_rows * num_columns + 1, d_model],
        values,
    })
}

/// `config.json` of a Vision Transformer.
pub(super) fn config(shape: &VitShape, labels: &[Label]) -> Value {
    let VitShape { stack, patches, .. } = shape;
    let ImageShape {
        height,
        width,
        channels,
    } = patches.image;
    let mut id2label: BTreeMap<u32, &str> = BTreeMap::new();
    let mut label2id: BTreeMap<&str, u32> = BTreeMap::new();
    for (id, label) in (0..).zip(labels) {
        id2label.insert(id, &label.name);
        label2id.insert(&label.name, id);
    }
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
        "patch_size": patches.patch_size,
        "num_channels": channels,
        "qkv_bias": true,
        "dtype": "float32",
        // The name that transformers 4 has for `dtype`.
        "torch_dtype": "float32",
        "id2label": id2label,
        "label2id": label2id,
    })
}

/// `preprocessor_config.json` of a Vision Transformer: bytes become numbers from -1 to 1.
pub(super) fn preprocessor(shape: &VitShape) -> Value {
    let ImageShape {
        height,
        width,
        channels,
    } = shape.patches.image;
    json!({
        "image_processor_type": "ViTImageProcessor",
        "do_resize": true, "size": {"height": height, "width": width},
        "do_rescale": true, "rescale_factor": 1.0 / 255.0,
        "do_normalize": true, "image_mean": vec![0.5; channels], "image_std": vec![0.5; channels],
    })
}
