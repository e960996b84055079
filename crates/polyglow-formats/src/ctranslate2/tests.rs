//! Everything in CTranslate2's specification of a Transformer that a model may have, on a model
//! that its converter wrote.

use std::path::Path;

use polyglow_predict::error::Result;

use super::Content;
use super::binary::{Binary, Kind, Variable};
use super::read::content;
use crate::array::Array;

/// M2M100 with 2 heads of width 8, one layer on each side, from `ct2-transformers-converter`.
const MODEL: &[u8] = include_bytes!("../../tests/golden/converters/m2m100/model.bin");

fn binary() -> Binary {
    Binary::parse(MODEL, Path::new("model.bin")).expect("it is whole")
}

/// Reads the model with some variables more or changed.
fn with(variables: &[(&str, Variable)]) -> Result<Content> {
    let mut binary = binary();
    for (name, variable) in variables {
        binary
            .variables
            .insert((*name).to_owned(), variable.clone());
    }
    content(binary, Path::new("model.bin"))
}

fn vector() -> Variable {
    Variable::float32(&Array::vector(vec![1.0; 16]))
}

#[test]
fn every_layer_and_option_that_we_lack_is_refused_by_its_name() {
    let int8 = Variable::int8;
    let cases = [
        (
            "encoder/layernorm_embedding/gamma",
            vector(),
            "a layer norm behind the embeddings",
        ),
        (
            "decoder/layer_0/self_attention/relative_position_keys",
            vector(),
            "relative positions",
        ),
        (
            "encoder/layer_0/self_attention/relative_attention_bias",
            vector(),
            "a bias of attention by relative position",
        ),
        (
            "encoder/layer_0/self_attention/relative_asymmetric_position_keys",
            vector(),
            "asymmetric relative positions",
        ),
        (
            "decoder/layer_0/self_attention/rotary_scaling_type",
            int8(0),
            "scaled rotary positions",
        ),
        (
            "decoder/layer_0/self_attention/q_norm/gamma",
            vector(),
            "norms of queries and keys",
        ),
        (
            "decoder/layer_0/self_attention/v_norm/gamma",
            vector(),
            "a norm of values",
        ),
        (
            "decoder/layer_0/input_layer_norm/gamma",
            vector(),
            "parallel sublayers",
        ),
        (
            "decoder/layer_0/shared_layer_norm/gamma",
            vector(),
            "parallel sublayers",
        ),
        (
            "decoder/project_in/weight",
            vector(),
            "a linear layer behind the embeddings",
        ),
        (
            "decoder/project_out/weight",
            vector(),
            "a linear layer before the output",
        ),
        (
            "decoder/final_logit_softcapping",
            Variable::float(30.0),
            "a soft cap",
        ),
        (
            "decoder/layer_0/self_attention/merged_encoder_attention",
            int8(1),
            "merged with self-attention",
        ),
        ("decoder/layer_0/ffn/linear_0/weight_zero", vector(), "AWQ"),
        ("encoder/embeddings_1/weight", vector(), "word features"),
        (
            "encoder/layer_0/ffn/layer_norm/layer_norm_use_residual",
            int8(1),
            "RMS norms",
        ),
        (
            "encoder/multi_query_attention",
            int8(1),
            "multi-query attention",
        ),
        ("decoder/alibi", int8(1), "ALiBi"),
        (
            "decoder/layer_0/self_attention/sliding_window",
            Variable::int32(64),
            "attention within a window",
        ),
        (
            "decoder/scale_outputs",
            Variable::float(0.25),
            "a factor on the decoder's output",
        ),
        (
            "encoder/layer_0/self_attention/num_heads_kv",
            Variable::int32(1),
            "grouped-query attention",
        ),
        (
            "encoder/layer_0/self_attention/head_dim",
            Variable::int32(16),
            "heads of another width",
        ),
        (
            "encoder/layer_0/self_attention/queries_scale",
            Variable::float(1.0),
            "another factor on queries",
        ),
        (
            "encoder/layer_0/self_attention/rotary_dim",
            Variable::int32(4),
            "rotary positions of another kind",
        ),
        (
            "encoder/something_new",
            int8(1),
            "`encoder/something_new`, for which polyglow's Transformer has no place",
        ),
    ];
    for (name, variable, reason) in cases {
        let error = with(&[(name, variable)])
            .map(drop)
            .expect_err(name)
            .to_string();
        let key = name.rsplit('/').next().expect("a name");
        let says_where =
            error.starts_with("`model.bin`: ") && (error.contains(name) || error.contains(key));
        assert!(error.contains(reason) && says_where, "{name}: {error}");
    }
}

#[test]
fn activations_that_we_lack_are_refused_by_their_names() {
    for (number, name) in [
        (1, "GELU approximated by tanh"),
        (4, "GELU approximated by a sigmoid"),
        (5, "tanh"),
        (9, "unknown"),
    ] {
        let variables =
            ["encoder/activation", "decoder/activation"].map(|name| (name, Variable::int8(number)));
        let error = with(&variables).map(drop).expect_err(name).to_string();
        assert!(error.contains(name), "{error}");
    }
    let error = with(&[("encoder/activation", Variable::int8(2))])
        .map(drop)
        .expect_err("they differ")
        .to_string();
    assert!(
        error.contains("`activation` is 2 in the encoder and 0 in the decoder"),
        "{error}"
    );
}

