//! Labeled texts, images and hidden tokens, from a configuration to batches.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use polyglow_data::batch::Batch;
use polyglow_data::batching::BatchingConfig;
use polyglow_data::config::{DataConfig, Labeled, Split, TrainFiles};
use polyglow_data::corpus::{Corpus, read_image};
use polyglow_data::example::Filter;
use polyglow_data::framing::Framing;
use polyglow_data::id_cache::IdCache;
use polyglow_data::labeled::LabelSet;
use polyglow_data::prefetch::{BatchStream, Position};
use polyglow_data::tokenizer::{Kind, Tokenizer, TokenizerConfig, Tokenizers, text_of_bytes};
use polyglow_data::toy::shapes::Shapes;
use tempfile::TempDir;

fn labeled(corpus: &str, labeled: Labeled) -> DataConfig {
    DataConfig { labeled: Some(labeled), ..DataConfig::embedded(corpus) }
}

fn build(config: &DataConfig, split: Split) -> (TempDir, Arc<IdCache>) {
    let corpus = Corpus::open(config, split).unwrap();
    let words = TokenizerConfig { kind: Kind::Word, ..TokenizerConfig::default() };
    let tokenizers = Tokenizers::train(&words, &corpus, &mut |_, _| {}).unwrap();
    let (dir, filter) = (tempfile::tempdir().unwrap(), Filter::new(config));
    let path = dir.path().join("ids");
    let (cache, _) = IdCache::open_or_build(&path, &corpus, &tokenizers, Some(&filter), &mut |_, _| {}).unwrap();
    (dir, Arc::new(cache))
}

/// The batches of an epoch.
fn epoch(cache: &Arc<IdCache>, framing: Framing, max_tokens: usize, epoch: u64) -> Vec<Batch> {
    let config = BatchingConfig { max_tokens, pad_multiple: 1, seed: 3, dropout: 0.0, links: false, framing };
    let mut stream = BatchStream::start(Arc::clone(cache), config, Position { epoch, position: 0 }).unwrap();
    let first = stream.next().unwrap().unwrap();
    let rest = first.epoch_len - 1;
    [first].into_iter().chain(stream.take(rest).map(Result::unwrap)).collect()
}

#[test]
fn every_text_comes_with_its_label() {
    let config = labeled("mini-en-de-types", Labeled::Texts);
    config.validate().unwrap();
    let (_dir, cache) = build(&config, Split::Test("test"));
    let pairs: Vec<_> = Corpus::open(&config, Split::Test("test")).unwrap().pairs().map(Result::unwrap).collect();
    assert_eq!(cache.len(), pairs.len());
    let Tokenizers { src, tgt } = cache.tokenizers();
    assert_eq!(tgt.vocab_size(), 4 + 5);
    let mut seen = 0;
    for batch in epoch(&cache, Framing::Labels, 1000, 0) {
        assert!(batch.batch_size * batch.src_len <= 1000 && batch.tgt_len == 1);
        assert!(batch.tgt_in.iter().all(|&id| id as u32 == tgt.special().bos));
        for (row, &example) in batch.example_indices.iter().enumerate() {
            let pair = &pairs[example as usize];
            assert_eq!(tgt.decode(&[batch.tgt_out[row] as u32]).unwrap(), pair.tgt);
            let ids: Vec<u32> =
                batch.src[row * batch.src_len..][..batch.src_lengths[row]].iter().map(|&id| id as u32).collect();
            assert_eq!(ids.last(), Some(&src.special().eos));
            assert_eq!(src.decode(&ids).unwrap(), pair.src);
            seen += 1;
        }
    }
    assert_eq!(seen, pairs.len());
}

