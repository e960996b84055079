use burn::tensor::DType;
use polyglow_model::{ModelConfig, SkipGramModel, Vocabulary};
use serde::Deserialize;

use super::update::decays;
use super::*;
use crate::config::OptimizerKind;
use crate::train::GradientSum;

/// A matrix, on which weight decay acts, and a vector, on which it does not.
#[derive(Module, Debug)]
struct Layer {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

/// A layer and its optimizer between two steps.
struct Run {
    layer: Layer,
    optimizer: Optimizer,
}

impl Run {
    fn new(config: &TrainConfig, [weight, bias]: [&Array; 2]) -> Self {
        let device = Device::flex().autodiff();
        let weight = Tensor::from_data(weight.data(), &device);
        let layer = Layer {
            weight: Param::from_tensor(weight),
            bias: Param::from_tensor(Tensor::from_data(bias.data(), &device)),
        };
        Self {
            optimizer: Optimizer::new(config, &layer),
            layer,
        }
    }

    /// One step with these gradients, which are means over tokens, as a loss with these gradients
    /// gives them.
    fn step(mut self, number: u64, lr: f64, [weight, bias]: [&Array; 2], loss: f32) -> Self {
        let num_tokens = 4;
        let device = Device::flex().autodiff();
        let weight = Tensor::from_data(weight.data(), &device) * num_tokens as f64;
        let bias = Tensor::from_data(bias.data(), &device) * num_tokens as f64;
        let minimized =
            (self.layer.weight.val() * weight).sum() + (self.layer.bias.val() * bias).sum();
        let mut gradients = GradientSum::default();
        gradients.add(&self.layer, minimized.backward());
        let loss = Tensor::from_data([loss], &Device::flex());
        let (num_positions, num_real_positions) = (num_tokens, num_tokens);
        let (loss_sum, nll_sum) = (loss.clone(), loss);
        let sums = WindowSums {
            gradients,
            loss_sum,
            nll_sum,
            num_tokens,
            num_positions,
            num_real_positions,
        };
        self.layer = self.optimizer.step(self.layer, sums, lr, number).0;
        self
    }

    /// Everything that a step may move.
    fn bits(&self) -> Vec<(String, Vec<u32>)> {
        let weights = [
            ("weight".to_owned(), self.layer.weight.val().into_data()),
            ("bias".to_owned(), self.layer.bias.val().into_data()),
        ];
        let all = weights
            .into_iter()
            .chain(self.optimizer.state())
            .chain(self.optimizer.ema());
        let bits = |(name, data): (String, TensorData)| {
            assert_eq!(data.dtype(), DType::F32);
            (name, data.iter::<f32>().map(f32::to_bits).collect())
        };
        all.map(bits).collect()
    }
}

#[derive(Clone, Deserialize)]
struct Array {
    shape: Vec<usize>,
    data: Vec<f32>,
}

impl Array {
    fn new(shape: &[usize], data: &[f32]) -> Self {
        Self {
            shape: shape.to_vec(),
            data: data.to_vec(),
        }
    }

    fn data(&self) -> TensorData {
        TensorData::new(self.data.clone(), self.shape.clone())
    }

