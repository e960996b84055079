//! Single layers, used alone from the public interface, equal PyTorch's (written by
//! `scripts/golden-layers.py`), and a search step gives what the whole sequence gives.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::{Bool, Device, Tensor};
use polyglow_model::Activation;
use polyglow_model::attention::{
    AttentionConfig, AttentionInput, AttentionKind, CrossAttention, KeyValue, SelfAttention, alibi,
};
use polyglow_model::cache::indices;
use polyglow_model::dropout::Dropout;
use polyglow_model::feed_forward::{FeedForward, FeedForwardConfig};
use polyglow_model::init::ParamInit;
use polyglow_model::mask::{causal_mask, padding_mask};
use polyglow_model::position::{Rotation, WAVELENGTHS};
use polyglow_model::rms_norm::RmsNorm;
use polyglow_model::weight::Weight;
use serde::Deserialize;

use crate::golden::{Array, check_gradient, check_param_gradients, with_params};
use crate::{device, distance, ids, values};

#[derive(Deserialize)]
struct Golden {
    rms_norm: Vec<Case<RmsNormConfig>>,
    feed_forward: Vec<Case<BlockConfig>>,
    self_attention: Vec<Case<HeadsConfig>>,
    cross_attention: Vec<Case<HeadsConfig>>,
    rotation: Vec<RotationCase>,
}

/// A layer with PyTorch's parameters, what it is called with, and what comes out.
#[derive(Deserialize)]
struct Case<C> {
    name: String,
    config: C,
    params: BTreeMap<String, Array>,
    inputs: BTreeMap<String, Array>,
    output: Array,
    factors: Array,
    grads: BTreeMap<String, Array>,
    input_grads: BTreeMap<String, Array>,
}

#[derive(Deserialize)]
struct RmsNormConfig {
    eps: f64,
}

#[derive(Deserialize)]
struct BlockConfig {
    d_model: usize,
    d_ff: usize,
    activation: Activation,
    bias: bool,
}

#[derive(Deserialize)]
struct HeadsConfig {
    d_model: usize,
    num_heads: usize,
    num_kv_heads: usize,
    bias: bool,
    /// The base of rotary positions.
    base: Option<f64>,
}

#[derive(Deserialize)]
struct RotationCase {
    base: f64,
    start: usize,
    heads: Array,
    output: Array,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/layers.json"))
        .expect("the golden file is as above")
}

/// The inputs of a layer, of which gradients are kept.
struct Inputs<'a> {
    arrays: &'a BTreeMap<String, Array>,
    /// Flat, by name.
    leaves: BTreeMap<&'a str, Tensor<1>>,
}

impl<'a> Inputs<'a> {
    fn new(arrays: &'a BTreeMap<String, Array>, device: &Device) -> Self {
        let leaves = arrays.iter().map(|(name, array)| {
            let leaf = Tensor::<1>::from_data(&array.data[..], device);
            let leaf = if device.is_autodiff() {
                leaf.require_grad()
            } else {
                leaf
            };
            (name.as_str(), leaf)
        });
        Self {
            arrays,
            leaves: leaves.collect(),
        }
    }

    /// The input of this name, if the case has it.
    fn get<const D: usize>(&self, name: &str) -> Option<Tensor<D>> {
        let shape: [usize; D] = self.arrays.get(name)?.shape.clone().try_into().ok()?;
        Some(self.leaves[name].clone().reshape(shape))
    }

    /// An input of `[batch, len, width]` as rows.
    fn rows(&self, name: &str) -> Tensor<2> {
        self.get::<3>(name).expect("the case has it").flatten(0, 1)
    }
}

impl<C> Case<C> {
    /// The layer that `new` makes, with PyTorch's weights.
    fn layer<M: Module>(&self, device: &Device, new: impl FnOnce(&mut ParamInit) -> M) -> M {
        let layer = new(&mut ParamInit::new(1, device));
        with_params(&self.name, layer, &self.params)
    }

