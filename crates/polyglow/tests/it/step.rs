//! One training step, on its own.

use burn::tensor::Device;
use polyglow::train::{Optimizer, StepConfig, TrainConfig, step};
use polyglow_data::batch::Batch;
use polyglow_data::example::Example;
use polyglow_data::special::SpecialIds;
use polyglow_model::{ModelConfig, Transformer, Vocabulary, parameter};

const SPECIAL: SpecialIds = SpecialIds { pad: 0, bos: 1, eos: 2, unk: 3 };

fn examples() -> Vec<Example> {
    let example = |src: &[u32], tgt: &[u32]| Example { src: src.to_vec(), tgt: tgt.to_vec() };
    vec![
        example(&[4, 5, 6], &[7, 8]),
        example(&[9], &[10, 11, 12, 4]),
        example(&[5, 5], &[6]),
        example(&[8, 7, 6, 5, 4], &[4, 5, 6, 7, 8]),
    ]
}

/// The weights after two steps over windows of these micro-batches, and the two steps' losses.
fn weights_after(windows: &[Vec<Batch>]) -> (Vec<f32>, Vec<f64>) {
    let config = ModelConfig {
        d_model: Some(16),
        d_ff: Some(24),
        num_heads: Some(2),
        num_encoder_layers: Some(1),
        num_decoder_layers: Some(1),
        dropout: Some(0.0),
        ..ModelConfig::default()
    };
    let vocabulary = Vocabulary {
        src_size: 13,
        tgt_size: 13,
        shared: true,
        src_pad_id: SPECIAL.pad,
        tgt_pad_id: SPECIAL.pad,
        max_len: 8,
    };
    let device = Device::flex().autodiff();
    let mut model = Transformer::new(&config.transformer(vocabulary).expect("a valid shape"), 1, &device);
    let mut optimizer = Optimizer::new(&TrainConfig::default(), &model);
    let mut losses = Vec::new();
    for (number, window) in (1..).zip(windows) {
        let config = StepConfig { seed: 1, step: number, lr: 1e-3, label_smoothing: 0.1, alignment_weight: 0.0 };
        let (stepped, record) = step(model, &mut optimizer, window, &device, config);
        model = stepped;
        losses.push(f64::from(record.loss_sum.into_scalar::<f32>()) / record.num_tokens as f64);
    }
    let values = parameter::read(&model).into_iter().flat_map(|(_, data)| data.iter::<f32>().collect::<Vec<_>>());
    (values.collect(), losses)
}

#[test]
fn two_micro_batches_move_the_weights_as_one_batch_of_both() {
    let examples = examples();
    let batch = |examples: &[Example]| Batch::new(examples, SPECIAL, SPECIAL, 1);
    // Micro-batches of different numbers of tokens: a mean of their means would be another step.
    let whole = vec![vec![batch(&examples)]; 2];
    let parts = vec![vec![batch(&examples[..1]), batch(&examples[1..])]; 2];
    let ((whole, whole_losses), (parts, parts_losses)) = (weights_after(&whole), weights_after(&parts));
    for (left, right) in whole_losses.iter().zip(&parts_losses) {
        assert!((left - right).abs() < 1e-6);
    }
    // Adam's first steps are lr * sign(gradient): where a gradient is only rounding, its sign may differ.
    let apart = whole.iter().zip(&parts).filter(|(left, right)| (*left - *right).abs() > 1e-5).count();
    assert!(apart * 100 < whole.len(), "{apart} of {} weights differ", whole.len());
}

#[test]
fn padding_does_not_change_a_step() {
    let examples = examples();
    let tight = vec![vec![Batch::new(&examples, SPECIAL, SPECIAL, 1)]];
    let padded = vec![vec![Batch::new(&examples, SPECIAL, SPECIAL, 8)]];
    let ((tight, tight_losses), (padded, padded_losses)) = (weights_after(&tight), weights_after(&padded));
    assert!((tight_losses[0] - padded_losses[0]).abs() < 1e-6);
    let apart = tight.iter().zip(&padded).filter(|(left, right)| (*left - *right).abs() > 1e-5).count();
    assert!(apart * 100 < tight.len(), "{apart} of {} weights differ", tight.len());
}
