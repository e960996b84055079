//! One training step, on its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, GradientCheckpointingStrategy, Tensor, TensorData};
use polyglow_data::batch::PairBatch;
use polyglow_data::corpus::Corpus;
use polyglow_data::example::Example;
use polyglow_data::id_cache::IdCache;
use polyglow_data::pair::Pair;
use polyglow_data::special::SpecialIds;
use polyglow_data::tokenizer::{Kind, TokenizerConfig, Tokenizers};
use polyglow_model::{Model, ModelConfig, Precision, Vocabulary, parameter};
use polyglow_train::config::{Config, TrainConfig};
use polyglow_train::tasks::translation::Translation;
use polyglow_train::tasks::{HeldOut, Setting};
use polyglow_train::train::{
    Optimizer, Phase, StepArgs, Stepper, StepperParts, WindowSums, single_process,
};
use polyglow_train::{Plan, TrainError};

const SPECIAL: SpecialIds = SpecialIds {
    pad: 0,
    bos: 1,
    eos: 2,
    unk: 3,
};

fn examples() -> Vec<Example> {
    let example = |src: &[u32], tgt: &[u32]| Example {
        src: src.to_vec(),
        tgt: tgt.to_vec(),
    };
    vec![
        example(&[4, 5, 6], &[7, 8]),
        example(&[9], &[10, 11, 12, 4]),
        example(&[5, 5], &[6]),
        example(&[8, 7, 6, 5, 4], &[4, 5, 6, 7, 8]),
    ]
}

/// The weights after a step over each of these windows of micro-batches, and the steps' losses.
fn weights_after(windows: &[Vec<Vec<PairBatch>>]) -> (Vec<f32>, Vec<f64>) {
    let (model, losses) = train(
        windows,
        &TrainConfig {
            lr: 1e-3,
            ..TrainConfig::default()
        },
    );
    (weights(&model), losses)
}

fn weights(model: &Model) -> Vec<f32> {
    parameter::read(model)
        .into_iter()
        .flat_map(|(_, data)| data.iter::<f32>().collect::<Vec<_>>())
        .collect()
}

/// An untrained model without dropout, and the device that it is trained on.
fn model(train: &TrainConfig) -> (Model, Device) {
    model_with(0.0, train)
}

fn model_with(dropout: f64, train: &TrainConfig) -> (Model, Device) {
    model_on(Device::flex(), dropout, train)
}

fn model_on(device: Device, dropout: f64, train: &TrainConfig) -> (Model, Device) {
    let config = ModelConfig {
        d_model: Some(16),
        d_ff: Some(24),
        num_heads: Some(2),
        num_encoder_layers: Some(1),
        num_decoder_layers: Some(1),
        dropout: Some(dropout),
        ..ModelConfig::default()
    };
    let vocabulary = Vocabulary {
        src_size: 13,
        tgt_size: 13,
        shared: true,
        src_pad_id: SPECIAL.pad,
        tgt_pad_id: SPECIAL.pad,
        max_len: 8,
        image: None,
    };
    let shape = config
        .shape(vocabulary)
        .expect("a valid shape")
        .with_precision(train.precision);
    // A run in bf16 is refused where the CPU has no instructions for it. Here they are imitated
    // then.
    let exact = TrainConfig {
        precision: Precision::F32,
        ..train.clone()
    };
    let device = Plan::on(plan(&exact).config, device, None)
        .training_device()
        .expect("every device computes in f32");
    (shape.init(1, &device), device)
}

fn plan(train: &TrainConfig) -> Plan {
    let train = TrainConfig {
        label_smoothing: 0.1,
        alignment_weight: 0.0,
        ..train.clone()
    };
    Plan::on(
        Config {
            train,
            ..Config::default()
        },
        Device::flex(),
        None,
    )
}

/// Translation with the special tokens of [`SPECIAL`]. Its own pairs, of which there is one, are
/// not trained on here.
fn task(train: &TrainConfig) -> Translation {
    let corpus = Corpus::from_pairs(
        "a pair",
        [Pair {
            src: "a".to_owned(),
            tgt: "b".to_owned(),
        }],
    );
    let words = TokenizerConfig {
        kind: Kind::Word,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&words, &corpus, &mut |_, _| {}).expect("there are words");
    assert_eq!(tokenizers.tgt.special(), SPECIAL);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("pairs.ids");
    let (cache, _) = IdCache::open_or_build(&path, &corpus, &tokenizers, None, &mut |_, _| {})
        .expect("it fits a disk");
    let (valid, bleu) = (
        Arc::new(HeldOut::default()),
        polyglow_metrics::Tokenizer::default(),
    );
    let setting = Setting {
        plan: plan(train),
        tokenizers,
        valid,
        bleu,
        longest: 7,
    };
    Translation::new(setting, Arc::new(cache)).expect("there is no dropout of tokens")
}