    /// For the parameter of [`Layer`] that a test is not about.
    fn nothing() -> Self {
        Self::new(&[1], &[0.0])
    }
}

fn assert_near(found: &TensorData, expected: &Array, tolerance: f32, what: &str) {
    assert_eq!(found.num_elements(), expected.data.len());
    for (found, expected) in found.iter::<f32>().zip(&expected.data) {
        assert!(
            (found - expected).abs() < tolerance,
            "{what}: {found} {expected}"
        );
    }
}

#[test]
fn adam_and_adamw_are_pytorchs() {
    #[derive(Deserialize)]
    struct Golden {
        start: Array,
        grads: Vec<Array>,
        adam: Steps,
        adamw: Steps,
    }
    #[derive(Deserialize)]
    struct Steps {
        weight_decay: f64,
        lr: f64,
        betas: [f64; 2],
        eps: f64,
        params_after_step: Vec<Array>,
    }
    let golden: Golden = serde_json::from_str(include_str!("../../../tests/golden/adam.json"))
        .expect("the golden file is JSON");
    assert!(golden.adamw.weight_decay > 0.0);
    let none = Array::nothing();
    for (optimizer, steps) in [(kind("adam"), golden.adam), (kind("adamw"), golden.adamw)] {
        let Steps {
            weight_decay,
            betas,
            eps,
            ..
        } = steps;
        let config = TrainConfig {
            optimizer,
            betas,
            eps,
            weight_decay,
            clip_norm: 0.0,
            ..TrainConfig::default()
        };
        let mut run = Run::new(&config, [&golden.start, &none]);
        for ((step, grad), expected) in (1..).zip(&golden.grads).zip(&steps.params_after_step) {
            run = run.step(step, steps.lr, [grad, &none], 1.0);
            assert_near(
                &run.layer.weight.val().into_data(),
                expected,
                1e-6,
                &format!("{optimizer:?}, step {step}"),
            );
        }
    }
}

#[test]
fn adafactor_is_pytorchs() {
    #[derive(Deserialize)]
    struct Golden {
        lr: f64,
        weight_decay: f64,
        matrix: Steps,
        vector: Steps,
    }
    #[derive(Deserialize)]
    struct Steps {
        start: Array,
        grads: Vec<Array>,
        after: Vec<Array>,
        state: std::collections::BTreeMap<String, Array>,
    }
    let golden: Golden = serde_json::from_str(include_str!("../../../tests/golden/adafactor.json"))
        .expect("the golden file is JSON");
    let Golden {
        lr,
        weight_decay,
        matrix,
        vector,
    } = golden;
    let optimizer = kind("adafactor");
    let config = TrainConfig {
        optimizer,
        weight_decay,
        clip_norm: 0.0,
        ..TrainConfig::default()
    };
    let mut run = Run::new(&config, [&matrix.start, &vector.start]);
    for (index, grads) in matrix.grads.iter().zip(&vector.grads).enumerate() {
        run = run.step(index as u64 + 1, lr, [grads.0, grads.1], 1.0);
        let what = format!("step {}", index + 1);
        assert_near(
            &run.layer.weight.val().into_data(),
            &matrix.after[index],
            1e-6,
            &what,
        );
        assert_near(
            &run.layer.bias.val().into_data(),
            &vector.after[index],
            1e-6,
            &what,
        );
    }
    let state = run.optimizer.state();
    let names: Vec<&str> = state.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["row.weight", "column.weight", "square.bias"]);
    let expected = [
        &matrix.state["row"],
        &matrix.state["column"],
        &vector.state["square"],
    ];
    for ((name, found), expected) in state.iter().zip(expected) {
        assert_near(found, expected, 1e-5, name);
    }
}

#[test]
fn adafactor_takes_gradients_of_zero() {
    let config = TrainConfig {
        optimizer: kind("adafactor"),
        ..TrainConfig::default()
    };
    let (weight, bias) = (
        Array::new(&[2, 2], &[1.0, -2.0, 3.0, 0.5]),
        Array::new(&[2], &[1.0, 0.0]),
    );
    let (zeros, none) = (Array::new(&[2, 2], &[0.0; 4]), Array::new(&[2], &[0.0; 2]));
    let run = Run::new(&config, [&weight, &bias]).step(1, 0.1, [&zeros, &none], 1.0);
    assert_near(
        &run.layer.weight.val().into_data(),
        &weight,
        1e-9,
        "a matrix",
    );
    assert_near(&run.layer.bias.val().into_data(), &bias, 1e-9, "a vector");
}

