//! One position at a time, as a search runs them, layers give what the whole sequence gives.

use burn::module::Module;
use burn::tensor::Tensor;
use polyglow_model::Activation;
use polyglow_model::attention::{
    AttentionConfig, AttentionInput, AttentionKind, CrossAttention, KeyValue, SelfAttention, alibi,
};
use polyglow_model::cache::indices;
use polyglow_model::dropout::Dropout;
use polyglow_model::feed_forward::{FeedForward, FeedForwardConfig};
use polyglow_model::init::ParamInit;
use polyglow_model::mask::causal_mask;
use polyglow_model::position::{Rotation, WAVELENGTHS};
use polyglow_model::rms_norm::RmsNorm;

use super::{HeadsConfig, Inputs, golden, source_mask};
use crate::{device, distance, values};

#[test]
fn steps_of_self_attention_give_the_golden_output() {
    let device = device();
    for case in golden().self_attention {
        let config = &case.config;
        let layer = case.layer(&device, |init| {
            SelfAttention::new(&config.attention(), init)
        });
        let inputs = Inputs::new(&case.inputs, &device);
        let input = inputs.get::<3>("input").expect("the case has it");
        let [batch, len, d_model] = input.dims();
        let expected: Tensor<3> = case.output.tensor(&device);
        // From the second position on, the rows of the batch are exchanged.
        let order = [1, 0];
        let mut past = None;
        for position in 0..len {
            let step = |tensor: Tensor<3>| -> Tensor<2> {
                let step = tensor.narrow(1, position, 1).squeeze_dim(1);
                if position == 0 {
                    return step;
                }
                step.select(0, indices(&order, &device))
            };
            let bias = inputs.get::<4>("bias").map(|bias| {
                let newest = bias.narrow(2, position, 1).narrow(3, 0, position + 1);
                if position == 0 || newest.dims()[0] == 1 {
                    return newest;
                }
                newest.select(0, indices(&order, &device))
            });
            let rotation = config.rotation(position, 1, &device);
            let newest = step(input.clone());
            let output = layer.advance(newest, rotation.as_ref(), bias.as_ref(), &mut past);
            assert_eq!(output.dims(), [batch, d_model]);
            let difference = distance(&values(output), &values(step(expected.clone())));
            assert!(difference < 2e-6, "{}: {difference}", case.name);
            if position == 0 {
                let past = past.as_mut().expect("a position has been added");
                past.select(&order, &indices(&order, &device));
            }
        }
        check_num_heads(past.as_ref(), config);
    }
}

/// A cache by head has the heads of keys alone, which is what grouping saves.
fn check_num_heads(past: Option<&KeyValue>, config: &HeadsConfig) {
    if let Some(KeyValue::Heads { key, .. }) = past {
        assert_eq!(key.dims()[1], config.num_kv_heads);
    } else {
        assert_eq!(config.num_kv_heads, config.num_heads);
    }
}

#[test]
fn steps_of_cross_attention_give_the_golden_output() {
    let device = device();
    for case in golden().cross_attention {
        let attention = case.config.attention();
        let layer = case.layer(&device, |init| CrossAttention::new(&attention, init));
        let inputs = Inputs::new(&case.inputs, &device);
        let memory = layer.key_value(inputs.get("memory").expect("the case has it"));
        let input = inputs.get::<3>("input").expect("the case has it");
        let expected: Tensor<3> = case.output.tensor(&device);
        for position in 0..input.dims()[1] {
            let at = |tensor: &Tensor<3>| -> Tensor<2> {
                tensor.clone().narrow(1, position, 1).squeeze_dim(1)
            };
            let output = layer.advance(at(&input), &memory, &source_mask(&device));
            assert!(distance(&values(output), &values(at(&expected))) < 2e-6);
        }
    }
}

#[test]
fn a_bias_of_distances_is_the_same_in_steps() {
    let device = device();
    let whole = alibi(4, 0..6, &device);
    for position in 0..6 {
        let row = whole
            .clone()
            .narrow(2, position, 1)
            .narrow(3, 0, position + 1);
        let step = alibi(4, position..position + 1, &device);
        assert_eq!(values(step), values(row));
    }
}

/// The block of a decoder in `docs/own-parts.md`: RMS norms, grouped heads, rotary positions,
/// SwiGLU.
#[derive(Module, Debug)]
struct Block {
    attention_norm: RmsNorm,
    attention: SelfAttention,
    feed_forward_norm: RmsNorm,
    feed_forward: FeedForward,
    dropout: Dropout,
}

impl Block {
    fn new(init: &mut ParamInit) -> Self {
        let attention = AttentionConfig {
            num_kv_heads: 2,
            bias: false,
            ..AttentionConfig::new(16, 4)
        };
        let feed_forward = FeedForwardConfig {
            d_model: 16,
            d_ff: 40,
            activation: Activation::Swiglu,
            bias: false,
            dropout: 0.0,
        };
        Self {
            attention_norm: RmsNorm::new(16, init),
            attention: SelfAttention::new(&attention, init),
            feed_forward_norm: RmsNorm::new(16, init),
            feed_forward: FeedForward::new(&feed_forward, init),
            dropout: Dropout::new(0.1),
        }
    }

    fn forward(&self, x: Tensor<2>, shared: &AttentionInput<'_>) -> Tensor<2> {
        let normalized = self.attention_norm.forward(x.clone());
        let kind = AttentionKind::Decoder;
        let attended = self.attention.forward(normalized, shared, kind, None);
        self.feed_forward(self.dropout.add(x, attended))
    }

    fn advance(&self, x: Tensor<2>, rotation: &Rotation, past: &mut Option<KeyValue>) -> Tensor<2> {
        let normalized = self.attention_norm.forward(x.clone());
        let attended = self
            .attention
            .advance(normalized, Some(rotation), None, past);
        self.feed_forward(x + attended)
    }

    fn feed_forward(&self, x: Tensor<2>) -> Tensor<2> {
        let normalized = self.feed_forward_norm.forward(x.clone());
        self.dropout.add(x, self.feed_forward.forward(normalized))
    }
}

#[test]
fn a_stack_of_these_layers_gives_in_steps_what_it_gives_at_once() {
    let device = device();
    let init = &mut ParamInit::new(5, &device);
    let blocks = [Block::new(init), Block::new(init)];
    let [batch, len] = [2, 4];
    let input = init.normal([batch * len, 16], 1.0).val();
    let rotation = |positions| Rotation::new(4, WAVELENGTHS, positions, &device);

    let mask = causal_mask(len, &device);
    let all = rotation(0..len);
    let shared = AttentionInput {
        rotation: Some(&all),
        ..AttentionInput::new(&mask)
    };
    let whole = blocks.iter().fold(input.clone(), |states, block| {
        block.forward(states, &shared)
    });

    let at = |rows: &Tensor<2>, position: usize| -> Tensor<2> {
        let sequences: Tensor<3> = rows.clone().reshape([batch, len, 16]);
        sequences.narrow(1, position, 1).squeeze_dim(1)
    };
    let mut past = [None, None];
    for position in 0..len {
        let newest = rotation(position..position + 1);
        let mut states = at(&input, position);
        for (block, past) in blocks.iter().zip(&mut past) {
            states = block.advance(states, &newest, past);
        }
        let difference = distance(&values(states), &values(at(&whole, position)));
        assert!(difference < 5e-6, "position {position}: {difference}");
    }
}
