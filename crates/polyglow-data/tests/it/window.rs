//! Text of one side: as examples, and as a stream that is cut into windows.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use polyglow_data::batch::TextBatch;
use polyglow_data::batching::{BatchingConfig, Selection};
use polyglow_data::config::{Content, DataConfig, Split, TrainFiles, WeightedPath};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::example::{Filter, LengthFilter, Reason};
use polyglow_data::id_cache::IdCache;
use polyglow_data::prefetch::{BatchStream, Position, Positioned};
use polyglow_data::sources::{BatchSource, LineSource, WindowSource};
use polyglow_data::tokenizer::{Kind, Segmentation, TokenizerConfig, Tokenizers};
use polyglow_data::window::Windows;
use tempfile::TempDir;

const CONFIG: BatchingConfig = BatchingConfig {
    max_tokens: 60,
    pad_multiple: 1,
    seed: 1,
    segmentation: Segmentation::Fixed,
    selection: Selection::V2,
};

fn windows_of(cache: &Arc<IdCache>, context_len: usize) -> Arc<WindowSource> {
    let context_len = NonZeroUsize::new(context_len).unwrap();
    Arc::new(WindowSource::new(Arc::clone(cache), CONFIG, context_len).unwrap())
}

fn build(dir: &Path, corpus: &Corpus, filter: Option<&dyn Filter>) -> Arc<IdCache> {
    let config = TokenizerConfig {
        kind: Kind::Char,
        vocab_size: 60,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&config, corpus, &mut |_, _| {}).unwrap();
    let path = dir.join("text.ids");
    Arc::new(
        IdCache::open_or_build(&path, corpus, &tokenizers, filter, &mut |_, _| {})
            .unwrap()
            .0,
    )
}

/// A text of 200 lines of 0 to 30 characters, every tenth of them blank.
fn cache() -> (TempDir, Arc<IdCache>) {
    let dir = tempfile::tempdir().unwrap();
    let letter = |number: usize| char::from(b'a' + (number % 23) as u8);
    let line = |number: usize| {
        (0..number * 7 % 31 * usize::from(!number.is_multiple_of(10)))
            .map(move |at| letter(at * at + number))
    };
    let text: String = (0..200)
        .flat_map(|number| line(number).chain(['\n']).collect::<Vec<_>>())
        .collect();
    std::fs::write(dir.path().join("text"), text).unwrap();
    let corpus = Corpus::open_text("data.train", &dir.path().join("text")).unwrap();
    let cache = build(dir.path(), &corpus, None);
    (dir, cache)
}

/// The pairs of input and target ids, in the order of the rows.
fn predictions(batch: &TextBatch) -> Vec<Vec<(i32, i32)>> {
    let TextBatch { inputs, targets } = batch;
    assert_eq!(
        (inputs.len, &inputs.lengths),
        (targets.len, &targets.lengths)
    );
    let row = |row: usize| {
        let positions = row * targets.len..row * targets.len + targets.lengths[row];
        positions
            .map(|position| (inputs.ids[position], targets.ids[position]))
            .collect()
    };
    (0..targets.num_rows()).map(row).collect()
}

fn epoch(cache: &Arc<IdCache>, context_len: usize, epoch: u64) -> Vec<Positioned<TextBatch>> {
    let start = Position { epoch, position: 0 };
    let mut stream = BatchStream::start(windows_of(cache, context_len), start).unwrap();
    let first = stream.next().unwrap().unwrap();
    let rest = first.epoch_len - 1;
    [first]
        .into_iter()
        .chain(stream.take(rest).map(Result::unwrap))
        .collect()
}

