//! Properties that hold for any weights of a captioner, with either decoder.

use std::convert::Infallible;

use burn::tensor::{Device, Int, Tensor};
use polyglow_model::attention::AttentionKind;
use polyglow_model::quantization::{nearest, quantize};
use polyglow_model::recurrent::Cell;
use polyglow_model::recurrent::attention::Score;
use polyglow_model::{
    CaptionDecoder, Captioner, CaptionerShape, Generate, Image, ImageShape, Inspect, Model,
    ModelConfig, ModelShape, Norm, Pair, Position, TieEmbeddings, Vocabulary, parameter,
};
use serde_json::json;

use crate::{device, distance, ids, logits, values};

const IMAGE: ImageShape = ImageShape {
    height: 4,
    width: 8,
    channels: 3,
};

const VOCABULARY: Vocabulary = Vocabulary {
    src_size: 13,
    tgt_size: 13,
    shared: true,
    src_pad_id: 0,
    tgt_pad_id: 0,
    max_len: 16,
    image: Some(IMAGE),
};

fn configs() -> Vec<ModelConfig> {
    let small = ModelConfig {
        arch: Captioner::ARCH,
        patch_size: Some(2),
        d_model: Some(8),
        d_ff: Some(12),
        num_heads: Some(2),
        num_encoder_layers: Some(2),
        num_decoder_layers: Some(2),
        dropout: Some(0.0),
        ..ModelConfig::default()
    };
    let rnn = |cell, attention| ModelConfig {
        decoder: Some(CaptionDecoder::Rnn),
        cell: Some(cell),
        attention: Some(attention),
        ..small.clone()
    };
    vec![
        small.clone(),
        ModelConfig {
            norm: Norm::Pre,
            position: Position::Rotary,
            tie_embeddings: TieEmbeddings::None,
            ..small.clone()
        },
        rnn(Cell::Lstm, Score::Additive),
        rnn(Cell::Gru, Score::None),
    ]
}

fn shape(config: &ModelConfig) -> ModelShape {
    config
        .shape(VOCABULARY)
        .unwrap_or_else(|error| panic!("{config:?}: {error}"))
}

/// One with each decoder.
pub(crate) fn shapes() -> Vec<ModelShape> {
    configs().iter().step_by(2).map(shape).collect()
}

fn models() -> Vec<(ModelConfig, Model)> {
    configs()
        .into_iter()
        .map(|config| (config.clone(), shape(&config).init(3, &device())))
        .collect()
}

/// The pixels of images whose bytes differ.
pub(crate) fn images(rows: usize, device: &Device) -> Tensor<2, Int> {
    let bytes = |row: usize| {
        (0..IMAGE.num_bytes()).map(move |index| ((index * 37 + row * 101) % 256) as i32)
    };
    let values: Vec<i32> = (0..rows).flat_map(bytes).collect();
    Tensor::<1, Int>::from_data(&values[..], device).reshape([rows, IMAGE.num_bytes()])
}

#[test]
fn neighbors_and_the_future_change_nothing() {
    let device = device();
    for (config, model) in models() {
        let alone = values(logits(
            &model,
            images(1, &device),
            ids([[1, 7, 8]], &device),
        ));
        let batch = values(logits(
            &model,
            images(2, &device),
            ids([[1, 7, 8, 0], [1, 9, 10, 4]], &device),
        ));
        assert!(distance(&alone, &batch[..alone.len()]) < 2e-6, "{config:?}");
        let other = values(logits(
            &model,
            images(1, &device),
            ids([[1, 7, 9]], &device),
        ));
        let past = 2 * VOCABULARY.tgt_size;
        assert!(
            distance(&alone[..past], &other[..past]) < 1e-6,
            "{config:?}"
        );
        assert!(
            distance(&alone[past..], &other[past..]) > 1e-3,
            "{config:?}"
        );
    }
}

#[test]
fn every_pixel_counts() {
    let device = device();
    for (config, model) in models() {
        let logits = |pixels| values(logits(&model, pixels, ids([[1, 7]], &device)));
        let plain = logits(images(1, &device));
        for index in 0..IMAGE.num_bytes() {
            let one = Tensor::<1, Int>::arange(0..IMAGE.num_bytes() as i64, &device)
                .equal_elem(index as i32)
                .int();
            let other = (images(1, &device) + one.unsqueeze() * 100).remainder_scalar(256);
            assert!(
                distance(&plain, &logits(other)) > 1e-7,
                "{config:?}: pixel {index}"
            );
        }
    }
}

