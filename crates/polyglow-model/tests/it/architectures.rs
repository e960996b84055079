//! Properties that hold for any weights of any architecture.

use TieEmbeddings::{All, Decoder, None as Untied};
use burn::tensor::{Device, Int, Tensor};
use polyglow_model::recurrent::attention::Score;
use polyglow_model::recurrent::{Attend, Cell};
use polyglow_model::{
    Activation, Captioner, EncoderOnly, Generate, Head, LanguageModel, Model, ModelConfig,
    ModelShape, Norm, Position, RecurrentLanguageModel, Rnn, RnnShape, SkipGramModel,
    TieEmbeddings, Transformer, Vit, Vocabulary,
};
use serde_json::json;

use crate::{device, distance, ids, logits, values};

const VOCABULARY: Vocabulary = Vocabulary {
    src_size: 13,
    tgt_size: 13,
    shared: true,
    src_pad_id: 0,
    tgt_pad_id: 0,
    max_len: 16,
    image: None,
};

/// Every architecture in variants that change its computation.
fn configs() -> Vec<ModelConfig> {
    let small = ModelConfig {
        d_model: Some(8),
        num_decoder_layers: Some(2),
        dropout: Some(0.0),
        ..ModelConfig::default()
    };
    let transformer = |arch, norm, position, activation, tie_embeddings| {
        let encoder = (arch == Transformer::ARCH).then_some(2);
        let d_ff = Some(12);
        let num_heads = Some(2);
        ModelConfig {
            arch,
            d_ff,
            num_heads,
            num_encoder_layers: encoder,
            norm,
            position,
            activation,
            tie_embeddings,
            ..small.clone()
        }
    };
    let rnn = |cell, attention, input_feeding| ModelConfig {
        arch: Rnn::ARCH,
        num_encoder_layers: Some(2),
        cell: Some(cell),
        attention: Some(attention),
        input_feeding: Some(input_feeding),
        ..small.clone()
    };
    let wide = ModelConfig {
        cell_size: Some(12),
        ..rnn(Cell::Lstm, Score::Dot, true)
    };
    let plain = ModelConfig {
        bias: Some(false),
        ..rnn(Cell::Gru, Score::Dot, false)
    };
    let bahdanau = ModelConfig {
        attend: Some(Attend::Before),
        ..rnn(Cell::Gru, Score::Additive, false)
    };
    let rnn_lm = |cell, tie_embeddings| ModelConfig {
        arch: RecurrentLanguageModel::ARCH,
        cell: Some(cell),
        tie_embeddings,
        ..small.clone()
    };
    vec![
        transformer(
            Transformer::ARCH,
            Norm::Post,
            Position::Sinusoidal,
            Activation::Relu,
            All,
        ),
        transformer(
            Transformer::ARCH,
            Norm::Pre,
            Position::Rotary,
            Activation::Swiglu,
            Untied,
        ),
        transformer(
            LanguageModel::ARCH,
            Norm::Post,
            Position::Sinusoidal,
            Activation::Relu,
            All,
        ),
        transformer(
            LanguageModel::ARCH,
            Norm::Pre,
            Position::Learned,
            Activation::Gelu,
            Untied,
        ),
        transformer(
            LanguageModel::ARCH,
            Norm::Pre,
            Position::Rotary,
            Activation::Swiglu,
            Decoder,
        ),
        rnn(Cell::Gru, Score::Additive, true),
        rnn(Cell::Lstm, Score::General, false),
        rnn(Cell::Lstm, Score::None, false),
        rnn(Cell::Tanh, Score::Additive, false),
        bahdanau,
        wide,
        plain,
        rnn_lm(Cell::Gru, All),
        rnn_lm(Cell::Tanh, Untied),
        rnn_lm(Cell::Lstm, Untied),
    ]
}

fn shape(config: &ModelConfig) -> ModelShape {
    config
        .shape(VOCABULARY)
        .unwrap_or_else(|error| panic!("{config:?}: {error}"))
}

/// One of each architecture that is no encoder-decoder Transformer: a software driver takes minutes
/// for all variants.
pub(crate) fn shapes() -> Vec<ModelShape> {
    let configs = configs();
    let first = |arch| {
        configs
            .iter()
            .find(|config| config.arch == arch)
            .expect("each has a variant")
    };
    let texts = [Rnn::ARCH, LanguageModel::ARCH, RecurrentLanguageModel::ARCH]
        .map(|arch| shape(first(arch)));
    texts
        .into_iter()
        .chain([crate::skip_gram::shape()])
        .collect()
}

fn models(device: &Device) -> Vec<(ModelConfig, Model)> {
    configs()
        .into_iter()
        .map(|config| (config.clone(), shape(&config).init(3, device)))
        .collect()
}