#[test]
fn options_with_the_values_that_ours_has_are_read() {
    let usual = [
        (
            "encoder/layer_0/self_attention/num_heads_kv",
            Variable::int32(2),
        ),
        ("decoder/layer_0/attention/head_dim", Variable::int32(8)),
        (
            "decoder/layer_0/attention/queries_scale",
            Variable::float(8f32.sqrt().recip()),
        ),
        (
            "encoder/layer_0/self_attention/sliding_window",
            Variable::int32(0),
        ),
        ("decoder/scale_outputs", Variable::float(1.0)),
        ("encoder/embeddings_merge", Variable::int8(1)),
    ];
    let changed = with(&usual).expect("all of them are ours");
    assert_eq!(changed.arrays, with(&[]).expect("it can be read").arrays);
}

#[test]
fn embeddings_are_scaled_by_a_flag_or_by_a_factor() {
    let plain = with(&[]).expect("the converter writes the factor");
    assert!(!plain.has_scale_flag);
    let scales = |value: Variable| {
        ["encoder/scale_embeddings", "decoder/scale_embeddings"].map(|name| (name, value.clone()))
    };
    // 4 is the square root of the width.
    for value in [
        Variable::int8(1),
        Variable::float(4.0),
        Variable::float16(&Array::vector(vec![4.0])),
        Variable::int16(4),
    ] {
        let read = with(&scales(value)).expect("it is as ours");
        assert_eq!(read.arrays, plain.arrays);
    }
    // Embeddings that are not multiplied are smaller by 4 here, and no longer the output's matrix.
    for value in [Variable::int8(0), Variable::float(1.0)] {
        let read = with(&scales(value)).expect("any factor can be read");
        let expected: Vec<f32> = plain.arrays.0["src_embedding.weight"]
            .values
            .iter()
            .map(|value| value / 4.0)
            .collect();
        assert_eq!(read.arrays.0["src_embedding.weight"].values, expected);
        assert_eq!(read.arrays.0["tgt_embedding.weight"].values, expected);
        assert_eq!(
            read.arrays.0["output.weight"],
            plain.arrays.0["src_embedding.weight"].transposed()
        );
    }
    let error = with(&scales(Variable::float(f32::NAN)))
        .map(drop)
        .expect_err("NaN is no factor")
        .to_string();
    assert!(
        error.contains("`encoder/scale_embeddings` is NaN"),
        "{error}"
    );
}

#[test]
fn variables_that_are_equal_are_written_once_and_read_under_every_name() {
    let mut binary = binary();
    let (norm, other) = (
        "encoder/layer_0/ffn/layer_norm/beta",
        "encoder/layer_0/self_attention/layer_norm/beta",
    );
    binary.variables.remove(other).expect("it is there");
    binary.aliases.insert(other.to_owned(), norm.to_owned());
    let read = content(binary, Path::new("model.bin")).expect("it is whole");
    let arrays = read.arrays.0;
    let name = |part: &str| format!("encoder.layers.0.{part}_residual.norm.beta");
    assert_eq!(
        arrays[&name("self_attention")],
        arrays[&name("feed_forward")]
    );
}

#[test]
fn what_is_optional_may_be_missing() {
    let mut binary = binary();
    binary
        .variables
        .remove("encoder/layer_0/ffn/linear_0/bias")
        .expect("it is there");
    let read = content(binary, Path::new("model.bin")).expect("a linear map needs no bias");
    assert!(
        read.arrays.0["encoder.layers.0.feed_forward.inner.bias"]
            .values
            .iter()
            .all(|value| *value == 0.0)
    );
    for (name, reason) in [
        (
            "encoder/layer_norm/gamma",
            "there is no `encoder/layer_norm/gamma`",
        ),
        ("encoder/layer_0/ffn/layer_norm/beta", "RMS norms"),
        (
            "decoder/layer_0/attention/linear_0/weight",
            "there is no `decoder/layer_0/attention/linear_0/weight`",
        ),
        (
            "encoder/num_heads",
            "`num_heads` is missing in the encoder and 2 in the decoder",
        ),
    ] {
        let mut binary = self::binary();
        binary.variables.remove(name).expect(name);
        binary.aliases.retain(|_, of| of != name);
        let error = content(binary, Path::new("model.bin"))
            .map(drop)
            .expect_err(name)
            .to_string();
        assert!(error.contains(reason), "{name}: {error}");
    }
}

#[test]
fn positions_that_ctranslate2_makes_itself_become_a_table() {
    let mut binary = binary();
    binary
        .variables
        .retain(|name, _| !name.contains("position_encodings"));
    binary
        .aliases
        .retain(|name, _| !name.contains("position_encodings"));
    let read = content(binary, Path::new("model.bin")).expect("CTranslate2 reads it, too");
    let table = &read.arrays.0["src_position.weight"];
    assert_eq!((table.height(), table.width()), (1024, 16));
    // The first is sin(1), the ninth cos(1), and the last cosine is of 1 / 10000.
    let expected = [(0, 0.841_471), (8, 0.540_302_3), (15, 1.0), (7, 1e-4)];
    for (column, value) in expected {
        assert!(
            (table.values[column] - value).abs() < 1e-6,
            "{column}: {}",
            table.values[column]
        );
    }
}

#[test]
fn whole_numbers_of_32_bits_are_no_weights() {
    let Variable { shape, bytes, .. } = vector();
    let weights = Variable {
        shape,
        kind: Kind::I32,
        bytes,
    };
    let error = with(&[("encoder/layer_0/ffn/layer_norm/beta", weights)])
        .map(drop)
        .expect_err("AWQ")
        .to_string();
    assert!(error.contains("no weights"), "{error}");
}
