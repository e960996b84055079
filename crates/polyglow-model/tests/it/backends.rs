//! What a backend computes does not depend on the way that it is asked: logits, loss and gradients.
//! `polyglow-bench compare` compares backends with each other.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Int, Tensor};
use polyglow_model::parameter::ParamPath;
use polyglow_model::{
    LossOutput, Model, ModelShape, Precision, Predict, Prediction, Task, cross_entropy,
};

use crate::{architectures, captioner, distance, encoder, ids, values, variants};

/// The results of a model on a device.
#[derive(PartialEq)]
struct Computed {
    logits: Vec<f32>,
    loss: f32,
    /// Every gradient with its parameter's name.
    gradients: Vec<(String, Vec<f32>)>,
}

/// Variants of the Transformer, and of the other architectures.
fn shapes() -> Vec<ModelShape> {
    variants()
        .into_iter()
        .map(ModelShape::from)
        .chain(architectures::shapes())
        .chain(encoder::shapes())
        .chain(captioner::shapes())
        .collect()
}

/// Sources, inputs of the decoder, and targets, as a model takes them.
fn inputs(model: &Model, device: &Device) -> (Tensor<2, Int>, Tensor<2, Int>, Tensor<1, Int>) {
    let (src, tgt_in, tgt_out) = match model.task() {
        Task::Words => (
            ids([[4], [7]], device),
            ids([[5, 7, 8], [6, 4, 4]], device),
            ids([[1, 0, 0], [1, 0, 0]], device),
        ),
        Task::Translation | Task::Language => (
            ids([[4, 5, 6, 2], [7, 8, 2, 0]], device),
            ids([[1, 7, 8], [1, 9, 0]], device),
            ids([[7, 8, 2], [9, 2, 0]], device),
        ),
        Task::Captions => (
            captioner::images(2, device),
            ids([[1, 7, 8], [1, 9, 0]], device),
            ids([[7, 8, 2], [9, 2, 0]], device),
        ),
        _ => {
            let (src, targets) = encoder::inputs(model, device);
            return (src.clone(), src, targets);
        }
    };
    (src, tgt_in, tgt_out.flatten(0, 1))
}

/// The smoothed loss of a prediction; of word vectors, which have no padding, over all targets.
fn loss(model: &Model, prediction: Prediction<'_>, targets: Tensor<1, Int>) -> LossOutput {
    match model.task() {
        Task::Words => prediction.loss_without_padding(targets, 0.1),
        _ => prediction.loss(targets, 0.1, model.vocabulary().tgt_pad_id),
    }
}

/// The same from scores.
fn loss_of_scores(model: &Model, logits: Tensor<2>, targets: Tensor<1, Int>) -> LossOutput {
    // The classes of word vectors are 0 and 1, so that 2 is no target.
    let pad_id = if model.task() == Task::Words {
        2
    } else {
        model.vocabulary().tgt_pad_id
    };
    cross_entropy(logits, targets, 0.1, pad_id)
}

fn compute(shape: &ModelShape, device: &Device) -> Computed {
    let device = device.clone().autodiff();
    let model = shape.init(3, &device);
    let (src, tgt_in, targets) = inputs(&model, &device);
    let logits = crate::logits(&model, src.clone(), tgt_in.clone());
    let loss = loss(
        &model,
        model.predict(crate::inputs(&model, src, tgt_in)),
        targets,
    );
    let gradients = gradients(&model, &loss.loss_sum.backward());
    Computed {
        logits: values(logits.inner()),
        loss: values(loss.loss_sum)[0],
        gradients,
    }
}

fn gradients(model: &Model, grads: &Gradients) -> Vec<(String, Vec<f32>)> {
    let mut all = AllGradients {
        path: ParamPath::default(),
        grads,
        values: Vec::new(),
    };
    model.visit(&mut all);
    all.values
}

struct AllGradients<'a> {
    path: ParamPath,
    grads: &'a Gradients,
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
        let grad = param
            .val()
            .grad(self.grads)
            .expect("every parameter takes part");
        self.values.push((self.path.name(), values(grad)));
    }
}

/// Training computes the loss alone, and search the scores; both give the same loss.
#[test]
fn a_loss_is_that_of_the_scores() {
    let device = Device::flex().autodiff();
    for shape in shapes() {
        let (src, tgt_in, targets) = inputs(&shape.init(3, &device), &device);
        for precision in [Precision::F32, Precision::Bf16] {
            let model = shape.clone().with_precision(precision).init(3, &device);
            let inputs = crate::inputs(&model, src.clone(), tgt_in.clone());
            let alone = loss(&model, model.predict(inputs.clone()), targets.clone());
            let (prediction, _) = model.predict_aligned(inputs.clone());
            let aligned = loss(&model, prediction, targets.clone());
            let expected = loss_of_scores(&model, model.predict(inputs).logits(), targets.clone());
            let of_scores = gradients(&model, &expected.loss_sum.backward());
            // Attention that is watched adds in another order, and what differs in its last bit may
            // be rounded to the other side.
            let losses = if precision == Precision::F32 {
                vec![alone, aligned]
            } else {
                vec![alone]
            };
            for actual in losses {
                let all = gradients(&model, &actual.loss_sum.backward());
                assert!(
                    distance(&values(actual.loss_sum), &values(expected.loss_sum.clone())) < 1e-5,
                    "{shape:?}"
                );
                assert!(
                    distance(&values(actual.nll_sum), &values(expected.nll_sum.clone())) < 1e-5,
                    "{shape:?}"
                );
                for ((name, gradient), (_, expected)) in all.iter().zip(&of_scores) {
                    let difference = distance(gradient, expected);
                    assert!(
                        difference < 1e-5,
                        "{shape:?}: the gradient of {name} differs by {difference}"
                    );
                }
            }
        }
    }
}

#[test]
fn flex_equals_itself_bit_for_bit() {
    for shape in shapes() {
        let device = Device::flex();
        assert!(compute(&shape, &device) == compute(&shape, &device));
    }
}
