//! The data pipeline: learning a vocabulary, encoding, planning an epoch, making batches.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use polyglow_data::config::Split;
use polyglow_data::corpus::Corpus;
use polyglow_data::id_cache::IdCache;
use polyglow_data::pair::Pair;
use polyglow_data::prefetch::{BatchStream, Position};
use polyglow_data::sources::BatchSource;
use polyglow_data::tokenizer::Tokenizers;
use polyglow_metrics::Tokenizer as BleuTokenizer;
use polyglow_model::{Model, ModelShape};
use polyglow_predict::device::threads;
use polyglow_train::Plan;
use polyglow_train::tasks::{AnyTask, Setting, Task, TrainingData, configured};
use polyglow_train::train::peak_memory;
use polyglow_train::workload::BatchShape;
use serde::Serialize;

use super::Trace;
use super::step::{STEP, flops};

/// Pairs that are encoded at a time, so that the memory does not grow with the text.
const PAIRS_PER_CHUNK: usize = 8192;

/// The pipeline of a corpus from text to batches. Rates are per second; target tokens do not count
/// padding.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DataReport {
    /// Threads that the CPU runs at once.
    pub(crate) threads: usize,
    /// Pairs of the corpus.
    pub(crate) pairs: u64,
    /// Bytes of its text, both sides.
    pub(crate) bytes: u64,
    /// Reading and decoding the files.
    pub(crate) read_pairs_per_second: f64,
    /// Seconds to learn the vocabulary.
    pub(crate) vocabulary_seconds: f64,
    /// Encoding both sides, on all cores.
    pub(crate) encode_pairs_per_second: f64,
    /// Reading, encoding and writing the id cache, on all cores.
    pub(crate) cache_pairs_per_second: f64,
    /// Seconds to plan the batches of an epoch.
    pub(crate) plan_seconds: f64,
    /// Batches of that epoch.
    pub(crate) batches: usize,
    /// Reading ids and padding them, in the background thread alone.
    pub(crate) batches_per_second: f64,
    /// The same in pairs that training keeps.
    pub(crate) batched_pairs_per_second: f64,
    /// Target tokens in these batches.
    pub(crate) target_tokens_per_second: f64,
    /// Floating-point operations of the matrix products of an epoch's steps.
    pub(crate) operations: Operations,
    /// The most memory of this process, in bytes; `None` if the system does not report it.
    pub(crate) peak_memory: Option<u64>,
}

/// The cost of padding. The causal mask forbids a part of what counts as useful: of the decoder's
/// self-attention about half.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Operations {
    /// The operations of each example by itself.
    pub(crate) useful: f64,
    /// The operations of its batches, whose rows are as long as their longest. Positions without a
    /// target, such as padding and the tokens that are not hidden, are left out of the output layer
    /// where it has kernels; of the useful ones, too.
    pub(crate) done: f64,
}

/// Runs the pipeline on the training text once.
///
/// # Errors
/// The text cannot be read, or gives no batch.
pub(crate) fn bench_data(plan: &Plan, trace: &mut Trace) -> anyhow::Result<DataReport> {
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let mut timer = Timer { trace };
    let config = &plan.config;
    let corpus = Corpus::open(&config.data, plan.content, Split::Train)?.with_seed(config.seed);
    let begin = Instant::now();
    let (pairs, bytes) = count(&corpus)?;
    let read = timer.end("read", begin);
    let begin = Instant::now();
    let tokenizers = Tokenizers::train(&config.tokenizer, &corpus, &mut |_, _| {})?;
    let vocabulary_seconds = timer.end("vocabulary", begin);
    let encode = encode(&corpus, &tokenizers, &mut timer)?;
    let begin = Instant::now();
    let path = directory.path().join("train.ids");
    let filter = plan.filter();
    let (cache, _) = IdCache::open_or_build(
        &path,
        &corpus,
        &tokenizers,
        filter.as_deref(),
        &mut |_, _| {},
    )?;
    let build = timer.end("cache", begin);
    let shape = plan.model_shape(&tokenizers)?;
    let longest = shape.vocabulary().max_len - 1;
    let setting = Setting {
        plan: plan.clone(),
        tokenizers,
        valid: Arc::default(),
        bleu: BleuTokenizer::default(),
        longest,
    };
    let task = configured(setting, &TrainingData::Text(Arc::new(cache)))?;
    let BatchTimes {
        plan_seconds,
        batches,
        target_tokens,
        rows,
        seconds,
        operations,
    } = time_batches(&task, plan, &shape, &mut timer)?;
    let count = pairs as f64;
    Ok(DataReport {
        threads: threads(),
        pairs,
        bytes,
        read_pairs_per_second: count / read,
        vocabulary_seconds,
        encode_pairs_per_second: count / encode,
        cache_pairs_per_second: count / build,
        plan_seconds,
        batches,
        batches_per_second: batches as f64 / seconds,
        batched_pairs_per_second: rows as f64 / seconds,
        target_tokens_per_second: target_tokens as f64 / seconds,
        operations,
        peak_memory: peak_memory(),
    })
}

