//! New segmentations of words from cached ids, without the text.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use polyglow_data::batching::{BatchingConfig, Selection};
use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::example::Example;
use polyglow_data::id_cache::IdCache;
use polyglow_data::pair::Pair;
use polyglow_data::prefetch::{BatchStream, Position, Positioned};
use polyglow_data::segmenter::Segmenter;
use polyglow_data::sources::PairSource;
use polyglow_data::tokenizer::{Kind, Segmentation, TokenizerConfig, Tokenizers};
use tempfile::TempDir;

const CONFIG: BatchingConfig = BatchingConfig {
    max_tokens: 300,
    pad_multiple: 1,
    seed: 3,
    segmentation: Segmentation::Fixed,
    selection: Selection::V2,
};

/// The test text, each line with the next as its translation, and lines that BPE finds hard.
fn cache(kind: Kind) -> (TempDir, Arc<IdCache>, Vec<Pair>) {
    let dir = tempfile::tempdir().unwrap();
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/text.txt");
    let mut text = std::fs::read_to_string(text).unwrap();
    let path = dir.path().join("text.tsv");
    let config = TokenizerConfig {
        kind,
        vocab_size: 500,
        ..TokenizerConfig::default()
    };
    let open = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        let pairs: Vec<String> = lines.windows(2).map(|two| two.join("\t")).collect();
        std::fs::write(&path, pairs.join("\n")).unwrap();
        let data = DataConfig {
            train: Some(TrainFiles::One(path.clone())),
            src: Some("en".to_owned()),
            tgt: Some("de".to_owned()),
            ..DataConfig::default()
        };
        Corpus::open(&data, Content::PAIRS, Split::Train).unwrap()
    };
    let tokenizers = Tokenizers::train(&config, &open(&text), &mut |_, _| {}).unwrap();
    text.push_str(
        "☃ unseen ☃snow☃ x☃\n<s> a<s>b</s> </w>the</w> e</w>\n🙂🙃 don't  twice   spaced\n\n",
    );
    let corpus = open(&text);
    let ids = dir.path().join("train.ids");
    let (cache, _) =
        IdCache::open_or_build(&ids, &corpus, &tokenizers, None, &mut |_, _| {}).unwrap();
    let pairs = corpus.pairs().collect::<Result<_, _>>().unwrap();
    (dir, Arc::new(cache), pairs)
}

fn sample(cache: &IdCache, segmentation: Segmentation, epoch: u64) -> Vec<Example> {
    let segmenter = Segmenter::new(cache.tokenizers(), segmentation)
        .unwrap()
        .unwrap();
    let config = BatchingConfig {
        segmentation,
        ..CONFIG
    };
    (0..cache.len() as u32)
        .map(|example| segmenter.sample(cache, &config, example, epoch).unwrap())
        .collect()
}

/// The kinds of tokenizers whose words can be segmented anew, and how.
const NEW: [(Kind, Segmentation); 3] = [
    (Kind::Bpe, Segmentation::Dropout(0.3)),
    (Kind::WordBpe, Segmentation::Dropout(0.3)),
    (Kind::Unigram, Segmentation::Sampling(0.3)),
];

#[test]
fn without_chance_the_ids_are_those_of_the_tokenizer() {
    for (kind, segmentation) in [
        (Kind::Bpe, Segmentation::Dropout(0.0)),
        (Kind::WordBpe, Segmentation::Dropout(0.0)),
        (Kind::Unigram, Segmentation::Sampling(1e4)),
    ] {
        let (_dir, cache, pairs) = cache(kind);
        for (sampled, pair) in sample(&cache, segmentation, 0).iter().zip(&pairs) {
            assert_eq!(
                sampled.src,
                cache.tokenizers().src.encode(&pair.src).unwrap(),
                "{}: {}",
                kind.name(),
                pair.src
            );
            assert_eq!(
                sampled.tgt,
                cache.tokenizers().tgt.encode(&pair.tgt).unwrap(),
                "{}: {}",
                kind.name(),
                pair.tgt
            );
        }
    }
}

#[test]
fn new_segmentations_spell_the_same_text() {
    for (kind, segmentation) in NEW {
        let (_dir, cache, _) = cache(kind);
        let tokenizer = &cache.tokenizers().src;
        let mut changed = 0;
        for (index, sampled) in sample(&cache, segmentation, 0).iter().enumerate() {
            let fixed = cache.example(index as u32).unwrap();
            changed += usize::from(*sampled != fixed);
            assert_eq!(
                tokenizer.decode(&sampled.src).unwrap(),
                tokenizer.decode(&fixed.src).unwrap()
            );
            assert_eq!(
                tokenizer.decode(&sampled.tgt).unwrap(),
                tokenizer.decode(&fixed.tgt).unwrap()
            );
        }
        assert!(changed > 10, "{}: {changed} examples changed", kind.name());
    }
}

