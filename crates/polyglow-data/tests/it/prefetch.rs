//! The stream of batches: the same from every starting point.

use std::sync::Arc;

use polyglow_data::batch::Batch;
use polyglow_data::batching::BatchingConfig;
use polyglow_data::config::{DataConfig, Split};
use polyglow_data::corpus::Corpus;
use polyglow_data::epoch::Epoch;
use polyglow_data::error::DataError;
use polyglow_data::framing::Framing;
use polyglow_data::id_cache::IdCache;
use polyglow_data::prefetch::{BatchStream, Position};
use polyglow_data::tokenizer::{Kind, TokenizerConfig, Tokenizers};
use tempfile::TempDir;

const CONFIG: BatchingConfig =
    BatchingConfig { max_tokens: 400, pad_multiple: 4, seed: 1, dropout: 0.0, links: false, framing: Framing::Pairs };

fn cache() -> (TempDir, Arc<IdCache>) {
    let dir = tempfile::tempdir().unwrap();
    let corpus = Corpus::open(&DataConfig::embedded("digits"), Split::Valid).unwrap();
    let config = TokenizerConfig { kind: Kind::Char, ..TokenizerConfig::default() };
    let tokenizers = Tokenizers::train(&config, &corpus, &mut |_, _| {}).unwrap();
    let path = dir.path().join("valid.ids");
    let (cache, _) = IdCache::open_or_build(&path, &corpus, &tokenizers, None, &mut |_, _| {}).unwrap();
    (dir, Arc::new(cache))
}

fn take(cache: &Arc<IdCache>, epoch: u64, position: usize, count: usize) -> Vec<Batch> {
    let stream = BatchStream::start(Arc::clone(cache), CONFIG, Position { epoch, position }).unwrap();
    stream.take(count).collect::<Result<_, _>>().unwrap()
}

#[test]
fn any_position_can_be_reached_directly() {
    let (_dir, cache) = cache();
    let epoch_len = Epoch::new(&cache, &CONFIG, 0).unwrap().len();
    let second_len = Epoch::new(&cache, &CONFIG, 1).unwrap().len();
    let straight = take(&cache, 0, 0, epoch_len + second_len + 3);
    assert_eq!(take(&cache, 0, 2, 4), straight[2..6]);
    assert_eq!(take(&cache, 1, 0, 3), straight[epoch_len..epoch_len + 3]);
    assert_eq!(take(&cache, 0, epoch_len, 1), straight[epoch_len..=epoch_len]);
    assert_eq!(take(&cache, 2, 1, 2), straight[epoch_len + second_len + 1..]);
    let last = &straight[epoch_len - 1];
    assert_eq!((last.epoch, last.position + 1, last.epoch_len), (0, epoch_len, epoch_len));
}

#[test]
fn batches_hold_the_examples_they_name() {
    let (_dir, cache) = cache();
    let special = cache.tokenizers().tgt.special();
    let mut seen = 0;
    for batch in take(&cache, 0, 0, Epoch::new(&cache, &CONFIG, 0).unwrap().len()) {
        assert!(batch.batch_size * batch.src_len.max(batch.tgt_len) <= CONFIG.max_tokens);
        assert!(batch.src_len % 4 == 0 && batch.tgt_len % 4 == 0);
        for (row, &index) in batch.example_indices.iter().enumerate() {
            let tgt = cache.example(index).unwrap().tgt;
            let start = row * batch.tgt_len;
            assert_eq!(batch.tgt_lengths[row], tgt.len() + 1);
            assert_eq!(batch.tgt_in[start], special.bos as i32);
            assert_eq!(batch.tgt_out[start + tgt.len()], special.eos as i32);
            let ids: Vec<i32> = tgt.iter().map(|&id| id as i32).collect();
            assert_eq!(batch.tgt_out[start..start + tgt.len()], ids);
            seen += 1;
        }
    }
    assert_eq!(seen, cache.len());
}

#[test]
fn a_stream_ends_when_it_is_dropped() {
    let (_dir, cache) = cache();
    let mut stream = BatchStream::start(Arc::clone(&cache), CONFIG, Position::default()).unwrap();
    assert!(stream.next().unwrap().is_ok());
    drop(stream);
    // The planning thread may outlive the stream by a moment, but nothing keeps the cache for good.
    for _ in 0..200 {
        if Arc::strong_count(&cache) == 1 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("a background thread still holds the cache");
}

#[test]
fn a_budget_that_is_too_small_fails_at_once() {
    let (_dir, cache) = cache();
    let config = BatchingConfig { max_tokens: 8, ..CONFIG };
    let error = BatchStream::start(cache, config, Position::default()).map(|_| ()).unwrap_err();
    assert!(matches!(error, DataError::LargerThanBatch { .. }));
    assert!(error.to_string().starts_with("`digits valid` line "), "{error}");
}
