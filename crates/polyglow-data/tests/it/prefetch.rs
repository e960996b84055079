//! The stream of batches: the same from every starting point.

use std::sync::Arc;

use polyglow_data::batch::PairBatch;
use polyglow_data::batching::{BatchingConfig, Selection};
use polyglow_data::config::{Content, DataConfig, Split};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::id_cache::IdCache;
use polyglow_data::prefetch::{BatchStream, Position, Positioned};
use polyglow_data::sources::{BatchSource, PairSource};
use polyglow_data::tokenizer::{Kind, Segmentation, TokenizerConfig, Tokenizers};
use tempfile::TempDir;

const CONFIG: BatchingConfig = BatchingConfig {
    max_tokens: 400,
    pad_multiple: 4,
    seed: 1,
    segmentation: Segmentation::Fixed,
    selection: Selection::V2,
};

fn cache() -> (TempDir, Arc<IdCache>) {
    let dir = tempfile::tempdir().unwrap();
    let corpus = Corpus::open(
        &DataConfig::embedded("digits"),
        Content::PAIRS,
        Split::Valid,
    )
    .unwrap();
    let config = TokenizerConfig {
        kind: Kind::Char,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&config, &corpus, &mut |_, _| {}).unwrap();
    let path = dir.path().join("valid.ids");
    let (cache, _) =
        IdCache::open_or_build(&path, &corpus, &tokenizers, None, &mut |_, _| {}).unwrap();
    (dir, Arc::new(cache))
}

fn source(cache: &Arc<IdCache>) -> Arc<PairSource> {
    Arc::new(PairSource::new(Arc::clone(cache), CONFIG, false).unwrap())
}

fn take(
    cache: &Arc<IdCache>,
    epoch: u64,
    position: usize,
    count: usize,
) -> Vec<Positioned<PairBatch>> {
    let stream = BatchStream::start(source(cache), Position { epoch, position }).unwrap();
    stream.take(count).collect::<Result<_, _>>().unwrap()
}

#[test]
fn any_position_can_be_reached_directly() {
    let (_dir, cache) = cache();
    let [epoch_len, second_len] = [0, 1].map(|epoch| source(&cache).plan(epoch).unwrap().len());
    let straight = take(&cache, 0, 0, epoch_len + second_len + 3);
    assert_eq!(take(&cache, 0, 2, 4), straight[2..6]);
    assert_eq!(take(&cache, 1, 0, 3), straight[epoch_len..epoch_len + 3]);
    assert_eq!(
        take(&cache, 0, epoch_len, 1),
        straight[epoch_len..=epoch_len]
    );
    assert_eq!(
        take(&cache, 2, 1, 2),
        straight[epoch_len + second_len + 1..]
    );
    let last = &straight[epoch_len - 1];
    assert_eq!(
        (last.epoch, last.position + 1, last.epoch_len),
        (0, epoch_len, epoch_len)
    );
    assert_eq!(
        straight.iter().filter(|placed| placed.ends_epoch()).count(),
        2
    );
    assert!(last.ends_epoch());
}

#[test]
fn batches_hold_the_examples_they_name() {
    let (_dir, cache) = cache();
    let special = cache.tokenizers().tgt.special();
    let mut seen = 0;
    let plan = source(&cache).plan(0).unwrap();
    for Positioned {
        batch,
        examples,
        position,
        ..
    } in take(&cache, 0, 0, plan.len())
    {
        let PairBatch {
            src,
            tgt_in,
            tgt_out,
            ..
        } = batch;
        assert!(src.num_positions().max(tgt_out.num_positions()) <= CONFIG.max_tokens);
        assert!(src.len % 4 == 0 && tgt_out.len % 4 == 0 && tgt_in.len == tgt_out.len);
        assert_eq!(plan.batch(position), examples);
        let size = (
            [examples.len(), src.len, tgt_out.len],
            src.num_real() + tgt_out.num_real(),
        );
        assert_eq!(source(&cache).size(0, &examples), size);
        for (row, &index) in examples.iter().enumerate() {
            let tgt = cache.example(index).unwrap().tgt;
            let start = row * tgt_out.len;
            assert_eq!(tgt_out.lengths[row], tgt.len() + 1);
            assert_eq!(tgt_in.ids[start], special.bos as i32);
            assert_eq!(tgt_out.ids[start + tgt.len()], special.eos as i32);
            let ids: Vec<i32> = tgt.iter().map(|&id| id as i32).collect();
            assert_eq!(tgt_out.ids[start..start + tgt.len()], ids);
            seen += 1;
        }
    }
    assert_eq!(seen, cache.len());
}

#[test]
fn a_stream_ends_when_it_is_dropped() {
    let (_dir, cache) = cache();
    let mut stream = BatchStream::start(source(&cache), Position::default()).unwrap();
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
    let config = BatchingConfig {
        max_tokens: 8,
        ..CONFIG
    };
    let source = Arc::new(PairSource::new(cache, config, false).unwrap());
    let error = BatchStream::start(source, Position::default())
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, DataError::LargerThanBatch { .. }));
    assert!(
        error.to_string().starts_with("`digits valid` line "),
        "{error}"
    );
}
