//! Layers and options that CTranslate2's specification of a Transformer has and polyglow's
//! Transformer lacks. Each is refused by name, so that users learn why a model cannot be read.

use std::collections::BTreeMap;

use polyglow_predict::error::{Result, TrainError, failed, with_hint};

use super::variables::{Variables, single};

/// The hint: which models can be read.
const READABLE: &str = "what can be read are encoder-decoder Transformers with layer norms before or behind all sublayers, \
                        with sinusoidal, learned, rotary or no positions, and with ReLU, GELU, Swish or gated Swish, in any \
                        quantization but AWQ";

const RMS_NORMS: &str = "RMS norms";
const WORD_FEATURES: &str = "several embeddings of a source token (word features)";

/// Parts of a variable's name, and the layer or option that a model with such a variable has.
const LAYERS: [(&str, &str); 27] = [
    (
        "layernorm_embedding",
        "a layer norm behind the embeddings, as BART and mBART have",
    ),
    ("relative_position_keys", "relative positions"),
    ("relative_position_values", "relative positions"),
    (
        "relative_attention_bias",
        "a bias of attention by relative position, as T5 has",
    ),
    (
        "relative_attention_max_distance",
        "a bias of attention by relative position, as T5 has",
    ),
    (
        "relative_asymmetric_position_keys",
        "asymmetric relative positions",
    ),
    (
        "relative_left_max_position",
        "asymmetric relative positions",
    ),
    (
        "relative_right_max_position",
        "asymmetric relative positions",
    ),
    ("rotary_scaling_type", "scaled rotary positions"),
    ("rotary_scaling_factor", "scaled rotary positions"),
    ("rotary_scaling_long_factor", "scaled rotary positions"),
    ("rotary_scaling_short_factor", "scaled rotary positions"),
    ("rotary_low_freq_factor", "scaled rotary positions"),
    ("rotary_high_freq_factor", "scaled rotary positions"),
    (
        "original_max_position_embeddings",
        "scaled rotary positions",
    ),
    ("q_norm", "norms of queries and keys"),
    ("k_norm", "norms of queries and keys"),
    ("v_norm", "a norm of values"),
    ("layer_norm_use_residual", RMS_NORMS),
    (
        "input_layer_norm",
        "norms before and behind each sublayer, or parallel sublayers",
    ),
    ("shared_layer_norm", "parallel sublayers"),
    (
        "project_in",
        "a linear layer behind the embeddings (`project_in_out`)",
    ),
    (
        "project_out",
        "a linear layer before the output (`project_in_out`)",
    ),
    (
        "final_logit_softcapping",
        "a soft cap on the output's scores",
    ),
    (
        "merged_encoder_attention",
        "attention to the encoder that is merged with self-attention",
    ),
    (
        "memory_kv",
        "attention to the encoder that is merged with self-attention",
    ),
    ("weight_zero", "matrices in 4 bits (AWQ)"),
];

/// Options that change nothing if they have this value.
const OPTIONS: [(&str, f32, &str); 4] = [
    ("multi_query_attention", 0.0, "multi-query attention"),
    ("alibi", 0.0, "positions as biases of attention (ALiBi)"),
    ("sliding_window", 0.0, "attention within a window"),
    ("scale_outputs", 1.0, "a factor on the decoder's output"),
];

/// The names of activations, by CTranslate2's numbers for them.
const ACTIVATIONS: [&str; 7] = [
    "ReLU",
    "GELU approximated by tanh",
    "Swish",
    "GELU",
    "GELU approximated by a sigmoid",
    "tanh",
    "sigmoid",
];

/// Checks that a model has no layer and no option that polyglow's Transformer lacks.
///
/// # Errors
/// It has some; the message lists all of them, each with a variable that shows it.
pub(super) fn check(variables: &Variables) -> Result<()> {
    let mut layers: BTreeMap<&str, String> = BTreeMap::new();
    for name in variables.names() {
        if let Some((layer, sign)) = layer_of(name, variables)? {
            layers.entry(layer).or_insert(sign);
        }
    }
    if layers.is_empty() {
        return Ok(());
    }
    let layers: Vec<String> = layers
        .iter()
        .map(|(layer, sign)| format!("{layer} ({sign})"))
        .collect();
    Err(with_hint(
        failed!(
            "the model has {}, which polyglow's Transformer lacks",
            layers.join("; ")
        ),
        READABLE,
    ))
}

/// The layer or option of a variable, if polyglow's Transformer lacks it, and the sign of it for the
/// message.
fn layer_of(name: &str, variables: &Variables) -> Result<Option<(&'static str, String)>> {
    for part in name.split('/') {
        let sign = format!("it has `{name}`");
        if let Some((_, layer)) = LAYERS.iter().find(|(key, _)| *key == part) {
            return Ok(Some((*layer, sign)));
        }
        // The first table is that of the words themselves.
        if part.starts_with("embeddings_") && !["embeddings_0", "embeddings_merge"].contains(&part)
        {
            return Ok(Some((WORD_FEATURES, sign)));
        }
    }
    if let Some(norm) = name.strip_suffix("/gamma")
        && !variables.has(&format!("{norm}/beta"))
    {
        return Ok(Some((RMS_NORMS, format!("`{norm}` has no `beta`"))));
    }
    let last = name.rsplit('/').next().unwrap_or(name);
    let Some((_, neutral, option)) = OPTIONS.iter().find(|(key, ..)| *key == last) else {
        return Ok(None);
    };
    let Some(variable) = variables.get(name) else {
        return Ok(None);
    };
    let number = single(name, variable)?;
    if number.to_bits() == neutral.to_bits() {
        return Ok(None);
    }
    Ok(Some((*option, format!("`{name}` is {number}"))))
}

/// The error of an activation that polyglow lacks, by CTranslate2's number for it.
pub(super) fn activation(number: f32, is_gated: bool) -> TrainError {
    let name = if number >= 0.0 {
        ACTIVATIONS.get(number as usize)
    } else {
        None
    };
    let name = name.copied().unwrap_or("an unknown activation");
    let gate = if is_gated { " with a gate" } else { "" };
    lacking(
        &format!("{name}{gate} as its activation"),
        &format!("`encoder/activation` is {number}"),
    )
}

/// The error of a model with a layer or option that polyglow's Transformer lacks; `sign` is the
/// variable or key that shows it.
pub(super) fn lacking(layer: &str, sign: &str) -> TrainError {
    with_hint(
        failed!("the model has {layer} ({sign}), which polyglow's Transformer lacks"),
        READABLE,
    )
}