#[test]
fn one_position_at_a_time_gives_what_all_at_once_give() {
    let device = device();
    for (config, model) in models() {
        // The second image is described twice, as by a beam that splits after the first token.
        let rows = [[1, 7, 8], [1, 9, 10], [1, 9, 4]];
        let mut cache = model.start(Image {
            pixels: images(2, &device),
        });
        model.advance(ids([[1], [1]], &device), &mut cache);
        Model::select(&mut cache, &[0, 1, 1], &device);
        let together = images(2, &device).select(0, Tensor::from_data([0, 1, 1], &device));
        let all = logits(&model, together, ids(rows, &device)).reshape([3, 3, VOCABULARY.tgt_size]);
        for position in 1..3 {
            let newest = rows.map(|row| [row[position]]);
            let step = model.advance(ids(newest, &device), &mut cache);
            let expected: Tensor<2> = all.clone().narrow(1, position, 1).squeeze_dim(1);
            assert!(
                distance(&values(step), &values(expected)) < 1e-5,
                "{config:?}"
            );
        }
    }
}

#[test]
fn it_shows_where_each_word_looks() {
    let device = device();
    for (config, model) in models() {
        let shape = model.shape();
        let pair = || Pair {
            src: Image {
                pixels: images(2, &device),
            }
            .into(),
            tgt_in: ids([[1, 7, 8], [1, 9, 10]], &device),
        };
        let actual = Inspect::cross_attention(&model, pair().into());
        let (num_layers, num_heads) = shape.attention(AttentionKind::Cross);
        assert_eq!(actual.len(), num_layers, "{config:?}");
        for layer in actual {
            assert_eq!(layer.dims(), [2, 3, 8]);
            assert!(
                values(layer.sum_dim(2))
                    .iter()
                    .all(|sum| (sum - 1.0).abs() < 1e-5),
                "{config:?}"
            );
        }
        let maps = Inspect::attention(&model, pair().into());
        assert!(
            maps.cross
                .iter()
                .all(|layer| layer.dims() == [2, num_heads, 3, 8]),
            "{config:?}"
        );
        assert_eq!(maps.encoder.len(), 2, "{config:?}");
    }
}

#[test]
fn in_8_bits_it_says_nearly_the_same() {
    let device = device();
    for (config, float) in models() {
        let int8 = quantize(float.clone(), |_, layout, weight| {
            Ok::<_, Infallible>(nearest(layout, weight))
        });
        let int8 = int8.unwrap_or_else(|never| match never {});
        let scores = |model: &Model| {
            values(logits(
                model,
                images(2, &device),
                ids([[1, 7, 8], [1, 9, 10]], &device),
            ))
        };
        let actual = scores(&int8);
        let expected = scores(&float);
        let largest = expected
            .iter()
            .fold(0.0f32, |largest, value| largest.max(value.abs()));
        let error = distance(&actual, &expected);
        assert!(
            error > 0.0 && error < 0.05 * largest,
            "{config:?}: {error} of {largest}"
        );
        let in_f32 = parameter::read(&int8).into_iter().filter(|(name, data)| {
            data.shape().len() > 1 && !name.contains("_position.") && !name.starts_with("decoder.")
        });
        assert_eq!(in_f32.count(), 0, "{config:?}");
    }
}

#[test]
fn keys_of_the_other_decoder_are_refused_by_name() {
    let refused = [
        (json!({"arch": "captioner", "cell": "gru"}), "model.cell"),
        (
            json!({"arch": "captioner", "decoder": "rnn", "position": "rotary"}),
            "model.position",
        ),
        (json!({"arch": "vit", "decoder": "rnn"}), "model.decoder"),
        (
            json!({"arch": "captioner", "pooling": "mean"}),
            "model.pooling",
        ),
        (
            json!({"arch": "captioner", "patch_size": 0}),
            "model.patch_size",
        ),
    ];
    for (keys, key) in refused {
        let config: ModelConfig = serde_json::from_value(keys).expect("the keys are known");
        let error = config
            .validate()
            .expect_err("a key does nothing")
            .to_string();
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn a_resolved_config_is_valid_and_stays_as_it_is() {
    for decoder in ["transformer", "rnn"] {
        let keys = json!({"arch": "captioner", "decoder": decoder});
        let config: ModelConfig = serde_json::from_value(keys).expect("it is known");
        let resolved = config.resolve();
        assert_eq!(resolved.resolve(), resolved);
        let [before, after] =
            [&config, &resolved].map(|config| config.shape(VOCABULARY).expect("it is valid"));
        assert_eq!(before, after);
        let shape: &CaptionerShape = after.downcast_ref().expect("it is a captioner's");
        assert_eq!(shape.recurrent.is_some(), decoder == "rnn");
    }
}