/// A stepper with the optimizer of a config, before its first step.
fn stepper<'a>(
    task: &'a Translation,
    (model, device): (Model, Device),
    train: &TrainConfig,
) -> Stepper<'a, Translation> {
    let optimizer = Optimizer::new(train, &model);
    Stepper::from_parts(StepperParts {
        task,
        model,
        optimizer,
        device,
        seed: 1,
    })
}

/// The model after a step over each of these windows of micro-batches, and the steps' losses.
fn train(windows: &[Vec<Vec<PairBatch>>], train: &TrainConfig) -> (Model, Vec<f64>) {
    train_with(0.0, windows, train)
}

fn train_with(
    dropout: f64,
    windows: &[Vec<Vec<PairBatch>>],
    train: &TrainConfig,
) -> (Model, Vec<f64>) {
    train_from(model_with(dropout, train), windows, train)
}

fn train_from(
    model: (Model, Device),
    windows: &[Vec<Vec<PairBatch>>],
    train: &TrainConfig,
) -> (Model, Vec<f64>) {
    let task = task(train);
    let mut stepper = stepper(&task, model, train);
    let mut losses = Vec::new();
    for (number, window) in (1..).zip(windows) {
        let config = StepArgs::new(number, train.lr);
        let record = stepper.step(window, config).expect("threads start");
        losses.push(record.read().loss_sum / record.num_tokens as f64);
    }
    (stepper.into_model().expect("no step failed"), losses)
}

#[test]
fn two_micro_batches_change_the_weights_as_one_batch_of_both() {
    let examples = examples();
    let batch = |examples: &[Example]| vec![PairBatch::new(examples, SPECIAL, SPECIAL, 1)];
    // Micro-batches of different numbers of tokens: a mean of their means would be another step.
    let whole = vec![vec![batch(&examples)]; 2];
    let parts = vec![vec![batch(&examples[..1]), batch(&examples[1..])]; 2];
    let ((whole, whole_losses), (parts, parts_losses)) =
        (weights_after(&whole), weights_after(&parts));
    for (left, right) in whole_losses.iter().zip(&parts_losses) {
        assert!((left - right).abs() < 1e-6);
    }
    // Adam's first steps are lr * sign(gradient): where a gradient is only rounding, its sign may
    // differ.
    let apart = whole
        .iter()
        .zip(&parts)
        .filter(|(left, right)| (*left - *right).abs() > 1e-5)
        .count();
    assert!(
        apart * 100 < whole.len(),
        "{apart} of {} weights differ",
        whole.len()
    );
}

/// The examples in shards.
fn shards(examples: &[Example], of: usize) -> Vec<PairBatch> {
    examples
        .chunks(of)
        .map(|examples| PairBatch::new(examples, SPECIAL, SPECIAL, 1))
        .collect()
}

#[test]
fn shards_change_the_weights_as_one_batch_of_all() {
    let examples = examples();
    let run = |of| weights_after(&vec![vec![shards(&examples, of)]; 2]);
    let ((whole, whole_losses), (parts, parts_losses)) = (run(4), run(1));
    for (left, right) in whole_losses.iter().zip(&parts_losses) {
        assert!((left - right).abs() < 1e-6);
    }
    // As above.
    let apart = whole
        .iter()
        .zip(&parts)
        .filter(|(left, right)| (*left - *right).abs() > 1e-5)
        .count();
    assert!(
        apart * 100 < whole.len(),
        "{apart} of {} weights differ",
        whole.len()
    );
}

#[test]
fn the_bits_of_a_step_do_not_depend_on_the_number_of_threads() {
    let examples = examples();
    // Shards of different sizes, which do not end in the order in which they begin.
    let window = vec![
        shards(&examples, 1),
        shards(&examples, 3),
        shards(&examples, 2),
    ];
    let config = TrainConfig {
        lr: 1e-3,
        ..TrainConfig::default()
    };
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("threads can be started");
        let (model, losses) = pool.install(|| train_with(0.3, &vec![window.clone(); 3], &config));
        (weights(&model), losses)
    };
    let alone = run(1);
    for threads in [2, 3, 8] {
        assert_eq!(run(threads), alone, "{threads} threads");
    }
}

