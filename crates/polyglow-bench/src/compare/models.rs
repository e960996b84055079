//! Models beside flex: scores, loss and gradients from the same weights, and what a search finds.

use anyhow::{Context, Result, ensure};
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Int, Tensor};
use polyglow_model::parameter::ParamPath;
use polyglow_model::recurrent::Cell;
use polyglow_model::recurrent::attention::Score;
use polyglow_model::search::{
    Hypothesis, Incremental, SearchConfig, SearchMethod, Sentence, SpecialTokens, search,
};
use polyglow_model::{
    Activation, Arch, Captioner, EncoderOnly, Head, Image, ImageShape, Inputs, LanguageModel,
    Model, ModelConfig, ModelShape, Norm, Pair, Position, Predict, RecurrentLanguageModel, Rnn,
    SkipGramModel, Task, Text, TieEmbeddings, Transformer, Vit, Vocabulary, Words,
};

use super::{Check, Compared, are_near, values};

/// Every comparison, and what it compares.
pub(super) const CHECKS: [Check; 2] = [
    ("models: scores, losses and gradients", models),
    ("searches: what they find", searches),
];

const IMAGE: ImageShape = ImageShape {
    height: 4,
    width: 8,
    channels: 3,
};

/// A small model of every architecture, and of the Transformer in each of its variants that have
/// kernels of their own.
fn shapes() -> Result<Vec<ModelShape>> {
    let small = |arch: Arch| ModelConfig {
        arch,
        d_model: Some(8),
        d_ff: Some(12),
        num_heads: Some(2),
        num_encoder_layers: Some(2),
        num_decoder_layers: Some(2),
        dropout: Some(0.0),
        ..ModelConfig::default()
    };
    let recurrent = |arch| ModelConfig {
        d_ff: None,
        num_heads: None,
        cell: Some(Cell::Lstm),
        ..small(arch)
    };
    let configs = [
        small(Transformer::ARCH),
        ModelConfig {
            norm: Norm::Pre,
            activation: Activation::Gelu,
            position: Position::Learned,
            ..small(Transformer::ARCH)
        },
        ModelConfig {
            norm: Norm::Pre,
            activation: Activation::Swiglu,
            position: Position::Rotary,
            tie_embeddings: TieEmbeddings::None,
            ..small(Transformer::ARCH)
        },
        ModelConfig {
            activation: Activation::Swish,
            output_bias: true,
            ..small(Transformer::ARCH)
        },
        ModelConfig {
            num_encoder_layers: None,
            ..small(LanguageModel::ARCH)
        },
        ModelConfig {
            arch: SkipGramModel::ARCH,
            d_model: Some(5),
            ..ModelConfig::default()
        },
        ModelConfig {
            attention: Some(Score::Additive),
            input_feeding: Some(true),
            ..recurrent(Rnn::ARCH)
        },
        ModelConfig {
            num_encoder_layers: None,
            ..recurrent(RecurrentLanguageModel::ARCH)
        },
        ModelConfig {
            num_decoder_layers: None,
            head: Some(Head::Classification),
            ..small(EncoderOnly::ARCH)
        },
        ModelConfig {
            num_decoder_layers: None,
            head: Some(Head::MaskedLm),
            ..small(EncoderOnly::ARCH)
        },
        ModelConfig {
            num_decoder_layers: None,
            patch_size: Some(2),
            ..small(Vit::ARCH)
        },
        ModelConfig {
            patch_size: Some(2),
            ..small(Captioner::ARCH)
        },
    ];
    let shape = |config: &ModelConfig| {
        let reads_images = config.patch_size.is_some();
        let vocabulary = Vocabulary {
            src_size: 13,
            tgt_size: 13,
            shared: true,
            src_pad_id: 0,
            tgt_pad_id: 0,
            max_len: 16,
            image: reads_images.then_some(IMAGE),
        };
        config
            .shape(vocabulary)
            .with_context(|| format!("{config:?}"))
    };
    configs.iter().map(shape).collect()
}

fn ids<const N: usize>(ids: [i32; N], rows: usize, device: &Device) -> Tensor<2, Int> {
    Tensor::<1, Int>::from_data(ids, device).reshape([rows, N / rows])
}

/// Returns inputs for a model, and as many targets as it has scores for, some of them padding.
fn inputs(model: &Model, device: &Device) -> (Inputs, Tensor<1, Int>) {
    let src = match model.vocabulary().image {
        Some(image) => {
            let bytes: Vec<i32> = (0..2 * image.num_bytes())
                .map(|index| (index * 37 % 256) as i32)
                .collect();
            Tensor::<1, Int>::from_data(&bytes[..], device).reshape([2, image.num_bytes()])
        }
        None => ids([4, 5, 6, 2, 7, 8, 2, 0], 2, device),
    };
    let tgt_in = ids([1, 7, 8, 1, 9, 0], 2, device);
    let words = Tensor::from_data([7, 8, 2, 9, 2, 0], device);
    match model.task() {
        Task::Translation => {
            let src = src.into();
            (Pair { src, tgt_in }.into(), words)
        }
        Task::Captions => {
            let src = Image { pixels: src }.into();
            (Pair { src, tgt_in }.into(), words)
        }
        Task::Language => (Text { ids: tgt_in }.into(), words),
        Task::Words => {
            let centers = ids([4, 7], 2, device);
            let candidates = tgt_in;
            let is_neighbor = Tensor::from_data([1, 0, 0, 1, 0, 0], device);
            (
                Words {
                    centers,
                    candidates,
                }
                .into(),
                is_neighbor,
            )
        }
        Task::Images => (
            Image { pixels: src }.into(),
            Tensor::from_data([5, 6], device),
        ),
        Task::Masked => (
            Text { ids: src }.into(),
            Tensor::from_data([0, 5, 0, 0, 7, 9, 0, 0], device),
        ),
        _ => (Text { ids: src }.into(), Tensor::from_data([5, 6], device)),
    }
}