/// Adds parts of the pipeline to a timeline.
struct Timer<'a> {
    trace: &'a mut Trace,
}

impl Timer<'_> {
    /// Ends a part that began at `begin`; returns its seconds.
    fn end(&mut self, name: &'static str, begin: Instant) -> f64 {
        let end = Instant::now();
        self.trace.add(name, begin, end, &"");
        (end - begin).as_secs_f64()
    }
}

/// Counts the pairs of a corpus, and the bytes of its lines with their ends.
fn count(corpus: &Corpus) -> anyhow::Result<(u64, u64)> {
    let mut pairs = 0;
    let mut bytes = 0;
    for pair in corpus.pairs() {
        let Pair { src, tgt } = pair?;
        pairs += 1;
        bytes += (src.len() + tgt.len() + 2) as u64;
    }
    Ok((pairs, bytes))
}

struct BatchTimes {
    plan_seconds: f64,
    batches: usize,
    target_tokens: usize,
    rows: usize,
    seconds: f64,
    operations: Operations,
}

/// Times the way from ids to batches.
fn time_batches(
    task: &AnyTask<Model>,
    plan: &Plan,
    shape: &ModelShape,
    timer: &mut Timer<'_>,
) -> polyglow_train::Result<BatchTimes> {
    let begin = Instant::now();
    let source = task.source();
    let epoch = source.plan(0)?;
    let batches = epoch.len();
    let plan_seconds = timer.end("plan", begin);
    let stream = BatchStream::start(plan.sharded(task.source()), Position::default())?;
    let begin = Instant::now();
    let has_output_kernels = plan.task.facts().predicts_tokens();
    let leaves_out = has_output_kernels && plan.has_kernels;
    // Positions without a target do not come to the output layer.
    let left_out = |positions: usize, targets: usize| {
        let count = if leaves_out {
            positions.saturating_sub(targets)
        } else {
            0
        };
        STEP * count as f64 * shape.output_flops()
    };
    let mut target_tokens = 0;
    let mut rows = 0;
    let mut done = 0.0;
    for placed in stream.take(batches) {
        let placed = placed?;
        for size in placed.batch.iter().map(|shard| task.size(shard)) {
            done += flops(shape, &size.shape)
                - left_out(size.shape.rows * size.shape.tgt_len, size.targets);
            target_tokens += size.targets;
        }
        rows += placed.examples.len();
    }
    let seconds = timer.end("batches", begin);
    let examples = (0..batches).flat_map(|place| epoch.batch(place));
    let mut useful = 0.0;
    let mut positions = 0;
    for &item in examples {
        let size = BatchShape::from(source.size(0, &[item]).0);
        useful += flops(shape, &size);
        positions += size.rows * size.tgt_len;
    }
    useful -= left_out(positions, target_tokens);
    Ok(BatchTimes {
        plan_seconds,
        batches,
        target_tokens,
        rows,
        seconds,
        operations: Operations { useful, done },
    })
}

/// Seconds to encode both sides of all pairs, without reading them.
fn encode(corpus: &Corpus, tokenizers: &Tokenizers, timer: &mut Timer<'_>) -> anyhow::Result<f64> {
    let mut pairs = corpus.pairs().peekable();
    let mut seconds = 0.0;
    while pairs.peek().is_some() {
        let chunk: Vec<Pair> = pairs
            .by_ref()
            .take(PAIRS_PER_CHUNK)
            .collect::<Result<_, _>>()?;
        let src: Vec<&str> = chunk.iter().map(|pair| &*pair.src).collect();
        let tgt: Vec<&str> = chunk.iter().map(|pair| &*pair.tgt).collect();
        let begin = Instant::now();
        tokenizers.src.encode_batch(&src)?;
        tokenizers.tgt.encode_batch(&tgt)?;
        seconds += timer.end("encode", begin);
    }
    Ok(seconds)
}