#[test]
fn lion_moves_by_the_sign_of_a_running_mean() {
    let (optimizer, betas) = (kind("lion"), [0.9, 0.5]);
    let config = TrainConfig {
        optimizer,
        betas,
        weight_decay: 0.5,
        clip_norm: 0.0,
        ..TrainConfig::default()
    };
    let (weight, bias) = (Array::new(&[1, 2], &[1.0, -1.0]), Array::new(&[1], &[1.0]));
    let mut run = Run::new(&config, [&weight, &bias]);
    // Step 1: the mean is 0, so the signs are those of the gradient. 1 * (1 - 0.1 * 0.5) - 0.1 *
    // sign.
    run = run.step(
        1,
        0.1,
        [
            &Array::new(&[1, 2], &[4.0, -2.0]),
            &Array::new(&[1], &[0.0]),
        ],
        1.0,
    );
    assert_near(
        &run.layer.weight.val().into_data(),
        &Array::new(&[1, 2], &[0.85, -0.85]),
        1e-6,
        "step 1",
    );
    // No decay of a vector, and no move without a gradient.
    assert_near(
        &run.layer.bias.val().into_data(),
        &Array::new(&[1], &[1.0]),
        1e-9,
        "step 1",
    );
    // Step 2: the mean is [2, -1]; 0.9 * 2 - 0.1 * 10 = 0.8 and 0.9 * -1 + 0.1 * 20 = 1.1. 0.85 *
    // 0.95 = 0.8075.
    run = run.step(
        2,
        0.1,
        [
            &Array::new(&[1, 2], &[-10.0, 20.0]),
            &Array::new(&[1], &[3.0]),
        ],
        1.0,
    );
    assert_near(
        &run.layer.weight.val().into_data(),
        &Array::new(&[1, 2], &[0.7075, -0.9075]),
        1e-6,
        "step 2",
    );
    assert_near(
        &run.layer.bias.val().into_data(),
        &Array::new(&[1], &[0.9]),
        1e-6,
        "step 2",
    );
    let state = run.optimizer.state();
    assert_eq!(state[0].0, "mean.weight");
    assert_near(
        &state[0].1,
        &Array::new(&[1, 2], &[-4.0, 9.5]),
        1e-6,
        "0.5 * 2 - 0.5 * 10, -0.5 * 1 + 0.5 * 20",
    );
}

fn kind(name: &str) -> OptimizerKind {
    OptimizerKind::named(name).expect("it is built in")
}

fn kinds() -> [OptimizerKind; 4] {
    ["adam", "adamw", "adafactor", "lion"].map(kind)
}

/// A run of three steps, whose skips are decided in host memory, or on the device as on a GPU.
fn after_three_steps(optimizer: OptimizerKind, on_host: bool) -> Run {
    let config = TrainConfig {
        optimizer,
        ema_decay: 0.9,
        weight_decay: 0.1,
        ..TrainConfig::default()
    };
    let (weight, bias) = (
        Array::new(&[2, 2], &[1.0, -2.0, 3.0, 0.5]),
        Array::new(&[2], &[1.0, 0.1]),
    );
    let mut run = Run::new(&config, [&weight, &bias]);
    run.optimizer.on_host = on_host;
    (1..=3).fold(run, |run, step| run.step(step, 0.01, [&weight, &bias], 2.0))
}

#[test]
fn a_step_that_is_not_finite_moves_nothing_and_leaves_no_trace() {
    let (weight, bias) = (
        Array::new(&[2, 2], &[0.1, -0.2, 0.3, 0.4]),
        Array::new(&[2], &[1.0, -0.1]),
    );
    let with = |value| Array::new(&[2, 2], &[0.1, value, 0.3, 0.4]);
    for (kind, on_host) in kinds()
        .into_iter()
        .flat_map(|kind| [(kind, true), (kind, false)])
    {
        let what = format!("{kind:?}, on the host: {on_host}");
        let before = after_three_steps(kind, on_host).bits();
        // The fourth is finite, but its square is not.
        for (gradient, loss) in [
            (f32::NAN, 2.0),
            (f32::INFINITY, 2.0),
            (f32::NEG_INFINITY, f32::INFINITY),
            (1e30, 2.0),
            (0.1, f32::NAN),
        ] {
            let poisoned =
                after_three_steps(kind, on_host).step(4, 0.01, [&with(gradient), &bias], loss);
            assert_eq!(
                poisoned.bits(),
                before,
                "{what}, a gradient of {gradient} and a loss of {loss}"
            );
            let after = poisoned.step(5, 0.01, [&weight, &bias], 2.0).bits();
            let without = after_three_steps(kind, on_host)
                .step(5, 0.01, [&weight, &bias], 2.0)
                .bits();
            assert_eq!(after, without, "{what}");
            assert_ne!(after, before, "{what}: the next step moves something");
        }
    }
}

#[test]
fn where_a_skip_is_decided_changes_no_bit_of_other_steps() {
    for kind in kinds() {
        assert_eq!(
            after_three_steps(kind, true).bits(),
            after_three_steps(kind, false).bits(),
            "{kind:?}"
        );
    }
}