#[test]
fn hidden_tokens_differ_between_epochs_and_are_the_same_when_an_epoch_is_read_again() {
    let config = DataConfig { one_sided: true, ..DataConfig::embedded("mini-en-de-tenses") };
    config.validate().unwrap();
    let (_dir, cache) = build(&config, Split::Test("test"));
    let special = cache.tokenizers().tgt.special();
    let read = |number| {
        let mut rows = vec![Vec::new(); cache.len()];
        for batch in epoch(&cache, Framing::Masked, 1000, number) {
            assert_eq!((batch.src_len, batch.src.len()), (batch.tgt_len, batch.tgt_out.len()));
            let counted = batch.tgt_out.iter().filter(|&&id| id as u32 != special.pad).count();
            assert_eq!(batch.num_target_tokens(), counted);
            for (row, &example) in batch.example_indices.iter().enumerate() {
                let place = row * batch.src_len..(row + 1) * batch.src_len;
                let whole = cache.example(example).unwrap().tgt;
                for (position, &id) in whole.iter().enumerate() {
                    let (shown, asked) = (batch.src[place.start + position], batch.tgt_out[place.start + position]);
                    assert!(asked as u32 == id || asked as u32 == special.pad && shown as u32 == id);
                }
                rows[example as usize] = batch.tgt_out[place].to_vec();
            }
        }
        rows
    };
    let first = read(0);
    assert_eq!(first, read(0));
    assert_ne!(first, read(1));
}

#[test]
fn images_are_read_alike_from_the_generator_from_folders_and_from_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let set = Shapes::KindAndColor.split("valid").unwrap();
    set.write(&dir.path().join("valid")).unwrap();
    // What the program does for images of this size.
    let embedded = DataConfig { max_len: 3072, ..labeled("colored-shapes", Labeled::Images) };
    embedded.validate().unwrap();
    let files = DataConfig {
        labeled: Some(Labeled::Images),
        train: Some(TrainFiles::One(dir.path().join("valid"))),
        ..DataConfig::default()
    };
    files.validate().unwrap();
    let mut drawn: Vec<_> = Corpus::open(&embedded, Split::Valid).unwrap().pairs().map(Result::unwrap).collect();
    // Folders come in the order of their names, and images in theirs.
    drawn.sort_by(|left, right| left.tgt.cmp(&right.tgt));
    let read: Vec<_> = Corpus::open(&files, Split::Train).unwrap().pairs().map(Result::unwrap).collect();
    assert_eq!(drawn, read);
    let first = set.labels.names()[set.label_ids[0] as usize].clone();
    let file = dir.path().join("valid").join(&first).join("00000.png");
    assert_eq!(read_image(&file, &files).unwrap(), set.example(0).pixels);

    let (_cache_dir, cache) = build(&embedded, Split::Valid);
    let batch = &epoch(&cache, Framing::Images { turned: None }, 10 * 3072, 0)[0];
    assert_eq!([batch.batch_size, batch.src_len, batch.tgt_len], [10, 3072, 1]);
    for (row, &example) in batch.example_indices.iter().enumerate() {
        let bytes: Vec<u8> = batch.src[row * 3072..][..3072].iter().map(|&id| (id - 4) as u8).collect();
        assert_eq!(bytes, set.example(example as usize).pixels);
    }
}

#[test]
fn mnists_labels_are_found_beside_its_images() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    write("train-images-idx3-ubyte", &[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 10, 20, 30, 40]);
    let config = DataConfig {
        labeled: Some(Labeled::Images),
        train: Some(TrainFiles::One(dir.path().join("train-images-idx3-ubyte"))),
        image_size: Some([1, 2]),
        grayscale: true,
        ..DataConfig::default()
    };
    let error = Corpus::open(&config, Split::Train).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("no file of labels"), "{error}");
    write("train-labels-idx1-ubyte", &[0, 0, 8, 1, 0, 0, 0, 2, 7, 3]);
    let pairs: Vec<_> = Corpus::open(&config, Split::Train).unwrap().pairs().map(Result::unwrap).collect();
    assert_eq!((&*pairs[0].tgt, &*pairs[1].tgt), ("7", "3"));
    assert_eq!(pairs[1].src, text_of_bytes(&[30, 40]));
    let colored = DataConfig { grayscale: false, ..config };
    let error = Corpus::open(&colored, Split::Train).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("`data.grayscale = false`"), "{error}");
}