#[test]
fn windows_predict_what_examples_predict_and_each_id_once() {
    let (_dir, cache) = cache();
    let examples: Vec<_> = (0..cache.len() as u32)
        .map(|example| cache.example(example).unwrap())
        .collect();
    let special = cache.tokenizers().tgt.special();
    let lines: Vec<&[u32]> = examples.iter().map(|example| &*example.tgt).collect();
    let whole: Vec<(i32, i32)> = predictions(&TextBatch::of_lines(&lines, special, 1)).concat();
    for context_len in [1, 7, 33, 60] {
        let windows = Windows::new(&cache, NonZeroUsize::new(context_len).unwrap()).unwrap();
        let rows: Vec<_> = (0..windows.len() as u32)
            .map(|window| windows.read(&cache, window).unwrap().1)
            .collect();
        let batch = TextBatch::of_windows(&rows, special, 1);
        assert_eq!(predictions(&batch).concat(), whole);
        assert!(
            batch.targets.lengths[..rows.len() - 1]
                .iter()
                .all(|&len| len == context_len)
        );

        let mut expected = whole.clone();
        expected.sort_unstable();
        for number in 0..3 {
            let batches = epoch(&cache, context_len, number);
            assert!(
                batches
                    .iter()
                    .all(|placed| placed.batch.targets.num_positions() <= CONFIG.max_tokens)
            );
            let mut actual: Vec<_> = batches
                .iter()
                .flat_map(|placed| predictions(&placed.batch))
                .flatten()
                .collect();
            actual.sort_unstable();
            assert_eq!(actual, expected, "context_len {context_len}");
        }
    }
}

#[test]
fn rows_name_the_example_where_they_begin() {
    let (_dir, cache) = cache();
    let windows =
        Windows::for_epoch(&cache, NonZeroUsize::new(9).unwrap(), CONFIG.seed, 2).unwrap();
    let source = windows_of(&cache, 9);
    let lens: Vec<usize> = (0..cache.len() as u32)
        .map(|example| cache.lengths(example).1 + 1)
        .collect();
    for window in 0..windows.len() as u32 {
        let (first, pieces) = windows.read(&cache, window).unwrap();
        let before: usize = lens[..first as usize].iter().sum();
        assert_eq!(
            (before + pieces[0].positions.start) as u64,
            windows.positions(window).start
        );
        assert_eq!(pieces[0].ids, cache.example(first).unwrap().tgt);
        assert_eq!(source.examples(2, &[window]), [first]);
    }
    assert!(windows.positions(windows.len() as u32).is_empty());
}

#[test]
fn epochs_are_cut_at_different_places_and_any_position_can_be_reached() {
    let (_dir, cache) = cache();
    let rows = |batches: &[Positioned<TextBatch>]| {
        let mut rows: Vec<_> = batches
            .iter()
            .flat_map(|placed| predictions(&placed.batch))
            .collect();
        rows.sort();
        rows
    };
    let (first, second) = (epoch(&cache, 33, 0), epoch(&cache, 33, 1));
    assert_ne!(rows(&first), rows(&second));
    assert_eq!(first, epoch(&cache, 33, 0));
    let start = Position {
        epoch: 0,
        position: first.len() - 1,
    };
    let stream = BatchStream::start(windows_of(&cache, 33), start).unwrap();
    let resumed: Vec<Positioned<TextBatch>> = stream.take(2).map(Result::unwrap).collect();
    assert_eq!(resumed, [first[first.len() - 1].clone(), second[0].clone()]);
}

#[test]
fn windows_do_not_reach_from_one_corpus_into_another_and_follow_its_weight() {
    let dir = tempfile::tempdir().unwrap();
    let list = [
        ("a.tsv", "x\taaaa\nx\taaa\n", 1.0),
        ("b.tsv", "x\tbb\nx\tbbbbbbb\n", 2.0),
    ];
    let list = list.map(|(name, text, weight)| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        WeightedPath {
            weight,
            ..WeightedPath::new(path)
        }
    });
    let data = DataConfig {
        train: Some(TrainFiles::Weighted(list.to_vec())),
        src: Some("en".to_owned()),
        tgt: Some("de".to_owned()),
        ..DataConfig::default()
    };
    let cache = build(
        dir.path(),
        &Corpus::open(&data, Content::PAIRS, Split::Train)
            .unwrap()
            .target_side(),
        None,
    );
    let [a, b] = ["a", "b"].map(|text| cache.tokenizers().tgt.encode(text).unwrap()[0] as i32);
    for number in 0..4 {
        let batches = epoch(&cache, 6, number);
        let count = |id| {
            batches
                .iter()
                .flat_map(|placed| &placed.batch.targets.ids)
                .filter(|&&target| target == id)
                .count()
        };
        assert_eq!((count(a), count(b)), (7, 18));
        assert!(
            batches
                .iter()
                .flat_map(|placed| predictions(&placed.batch))
                .all(|row| {
                    let ids: Vec<i32> = row
                        .into_iter()
                        .flat_map(|(input, output)| [input, output])
                        .collect();
                    !(ids.contains(&a) && ids.contains(&b))
                })
        );
    }
}