#[test]
fn padding_and_neighbors_change_nothing() {
    let device = device();
    for (config, model) in models(&device) {
        let alone = values(logits(
            &model,
            ids([[4, 5, 2]], &device),
            ids([[1, 7, 8]], &device),
        ));
        let src = [[4, 5, 2, 0, 0], [6, 7, 8, 9, 2]];
        let tgt_in = [[1, 7, 8, 0], [1, 9, 10, 4]];
        let batch = logits(&model, ids(src, &device), ids(tgt_in, &device));
        assert!(
            distance(&alone, &values(batch)[..alone.len()]) < 2e-6,
            "{config:?}"
        );
    }
}

#[test]
fn states_are_the_vectors_of_the_tokens_and_then_each_layers_own() {
    let device = device();
    for (config, model) in models(&device) {
        let states = |rows| {
            model
                .states(rows)
                .into_iter()
                .map(values)
                .collect::<Vec<_>>()
        };
        let alone = states(ids([[4, 5, 2]], &device));
        let in_batch = states(ids([[4, 5, 2, 0, 0], [6, 7, 8, 9, 2]], &device));
        let num_layers = config
            .num_encoder_layers
            .or(config.num_decoder_layers)
            .expect("it is set");
        assert_eq!(alone.len(), 1 + num_layers, "{config:?}");
        // The row of a token in the table, scaled by the root of the width.
        let table = values(model.vectors(model.reading_side(), &device));
        let expected: Vec<f32> = table[4 * 8..6 * 8]
            .iter()
            .map(|value| value * 8f32.sqrt())
            .collect();
        assert!(distance(&alone[0][..2 * 8], &expected) < 1e-6, "{config:?}");
        for (alone, in_batch) in alone.iter().zip(&in_batch) {
            assert!(
                distance(alone, &in_batch[..alone.len()]) < 2e-6,
                "{config:?}"
            );
        }
        let last = Tensor::<1>::from_data(&alone[num_layers][..], &device).reshape([3, 8]);
        if let Some(model) = model.downcast_ref::<Transformer>() {
            let memory = values(model.encode(ids([[4, 5, 2]], &device)).states);
            assert!(distance(&alone[num_layers], &memory) < 1e-6, "{config:?}");
        }
        let (embedding, output) = if let Some(model) = model.downcast_ref::<LanguageModel>() {
            (&model.embedding, &model.output)
        } else if let Some(model) = model.downcast_ref::<RecurrentLanguageModel>() {
            (&model.embedding, &model.output)
        } else {
            continue;
        };
        let expected = output.as_ref().map_or_else(
            || embedding.logits(last.clone()),
            |output| output.rows(last.clone()),
        );
        let actual = logits(&model, ids([[2]], &device), ids([[4, 5, 2]], &device));
        assert!(
            distance(&values(expected), &values(actual)) < 1e-6,
            "{config:?}"
        );
    }
}

#[test]
fn the_future_does_not_change_the_past() {
    let device = device();
    for (config, model) in models(&device) {
        let logits = |last| {
            values(logits(
                &model,
                ids([[4, 5, 6, 2]], &device),
                ids([[1, 7, last]], &device),
            ))
        };
        let first = logits(8);
        let second = logits(9);
        let past = 2 * VOCABULARY.tgt_size;
        assert!(
            distance(&first[..past], &second[..past]) < 1e-6,
            "{config:?}"
        );
        assert!(
            distance(&first[past..], &second[past..]) > 1e-3,
            "{config:?}"
        );
    }
}

#[test]
fn one_position_at_a_time_gives_what_all_at_once_give() {
    let device = device();
    for (config, model) in models(&device) {
        let src = ids([[4, 5, 2, 0], [6, 7, 8, 2]], &device);
        // The second sentence is written twice, as by a beam that splits after the first token.
        let rows = [[1, 7, 8], [1, 9, 10], [1, 9, 4]];
        let mut cache = model.start(src.clone());
        let mut steps = Vec::new();
        for position in 0..3 {
            let newest: Vec<i32> = rows.iter().map(|row| row[position]).collect();
            let newest = if position == 0 {
                &newest[..2]
            } else {
                &newest[..]
            };
            let newest = Tensor::<1, Int>::from_data(newest, &device).reshape([newest.len(), 1]);
            steps.push(model.advance(newest, &mut cache));
            if position == 0 {
                Model::select(&mut cache, &[0, 1, 1], &device);
            }
        }
        let together = src.select(0, Tensor::from_data([0, 1, 1], &device));
        let all = logits(&model, together, ids(rows, &device)).reshape([3, 3, VOCABULARY.tgt_size]);
        for (position, step) in steps.into_iter().enumerate().skip(1) {
            let expected: Tensor<2> = all.clone().narrow(1, position, 1).squeeze_dim(1);
            assert!(
                distance(&values(step), &values(expected)) < 1e-5,
                "{config:?}"
            );
        }
    }
}