fn models(gpu: &Compared) -> Result<()> {
    for shape in shapes()? {
        let expected = compute(&shape, &Device::flex());
        let actual = compute(&shape, &gpu.device);
        // Ten times as much as of one product, for as many one after the other.
        let bound = 10.0 * gpu.products();
        for ((name, expected), (_, actual)) in expected.iter().zip(&actual) {
            are_near(expected, actual, bound).with_context(|| format!("{shape:?}: {name}"))?;
        }
    }
    Ok(())
}

/// Returns the scores of a model, its loss, and all its gradients, with their names.
fn compute(shape: &ModelShape, device: &Device) -> Vec<(String, Vec<f32>)> {
    let device = device.clone().autodiff();
    let model = shape.init(3, &device);
    let (inputs, targets) = inputs(&model, &device);
    let scores = model.predict(inputs.clone()).logits();
    let prediction = model.predict(inputs);
    let loss = match model.task() {
        Task::Words => prediction.loss_without_padding(targets, 0.1),
        _ => prediction.loss(targets, 0.1, model.vocabulary().tgt_pad_id),
    };
    let mut all = AllGradients {
        path: ParamPath::default(),
        gradients: &loss.loss_sum.backward(),
        values: vec![
            ("scores".to_owned(), values(scores.inner())),
            ("loss".to_owned(), values(loss.loss_sum)),
        ],
    };
    model.visit(&mut all);
    all.values
}

struct AllGradients<'a> {
    path: ParamPath,
    gradients: &'a Gradients,
    values: Vec<(String, Vec<f32>)>,
}

impl ModuleVisitor for AllGradients<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = param.val().grad(self.gradients);
        let gradient = gradient.expect("every parameter takes part");
        self.values.push((self.path.name(), values(gradient)));
    }
}

/// Greedy search, beams and drawing, with constraints, of one model and of two together. Where products
/// round, another word may be the best: the best scores are compared then, and nothing is drawn, since
/// what is drawn next depends on it.
fn searches(gpu: &Compared) -> Result<()> {
    let beam = |beam_size| SearchConfig {
        beam_size,
        ..SearchConfig::default()
    };
    let mut configs = vec![beam(1), beam(3)];
    if gpu.rounds_factors {
        gpu.note("nothing was drawn".to_owned());
    } else {
        configs.push(SearchConfig {
            method: SearchMethod::Sample,
            ..beam(3)
        });
    }
    // Sinusoidal and rotary positions.
    for shape in shapes()?.into_iter().take(3).step_by(2) {
        for config in &configs {
            for seeds in [&[3][..], &[3, 4]] {
                let expected = translate(&shape, &Device::flex(), seeds, config);
                let actual = translate(&shape, &gpu.device, seeds, config);
                compare_hypotheses(gpu, &expected, &actual)
                    .with_context(|| format!("{config:?}, {} models", seeds.len()))?;
            }
        }
    }
    Ok(())
}

fn translate(
    shape: &ModelShape,
    device: &Device,
    seeds: &[u64],
    config: &SearchConfig,
) -> Vec<Vec<Hypothesis>> {
    let plain = Sentence {
        max_len: 6,
        ..Sentence::default()
    };
    let constrained = Sentence {
        prefix: vec![5],
        constraints: vec![vec![6, 7]],
        number: 1,
        ..plain.clone()
    };
    let models: Vec<Model> = seeds.iter().map(|&seed| shape.init(seed, device)).collect();
    let members = models
        .iter()
        .map(|model| (model, ids([4, 5, 6, 2, 7, 8, 2, 0], 2, device)));
    let mut next = Incremental::new(members, &[0, 1]);
    let special = SpecialTokens { bos: 1, eos: 2 };
    search(&mut next, &[plain, constrained], config, special)
}

fn compare_hypotheses(
    gpu: &Compared,
    expected: &[Vec<Hypothesis>],
    actual: &[Vec<Hypothesis>],
) -> Result<()> {
    for (expected, actual) in expected.iter().zip(actual) {
        let ids = |hypotheses: &[Hypothesis]| -> Vec<Vec<u32>> {
            hypotheses
                .iter()
                .map(|hypothesis| hypothesis.ids.clone())
                .collect()
        };
        let (expected_ids, actual_ids) = (ids(expected), ids(actual));
        if gpu.rounds_factors && expected_ids != actual_ids {
            let best = |hypotheses: &[Hypothesis]| vec![hypotheses[0].score];
            are_near(&best(expected), &best(actual), 0.05).context("the best score")?;
            gpu.note("another hypothesis as good".to_owned());
        } else {
            ensure!(
                expected_ids == actual_ids,
                "{actual_ids:?} was found instead of {expected_ids:?}"
            );
        }
    }
    Ok(())
}
