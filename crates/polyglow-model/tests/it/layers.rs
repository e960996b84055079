//! Single layers, used alone from the public interface, equal PyTorch's (written by
//! `scripts/golden-layers.py`).

mod steps;

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::{Bool, Device, Tensor};
use polyglow_model::Activation;
use polyglow_model::attention::{
    AttentionConfig, AttentionInput, AttentionKind, CrossAttention, SelfAttention, alibi,
};
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
