//! Encoders with a head: values from PyTorch (written by `scripts/golden-encoder.py`), and what
//! pads and bytes do.

use burn::tensor::{Device, Int, Tensor};
use polyglow_model::recurrent::Cell;
use polyglow_model::{
    Activation, Arch, Body, EncoderOnly, Head, Image, ImageShape, Inspect, Model, ModelConfig,
    ModelShape, Norm, Pair, Pooling, Position, Predict, Task, Text, Vit, Vocabulary,
};
use serde::Deserialize;

use crate::golden::{Case, cases, matrix};
use crate::{device, distance, ids, logits, values};

#[derive(Deserialize)]
struct CaseConfig {
    arch: Arch,
    pooling: Pooling,
    head: Head,
    activation: Activation,
    norm: Norm,
    position: Position,
    src_vocab: usize,
    tgt_vocab: usize,
    d_model: usize,
    d_ff: usize,
    num_heads: usize,
    num_encoder_layers: usize,
    max_len: usize,
    height: usize,
    width: usize,
    channels: usize,
    patch_size: usize,
}

fn golden() -> Vec<Case<CaseConfig>> {
    cases(include_str!("../golden/encoder.json"))
}

fn shape(case: &CaseConfig) -> ModelShape {
    let is_image = case.arch == Vit::ARCH;
    let config = ModelConfig {
        arch: case.arch,
        pooling: Some(case.pooling),
        head: (!is_image).then_some(case.head),
        activation: case.activation,
        norm: case.norm,
        position: case.position,
        d_model: Some(case.d_model),
        d_ff: Some(case.d_ff),
        num_heads: Some(case.num_heads),
        num_encoder_layers: Some(case.num_encoder_layers),
        patch_size: is_image.then_some(case.patch_size),
        dropout: Some(0.0),
        ..ModelConfig::default()
    };
    let &CaseConfig {
        height,
        width,
        channels,
        ..
    } = case;
    let vocabulary = Vocabulary {
        src_size: case.src_vocab,
        tgt_size: case.tgt_vocab,
        shared: case.head == Head::MaskedLm,
        src_pad_id: 0,
        tgt_pad_id: 0,
        max_len: case.max_len,
        image: is_image.then_some(ImageShape {
            height,
            width,
            channels,
        }),
    };
    config
        .shape(vocabulary)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// A shape of each kind of input and head, for the tests of all architectures.
pub(crate) fn shapes() -> Vec<ModelShape> {
    golden().iter().map(|case| shape(&case.config)).collect()
}

/// Inputs for a shape: ids of text or bytes of images; and as many targets as there are logits.
pub(crate) fn inputs(model: &Model, device: &Device) -> (Tensor<2, Int>, Tensor<1, Int>) {
    let pixels = |image: ImageShape| {
        let values = (0..2 * image.num_bytes())
            .map(|index| (index * 37 % 256) as i32)
            .collect::<Vec<_>>();
        matrix(
            &values
                .chunks(image.num_bytes())
                .map(<[i32]>::to_vec)
                .collect::<Vec<_>>(),
            device,
        )
    };
    let text = ids([[4, 5, 6, 2], [7, 8, 2, 0]], device);
    let src = model.vocabulary().image.map_or(text, pixels);
    let targets: &[i32] = match model.task() {
        Task::Masked => &[0, 5, 0, 0, 7, 9, 0, 0],
        _ => &[5, 6],
    };
    (src, Tensor::from_data(targets, device))
}

fn forward(model: &Model, case: &Case<CaseConfig>, device: &Device) -> Tensor<2> {
    logits(
        model,
        matrix(&case.src, device),
        matrix(&case.tgt_in, device),
    )
}

#[test]
fn logits_and_gradients_equal_pytorch() {
    for case in golden() {
        let plain = device();
        let model = case.with_weights(shape(&case.config).init(1, &plain));
        case.check_logits(forward(&model, &case, &plain));

        let device = plain.autodiff();
        let model = case.with_weights(shape(&case.config).init(1, &device));
        case.check_gradients(&model, forward(&model, &case, &device));
    }
}

#[test]
fn padding_and_neighbors_change_nothing() {
    let device = device();
    for shape in shapes()
        .into_iter()
        .filter(|shape| shape.vocabulary().image.is_none())
    {
        let model = shape.init(3, &device);
        let logits = |ids| values(model.predict(Text { ids }).logits());
        let alone = logits(ids([[4, 5, 2]], &device));
        let batch = logits(ids([[4, 5, 2, 0, 0], [6, 7, 8, 9, 2]], &device));
        assert!(distance(&alone, &batch[..alone.len()]) < 2e-6, "{shape:?}");
        let other = logits(ids([[4, 6, 2]], &device));
        assert!(distance(&alone, &other) > 1e-3, "{shape:?}");
    }
}

/// Recurrent encoders with each way to pool, and each head. Their layers are compared with
/// PyTorch's in `rnn`.
fn recurrent() -> Vec<Model> {
    let vocabulary = Vocabulary {
        src_size: 13,
        tgt_size: 13,
        shared: true,
        src_pad_id: 0,
        tgt_pad_id: 0,
        max_len: 8,
        image: None,
    };
    let config = |cell, pooling, head| ModelConfig {
        arch: EncoderOnly::ARCH,
        body: Some(Body::Rnn),
        cell: Some(cell),
        pooling,
        head: Some(head),
        d_model: Some(8),
        num_encoder_layers: Some(2),
        dropout: Some(0.0),
        ..ModelConfig::default()
    };
    [
        config(Cell::Gru, None, Head::Classification),
        config(Cell::Lstm, Some(Pooling::Mean), Head::Classification),
        config(Cell::Tanh, None, Head::MaskedLm),
    ]
    .map(|config| {
        let shape = |config: &ModelConfig| config.shape(vocabulary).expect("it is valid");
        assert_eq!(shape(&config), shape(&config.resolve()));
        shape(&config).init(3, &device())
    })
    .into()
}

#[test]
fn recurrent_layers_read_a_text_from_both_ends_whatever_stands_behind_it() {
    let device = device();
    for model in recurrent() {
        let logits = |ids| values(model.predict(Text { ids }).logits());
        let alone = logits(ids([[4, 5, 2]], &device));
        let batch = logits(ids([[4, 5, 2, 0, 0], [6, 7, 8, 9, 2]], &device));
        assert!(
            distance(&alone, &batch[..alone.len()]) < 2e-6,
            "{:?}",
            model.shape()
        );
        for other in [[[4, 6, 2]], [[6, 5, 2]], [[4, 5, 6]]] {
            assert!(
                distance(&alone, &logits(ids(other, &device))) > 1e-4,
                "{:?}",
                model.shape()
            );
        }
        assert_eq!(model.states(ids([[4, 5, 2]], &device)).len(), 3);
        assert!(
            model
                .attention(
                    Text {
                        ids: ids([[4, 5, 2]], &device)
                    }
                    .into()
                )
                .encoder
                .is_empty()
        );
    }
    // The label comes from the states that the two directions end with: the last of one, the first
    // of the other.
    let models = recurrent();
    let model: &EncoderOnly = models[0].downcast_ref().expect("it is of text");
    let src = ids([[4, 5, 6, 2]], &device);
    let states = model.states(src.clone()).pop().expect("it has layers");
    let last = Tensor::cat(
        vec![
            states.clone().slice([0..1, 3..4, 0..4]),
            states.slice([0..1, 0..1, 4..8]),
        ],
        2,
    );
    let head = model
        .head
        .as_ref()
        .expect("it gives labels")
        .rows(last.squeeze_dim(1));
    assert!(
        distance(
            &values(head),
            &values(model.predict(Text { ids: src }).logits())
        ) < 1e-6
    );
}

#[test]
fn every_pixel_counts_and_its_place_does() {
    let device = device();
    for shape in shapes()
        .into_iter()
        .filter(|shape| shape.vocabulary().image.is_some())
    {
        let model = shape.init(3, &device);
        let (src, _) = inputs(&model, &device);
        let [_, len] = src.dims();
        let logits = |pixels| values(model.predict(Image { pixels }).logits());
        let plain = logits(src.clone());
        let changed = |src: Tensor<2, Int>| distance(&plain, &logits(src));
        assert!(changed(src.clone().flip([1])) > 1e-3, "{shape:?}");
        for index in 0..len {
            let one = (Tensor::<1, Int>::arange(0..len as i64, &device).equal_elem(index as i32))
                .int()
                * 100;
            let other = src.clone() + one.unsqueeze();
            // Bytes wrap around, so that the values stay bytes.
            assert!(
                changed(other.remainder_scalar(256)) > 1e-6,
                "{shape:?}: pixel {index}"
            );
        }
    }
}

#[test]
#[should_panic(expected = "does not read pairs")]
fn inputs_of_another_kind_are_refused() {
    let src = ids([[4, 5]], &device());
    let _ = shapes()[0].init(3, &device()).predict(Pair {
        src: src.clone().into(),
        tgt_in: src,
    });
}

#[test]
fn the_weights_of_every_layer_are_shown_and_sum_to_one() {
    let device = device();
    for shape in shapes() {
        let model = shape.init(3, &device);
        let (src, _) = inputs(&model, &device);
        let maps = model.attention(crate::inputs(&model, src.clone(), src));
        assert!(maps.encoder.len() == 2 && maps.decoder.is_empty() && maps.cross.is_empty());
        for layer in maps.encoder {
            let [_, _, queries, keys] = layer.dims();
            assert_eq!(queries, keys);
            let sums = values(layer.sum_dim(3));
            assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-5), "{sums:?}");
        }
    }
}

#[test]
fn the_states_of_the_highest_layer_give_the_logits() {
    let device = device();
    for shape in shapes()
        .into_iter()
        .filter(|shape| shape.vocabulary().image.is_none())
    {
        let model = shape.init(3, &device);
        let model: &EncoderOnly = model.downcast_ref().expect("it is of text");
        let src = ids([[4, 5, 6, 2], [7, 8, 2, 0]], &device);
        let states = model.states(src.clone());
        assert_eq!((states.len(), states[1].dims()), (2, [2, 4, 8]));
        if model.shape().head == Head::MaskedLm {
            let logits = model.embedding.logits(states[1].clone().flatten(0, 1));
            assert!(
                distance(
                    &values(logits),
                    &values(model.predict(Text { ids: src }).logits())
                ) < 1e-6,
                "{shape:?}"
            );
        }
    }
}
