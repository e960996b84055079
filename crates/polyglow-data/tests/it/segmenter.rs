//! BPE dropout from cached ids, without the text.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use polyglow_data::batching::{BatchingConfig, Selection};
use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::dropout::BpeDropout;
use polyglow_data::error::DataError;
use polyglow_data::example::Example;
use polyglow_data::id_cache::IdCache;
use polyglow_data::pair::Pair;
use polyglow_data::prefetch::{BatchStream, Position, Positioned};
use polyglow_data::sources::PairSource;
use polyglow_data::tokenizer::{Kind, TokenizerConfig, Tokenizers};
use tempfile::TempDir;

const CONFIG: BatchingConfig = BatchingConfig {
    max_tokens: 300,
    pad_multiple: 1,
    seed: 3,
    dropout: 0.2,
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

fn sample(cache: &IdCache, probability: f64, epoch: u64) -> Vec<Example> {
    let dropout = BpeDropout::new(cache.tokenizers(), probability).unwrap();
    let config = BatchingConfig {
        dropout: probability,
        ..CONFIG
    };
    (0..cache.len() as u32)
        .map(|example| dropout.sample(cache, &config, example, epoch).unwrap())
        .collect()
}

#[test]
fn without_dropout_the_merges_give_the_ids_of_the_tokenizer() {
    for kind in [Kind::Bpe, Kind::WordBpe] {
        let (_dir, cache, pairs) = cache(kind);
        for (sampled, pair) in sample(&cache, 0.0, 0).iter().zip(&pairs) {
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
fn dropped_segmentations_spell_the_same_text() {
    for kind in [Kind::Bpe, Kind::WordBpe] {
        let (_dir, cache, _) = cache(kind);
        let tokenizer = &cache.tokenizers().src;
        for (index, sampled) in sample(&cache, 0.3, 0).iter().enumerate() {
            let undropped = cache.example(index as u32).unwrap();
            assert_eq!(
                tokenizer.decode(&sampled.src).unwrap(),
                tokenizer.decode(&undropped.src).unwrap()
            );
            assert_eq!(
                tokenizer.decode(&sampled.tgt).unwrap(),
                tokenizer.decode(&undropped.tgt).unwrap()
            );
        }
    }
}

#[test]
fn segmentations_follow_seed_epoch_and_example_alone() {
    let (_dir, cache, _) = cache(Kind::Bpe);
    let epochs: Vec<Vec<Example>> = (0..4).map(|epoch| sample(&cache, 0.2, epoch)).collect();
    assert_eq!(epochs[1], sample(&cache, 0.2, 1));
    let distinct: HashSet<&[u32]> = epochs.iter().map(|examples| &*examples[0].src).collect();
    assert!(distinct.len() >= 3, "epochs should rarely agree");
}

#[test]
fn more_dropout_means_shorter_tokens() {
    let (_dir, cache, _) = cache(Kind::WordBpe);
    let tokens = |probability| {
        sample(&cache, probability, 0)
            .iter()
            .map(|example| example.src.len())
            .sum::<usize>()
    };
    let growth = [0.0, 0.1, 0.3].map(|probability| tokens(probability) as f64 / tokens(0.0) as f64);
    assert!(
        growth[1] > 1.05 && growth[2] > growth[1] + 0.1,
        "{growth:?}"
    );
}

#[test]
fn batches_keep_their_budget_under_dropout() {
    let (_dir, cache, _) = cache(Kind::Bpe);
    let source = Arc::new(PairSource::new(Arc::clone(&cache), CONFIG, false).unwrap());
    let stream = BatchStream::start(source, Position::default()).unwrap();
    let mut changed = 0;
    for Positioned {
        batch, examples, ..
    } in stream.take(100).map(Result::unwrap)
    {
        assert!(batch.src.num_positions().max(batch.tgt_out.num_positions()) <= CONFIG.max_tokens);
        assert_eq!(examples.len(), batch.src.num_rows());
        for (&index, &len) in examples.iter().zip(&batch.src.lengths) {
            let undropped = cache.lengths(index).0;
            assert!(len - 1 <= CONFIG.planned_len(undropped));
            changed += usize::from(len - 1 != undropped);
        }
    }
    assert!(changed > 100, "only {changed} rows were segmented anew");
}

#[test]
fn dropout_needs_bpe() {
    let (_dir, cache, _) = cache(Kind::Word);
    let error = BpeDropout::new(cache.tokenizers(), 0.1)
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, DataError::Dropout { .. }), "{error}");
}