#[test]
fn segmentations_follow_seed_epoch_and_example_alone() {
    for (kind, segmentation) in NEW {
        let (_dir, cache, _) = cache(kind);
        let epochs: Vec<Vec<Example>> = (0..4)
            .map(|epoch| sample(&cache, segmentation, epoch))
            .collect();
        assert_eq!(epochs[1], sample(&cache, segmentation, 1));
        let distinct: HashSet<&[u32]> = epochs.iter().map(|examples| &*examples[0].src).collect();
        assert!(distinct.len() >= 3, "epochs should rarely agree");
    }
}

#[test]
fn more_chance_means_shorter_tokens() {
    for (kind, segmentations) in [
        (Kind::WordBpe, [0.0, 0.1, 0.3].map(Segmentation::Dropout)),
        (Kind::Unigram, [1e4, 0.5, 0.1].map(Segmentation::Sampling)),
    ] {
        let (_dir, cache, _) = cache(kind);
        let tokens = |segmentation| {
            sample(&cache, segmentation, 0)
                .iter()
                .map(|example| example.src.len())
                .sum::<usize>()
        };
        let growth = segmentations
            .map(|segmentation| tokens(segmentation) as f64 / tokens(segmentations[0]) as f64);
        assert!(
            growth[1] > 1.05 && growth[2] > growth[1] + 0.1,
            "{growth:?}"
        );
    }
}

#[test]
fn batches_keep_their_budget() {
    for (kind, segmentation) in NEW {
        let config = BatchingConfig {
            segmentation,
            ..CONFIG
        };
        let (_dir, cache, _) = cache(kind);
        let source = Arc::new(PairSource::new(Arc::clone(&cache), config, false).unwrap());
        let stream = BatchStream::start(source, Position::default()).unwrap();
        let mut changed = 0;
        for Positioned {
            batch, examples, ..
        } in stream.take(100).map(Result::unwrap)
        {
            let positions = batch.src.num_positions().max(batch.tgt_out.num_positions());
            assert!(positions <= config.max_tokens);
            assert_eq!(examples.len(), batch.src.num_rows());
            for (&index, &len) in examples.iter().zip(&batch.src.lengths) {
                let fixed = cache.lengths(index).0;
                assert!(len - 1 <= config.planned_len(fixed));
                changed += usize::from(len - 1 != fixed);
            }
        }
        assert!(changed > 100, "only {changed} rows were segmented anew");
    }
}

#[test]
fn each_way_needs_its_kind_of_tokenizer() {
    for (kind, segmentation) in [
        (Kind::Word, Segmentation::Dropout(0.1)),
        (Kind::Word, Segmentation::Sampling(0.1)),
        (Kind::WordBpe, Segmentation::Sampling(0.1)),
        (Kind::Unigram, Segmentation::Dropout(0.1)),
        (Kind::Bpe, Segmentation::Sampling(0.1)),
    ] {
        let (_dir, cache, _) = cache(kind);
        let error = Segmenter::new(cache.tokenizers(), segmentation)
            .map(|_| ())
            .unwrap_err();
        assert!(matches!(error, DataError::Segmentation { .. }), "{error}");
    }
}

#[test]
fn sentences_become_as_long_as_planned_and_few_are_longer() {
    let planned = |segmentation: Segmentation| segmentation.planned_len(100);
    assert_eq!(planned(Segmentation::Fixed), 100);
    assert_eq!(planned(Segmentation::Dropout(0.1)), 137);
    assert_eq!(planned(Segmentation::Sampling(0.2)), 150);
    assert_eq!(Segmentation::Sampling(0.2).planned_len(0), 0);

    let (_dir, cache, _) = cache(Kind::Unigram);
    for alpha in [0.1, 0.3] {
        let segmentation = Segmentation::Sampling(alpha);
        let mut as_before = 0;
        for epoch in 0..20 {
            for (index, sampled) in sample(&cache, segmentation, epoch).iter().enumerate() {
                let fixed = cache.example(index as u32).unwrap();
                as_before += usize::from(fixed.src.len() > 10 && sampled.src == fixed.src);
            }
        }
        // Where eight draws were too long, or one drew what the tokenizer makes.
        assert!(
            as_before < 2 * cache.len(),
            "{alpha}: {as_before} of 20 x {}",
            cache.len()
        );
    }
}
