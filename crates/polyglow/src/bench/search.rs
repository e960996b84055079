//! Search with a cache: target tokens per second, for one sentence and for many at a time.

use std::convert::Infallible;
use std::time::Instant;

use burn::tensor::{Device, Int, Tensor, TensorData};
use polyglow_model::search::{Incremental, SearchConfig, Sentence, SpecialTokens, search};
use polyglow_model::{Model, ModelShape, quantization};
use polyglow_train::Plan;
use polyglow_train::train::peak_memory;
use polyglow_train::workload::{SPECIAL, word};
use serde::Serialize;

use super::{Machine, Spread, Trace};

/// Source tokens of each sentence, with EOS.
const SRC_LEN: usize = 20;
/// Target tokens that are written for each.
const TGT_LEN: usize = 25;
/// Sentences at a time.
const BATCHES: [usize; 2] = [1, 64];
/// Hypotheses kept.
const BEAMS: [usize; 2] = [1, 5];
const SPECIAL_TOKENS: SpecialTokens = SpecialTokens {
    bos: SPECIAL.bos,
    eos: SPECIAL.eos,
};

/// Search of a model with random weights.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SearchReport {
    /// The machine and its peak.
    pub(crate) machine: Machine,
    /// Source tokens of each sentence, with EOS.
    pub(crate) src_len: usize,
    /// Target tokens that are written for each.
    pub(crate) tgt_len: usize,
    /// Each way to search.
    pub(crate) searches: Vec<SearchTimes>,
    /// The most memory of this process, in bytes; `None` if the system does not report it.
    pub(crate) peak_memory: Option<u64>,
}

/// One way to search.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SearchTimes {
    /// Sentences at a time.
    pub(crate) batch: usize,
    /// Hypotheses kept; 1 is greedy search.
    pub(crate) beam_size: usize,
    /// Bits of a weight: 32, or 8 with `--int8`.
    pub(crate) bits: usize,
    /// All of them, from ids to hypotheses.
    pub(crate) time: Spread,
    /// Tokens of the best hypotheses per second, at the median.
    pub(crate) target_tokens_per_second: f64,
}

/// Measures `rounds` rounds, in which all ways to search take turns, with weights of each of
/// `bits`: 32, or 8.
///
/// # Errors
/// The device fails.
pub(crate) fn bench_search(
    plan: &Plan,
    shape: &ModelShape,
    bits: &[usize],
    rounds: u64,
    trace: &mut Trace,
) -> anyhow::Result<SearchReport> {
    let Plan { config, device, .. } = plan;
    let machine = Machine::measure(&config.device, device)?;
    let shape = shape.clone().with_room_for(TGT_LEN + 1);
    let models = bits
        .iter()
        .map(|&bits| model(&shape, config.seed, bits, device))
        .collect::<Vec<_>>();
    let ways = ways(bits.len());
    let mut seconds = vec![Vec::new(); ways.len()];
    // The first round is not measured: memory is allocated and kernels are tuned in it.
    for round in 0..=rounds {
        for (&(model, batch, beam_size), seconds) in ways.iter().zip(&mut seconds) {
            let begin = Instant::now();
            run(
                &models[model],
                device,
                batch,
                &SearchConfig {
                    beam_size,
                    ..config.search.greedy()
                },
            )?;
            let end = Instant::now();
            if round > 0 {
                seconds.push((end - begin).as_secs_f64());
                trace.add(
                    "search",
                    begin,
                    end,
                    &format!("{batch} sentences, beam {beam_size}, {} bits", bits[model]),
                );
            }
        }
    }
    let mut searches = Vec::new();
    for ((model, batch, beam_size), seconds) in ways.into_iter().zip(seconds) {
        let time = Spread::of(seconds);
        searches.push(SearchTimes {
            batch,
            beam_size,
            bits: bits[model],
            time,
            target_tokens_per_second: (batch * TGT_LEN) as f64 / time.median,
        });
    }
    Ok(SearchReport {
        machine: machine.ended(),
        src_len: SRC_LEN,
        tgt_len: TGT_LEN,
        searches,
        peak_memory: peak_memory(),
    })
}

/// Lists the ways to search: the index of a model, a number of sentences at a time, and a beam size.
fn ways(num_models: usize) -> Vec<(usize, usize, usize)> {
    let mut ways = Vec::new();
    for model in 0..num_models {
        for batch in BATCHES {
            ways.extend(BEAMS.map(|beam_size| (model, batch, beam_size)));
        }
    }
    ways
}

/// A model with random 32-bit weights, or with the nearest 8-bit ones.
fn model(shape: &ModelShape, seed: u64, bits: usize, device: &Device) -> Model {
    let model = shape.init(seed, device);
    if bits == 32 {
        return model;
    }
    let nearest =
        |_: &str, layout, weight: &_| Ok::<_, Infallible>(quantization::nearest(layout, weight));
    quantization::quantize(model, nearest).unwrap_or_else(|never| match never {})
}

/// Writes exactly [`TGT_LEN`] tokens for each of some random sentences.
fn run(model: &Model, device: &Device, batch: usize, config: &SearchConfig) -> anyhow::Result<()> {
    let vocab_size = model.vocabulary().src_size;
    let positions = 0..(batch * SRC_LEN) as u64;
    let src: Vec<i32> = positions
        .map(|index| word(&[index], vocab_size) as i32)
        .collect();
    let src = Tensor::<2, Int>::from_data(TensorData::new(src, [batch, SRC_LEN]), device);
    let sentence = Sentence {
        min_len: TGT_LEN + 1,
        max_len: TGT_LEN,
        ..Sentence::default()
    };
    let mut next = Incremental::new([(model, src)], &[SPECIAL.pad, SPECIAL.bos]);
    let results = search(&mut next, &vec![sentence; batch], config, SPECIAL_TOKENS);
    let whole = results.iter().all(|hypotheses| {
        hypotheses
            .first()
            .is_some_and(|best| best.ids.len() == TGT_LEN)
    });
    anyhow::ensure!(whole, "a hypothesis does not have {TGT_LEN} tokens");
    Ok(())
}