#[test]
fn the_first_examples_are_kept_with_the_labels_of_all() {
    let config = DataConfig { max_examples: Some(3), ..labeled("mini-en-de-types", Labeled::Texts) };
    let (_dir, cache) = build(&config, Split::Train);
    assert_eq!((cache.len(), cache.report().pairs), (3, 3));
    assert_eq!(cache.tokenizers().tgt.vocab_size(), 4 + 5);
    let whole = Corpus::open(&labeled("mini-en-de-types", Labeled::Texts), Split::Train).unwrap();
    let limited = Corpus::open(&config, Split::Train).unwrap();
    assert_ne!(whole.content_hash().unwrap(), limited.content_hash().unwrap());
    let few = limited.pairs().take(3).map(Result::unwrap);
    for (index, pair) in few.enumerate() {
        assert_eq!(cache.tokenizers().src.decode(&cache.example(index as u32).unwrap().src).unwrap(), pair.src);
    }
}

#[test]
fn bytes_are_encoded_as_the_library_would_and_labels_as_a_whole() {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let bytes = Tokenizer::of_bytes().unwrap();
    let ids = bytes.encode(&text_of_bytes(&all)).unwrap();
    assert_eq!(ids, (4..260).collect::<Vec<_>>());
    let spelled: String = ids.iter().map(|&id| bytes.token(id).unwrap()).collect();
    assert_eq!(spelled, text_of_bytes(&all));
    assert_eq!(bytes.encode("a").unwrap(), [bytes.special().unk]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    bytes.save(&path).unwrap();
    let read = Tokenizer::load(&path).unwrap();
    assert_eq!(read.encode(&text_of_bytes(&[0, 255, 32])).unwrap(), [4, 259, 36]);
    // The library itself, which knows words instead, agrees.
    assert_eq!(read.encode_words(&text_of_bytes(&all)).unwrap().0, ids);

    let labels = Tokenizer::of_labels(&LabelSet::new(["2 red circle", "b"].map(str::to_owned))).unwrap();
    assert_eq!(labels.encode("2 red circle").unwrap(), [4]);
    assert_eq!(labels.encode("red").unwrap(), [labels.special().unk]);
    assert_eq!(labels.decode(&[4]).unwrap(), "2 red circle");
}

#[test]
fn what_does_not_fit_is_named() {
    let error = |config: DataConfig| config.validate().unwrap_err().to_string();
    let message = error(labeled("mini-en-de", Labeled::Texts));
    assert!(message.contains("pairs of sentences") && message.contains("\"mini-en-de-types\""), "{message}");
    let message = error(labeled("mini-en-de-types", Labeled::Images));
    assert!(message.contains("texts with labels") && message.contains("\"shapes\""), "{message}");
    assert!(error(DataConfig::embedded("shapes")).contains("images with labels"));
    let message = error(DataConfig { image_size: Some([8, 8]), ..DataConfig::embedded("digits") });
    assert!(message.contains("`data.image_size`"), "{message}");
    let message = error(DataConfig { image_size: Some([512, 512]), ..labeled("shapes", Labeled::Images) });
    assert!(message.contains("65535"), "{message}");
    let message = error(DataConfig { max_examples: Some(0), ..DataConfig::embedded("digits") });
    assert!(message.contains("`data.max_examples`"), "{message}");
    let missing = DataConfig {
        labeled: Some(Labeled::Texts),
        train: Some(TrainFiles::One(Path::new("no/such.tsv").to_owned())),
        ..DataConfig::default()
    };
    missing.validate().unwrap();
    let message = Corpus::open(&missing, Split::Train).map(|_| ()).unwrap_err().to_string();
    assert!(message.contains("no/such.tsv"), "{message}");
}