/// The sums of a process, as another would receive them.
fn sums_of(window: &[Vec<PairBatch>], train: &TrainConfig) -> WindowSums {
    let task = task(train);
    let mut sent = None;
    let mut stepper = stepper(&task, model(train), train);
    stepper.set_all_reduce(Box::new(|sums| {
        sent = Some(sums);
        Err(TrainError::new("only the sums are needed"))
    }));
    let step = stepper.step(window, StepArgs::new(1, 0.0));
    assert!(step.is_err(), "the error of the sum is that of the step");
    assert!(stepper.model().is_ok(), "the weights are as they were");
    drop(stepper);
    sent.expect("the sums were made")
}

#[test]
fn two_processes_that_add_their_sums_change_the_weights_as_one_with_both_windows() {
    let examples = examples();
    let batch = |examples: &[Example]| vec![PairBatch::new(examples, SPECIAL, SPECIAL, 1)];
    let (here, there) = (batch(&examples[..1]), batch(&examples[1..]));
    let config = TrainConfig {
        lr: 1e-3,
        ..TrainConfig::default()
    };
    let (alone, losses) = train(&[vec![here.clone(), there.clone()]], &config);

    let mut other = Some(sums_of(&[there], &config));
    let add = move |mut sums: WindowSums| {
        let mut other = other.take().expect("one step");
        for (sum, other) in sums
            .gradients
            .parts_mut()
            .iter_mut()
            .zip(other.gradients.parts_mut())
        {
            *sum = sum.clone() + other.clone();
        }
        sums.loss_sum = sums.loss_sum + other.loss_sum;
        sums.nll_sum = sums.nll_sum + other.nll_sum;
        sums.num_tokens += other.num_tokens;
        sums.num_positions += other.num_positions;
        sums.num_real_positions += other.num_real_positions;
        Ok(sums)
    };
    let task = task(&config);
    let mut stepper = stepper(&task, model(&config), &config);
    stepper.set_all_reduce(Box::new(add));
    let record = stepper
        .step(&[here], StepArgs::new(1, config.lr))
        .expect("the other process is reached");
    assert_eq!(
        record.num_tokens,
        examples
            .iter()
            .map(|example| example.tgt.len() + 1)
            .sum::<usize>()
    );
    let loss = record.read().loss_sum / record.num_tokens as f64;
    assert!((loss - losses[0]).abs() < 1e-6);
    assert_eq!(
        weights(stepper.model().expect("no step failed")),
        weights(&alone),
        "two summands have no order"
    );
}

#[test]
fn a_step_with_a_gradient_that_is_not_finite_leaves_the_model_as_it_is() {
    let window = [vec![PairBatch::new(&examples(), SPECIAL, SPECIAL, 1)]];
    let config = TrainConfig {
        ema_decay: 0.9,
        ..TrainConfig::default()
    };
    let task = task(&config);
    let mut stepper = stepper(&task, model(&config), &config);
    let now = |stepper: &Stepper<'_, Translation>| -> Vec<u32> {
        let model = stepper.model().expect("no step failed");
        weights(model).into_iter().map(f32::to_bits).collect()
    };
    let before = now(&stepper);
    stepper.set_all_reduce(Box::new(|mut sums: WindowSums| {
        let gradient = &mut sums.gradients.parts_mut()[0];
        *gradient = gradient.clone() * f64::INFINITY;
        Ok(sums)
    }));
    let record = stepper
        .step(&window, StepArgs::new(1, 1e-3))
        .expect("nothing else fails");
    assert!(!record.read().grad_norm.is_finite() && !record.read().is_finite());
    assert_eq!(now(&stepper), before);
    let zero = |(_, data): &(String, burn::tensor::TensorData)| {
        data.iter::<f32>().all(|value| value.to_bits() == 0)
    };
    assert!(stepper.optimizer().state().iter().all(zero));
    // What was skipped can be trained on: it is still differentiated.
    stepper.set_all_reduce(Box::new(single_process));
    let record = stepper
        .step(&window, StepArgs::new(2, 1e-3))
        .expect("nothing fails");
    assert!(record.read().grad_norm > 0.0);
    assert_ne!(now(&stepper), before);
}