    /// The output equals PyTorch's with autodiff and without, and so do all gradients.
    fn check<M: Module>(
        &self,
        new: impl Fn(&mut ParamInit) -> M,
        forward: impl Fn(&M, &Inputs<'_>) -> Tensor<2>,
    ) {
        let plain = device();
        let layer = self.layer(&plain, &new);
        self.check_output(forward(&layer, &Inputs::new(&self.inputs, &plain)));

        let device = plain.autodiff();
        let layer = self.layer(&device, &new);
        let inputs = Inputs::new(&self.inputs, &device);
        let output = forward(&layer, &inputs);
        self.check_output(output.clone());
        let factors = Tensor::<1>::from_data(&self.factors.data[..], &device);
        let grads = (output.flatten::<1>(0, 1) * factors).sum().backward();
        check_param_gradients(&self.name, &layer, &grads, &self.grads);
        for (name, expected) in &self.input_grads {
            let gradient = inputs.leaves[name.as_str()].grad(&grads);
            check_gradient(&self.name, name, gradient, &expected.data);
        }
    }

    fn check_output(&self, output: Tensor<2>) {
        let difference = distance(&values(output), &self.output.data);
        assert!(difference < 2e-6, "{}: differs by {difference}", self.name);
    }
}

impl HeadsConfig {
    fn attention(&self) -> AttentionConfig {
        AttentionConfig {
            d_model: self.d_model,
            num_heads: self.num_heads,
            num_kv_heads: self.num_kv_heads,
            bias: self.bias,
            dropout: 0.0,
        }
    }

