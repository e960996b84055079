//! The recurrent models: values from PyTorch's GRU and LSTM (written by `scripts/golden-rnn.py`),
//! and their attention.

use burn::tensor::{Device, Int, Tensor};
use polyglow_model::recurrent::attention::Score;
use polyglow_model::recurrent::{Attend, Cell};
use polyglow_model::{Pair, Precision, Predict, Rnn, RnnShape, TieEmbeddings, Vocabulary};
use serde::Deserialize;

use crate::golden::{Case, cases, matrix};
use crate::{device, ids, values};

#[derive(Deserialize)]
struct CaseConfig {
    cell: Cell,
    #[serde(default)]
    cell_size: Option<usize>,
    #[serde(default = "yes")]
    bias: bool,
    attention: Score,
    #[serde(default)]
    attend: Attend,
    input_feeding: bool,
    tie_embeddings: TieEmbeddings,
    num_encoder_layers: usize,
    num_decoder_layers: usize,
    src_vocab: usize,
    tgt_vocab: usize,
    d_model: usize,
    max_len: usize,
}

fn yes() -> bool {
    true
}

fn golden() -> Vec<Case<CaseConfig>> {
    cases(include_str!("../golden/rnn.json"))
}

fn config(case: &CaseConfig) -> RnnShape {
    RnnShape {
        vocabulary: Vocabulary {
            src_size: case.src_vocab,
            tgt_size: case.tgt_vocab,
            shared: false,
            src_pad_id: 0,
            tgt_pad_id: 0,
            max_len: case.max_len,
            image: None,
        },
        d_model: case.d_model,
        num_encoder_layers: case.num_encoder_layers,
        num_decoder_layers: case.num_decoder_layers,
        dropout: 0.0,
        cell: case.cell,
        cell_size: case.cell_size.unwrap_or(case.d_model),
        bias: case.bias,
        attention: case.attention,
        attend: case.attend,
        input_feeding: case.input_feeding,
        tie_embeddings: case.tie_embeddings,
        precision: Precision::F32,
    }
}

/// A model of each golden case's shape, with weights of our own.
fn models(device: &Device) -> Vec<Rnn> {
    golden()
        .iter()
        .map(|case| Rnn::new(&config(&case.config), 3, device))
        .collect()
}

fn forward(model: &Rnn, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Tensor<2> {
    let src = src.into();
    model.predict(Pair { src, tgt_in }).logits()
}

#[test]
fn logits_and_gradients_equal_pytorch() {
    for case in golden() {
        let plain = device();
        let model = case.with_weights(Rnn::new(&config(&case.config), 1, &plain));
        case.check_logits(forward(
            &model,
            matrix(&case.src, &plain),
            matrix(&case.tgt_in, &plain),
        ));

        let device = plain.autodiff();
        let model = case.with_weights(Rnn::new(&config(&case.config), 1, &device));
        let logits = forward(
            &model,
            matrix(&case.src, &device),
            matrix(&case.tgt_in, &device),
        );
        case.check_gradients(&model, logits);
    }
}

#[test]
fn attention_is_shown_and_keeps_to_real_words() {
    let device = device();
    for model in models(&device) {
        let src = ids([[4, 5, 2, 0], [6, 7, 8, 2]], &device);
        let tgt_in = ids([[1, 7, 8], [1, 9, 10]], &device);
        let src = src.into();
        let (_, weights) = model.predict_aligned(Pair { src, tgt_in });
        assert_eq!(weights.is_none(), model.shape().attention == Score::None);
        let Some(weights) = weights else { continue };
        assert_eq!(weights.dims(), [2, 3, 4]);
        let weights = values(weights);
        for (row, weights) in weights.chunks(4).enumerate() {
            assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6);
            assert!(row >= 3 || weights[3] == 0.0, "{weights:?}");
        }
    }
}
