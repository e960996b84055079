//! Times the search of Transformer-Tiny with random weights for 50 target tokens: `cargo bench -p polyglow --bench search`.
//!
//! Prints one JSON object: seconds of greedy search and of a beam of 5, for 1 and for 64 sentences at a time; what the
//! beam costs as a multiple of greedy search; and how many times slower greedy search is without the cache. All are
//! medians over rounds in which the variants take turns.

use std::time::Instant;

use burn::tensor::{Device, Int, Tensor, TensorData};
use polyglow::allocator;
use polyglow_data::random::mix;
use polyglow_model::search::{Candidate, Incremental, Marks, NextToken, SearchConfig, Sentence, search};
use polyglow_model::{Memory, Model, ModelConfig, Preset, Transformer, Vocabulary};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The vocabulary of the Multi30k recipe.
const VOCAB_SIZE: usize = 9708;
const SRC_LEN: usize = 20;
const TGT_LEN: usize = 50;
const ROUNDS: usize = 5;
const MARKS: Marks = Marks { bos: 1, eos: 2 };

/// Greedy search that computes all positions anew for each token.
struct Uncached<'a> {
    model: &'a Transformer,
    memory: Memory,
    rows: Vec<Vec<i32>>,
}

impl NextToken for Uncached<'_> {
    fn advance(&mut self, newest: &[u32], _count: usize, _wanted: &[Vec<u32>]) -> Vec<Vec<Candidate>> {
        self.rows.iter_mut().zip(newest).for_each(|(row, &id)| row.push(id as i32));
        let (batch, len) = (self.rows.len(), self.rows[0].len());
        let ids = TensorData::new(self.rows.concat(), [batch, len]);
        let ids = Tensor::<2, Int>::from_data(ids, &self.memory.states.device());
        let logits = self.model.decode(&self.memory, ids).reshape([batch, len, VOCAB_SIZE]);
        let last = logits.narrow(1, len - 1, 1).reshape([batch, VOCAB_SIZE]);
        // The end mark would end the measurement early.
        let last = last.slice_fill([0..batch, 0..MARKS.eos as usize + 1], f32::NEG_INFINITY);
        let best: Vec<u32> = last.argmax(1).into_data().iter::<u32>().collect();
        best.into_iter().map(|id| vec![Candidate { id, log_prob: 0.0 }]).collect()
    }

    fn select(&mut self, rows: &[usize]) {
        assert!(rows.iter().copied().eq(0..self.rows.len()), "greedy search keeps its rows");
    }
}

fn main() {
    allocator::keep_freed_memory();
    let device = Device::flex();
    let config = ModelConfig { preset: Some(Preset::Tiny), ..ModelConfig::default() };
    let vocabulary = Vocabulary {
        src_size: VOCAB_SIZE,
        tgt_size: VOCAB_SIZE,
        shared: true,
        src_pad_id: 0,
        tgt_pad_id: 0,
        max_len: TGT_LEN + 1,
        image: None,
    };
    let model = config.shape(vocabulary).expect("the preset is valid").init(1, &device);
    let mut report = serde_json::Map::new();
    for batch in [1, 64] {
        let mut seconds: [Vec<f64>; 3] = Default::default();
        for _ in 0..ROUNDS {
            let variants = [(1, true), (5, true), (1, false)];
            for ((beam_size, cached), seconds) in variants.into_iter().zip(&mut seconds) {
                let started = Instant::now();
                run(&model, &device, batch, beam_size, cached);
                seconds.push(started.elapsed().as_secs_f64());
            }
        }
        let [greedy, beam, uncached] = seconds.map(median);
        report.insert(format!("greedy_{batch}"), greedy.into());
        report.insert(format!("beam_5_{batch}"), beam.into());
        report.insert(format!("beam_cost_{batch}"), (beam / greedy).into());
        report.insert(format!("uncached_cost_{batch}"), (uncached / greedy).into());
        report.insert(format!("greedy_tokens_per_second_{batch}"), ((batch * TGT_LEN) as f64 / greedy).into());
    }
    #[expect(clippy::print_stdout, reason = "the result of the benchmark")]
    {
        println!("{}", serde_json::Value::Object(report));
    }
}

/// Writes exactly `TGT_LEN` tokens for each of `batch` random sentences.
fn run(model: &Model, device: &Device, batch: usize, beam_size: usize, cached: bool) {
    let id = |index| 4 + (mix(&[1, index]) % (VOCAB_SIZE as u64 - 4)) as i32;
    let src: Vec<i32> = (0..(batch * SRC_LEN) as u64).map(id).collect();
    let src = Tensor::<2, Int>::from_data(TensorData::new(src, [batch, SRC_LEN]), device);
    let sentence = Sentence { min_len: TGT_LEN + 1, max_len: TGT_LEN, ..Sentence::default() };
    let config = SearchConfig { beam_size, ..SearchConfig::default() };
    let sentences = vec![sentence; batch];
    let found = if cached {
        search(&mut Incremental::new([(model, src)], &[0, MARKS.bos]), &sentences, &config, MARKS)
    } else {
        let Model::Transformer(model) = model else { panic!("the default architecture") };
        let mut next = Uncached { model, memory: model.encode(src), rows: vec![Vec::new(); batch] };
        search(&mut next, &sentences, &config, MARKS)
    };
    assert!(found.iter().all(|hypotheses| hypotheses[0].ids.len() == TGT_LEN));
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
