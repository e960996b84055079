//! Skip-grams, words with their neighbors: the batches of an epoch.

use std::sync::Arc;

use polyglow_data::batch::SkipGramBatch;
use polyglow_data::batching::{BatchingConfig, Selection};
use polyglow_data::config::{Content, DataConfig, Split};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::id_cache::IdCache;
use polyglow_data::prefetch::{BatchStream, Position};
use polyglow_data::skip_gram::{SkipGram, SkipGramSampler, SkipGrams};
use polyglow_data::sources::{BatchSource, SkipGramSource};
use polyglow_data::tokenizer::{Kind, Segmentation, TokenizerConfig, Tokenizers};
use tempfile::TempDir;

const ALL: SkipGrams = SkipGrams {
    window: 2,
    negatives: 3,
    subsample: 0.0,
};

const CONFIG: BatchingConfig = BatchingConfig {
    max_tokens: 600,
    pad_multiple: 1,
    seed: 1,
    segmentation: Segmentation::Fixed,
    selection: Selection::V2,
};

/// The German side of the validation text of mini-en-de.
fn cache() -> (TempDir, Arc<IdCache>) {
    let dir = tempfile::tempdir().unwrap();
    let corpus = Corpus::open(
        &DataConfig::embedded("mini-en-de"),
        Content::TEXT,
        Split::Valid,
    )
    .unwrap();
    let kind = TokenizerConfig {
        kind: Kind::Word,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&kind, &corpus, &mut |_, _| {}).unwrap();
    let path = dir.path().join("text.ids");
    let (cache, _) =
        IdCache::open_or_build(&path, &corpus, &tokenizers, None, &mut |_, _| {}).unwrap();
    (dir, Arc::new(cache))
}

fn source(cache: &Arc<IdCache>, config: SkipGrams) -> Arc<SkipGramSource> {
    Arc::new(SkipGramSource::new(Arc::clone(cache), CONFIG, config).unwrap())
}

fn batches(source: &SkipGramSource, epoch: u64) -> Vec<SkipGramBatch> {
    let plan = source.plan(epoch).unwrap();
    (0..plan.len())
        .map(|position| source.batch(epoch, plan.batch(position)).unwrap())
        .collect()
}

#[test]
fn batches_keep_to_their_planned_size_and_have_every_line() {
    let (_dir, cache) = cache();
    let source = source(&cache, ALL);
    let tgt = &cache.tokenizers().tgt;
    let lines =
        (0..cache.len() as u32).map(|example| Ok::<_, DataError>(cache.example(example)?.tgt));
    let sampler = SkipGramSampler::count(ALL, tgt.special(), tgt.vocab_size(), lines).unwrap();
    let plan = source.plan(0).unwrap();
    let mut seen = vec![false; cache.len()];
    for (position, batch) in batches(&source, 0).into_iter().enumerate() {
        let lines = plan.batch(position);
        let ([most_rows, src_len, tgt_len], most_real) = source.size(0, lines);
        let rows = batch.centers.len();
        assert!(rows <= most_rows && (src_len, tgt_len, batch.count) == (1, 4, 4));
        assert!(rows * batch.count <= 600 && rows * (1 + batch.count) <= most_real);
        assert_eq!(batch.candidates.len(), 4 * rows);
        // Every row is of the line that it should be of: line after line, with a key of its own.
        let mut expected: Vec<SkipGram> = Vec::new();
        for &line in lines {
            seen[line as usize] = true;
            let ids = cache.example(line).unwrap().tgt;
            let of_line = sampler.rows(&ids, &[CONFIG.seed, 0, u64::from(line)]);
            assert!(!of_line.is_empty());
            for SkipGram { center, candidates } in &of_line {
                assert!(
                    [center, &candidates[0]].iter().all(|id| ids.contains(id)),
                    "{ids:?}"
                );
            }
            expected.extend(of_line);
        }
        assert_eq!(batch, SkipGramBatch::new(&expected));
    }
    assert!(seen.into_iter().all(|seen| seen));
}

#[test]
fn a_stream_from_the_middle_equals_the_rest_of_one_from_the_start() {
    let (_dir, cache) = cache();
    let source = source(
        &cache,
        SkipGrams {
            subsample: 1e-2,
            ..ALL
        },
    );
    let whole: Vec<SkipGramBatch> = [batches(&source, 0), batches(&source, 1)].concat();
    assert_ne!(whole[0].candidates, batches(&source, 1)[0].candidates);
    let start = Position {
        epoch: 0,
        position: 3,
    };
    let stream = BatchStream::start(source, start).unwrap();
    let resumed: Vec<SkipGramBatch> = stream
        .take(whole.len() - 3)
        .map(|placed| placed.unwrap().batch)
        .collect();
    assert!(resumed == whole[3..]);
}

#[test]
fn no_batch_is_empty() {
    let (_dir, cache) = cache();
    // Nearly every word is left out.
    let source = source(
        &cache,
        SkipGrams {
            subsample: 1e-9,
            ..ALL
        },
    );
    let unk = cache.tokenizers().tgt.special().unk as i32;
    let batches = batches(&source, 0);
    assert!(batches.iter().all(|batch| !batch.centers.is_empty()));
    assert!(
        batches
            .iter()
            .any(|batch| batch.centers == [unk] && batch.candidates == [unk; 4])
    );
}

#[test]
fn a_line_with_too_many_pairs_is_named() {
    let (_dir, cache) = cache();
    let config = BatchingConfig {
        max_tokens: 20,
        ..CONFIG
    };
    let error = SkipGramSource::new(cache, config, ALL)
        .unwrap()
        .plan(0)
        .unwrap_err();
    assert!(
        matches!(error, DataError::LargerThanBatch { .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("line ")
            && error.to_string().contains("`train.max_tokens` = 20"),
        "{error}"
    );
}

#[test]
fn dropout_of_tokens_is_refused() {
    let (_dir, cache) = cache();
    let config = BatchingConfig {
        segmentation: Segmentation::Dropout(0.1),
        ..CONFIG
    };
    let error = SkipGramSource::new(cache, config, ALL).err().unwrap();
    assert!(matches!(error, DataError::Segmentation { .. }), "{error}");
}