    /// The rotation of `len` positions from `start` on, if they are rotary.
    fn rotation(&self, start: usize, len: usize, device: &Device) -> Option<Rotation> {
        let head_dim = self.attention().head_dim();
        self.base
            .map(|base| Rotation::new(head_dim, base, start..start + len, device))
    }
}

#[test]
fn rms_norm_equals_pytorch() {
    for case in golden().rms_norm {
        let eps = case.config.eps;
        case.check(
            |init| RmsNorm::new(8, init).with_eps(eps),
            |norm, inputs| norm.forward(inputs.get("input").expect("the case has it")),
        );
    }
}

#[test]
fn feed_forward_blocks_equal_pytorch() {
    for case in golden().feed_forward {
        let config = FeedForwardConfig {
            d_model: case.config.d_model,
            d_ff: case.config.d_ff,
            activation: case.config.activation,
            bias: case.config.bias,
            dropout: 0.0,
        };
        case.check(
            |init| FeedForward::new(&config, init),
            |block, inputs| block.forward(inputs.get("input").expect("the case has it")),
        );
    }
}

#[test]
fn rotations_equal_pytorch() {
    let device = device();
    for case in golden().rotation {
        let heads: Tensor<4> = case.heads.tensor(&device);
        let [.., len, head_dim] = heads.dims();
        let positions = case.start..case.start + len;
        let rotation = Rotation::new(head_dim, case.base, positions, &device);
        let rotated = values(rotation.apply(heads));
        assert!(distance(&rotated, &case.output.data) < 1e-6);
    }
}

#[test]
fn self_attention_with_grouped_heads_and_bias_equals_pytorch() {
    for case in golden().self_attention {
        let config = &case.config;
        case.check(
            |init| SelfAttention::new(&config.attention(), init),
            |layer, inputs| {
                let device = layer.devices()[0].clone();
                let [_, len, _] = inputs.get::<3>("input").expect("the case has it").dims();
                let mask = causal_mask(len, &device);
                let rotation = config.rotation(0, len, &device);
                let bias = inputs.get("bias");
                let shared = AttentionInput {
                    mask: &mask,
                    rotation: rotation.as_ref(),
                    bias: bias.as_ref(),
                };
                layer.forward(inputs.rows("input"), &shared, AttentionKind::Decoder, None)
            },
        );
    }
}

/// The mask of the golden values: the second source has two tokens.
fn source_mask(device: &Device) -> Tensor<4, Bool> {
    padding_mask(&ids([[5, 5, 5, 5], [5, 5, 0, 0]], device), 0)
}

#[test]
fn cross_attention_with_grouped_heads_equals_pytorch() {
    for case in golden().cross_attention {
        let config = &case.config;
        case.check(
            |init| CrossAttention::new(&config.attention(), init),
            |layer, inputs| {
                let mask = source_mask(&layer.devices()[0]);
                layer.forward(inputs.rows("input"), inputs.rows("memory"), &mask, None)
            },
        );
    }
}

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
fn weights_of_grouped_heads_are_those_of_each_head_of_queries() {
    let device = device();
    let config = AttentionConfig {
        d_model: 8,
        num_heads: 4,
        num_kv_heads: 2,
        bias: true,
        dropout: 0.0,
    };
    let layer = SelfAttention::new(&config, &mut ParamInit::new(3, &device));
    let states = Tensor::<2>::ones([2 * 3, 8], &device);
    let mask = causal_mask(3, &device);
    let mut watched = Vec::new();
    let mut watch = |kind, weights: Tensor<4>| watched.push((kind, weights));
    let shared = AttentionInput::new(&mask);
    layer.forward(states, &shared, AttentionKind::Decoder, Some(&mut watch));
    let [(kind, weights)] = &watched[..] else {
        panic!("one layer calls once")
    };
    assert_eq!(
        (*kind, weights.dims()),
        (AttentionKind::Decoder, [2, 4, 3, 3])
    );
    // Equal states have equal scores, so each query attends equally to what it may.
    let head: Vec<f32> = values(weights.clone().narrow(0, 0, 1).narrow(1, 3, 1));
    let third = 1.0 / 3.0;
    let expected = [1.0, 0.0, 0.0, 0.5, 0.5, 0.0, third, third, third];
    assert!(distance(&head, &expected) < 1e-6, "{head:?}");
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

/// A bias without gradients is added to scores that have them.
#[test]
fn attention_with_a_bias_of_distances_is_trained() {
    let device = device().autodiff();
    let config = AttentionConfig {
        d_model: 8,
        num_heads: 4,
        num_kv_heads: 2,
        bias: false,
        dropout: 0.1,
    };
    let layer = SelfAttention::new(&config, &mut ParamInit::new(3, &device));
    let mask = causal_mask(3, &device);
    let bias = alibi(4, 0..3, &device);
    let shared = AttentionInput {
        bias: Some(&bias),
        ..AttentionInput::new(&mask)
    };
    let states = Tensor::<2>::ones([2 * 3, 8], &device);
    let output = layer.forward(states, &shared, AttentionKind::Decoder, None);
    let gradients = output.sum().backward();
    let weight = layer.output.weight;
    let Weight::Float(weight) = weight else {
        panic!("it is not quantized")
    };
    let gradient = weight.val().grad(&gradients).expect("it takes part");
    assert!(values(gradient).iter().any(|value| *value != 0.0));
}

#[test]
fn a_rotation_for_another_length_is_not_broadcast() {
    let device = device();
    let rotation = Rotation::new(4, WAVELENGTHS, 0..1, &device);
    let heads = Tensor::<4>::ones([1, 1, 2, 4], &device);
    let panicked = std::panic::catch_unwind(|| rotation.apply(heads));
    assert!(panicked.is_err());
}

#[test]
fn sizes_that_no_layer_can_have_are_refused_by_the_field() {
    let config = FeedForwardConfig {
        d_model: 8,
        d_ff: 0,
        activation: Activation::Relu,
        bias: true,
        dropout: 1.0,
    };
    let error = config.check().unwrap_err().to_string();
    assert_eq!(error, "`d_ff = 0`: must be from 1 to 262144");
    let config = FeedForwardConfig { d_ff: 4, ..config };
    let error = config.check().unwrap_err().to_string();
    assert_eq!(
        error,
        "`dropout = 1`: must be a probability, at least 0 and below 1"
    );
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