#[test]
fn each_optimizer_keeps_what_its_documentation_says() {
    let layer = after_three_steps(kind("adam"), true).layer;
    // A matrix of 2 x 2 and a vector of 2.
    for (optimizer, expected) in kinds().into_iter().zip([12, 12, 4 + 2, 6]) {
        let config = TrainConfig {
            optimizer,
            ..TrainConfig::default()
        };
        assert_eq!(
            state_len(&*rule(&config), &layer),
            expected,
            "{optimizer:?}"
        );
        let kept = Optimizer::new(&config, &layer).state();
        assert_eq!(
            kept.iter()
                .map(|(_, data)| data.num_elements())
                .sum::<usize>(),
            expected,
            "{optimizer:?}"
        );
    }
}

#[test]
fn decay_spares_embeddings_biases_and_norms() {
    assert!(decays("encoder.layers.0.feed_forward.inner.weight", 2));
    assert!(!decays("src_embedding.weight", 2));
    assert!(!decays("tgt_position.weight", 2));
    assert!(!decays("encoder.layers.0.feed_forward.inner.bias", 1));
    assert!(!decays("encoder.norm.gamma", 1));
    // All that word vectors are made of are embeddings.
    let config = ModelConfig {
        arch: SkipGramModel::ARCH,
        d_model: Some(4),
        ..ModelConfig::default()
    };
    let vocabulary = Vocabulary {
        src_size: 9,
        tgt_size: 9,
        shared: true,
        src_pad_id: 0,
        tgt_pad_id: 0,
        max_len: 16,
        image: None,
    };
    let words = config
        .shape(vocabulary)
        .expect("the sizes fit")
        .init(1, &Device::flex());
    let names: Vec<String> = parameters(&words)
        .into_iter()
        .map(|parameter| parameter.name)
        .collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| !decays(name, 2)), "{names:?}");
}

#[test]
fn parameters_that_are_updated_together_move_as_by_themselves() {
    let start = [
        &Array::new(&[2, 3], &[0.5, -1.0, 2.0, 0.0, 1.5, -0.5]),
        &Array::new(&[3], &[1.0, 0.0, -2.0]),
    ];
    let gradients = [
        &Array::new(&[2, 3], &[3.0, 0.5, -1.0, 0.25, 0.0, 2.0]),
        &Array::new(&[3], &[-0.5, 4.0, 0.125]),
    ];
    for optimizer in [kind("adam"), kind("adamw"), kind("lion")] {
        let config = TrainConfig {
            optimizer,
            ema_decay: 0.5,
            clip_norm: 1.0,
            ..TrainConfig::default()
        };
        let (mut alone, mut joined) = (Run::new(&config, start), Run::new(&config, start));
        let rule = rule(&config);
        assert!(rule.is_elementwise());
        joined.optimizer.slots = slots(&*rule, parameters(&joined.layer), true, true);
        // What may decay is not joined with what may not.
        assert_eq!(joined.optimizer.slots.len(), 2);
        let Slot {
            members,
            state,
            ema,
            ..
        } = joined.optimizer.slots.remove(0);
        let other = &mut joined.optimizer.slots[0];
        other.members.extend(members);
        other.state = state
            .into_iter()
            .zip(&other.state)
            .map(|(one, two)| Tensor::cat(vec![two.clone(), one], 0))
            .collect();
        other.ema = ema
            .zip(other.ema.take())
            .map(|(one, two)| Tensor::cat(vec![two, one], 0));
        for step in 1..=3 {
            (alone, joined) = (
                alone.step(step, 0.1, gradients, 1.0),
                joined.step(step, 0.1, gradients, 1.0),
            );
        }
        // Through a checkpoint and back, where each has its own.
        let (state, ema) = (joined.optimizer.state(), joined.optimizer.ema());
        let find = |all: &[(String, TensorData)], name: &str| {
            all.iter()
                .find(|(found, _)| found == name)
                .map(|(_, data)| data.clone())
        };
        joined
            .optimizer
            .restore_state(&Device::flex(), |name, _| find(&state, name).ok_or(()))
            .expect("all are there");
        joined
            .optimizer
            .restore_ema(&Device::flex(), |name, _| find(&ema, name).ok_or(()))
            .expect("all are there");
        for ((name, found), (expected_name, expected)) in
            joined.bits().into_iter().zip(alone.bits())
        {
            assert_eq!(name, expected_name);
            for (found, expected) in found.into_iter().zip(expected) {
                let (found, expected) = (f32::from_bits(found), f32::from_bits(expected));
                assert!(
                    (found - expected).abs() < 1e-6,
                    "{optimizer:?}, {name}: {found}, {expected}"
                );
            }
        }
    }
}
