//! Properties that hold for any weights when they have 8 bits.

use std::convert::Infallible;

use burn::tensor::{Tensor, s};
use polyglow_model::quantization::{has_int8_kernels, nearest, quantize};
use polyglow_model::{Model, ModelShape, TransformerShape, parameter};

use crate::{device, distance, ids, logits, small_config, values, variants};

/// A model with matrices of 8 bits, and the one that it was made of.
fn models(config: &TransformerShape) -> [Model; 2] {
    let model = ModelShape::from(config.clone()).init(5, &device());
    let int8 = quantize(model.clone(), |_, layout, weight| {
        Ok::<_, Infallible>(nearest(layout, weight))
    });
    [int8.unwrap_or_else(|never| match never {}), model]
}

#[test]
fn a_model_in_8_bits_says_nearly_the_same_and_keeps_no_other_matrix() {
    let device = device();
    assert!(has_int8_kernels(&device));
    for config in variants() {
        let [int8, float] = models(&config);
        let src = ids([[4, 5, 6, 2], [7, 2, 0, 0]], &device);
        let tgt = ids([[1, 7, 8, 9], [1, 10, 3, 0]], &device);
        let expected = values(logits(&float, src.clone(), tgt.clone()));
        let actual = values(logits(&int8, src, tgt));
        let largest = expected
            .iter()
            .fold(0.0f32, |largest, value| largest.max(value.abs()));
        let error = distance(&actual, &expected);
        assert!(
            error > 0.0 && error < 0.05 * largest,
            "{error} of {largest}"
        );
        let in_f32 = parameter::read(&int8);
        assert!(
            in_f32
                .iter()
                .all(|(name, data)| data.shape().len() == 1 || name.contains("_position."))
        );
    }
}

#[test]
fn advancing_one_by_one_equals_teacher_forcing_in_8_bits() {
    let device = device();
    let mut apart = 0;
    for config in variants() {
        let [model, _] = models(&config);
        let src = ids([[4, 5, 6, 2], [7, 2, 0, 0]], &device);
        let tgt = ids([[1, 7, 8, 9, 3], [1, 10, 11, 12, 4]], &device);
        let all: Tensor<3> = logits(&model, src.clone(), tgt.clone()).reshape([2, 5, -1]);
        let mut cache = model.start(src);
        for position in 0..5 {
            let step = model.advance(tgt.clone().narrow(1, position, 1), &mut cache);
            let expected = all.clone().narrow(1, position, 1).squeeze_dim::<2>(1);
            let step = values(step);
            let expected = values(expected);
            assert!(distance(&step, &expected) < STEP, "position {position}");
            apart += usize::from(distance(&step, &expected) > 1e-5);
        }
    }
    assert!(
        apart <= 1,
        "{apart} of 15 positions differ by more than rounding in 32 bits"
    );
}

/// Attention rounds otherwise in its two forms, and what is near a half may then, seldom, become
/// another whole number: a difference of 1 / 127 of the largest input, times weights of about the
/// same size.
const STEP: f32 = 0.03;

#[test]
fn a_row_in_a_batch_equals_a_batch_of_one_in_8_bits() {
    let device = device();
    let [model, _] = models(&small_config());
    let alone = values(logits(
        &model,
        ids([[7, 5, 2]], &device),
        ids([[1, 10, 4]], &device),
    ));
    let both = logits(
        &model,
        ids([[4, 5, 6], [7, 5, 2]], &device),
        ids([[1, 8, 9], [1, 10, 4]], &device),
    );
    assert!(distance(&alone, &values(both.slice(s![3..6]))) < STEP);
}