/// A step that overflows in f16 is repeated with a smaller scale, which checkpoints have.
#[test]
fn with_f16_a_skipped_step_halves_the_scale_of_the_loss() {
    let config = TrainConfig {
        precision: Precision::F16,
        ..TrainConfig::default()
    };
    let task = task(&config);
    let (model, device) = model(&config);
    let before = weights(&model);
    let mut stepper = stepper(&task, (model, device.clone()), &config);
    let scale = |stepper: &Stepper<'_, Translation>| {
        stepper
            .optimizer()
            .loss_scale()
            .expect("f16 has one")
            .into_scalar::<f32>()
            .to_bits()
    };
    let now =
        |stepper: &Stepper<'_, Translation>| weights(stepper.model().expect("no step failed"));
    let first = scale(&stepper);
    // Gradients of a loss that is scaled by as much overflow.
    let restore = |optimizer: &mut Optimizer, scale: f32| {
        let state: HashMap<_, _> = optimizer.state().into_iter().collect();
        let take = |name: &str, _: &[usize]| {
            let of_scale = TensorData::new(vec![scale, 0.0], [2]);
            Ok::<_, ()>(if name == "loss_scale" {
                of_scale
            } else {
                state[name].clone()
            })
        };
        optimizer
            .restore_state(&device.clone().inner(), take)
            .expect("all is there");
    };
    restore(stepper.optimizer_mut(), 1e7);
    let window = vec![vec![PairBatch::new(&examples(), SPECIAL, SPECIAL, 1)]];
    let record = stepper
        .step(&window, StepArgs::new(1, 1e-3))
        .expect("nothing else fails");
    assert!(!record.read().grad_norm.is_finite() && scale(&stepper) == 5e6f32.to_bits());
    assert_eq!(now(&stepper), before);
    restore(stepper.optimizer_mut(), f32::from_bits(first));
    let record = stepper
        .step(&window, StepArgs::new(2, 1e-3))
        .expect("nothing else fails");
    assert!(record.read().grad_norm.is_finite() && scale(&stepper) == first);
    assert_ne!(now(&stepper), before);
}

#[test]
fn each_phase_of_a_step_is_observed_and_changes_nothing() {
    let examples = examples();
    let window = [shards(&examples, 2), shards(&examples, 4)];
    let config = TrainConfig {
        lr: 1e-3,
        ..TrainConfig::default()
    };
    let (expected, _) = train(&[window.to_vec()], &config);
    let task = task(&config);
    let mut stepper = stepper(&task, model(&config), &config);
    let phases = Mutex::new(Vec::new());
    let observe = |phase: Phase, begin: Instant| {
        assert!(begin <= Instant::now());
        phases.lock().expect("no thread panicked").push(phase);
    };
    stepper
        .observed_step(&window, StepArgs::new(1, config.lr), &observe)
        .expect("nothing fails");
    let phases = phases.into_inner().expect("no thread panicked");
    let count = |phase| phases.iter().filter(|other| **other == phase).count();
    // Three shards, and one update, which comes last.
    assert_eq!(Phase::ALL.map(count), [3, 3, 3, 1]);
    assert_eq!(phases.last(), Some(&Phase::Update));
    let model = stepper.into_model().expect("no step failed");
    assert_eq!(weights(&model), weights(&expected));
}

#[test]
fn padding_does_not_change_a_step() {
    let examples = examples();
    let tight = vec![vec![vec![PairBatch::new(&examples, SPECIAL, SPECIAL, 1)]]];
    let padded = vec![vec![vec![PairBatch::new(&examples, SPECIAL, SPECIAL, 8)]]];
    let ((tight, tight_losses), (padded, padded_losses)) =
        (weights_after(&tight), weights_after(&padded));
    assert!((tight_losses[0] - padded_losses[0]).abs() < 1e-6);
    let apart = tight
        .iter()
        .zip(&padded)
        .filter(|(left, right)| (*left - *right).abs() > 1e-5)
        .count();
    assert!(
        apart * 100 < tight.len(),
        "{apart} of {} weights differ",
        tight.len()
    );
}

#[test]
fn with_rounded_factors_the_loss_falls_as_with_f32() {
    let window = vec![vec![vec![PairBatch::new(&examples(), SPECIAL, SPECIAL, 1)]]; 60];
    let curve = |precision| {
        train(
            &window,
            &TrainConfig {
                precision,
                lr: 3e-3,
                ..TrainConfig::default()
            },
        )
        .1
    };
    let exact = curve(Precision::F32);
    assert!(
        exact[59] < 0.5 * exact[0],
        "something is learned: {exact:?}"
    );
    // A factor is off by 2^-9 of itself at most. A logit is the end of some ten products one after
    // the other, whose errors are random and of logits about 1, and the loss is the mean of 16 of
    // them: well below ten times an error. With f16 a factor is off by 2^-12, as is a result, so
    // that curves are promised to be within a hundredth.
    for (precision, bound) in [(Precision::Bf16, 10.0 / 512.0), (Precision::F16, 0.01)] {
        let rounded = curve(precision);
        assert!(
            (exact[0] - rounded[0]).abs() > 0.0,
            "the setting is not ignored"
        );
        for (step, (exact, rounded)) in exact.iter().zip(&rounded).enumerate() {
            assert!(
                (exact - rounded).abs() < bound * exact,
                "{precision:?}, step {step}: {exact} and {rounded}"
            );
        }
    }
}

