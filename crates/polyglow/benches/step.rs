//! Times training steps of a preset (tiny without one) on random ids:
//! `cargo bench -p polyglow --bench step -- [PRESET] [ROWS SRC_LEN TGT_LEN VOCAB_SIZE]`.
//!
//! Prints one JSON object; `scripts/bench_pytorch.py --ours "..."` runs it in turns with PyTorch on the same shape.

use std::time::Instant;

use burn::tensor::Device;
use polyglow::allocator;
use polyglow::train::{Optimizer, StepConfig, TrainConfig, step};
use polyglow_data::batch::Batch;
use polyglow_data::example::Example;
use polyglow_data::random::mix;
use polyglow_data::special::SpecialIds;
use polyglow_model::{ModelConfig, Preset, Transformer, Vocabulary};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WARMUP: u64 = 3;
const STEPS: u64 = 10;

fn main() {
    allocator::keep_freed_memory();
    let sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    // Without sizes a batch of 2 048 tokens a side, with the vocabulary of the Multi30k recipe.
    let [rows, src_len, tgt_len, vocab_size] = sizes.try_into().unwrap_or([128, 16, 16, 9708]);
    let preset = match std::env::args().find(|argument| ["small", "base", "big"].contains(&&**argument)).as_deref() {
        Some("small") => Preset::Small,
        Some("base") => Preset::Base,
        Some("big") => Preset::Big,
        _ => Preset::Tiny,
    };
    let device = Device::flex();
    let config = ModelConfig { preset: Some(preset), ..ModelConfig::default() };
    let vocabulary = Vocabulary {
        src_size: vocab_size,
        tgt_size: vocab_size,
        shared: true,
        src_pad_id: 0,
        tgt_pad_id: 0,
        max_len: src_len.max(tgt_len),
    };
    let shape = config.transformer(vocabulary).expect("the preset is valid");
    let device = device.autodiff();
    let mut model = Transformer::new(&shape, 1, &device);
    let mut optimizer = Optimizer::new(&TrainConfig { clip_norm: 25.0, ..TrainConfig::default() }, &model);
    let window = [random_batch([rows, src_len, tgt_len], vocab_size)];

    let mut seconds = Vec::new();
    for number in 1..=WARMUP + STEPS {
        let started = Instant::now();
        let config = StepConfig { seed: 1, step: number, lr: 1e-3, label_smoothing: 0.1, alignment_weight: 0.0 };
        let (stepped, record) = step(model, &mut optimizer, &window, &device, config);
        model = stepped;
        // Waits for the step to be done.
        let loss = record.loss_sum.into_scalar::<f32>();
        assert!(loss.is_finite(), "step {number}: loss {loss}");
        if number > WARMUP {
            seconds.push(started.elapsed().as_secs_f64());
        }
    }
    seconds.sort_by(f64::total_cmp);
    let (median, least, most) = (seconds[seconds.len() / 2], seconds[0], seconds[seconds.len() - 1]);
    let rate = (rows * tgt_len) as f64 / median;
    let report = serde_json::json!({
        "seconds_per_step": median, "min": least, "max": most, "target_tokens_per_second": rate,
        "rows": rows, "src_len": src_len, "tgt_len": tgt_len, "vocab_size": vocab_size,
    });
    #[expect(clippy::print_stdout, reason = "the result of the benchmark")]
    {
        println!("{report}");
    }
}

/// Sentences without padding, of words that are no special tokens.
fn random_batch([rows, src_len, tgt_len]: [usize; 3], vocab_size: usize) -> Batch {
    let special = SpecialIds { pad: 0, bos: 1, eos: 2, unk: 3 };
    let words = |side: u64, row: usize, len: usize| -> Vec<u32> {
        let word = |place: usize| 4 + (mix(&[side, row as u64, place as u64]) % (vocab_size as u64 - 4)) as u32;
        (0..len - 1).map(word).collect()
    };
    let examples: Vec<Example> =
        (0..rows).map(|row| Example { src: words(0, row, src_len), tgt: words(1, row, tgt_len) }).collect();
    Batch::new(&examples, special, special, 1)
}
