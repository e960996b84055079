//! Word vectors: the loss and the gradients of PyTorch (written by `scripts/golden-skipgram.py`).

use burn::tensor::{Tensor, TensorData};
use polyglow_model::{
    ModelConfig, ModelShape, Predict, SkipGramModel, Task, Vocabulary, Words, parameter,
};
use serde::Deserialize;

use crate::golden::matrix;
use crate::{device, distance, ids, values};

#[derive(Deserialize)]
struct Golden {
    centers: Vec<Vec<i32>>,
    candidates: Vec<Vec<i32>>,
    /// The vectors of centers and of context, `[9, 5]` each.
    tables: [Vec<f32>; 2],
    loss_sum: f32,
    correct: usize,
    gradients: [Vec<f32>; 2],
}

pub(crate) fn shape() -> ModelShape {
    let config = ModelConfig {
        arch: SkipGramModel::ARCH,
        d_model: Some(5),
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
    config.shape(vocabulary).expect("the sizes fit")
}

#[test]
fn loss_and_gradients_equal_pytorch() {
    let golden: Golden =
        serde_json::from_str(include_str!("../golden/skipgram.json")).expect("it is JSON");
    let device = device().autodiff();
    let mut tables = golden.tables.iter();
    let model = parameter::replace(shape().init(1, &device), |name, shape| {
        let table = tables.next().ok_or(format!("one more parameter, {name}"))?;
        Ok::<_, String>(TensorData::new(table.clone(), shape.to_vec()))
    });
    let model = model.expect("there are two tables");
    assert_eq!(model.task(), Task::Words);
    let words = Words {
        centers: matrix(&golden.centers, &device),
        candidates: matrix(&golden.candidates, &device),
    };
    let logits = model.predict(words.clone()).logits();
    assert_eq!(logits.dims(), [16, 2]);
    let targets: Tensor<1, _> = ids([[1, 0, 0, 0]; 4], &device).flatten(0, 1);
    let correct = logits
        .argmax(1)
        .squeeze_dim::<1>(1)
        .equal(targets.clone())
        .int()
        .sum();
    assert_eq!(
        correct.into_data().iter::<i64>().next(),
        Some(golden.correct as i64)
    );
    let loss = model.predict(words).loss_without_padding(targets, 0.0);
    let gradients = loss.loss_sum.backward();
    for sum in [values(loss.loss_sum)[0], values(loss.nll_sum)[0]] {
        assert!(
            (sum - golden.loss_sum).abs() < 1e-5 * golden.loss_sum,
            "{sum}, not {}",
            golden.loss_sum
        );
    }
    let model: &SkipGramModel = model.downcast_ref().expect("it is a skip-gram model");
    for (table, expected) in [&model.embedding, &model.context]
        .into_iter()
        .zip(&golden.gradients)
    {
        let polyglow_model::weight::Weight::Float(weight) = &table.weight else {
            panic!("it is in 32 bits")
        };
        let actual = weight.val().grad(&gradients).expect("it takes part");
        assert!(distance(&values(actual), expected) < 5e-6);
    }
}

#[test]
fn a_word_has_its_vector_and_no_layer() {
    let device = device();
    let model = shape().init(1, &device);
    let states = model.states(ids([[4, 7]], &device));
    assert_eq!(states.len(), 1);
    let table = values(model.vectors(model.reading_side(), &device));
    let expected: Vec<f32> = [4, 7]
        .iter()
        .flat_map(|id| &table[id * 5..][..5])
        .map(|value| value * 5f32.sqrt())
        .collect();
    assert!(distance(&values(states[0].clone()), &expected) < 1e-6);
}
