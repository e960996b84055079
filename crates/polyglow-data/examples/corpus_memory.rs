//! Shows that memory does not grow with the corpus: generates pairs, trains a tokenizer, encodes,
//! and makes batches.
//!
//! `cargo run --release -p polyglow-data --example corpus_memory -- 2000000` prints, for each
//! stage, pairs per second and the anonymous memory (`RssAnon`, Linux) at its end and at its peak.

#![expect(
    clippy::print_stdout,
    reason = "printing is what a demonstration is for"
)]

use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use polyglow_data::batch::PairBatch;
use polyglow_data::batching::{BatchingConfig, Selection};
use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::example::configured_filter;
use polyglow_data::id_cache::IdCache;
use polyglow_data::prefetch::{BatchStream, Position};
use polyglow_data::random::{mix, unit};
use polyglow_data::sources::PairSource;
use polyglow_data::tokenizer::{Segmentation, TokenizerConfig, Tokenizers};

/// The allocator of the `polyglow` binary, so that its memory is what is shown.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DISTINCT_WORDS: f64 = 400_000.0;
const SYLLABLES: [&str; 16] = [
    "ba", "do", "fe", "gi", "ku", "la", "me", "no", "pu", "ri", "sa", "te", "vo", "wu", "zi", "sch",
];

fn main() -> Result<(), Box<dyn Error>> {
    let pairs: u64 = std::env::args()
        .nth(1)
        .as_deref()
        .unwrap_or("200000")
        .parse()?;
    let dir = tempfile::tempdir()?;
    let mut stage = Stage::start(pairs);
    generate(&dir.path().join("text.tsv"), pairs)?;
    stage.end("generate");
    let data = DataConfig {
        train: Some(TrainFiles::One(dir.path().join("text.tsv"))),
        src: Some("src".to_owned()),
        tgt: Some("tgt".to_owned()),
        ..DataConfig::default()
    };
    let corpus = Corpus::open(&data, Content::PAIRS, Split::Train)?;
    let tokenizers = Tokenizers::train(&TokenizerConfig::default(), &corpus, &mut |_, _| {})?;
    stage.end("train tokenizer");
    let path = dir.path().join("train.ids");
    let filter = configured_filter(&data, Content::PAIRS);
    let (cache, report) = IdCache::open_or_build(
        &path,
        &corpus,
        &tokenizers,
        filter.as_deref(),
        &mut |_, _| {},
    )?;
    stage.end("encode");
    println!("{report}; {} MiB on disk", path.metadata()?.len() >> 20);
    drop(cache);
    let (cache, _) = IdCache::open_or_build(
        &path,
        &corpus,
        &tokenizers,
        filter.as_deref(),
        &mut |_, _| {},
    )?;
    stage.end("reopen");
    let config = BatchingConfig {
        max_tokens: 4096,
        pad_multiple: 1,
        seed: 1,
        segmentation: Segmentation::Fixed,
        selection: Selection::V2,
    };
    let source = PairSource::new(Arc::new(cache), config, false)?;
    let stream = BatchStream::start(Arc::new(source), Position::default())?;
    let (mut tokens, mut positions) = (0, 0);
    for placed in stream {
        let placed = placed?;
        let PairBatch { src, tgt_out, .. } = &placed.batch;
        tokens += src.num_real() + tgt_out.num_real();
        positions += src.num_positions() + tgt_out.num_positions();
        if placed.ends_epoch() {
            break;
        }
    }
    stage.end("one epoch of batches");
    println!("{tokens} tokens in {positions} positions");
    Ok(())
}

/// Writes `pairs` lines of pseudo-words whose frequencies fall like those of a language.
fn generate(path: &Path, pairs: u64) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut line = String::new();
    for pair in 0..pairs {
        line.clear();
        for side in 0..2 {
            let words = 8 + mix(&[pair]) % 20 + mix(&[pair, side]) % 4;
            for place in 0..words {
                let rank = DISTINCT_WORDS.powf(unit(mix(&[pair, side, place]))) as u64;
                push_word(&mut line, rank * 2 + side);
            }
            line.pop();
            line.push(if side == 0 { '\t' } else { '\n' });
        }
        file.write_all(line.as_bytes())?;
    }
    file.flush()
}

fn push_word(line: &mut String, mut word: u64) {
    if word.is_multiple_of(97) {
        // Writing to a string cannot fail.
        let _ = write!(line, "{word}");
    }
    while word > 0 {
        line.push_str(SYLLABLES[(word % 16) as usize]);
        word /= 16;
    }
    line.push(' ');
}

struct Stage {
    pairs: u64,
    since: Instant,
    peak: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Stage {
    fn start(pairs: u64) -> Self {
        let (peak, ended) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (watched, over) = (Arc::clone(&peak), Arc::clone(&ended));
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                watched.fetch_max(anonymous_kib(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self {
            pairs,
            since: Instant::now(),
            peak,
            ended,
        }
    }

    /// Reports the stage that ends here and begins the next one.
    fn end(&mut self, name: &str) {
        let seconds = self.since.elapsed().as_secs_f64();
        let (rate, now) = (self.pairs as f64 / seconds, anonymous_kib() >> 10);
        let peak = self.peak.swap(0, Ordering::Relaxed) >> 10;
        println!(
            "{name:<22} {seconds:>7.1} s {rate:>10.0} pairs/s   RssAnon {now:>4} MiB, at most {peak:>4} MiB"
        );
        self.since = Instant::now();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Anonymous resident memory of this process in KiB; 0 where the system does not say.
fn anonymous_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
