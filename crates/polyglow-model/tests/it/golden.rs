//! Encoder, decoder, loss and gradients equal PyTorch's (written by `scripts/golden.py`).

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use polyglow_model::parameter::{self, ParamPath};
use polyglow_model::{
    Activation, Norm, Position, Precision, TieEmbeddings, Transformer, TransformerShape,
    cross_entropy,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{device, distance, values};

/// A file of cases, each with the config of its kind of model.
#[derive(Deserialize)]
struct Golden<C> {
    cases: Vec<Case<C>>,
}

#[derive(Deserialize)]
pub(crate) struct Case<C> {
    pub(crate) name: String,
    pub(crate) config: C,
    pub(crate) label_smoothing: f64,
    pub(crate) pad_id: u32,
    params: BTreeMap<String, Array>,
    pub(crate) src: Vec<Vec<i32>>,
    pub(crate) tgt_in: Vec<Vec<i32>>,
    pub(crate) tgt_out: Vec<Vec<i32>>,
    memory: Array,
    logits: Array,
    loss_sum: f32,
    nll_sum: f32,
    num_tokens: usize,
    grads: BTreeMap<String, Array>,
}

#[derive(Deserialize)]
struct CaseConfig {
    activation: Activation,
    norm: Norm,
    position: Position,
    tie_embeddings: TieEmbeddings,
    src_vocab: usize,
    tgt_vocab: usize,
    d_model: usize,
    d_ff: usize,
    num_heads: usize,
    num_encoder_layers: usize,
    num_decoder_layers: usize,
    max_len: usize,
}

#[derive(Deserialize)]
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Vec<f32>,
}

impl Array {
    pub(crate) fn tensor<const D: usize>(&self, device: &Device) -> Tensor<D> {
        let data = TensorData::new(self.data.clone(), self.shape.clone());
        Tensor::from_data(data, device)
    }
}

/// The module with these parameters, which are all that it has.
pub(crate) fn with_params<M: Module>(case: &str, module: M, params: &BTreeMap<String, Array>) -> M {
    let mut unused: Vec<&String> = params.keys().collect();
    let module = parameter::replace(module, |name, shape| {
        let array = params
            .get(name)
            .ok_or(format!("{case}: no parameter {name}"))?;
        assert_eq!(array.shape, shape, "{name}");
        unused.retain(|other| *other != name);
        Ok::<_, String>(TensorData::new(array.data.clone(), shape.to_vec()))
    });
    assert!(
        unused.is_empty(),
        "{case}: parameters that the model lacks: {unused:?}"
    );
    module.expect("every parameter has a golden value")
}

/// Checks that the gradients of all parameters equal the expected ones.
pub(crate) fn check_param_gradients<M: Module>(
    case: &str,
    module: &M,
    grads: &Gradients,
    expected: &BTreeMap<String, Array>,
) {
    let mut check = GradientCheck {
        path: ParamPath::default(),
        grads,
        name: case,
        expected,
        seen: 0,
    };
    module.visit(&mut check);
    assert_eq!(check.seen, expected.len(), "{case}");
}

/// Checks that a gradient equals the expected one, but for rounding.
pub(crate) fn check_gradient<const D: usize>(
    case: &str,
    name: &str,
    actual: Option<Tensor<D>>,
    expected: &[f32],
) {
    let actual = actual.unwrap_or_else(|| panic!("{case}: {name} has no gradient"));
    let difference = distance(&values(actual), expected);
    let largest = expected
        .iter()
        .fold(1.0f32, |largest, value| largest.max(value.abs()));
    assert!(
        difference < 5e-6 * largest,
        "{case}: gradient of {name} differs by {difference}"
    );
}

/// The cases of a golden file.
pub(crate) fn cases<C: DeserializeOwned>(json: &str) -> Vec<Case<C>> {
    let golden: Golden<C> = serde_json::from_str(json).expect("the golden file is as above");
    golden.cases
}

fn transformers() -> Vec<Case<CaseConfig>> {
    cases(include_str!("../golden/transformer.json"))
}

