//! Parameter counts of the paper's models.

use burn::tensor::Device;
use polyglow_model::{ModelConfig, Preset, Transformer, Vocabulary, parameter};

fn count(preset: Preset, device: &Device) -> usize {
    let config = ModelConfig {
        preset: Some(preset),
        ..ModelConfig::default()
    };
    let vocabulary = Vocabulary {
        src_size: 37_000,
        tgt_size: 37_000,
        shared: true,
        src_pad_id: 0,
        tgt_pad_id: 0,
        max_len: 256,
        image: None,
    };
    let model = Transformer::new(
        &config.transformer(vocabulary).expect("the preset is valid"),
        1,
        device,
    );
    parameter::count(&model)
}

// Vaswani et al., 2017, table 3, gives 65 and 213 million for a vocabulary of about 37 000; these
// are the exact counts with 37 000 types, everything tied, and biases in every layer but the
// output.
#[test]
fn base_has_63_million_parameters() {
    assert_eq!(count(Preset::Base, &crate::device()), 63_082_496);
}

#[test]
fn big_has_214_million_parameters() {
    assert_eq!(count(Preset::Big, &crate::device()), 214_245_376);
}