#[test]
fn the_target_side_of_a_corpus_becomes_examples_without_sources() {
    let dir = tempfile::tempdir().unwrap();
    let text = Corpus::open(
        &DataConfig::embedded("digits"),
        Content::PAIRS,
        Split::Valid,
    )
    .unwrap();
    let pairs: Vec<_> = text.pairs().collect::<Result<_, _>>().unwrap();
    assert_ne!(
        text.content_hash().unwrap(),
        text.clone().target_side().content_hash().unwrap()
    );
    let filter = LengthFilter {
        max_len: 13,
        max_length_ratio: 1.0,
    };
    let cache = build(dir.path(), &text.clone().target_side(), Some(&filter));
    let kept: Vec<_> = pairs
        .iter()
        .map(|pair| &pair.tgt)
        .filter(|text| text.len() <= 13)
        .collect();
    assert!(kept.len() > 200 && kept.len() < pairs.len());
    assert_eq!(
        cache.report().count(Reason::TOO_LONG) as usize,
        pairs.len() - kept.len()
    );
    for (example, text) in kept.iter().enumerate() {
        assert_eq!(cache.example(example as u32).unwrap().src, [0; 0]);
        assert_eq!(
            &cache
                .tokenizers()
                .tgt
                .decode(&cache.example(example as u32).unwrap().tgt)
                .unwrap(),
            *text
        );
    }
    // The same text is what the configuration gives for models that read one side.
    let opened =
        Corpus::open(&DataConfig::embedded("digits"), Content::TEXT, Split::Valid).unwrap();
    assert_eq!(
        opened.content_hash().unwrap(),
        text.target_side().content_hash().unwrap()
    );

    let source = Arc::new(LineSource::new(Arc::clone(&cache), CONFIG).unwrap());
    let plan = source.plan(0).unwrap();
    let stream = BatchStream::start(Arc::clone(&source), Position::default()).unwrap();
    let mut rows = 0;
    for (position, placed) in stream.take(plan.len()).map(Result::unwrap).enumerate() {
        assert_eq!(
            (placed.position, &*placed.examples),
            (position, plan.batch(position))
        );
        let lines = placed
            .examples
            .iter()
            .map(|&example| cache.example(example).unwrap().tgt);
        let special = cache.tokenizers().tgt.special();
        assert_eq!(
            placed.batch,
            TextBatch::of_lines(&lines.collect::<Vec<_>>(), special, 1)
        );
        assert!(placed.batch.inputs.num_positions() <= CONFIG.max_tokens);
        let TextBatch { inputs, .. } = &placed.batch;
        assert_eq!(
            source.size(0, &placed.examples),
            ([inputs.num_rows(), 0, inputs.len], inputs.num_real())
        );
        rows += inputs.num_rows();
    }
    assert_eq!(rows, kept.len());
}

#[test]
fn what_cannot_be_cut_into_windows_is_an_error() {
    let (_dir, text) = cache();
    let dropping = BatchingConfig {
        segmentation: Segmentation::Dropout(0.1),
        ..CONFIG
    };
    let error = WindowSource::new(Arc::clone(&text), dropping, NonZeroUsize::MIN)
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("words cannot be segmented anew"),
        "{error}"
    );
    let start = |cache: &Arc<IdCache>, context_len| {
        let stream = BatchStream::start(windows_of(cache, context_len), Position::default());
        stream.err().unwrap().to_string()
    };
    let message = start(&text, 61);
    assert!(
        message.contains("window") && message.contains("61 positions"),
        "{message}"
    );
    let dir = tempfile::tempdir().unwrap();
    let pairs = build(
        dir.path(),
        &Corpus::open(
            &DataConfig::embedded("digits"),
            Content::PAIRS,
            Split::Valid,
        )
        .unwrap(),
        None,
    );
    assert!(start(&pairs, 7).contains("this text has sources"));
    let missing = Corpus::open_text("data.train", Path::new("no/such/file")).unwrap_err();
    assert!(
        matches!(missing, DataError::MissingFile { .. }),
        "{missing}"
    );
}