impl Case<CaseConfig> {
    /// The model of this case with PyTorch's weights.
    fn model(&self, device: &Device) -> Transformer {
        let config = &self.config;
        let config = TransformerShape {
            src_vocab_size: config.src_vocab,
            tgt_vocab_size: config.tgt_vocab,
            src_pad_id: self.pad_id,
            tgt_pad_id: self.pad_id,
            max_len: config.max_len,
            d_model: config.d_model,
            d_ff: config.d_ff,
            num_heads: config.num_heads,
            num_encoder_layers: config.num_encoder_layers,
            num_decoder_layers: config.num_decoder_layers,
            dropout: 0.0,
            attention_dropout: 0.0,
            activation_dropout: 0.0,
            activation: config.activation,
            norm: config.norm,
            position: config.position,
            tie_embeddings: config.tie_embeddings,
            output_bias: false,
            precision: Precision::F32,
        };
        self.with_weights(Transformer::new(&config, 1, device))
    }
}

impl<C> Case<C> {
    /// The model with PyTorch's weights.
    pub(crate) fn with_weights<M: Module>(&self, model: M) -> M {
        with_params(&self.name, model, &self.params)
    }

    /// The logits at every position that is no padding equal PyTorch's.
    pub(crate) fn check_logits(&self, logits: Tensor<2>) {
        let [_, vocab_size] = logits.dims();
        let real = self
            .tgt_out
            .iter()
            .flatten()
            .flat_map(|&id| std::iter::repeat_n(id != self.pad_id as i32, vocab_size));
        let keep = |data: &[f32]| -> Vec<f32> {
            data.iter()
                .zip(real.clone())
                .filter(|(_, real)| *real)
                .map(|(value, _)| *value)
                .collect()
        };
        let difference = distance(&keep(&values(logits)), &keep(&self.logits.data));
        assert!(
            difference < 5e-6,
            "{}: logits differ by {difference}",
            self.name
        );
    }

    /// The losses of these logits, and the gradients of all parameters, equal PyTorch's.
    pub(crate) fn check_gradients<M: Module>(&self, model: &M, logits: Tensor<2>) {
        let targets = matrix(&self.tgt_out, &logits.device());
        let num_tokens = self
            .tgt_out
            .iter()
            .flatten()
            .filter(|&&id| id != self.pad_id as i32)
            .count();
        assert_eq!(num_tokens, self.num_tokens);
        let loss = cross_entropy(
            logits,
            targets.flatten(0, 1),
            self.label_smoothing,
            self.pad_id,
        );
        let grads = loss.loss_sum.backward();
        assert!(
            (values(loss.loss_sum)[0] - self.loss_sum).abs() < 2e-5,
            "{}",
            self.name
        );
        assert!(
            (values(loss.nll_sum)[0] - self.nll_sum).abs() < 2e-5,
            "{}",
            self.name
        );

        check_param_gradients(&self.name, model, &grads, &self.grads);
    }
}

pub(crate) fn matrix(rows: &[Vec<i32>], device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(
        TensorData::new(rows.concat(), [rows.len(), rows[0].len()]),
        device,
    )
}

#[test]
fn encoder_and_decoder_equal_pytorch() {
    for case in transformers() {
        let device = device();
        let model = case.model(&device);
        let memory = model.encode(matrix(&case.src, &device));
        let [_, _, d_model] = memory.states.dims();
        assert_eq!(case.memory.shape, memory.states.dims());
        // A padded source position is never attended to, so its state does not matter.
        let real = case
            .src
            .iter()
            .flatten()
            .flat_map(|&id| std::iter::repeat_n(id != 0, d_model));
        let keep = |data: &[f32]| -> Vec<f32> {
            data.iter()
                .zip(real.clone())
                .filter(|(_, real)| *real)
                .map(|(value, _)| *value)
                .collect()
        };
        let difference = distance(&keep(&values(memory.states)), &keep(&case.memory.data));
        assert!(
            difference < 2e-6,
            "{}: memory differs by {difference}",
            case.name
        );
        case.check_logits(model.forward(matrix(&case.src, &device), matrix(&case.tgt_in, &device)));
    }
}

#[test]
fn loss_and_gradients_equal_pytorch() {
    for case in transformers() {
        let device = device().autodiff();
        let model = case.model(&device);
        let logits = model.forward(matrix(&case.src, &device), matrix(&case.tgt_in, &device));
        case.check_gradients(&model, logits);
    }
}

struct GradientCheck<'a> {
    path: ParamPath,
    grads: &'a Gradients,
    name: &'a str,
    expected: &'a BTreeMap<String, Array>,
    seen: usize,
}

impl ModuleVisitor for GradientCheck<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let name = self.path.name();
        let expected = &self.expected[&name];
        assert_eq!(param.shape().to_vec(), expected.shape, "{name}");
        check_gradient(
            self.name,
            &name,
            param.val().grad(self.grads),
            &expected.data,
        );
        self.seen += 1;
    }
}