#[test]
fn keys_of_another_architecture_are_refused_by_name() {
    let refused = [
        (json!({"arch": "rnn", "d_ff": 8}), "model.d_ff"),
        (json!({"arch": "rnn", "norm": "pre"}), "model.norm"),
        (json!({"cell": "gru"}), "model.cell"),
        (
            json!({"arch": "lm", "num_encoder_layers": 1}),
            "model.num_encoder_layers",
        ),
        (
            json!({"arch": "rnn-lm", "attention": "luong"}),
            "model.attention",
        ),
        (json!({"arch": "skipgram", "dropout": 0.1}), "model.dropout"),
        (
            json!({"arch": "skipgram", "tie_embeddings": "none"}),
            "model.tie_embeddings",
        ),
        (json!({"head": "masked_lm"}), "model.head"),
        (json!({"arch": "lm", "pooling": "mean"}), "model.pooling"),
        (
            json!({"arch": "encoder", "num_decoder_layers": 1}),
            "model.num_decoder_layers",
        ),
        (
            json!({"arch": "encoder", "patch_size": 4}),
            "model.patch_size",
        ),
        (json!({"arch": "encoder", "cell": "gru"}), "model.cell"),
        (
            json!({"arch": "encoder", "body": "rnn", "d_ff": 8}),
            "model.d_ff",
        ),
        (
            json!({"arch": "encoder", "body": "rnn", "pooling": "class"}),
            "model.pooling",
        ),
        (
            json!({"arch": "encoder", "pooling": "last"}),
            "model.pooling",
        ),
        (json!({"arch": "vit", "pooling": "last"}), "model.pooling"),
        (json!({"arch": "lm", "body": "rnn"}), "model.body"),
        (
            json!({"arch": "vit", "head": "classification"}),
            "model.head",
        ),
        (
            json!({"arch": "vit", "position": "rotary"}),
            "model.position",
        ),
        (
            json!({"arch": "rnn", "attention": "none", "input_feeding": true}),
            "model.input_feeding",
        ),
        (
            json!({"arch": "rnn", "attend": "before", "input_feeding": true}),
            "model.input_feeding",
        ),
        (json!({"arch": "rnn", "cell_size": 300}), "model.cell_size"),
        (
            json!({"arch": "rnn", "cell": "lstm", "cell_size": 100}),
            "model.cell_size",
        ),
        (
            json!({"arch": "rnn", "cell": "lstm", "cell_size": 301}),
            "model.cell_size",
        ),
        (json!({"cell_size": 300}), "model.cell_size"),
        (json!({"arch": "lm", "bias": false}), "model.bias"),
        (
            json!({"arch": "rnn", "attend": "before", "attention": "none"}),
            "model.attend",
        ),
        (json!({"attend": "before"}), "model.attend"),
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

/// The config that a run writes must be accepted when it is read again.
#[test]
fn a_resolved_config_is_valid_and_stays_as_it_is() {
    for arch in [
        "transformer",
        "rnn",
        "lm",
        "rnn-lm",
        "skipgram",
        "encoder",
        "vit",
        "captioner",
    ] {
        let config: ModelConfig =
            serde_json::from_value(json!({"arch": arch})).expect("it is known");
        let resolved = config.resolve();
        resolved
            .validate()
            .unwrap_or_else(|error| panic!("{arch}: {error}"));
        assert_eq!(resolved.resolve(), resolved);
        assert_eq!(resolved.arch.name(), arch);
    }
}

#[test]
fn a_shape_is_for_what_its_config_is_for() {
    let architectures = [
        Transformer::ARCH,
        Rnn::ARCH,
        LanguageModel::ARCH,
        RecurrentLanguageModel::ARCH,
        SkipGramModel::ARCH,
        EncoderOnly::ARCH,
        Vit::ARCH,
        Captioner::ARCH,
    ];
    let configs = architectures.map(|arch| ModelConfig {
        arch,
        ..ModelConfig::default()
    });
    let masked = ModelConfig {
        arch: EncoderOnly::ARCH,
        head: Some(Head::MaskedLm),
        ..ModelConfig::default()
    };
    for config in configs.into_iter().chain([masked]) {
        assert_eq!(shape(&config).task(), config.task(), "{config:?}");
    }
}

#[test]
fn a_model_and_its_shape_are_found_by_their_own_types_alone() {
    let shape = shape(&configs()[0]);
    let model = shape.init(1, &device());
    assert_eq!(model.shape(), &shape);
    assert_ne!(model.shape(), &shape.clone().with_room_for(17));
    let transformer: &Transformer = model.downcast_ref().expect("it is one");
    assert_eq!(shape.downcast_ref(), Some(transformer.shape()));
    assert!(model.downcast_ref::<Rnn>().is_none());
    assert!(shape.downcast_ref::<RnnShape>().is_none());
}