/// The losses of a training on a GPU, or on a software driver that stands for one, are those of
/// flex, and with f16 near them.
#[cfg(any(feature = "wgpu", feature = "vulkan"))]
#[test]
fn fifty_steps_on_a_gpu_are_those_on_flex() {
    #[cfg(feature = "wgpu")]
    let kind = burn::tensor::DeviceType::Wgpu;
    #[cfg(not(feature = "wgpu"))]
    let kind = burn::tensor::DeviceType::Vulkan;
    let gpu = Device::enumerate(kind)
        .into_iter()
        .next()
        .expect("this is tested where there is a driver");
    let window = vec![vec![vec![PairBatch::new(&examples(), SPECIAL, SPECIAL, 8)]]; 50];
    let curve = |device: &Device, precision| {
        let config = TrainConfig {
            precision,
            lr: 3e-3,
            ..TrainConfig::default()
        };
        train_from(model_on(device.clone(), 0.0, &config), &window, &config).1
    };
    let expected = curve(&Device::flex(), Precision::F32);
    assert!(
        expected[49] < 0.6 * expected[0],
        "something is learned: {expected:?}"
    );
    let all = [(Precision::F32, 1e-3), (Precision::F16, 0.01)];
    for (precision, bound) in all
        .into_iter()
        .filter(|(precision, _)| precision.is_supported(&gpu))
    {
        let actual = curve(&gpu, precision);
        for (step, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
            let difference = (expected - actual).abs();
            assert!(
                difference < bound * expected,
                "{precision:?}, step {step}: {expected} and {actual}"
            );
        }
        println!("{precision:?} was tested");
    }
}

#[test]
fn the_loss_is_scaled_with_gradient_checkpointing_too() {
    let window = vec![vec![vec![PairBatch::new(&examples(), SPECIAL, SPECIAL, 1)]]; 2];
    let config = TrainConfig {
        precision: Precision::F16,
        ..TrainConfig::default()
    };
    let (_, kept) = train(&window, &config);
    let (_, again) = train(
        &window,
        &TrainConfig {
            gradient_checkpointing: true,
            ..config
        },
    );
    for (kept, again) in kept.iter().zip(&again) {
        assert!((kept - again).abs() < 0.01 * kept, "{kept} and {again}");
    }
}

/// The different ways in which parameters are differentiated.
fn strategies(model: &Model) -> Vec<GradientCheckpointingStrategy> {
    struct Strategies(Vec<GradientCheckpointingStrategy>);
    impl ModuleVisitor for Strategies {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(
                param
                    .val()
                    .gradient_checkpointing_strategy()
                    .expect("a parameter in training"),
            );
        }
    }
    let mut strategies = Strategies(Vec::new());
    model.visit(&mut strategies);
    strategies.0.dedup();
    strategies.0
}

#[test]
fn gradient_checkpointing_changes_only_which_activations_are_kept() {
    let window = vec![vec![vec![PairBatch::new(&examples(), SPECIAL, SPECIAL, 1)]]; 3];
    let run = |gradient_checkpointing| {
        train(
            &window,
            &TrainConfig {
                gradient_checkpointing,
                ..TrainConfig::default()
            },
        )
    };
    let ((kept, kept_losses), (again, again_losses)) = (run(false), run(true));
    // What was moved, and what takes up its values as a resumed training does, computes in the same
    // way as before.
    assert_eq!(strategies(&kept), [GradientCheckpointingStrategy::Disabled]);
    assert_eq!(
        strategies(&again),
        [GradientCheckpointingStrategy::Balanced]
    );
    let mut values = parameter::read(&again).into_iter();
    let resumed = parameter::replace(again.clone(), |_, _| {
        values.next().map(|(_, data)| data).ok_or("a value lacks")
    });
    assert_eq!(
        strategies(&resumed.expect("there is one for each")),
        [GradientCheckpointingStrategy::Balanced]
    );
    let (kept, again) = (weights(&kept), weights(&again));
    for (left, right) in kept_losses.iter().zip(&again_losses) {
        assert!((left - right).abs() < 1e-5, "{left} and {right}");
    }
    // As above: the kernels that it does without sum in another order.
    let apart = kept
        .iter()
        .zip(&again)
        .filter(|(left, right)| (*left - *right).abs() > 1e-5)
        .count();
    assert!(
        apart * 100 < kept.len(),
        "{apart} of {} weights differ",
        kept.len()
    );
}
