//! Integration tests of the model crate: values from PyTorch, and what must hold for any weights.

mod architectures;
mod backends;
mod captioner;
mod custom;
mod encoder;
mod golden;
mod layers;
mod properties;
mod quantization;
mod rnn;
mod sizes;
mod skip_gram;

use burn::tensor::{Device, Int, Tensor, TensorData};
use polyglow_model::{
    Activation, Image, Inputs, Model, Norm, Pair, Position, Precision, Predict, Task, Text,
    TieEmbeddings, TransformerShape, Words,
};

/// The backend that all tests but those of `backends` run on.
fn device() -> Device {
    Device::flex()
}

/// A model small enough to check by eye, with every size different.
fn small_config() -> TransformerShape {
    TransformerShape {
        src_vocab_size: 11,
        tgt_vocab_size: 13,
        src_pad_id: 0,
        tgt_pad_id: 0,
        max_len: 16,
        d_model: 8,
        d_ff: 12,
        num_heads: 2,
        num_encoder_layers: 2,
        num_decoder_layers: 3,
        dropout: 0.0,
        attention_dropout: 0.0,
        activation_dropout: 0.0,
        activation: Activation::Relu,
        norm: Norm::Post,
        position: Position::Sinusoidal,
        tie_embeddings: TieEmbeddings::Decoder,
        output_bias: false,
        precision: Precision::F32,
    }
}

/// Every variant of the model that changes its computation.
fn variants() -> Vec<TransformerShape> {
    let small = small_config();
    vec![
        small.clone(),
        TransformerShape {
            norm: Norm::Pre,
            activation: Activation::Gelu,
            position: Position::Learned,
            ..small.clone()
        },
        TransformerShape {
            activation: Activation::Swish,
            output_bias: true,
            ..small.clone()
        },
        TransformerShape {
            norm: Norm::Pre,
            activation: Activation::Swiglu,
            position: Position::Rotary,
            tie_embeddings: TieEmbeddings::None,
            ..small
        },
    ]
}

fn ids<const ROWS: usize, const LEN: usize>(
    rows: [[i32; LEN]; ROWS],
    device: &Device,
) -> Tensor<2, Int> {
    Tensor::from_data(
        TensorData::new(rows.as_flattened().to_vec(), [ROWS, LEN]),
        device,
    )
}

/// The inputs of a model from a source and a target, by its task.
fn inputs(model: &Model, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Inputs {
    match model.task() {
        Task::Translation => {
            let src = src.into();
            Pair { src, tgt_in }.into()
        }
        Task::Captions => {
            let src = Image { pixels: src }.into();
            Pair { src, tgt_in }.into()
        }
        Task::Language => Text { ids: tgt_in }.into(),
        Task::Words => Words {
            centers: src,
            candidates: tgt_in,
        }
        .into(),
        Task::Images => Image { pixels: src }.into(),
        _ => Text { ids: src }.into(),
    }
}

/// The scores of a model for a source and a target.
fn logits(model: &Model, src: Tensor<2, Int>, tgt_in: Tensor<2, Int>) -> Tensor<2> {
    model.predict(inputs(model, src, tgt_in)).logits()
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// Largest absolute difference.
fn distance(left: &[f32], right: &[f32]) -> f32 {
    assert_eq!(left.len(), right.len());
    left.iter()
        .zip(right)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}
