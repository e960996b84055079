//! Words beside words: the batches of an epoch.

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
use polyglow_data::skip_gram::SkipGrams;
use polyglow_data::tokenizer::{Kind, TokenizerConfig, Tokenizers};
use tempfile::TempDir;

const ALL: SkipGrams = SkipGrams { window: 2, negatives: 3, subsample: 0.0 };

fn config(skip_grams: SkipGrams) -> BatchingConfig {
    let framing = Framing::SkipGrams(skip_grams);
    BatchingConfig { max_tokens: 600, pad_multiple: 1, seed: 1, dropout: 0.0, links: false, framing }
}

/// The German side of the validation text of mini-en-de.
fn cache() -> (TempDir, Arc<IdCache>) {
    let dir = tempfile::tempdir().unwrap();
    let data = DataConfig { one_sided: true, ..DataConfig::embedded("mini-en-de") };
    let corpus = Corpus::open(&data, Split::Valid).unwrap();
    let kind = TokenizerConfig { kind: Kind::Word, ..TokenizerConfig::default() };
    let tokenizers = Tokenizers::train(&kind, &corpus, &mut |_, _| {}).unwrap();
    let path = dir.path().join("text.ids");
    let (cache, _) = IdCache::open_or_build(&path, &corpus, &tokenizers, None, &mut |_, _| {}).unwrap();
    (dir, Arc::new(cache))
}

fn batches(cache: &IdCache, config: &BatchingConfig, number: u64) -> Vec<Batch> {
    let epoch = Epoch::new(cache, config, number).unwrap();
    (0..epoch.len()).map(|position| epoch.batch(cache, position, None).unwrap()).collect()
}

#[test]
fn batches_keep_to_their_planned_size_and_have_every_line() {
    let (_dir, cache) = cache();
    let epoch = Epoch::new(&cache, &config(ALL), 0).unwrap();
    let mut seen = vec![false; cache.len()];
    for (position, batch) in batches(&cache, &config(ALL), 0).into_iter().enumerate() {
        let [most_rows, src_len, tgt_len] = epoch.shape(&cache, position);
        assert!(batch.batch_size <= most_rows && (src_len, tgt_len) == (1, 4));
        assert!(batch.batch_size * batch.tgt_len <= 600);
        assert_eq!((batch.src.len(), batch.tgt_in.len()), (batch.batch_size, 4 * batch.batch_size));
        assert_eq!(batch.example_indices.len(), batch.batch_size);
        for (row, &index) in batch.example_indices.iter().enumerate() {
            seen[index as usize] = true;
            // The word and the one beside it are from the line.
            let line = cache.example(index).unwrap().tgt;
            let [center, context] = [batch.src[row], batch.tgt_in[4 * row]];
            assert!([center, context].iter().all(|&id| line.contains(&(id as u32))), "{line:?}");
        }
    }
    assert!(seen.into_iter().all(|seen| seen));
}

#[test]
fn a_stream_from_the_middle_goes_on_like_one_from_the_start() {
    let (_dir, cache) = cache();
    let config = config(SkipGrams { subsample: 1e-2, ..ALL });
    let whole: Vec<Batch> = [batches(&cache, &config, 0), batches(&cache, &config, 1)].concat();
    assert_ne!(whole[0].tgt_in, batches(&cache, &config, 1)[0].tgt_in);
    let start = Position { epoch: 0, position: 3 };
    let stream = BatchStream::start(Arc::clone(&cache), config, start).unwrap();
    let resumed: Vec<Batch> = stream.take(whole.len() - 3).map(Result::unwrap).collect();
    assert!(resumed == whole[3..]);
}

#[test]
fn no_batch_is_empty() {
    let (_dir, cache) = cache();
    // Nearly every word is left out.
    let config = config(SkipGrams { subsample: 1e-9, ..ALL });
    let unk = cache.tokenizers().tgt.special().unk as i32;
    let batches = batches(&cache, &config, 0);
    assert!(batches.iter().all(|batch| batch.batch_size > 0));
    assert!(batches.iter().any(|batch| batch.src == [unk] && batch.tgt_in == [unk; 4]));
}

#[test]
fn a_line_with_too_many_pairs_is_named() {
    let (_dir, cache) = cache();
    let config = BatchingConfig { max_tokens: 20, ..config(ALL) };
    let error = Epoch::new(&cache, &config, 0).unwrap_err();
    assert!(matches!(error, DataError::LargerThanBatch { .. }), "{error}");
    assert!(error.to_string().contains("line ") && error.to_string().contains("`train.max_tokens` = 20"), "{error}");
}
