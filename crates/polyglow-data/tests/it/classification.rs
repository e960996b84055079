//! Labeled texts, images and hidden tokens, from a configuration to batches.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use polyglow_data::batch::{ImageBatch, LabelBatch, MaskedBatch};
use polyglow_data::batching::{BatchingConfig, Selection};
use polyglow_data::config::{Content, DataConfig, ImageConfig, Split, TrainFiles, WeightedPath};
use polyglow_data::corpus::{Corpus, read_image};
use polyglow_data::error::DataError;
use polyglow_data::example::configured_filter;
use polyglow_data::id_cache::IdCache;
use polyglow_data::image_set::ImageSet;
use polyglow_data::labeled::LabelSet;
use polyglow_data::pair::Pair;
use polyglow_data::prefetch::{BatchStream, Position, Positioned};
use polyglow_data::sources::{BatchSource, ImageSource, LabelSource, MaskedSource};
use polyglow_data::tokenizer::{Kind, Segmentation, Tokenizer, TokenizerConfig, Tokenizers};
use polyglow_data::toy::shapes::Shapes;
use tempfile::TempDir;

const CONFIG: BatchingConfig = BatchingConfig {
    max_tokens: 1000,
    pad_multiple: 1,
    seed: 3,
    segmentation: Segmentation::Fixed,
    selection: Selection::V2,
};

fn build(config: &DataConfig, content: Content, split: Split) -> (TempDir, Arc<IdCache>) {
    build_of(Kind::Word, config, content, split)
}

fn build_of(
    kind: Kind,
    config: &DataConfig,
    content: Content,
    split: Split,
) -> (TempDir, Arc<IdCache>) {
    let corpus = Corpus::open(config, content, split).unwrap();
    let tokenizer = TokenizerConfig {
        kind,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&tokenizer, &corpus, &mut |_, _| {}).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let filter = configured_filter(config, content);
    let path = dir.path().join("ids");
    let (cache, _) = IdCache::open_or_build(
        &path,
        &corpus,
        &tokenizers,
        filter.as_deref(),
        &mut |_, _| {},
    )
    .unwrap();
    (dir, Arc::new(cache))
}

/// The batches of an epoch.
fn epoch<S: BatchSource<Error = DataError>>(
    source: &Arc<S>,
    epoch: u64,
) -> Vec<Positioned<S::Batch>> {
    let mut stream =
        BatchStream::start(Arc::clone(source), Position { epoch, position: 0 }).unwrap();
    let first = stream.next().unwrap().unwrap();
    let rest = first.epoch_len - 1;
    [first]
        .into_iter()
        .chain(stream.take(rest).map(Result::unwrap))
        .collect()
}

/// The source of batches of a corpus of images.
fn images(
    corpus: &Corpus,
    max_tokens: usize,
    augment: bool,
) -> (Arc<ImageSet>, Arc<[i32]>, Arc<ImageSource>) {
    let tokenizers =
        Tokenizers::train(&TokenizerConfig::default(), corpus, &mut |_, _| {}).unwrap();
    let (set, parts) = corpus.training_images().unwrap();
    let name = |&label: &u32| &*set.labels.names()[label as usize];
    let labels = set
        .label_ids
        .iter()
        .map(|label| tokenizers.tgt.encode(name(label)).unwrap()[0] as i32);
    let labels = labels.collect::<Arc<[i32]>>();
    let config = BatchingConfig {
        max_tokens,
        ..CONFIG
    };
    let source = ImageSource::new(
        Arc::clone(&set),
        Arc::clone(&labels),
        parts,
        config,
        augment,
    );
    (set, labels, Arc::new(source))
}

#[test]
fn every_text_comes_with_its_label() {
    texts_come_with_their_labels(Kind::Word, Segmentation::Fixed);
    texts_come_with_their_labels(Kind::Bpe, Segmentation::Dropout(0.2));
}

fn texts_come_with_their_labels(kind: Kind, segmentation: Segmentation) {
    let config = DataConfig::embedded("mini-en-de-types");
    config.validate(Content::LABELED_TEXT).unwrap();
    let test = Split::Test("test");
    let (_dir, cache) = build_of(kind, &config, Content::LABELED_TEXT, test);
    let batching = BatchingConfig {
        segmentation,
        ..CONFIG
    };
    let corpus = Corpus::open(&config, Content::LABELED_TEXT, Split::Test("test")).unwrap();
    let pairs: Vec<_> = corpus.pairs().map(Result::unwrap).collect();
    assert_eq!(cache.len(), pairs.len());
    let Tokenizers { src, tgt } = cache.tokenizers();
    assert_eq!(tgt.vocab_size(), 4 + 5);
    let (mut seen, mut changed) = (0, 0);
    let source = Arc::new(LabelSource::new(Arc::clone(&cache), batching).unwrap());
    for Positioned {
        batch, examples, ..
    } in epoch(&source, 0)
    {
        let LabelBatch { texts, labels } = batch;
        assert!(texts.num_positions() <= 1000 && labels.len() == texts.num_rows());
        let size = (
            [labels.len(), texts.len, 1],
            texts.num_real() + labels.len(),
        );
        assert!(!segmentation.is_fixed() || source.size(0, &examples) == size);
        for (row, &example) in examples.iter().enumerate() {
            let pair = &pairs[example as usize];
            assert_eq!(tgt.decode(&[labels[row] as u32]).unwrap(), pair.tgt);
            let ids: Vec<u32> = texts.ids[row * texts.len..][..texts.lengths[row]]
                .iter()
                .map(|&id| id as u32)
                .collect();
            assert_eq!(ids.last(), Some(&src.special().eos));
            assert_eq!(src.decode(&ids).unwrap(), pair.src);
            changed += usize::from(ids[..ids.len() - 1] != cache.example(example).unwrap().src);
            seen += 1;
        }
    }
    assert_eq!(seen, pairs.len());
    assert_eq!(changed > seen / 2, !segmentation.is_fixed(), "{changed}");
}

#[test]
fn hidden_tokens_differ_between_epochs_and_are_the_same_when_an_epoch_is_read_again() {
    let config = DataConfig::embedded("mini-en-de-tenses");
    config.validate(Content::TEXT).unwrap();
    let (_dir, cache) = build(&config, Content::TEXT, Split::Test("test"));
    let source = Arc::new(MaskedSource::new(Arc::clone(&cache), CONFIG).unwrap());
    let special = cache.tokenizers().tgt.special();
    let read = |number| {
        let mut rows = vec![Vec::new(); cache.len()];
        for Positioned {
            batch, examples, ..
        } in epoch(&source, number)
        {
            let MaskedBatch {
                shown,
                asked: targets,
                num_asked: num_targets,
            } = batch;
            assert_eq!(
                (shown.num_positions(), shown.num_rows()),
                (targets.len(), examples.len())
            );
            assert!(shown.num_positions() <= 1000);
            let counted = targets
                .iter()
                .filter(|&&id| id as u32 != special.pad)
                .count();
            assert_eq!(num_targets, counted);
            for (row, &example) in examples.iter().enumerate() {
                let range = row * shown.len..(row + 1) * shown.len;
                let whole = cache.example(example).unwrap().tgt;
                for (position, &id) in whole.iter().enumerate() {
                    let (shown, target) = (
                        shown.ids[range.start + position],
                        targets[range.start + position],
                    );
                    assert!(
                        target as u32 == id || target as u32 == special.pad && shown as u32 == id
                    );
                }
                rows[example as usize] = targets[range].to_vec();
            }
        }
        rows
    };
    let first = read(0);
    assert_eq!(first, read(0));
    assert_ne!(first, read(1));
}

#[test]
fn images_are_read_alike_from_the_generator_and_from_folders_and_stay_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let set = Shapes::KindAndColor.split("valid").unwrap();
    set.write(&dir.path().join("valid")).unwrap();
    let embedded = DataConfig::embedded("colored-shapes");
    embedded.validate(Content::IMAGES).unwrap();
    let files = DataConfig {
        train: Some(TrainFiles::One(dir.path().join("valid"))),
        ..DataConfig::default()
    };
    files.validate(Content::IMAGES).unwrap();
    let drawn = Corpus::open(&embedded, Content::IMAGES, Split::Valid).unwrap();
    let read = Corpus::open(&files, Content::IMAGES, Split::Train).unwrap();
    let examples = |corpus: &Corpus| -> Vec<(String, Vec<u8>)> {
        let set = ImageSet::join(&corpus.images().unwrap());
        let example = |index| {
            let image = set.example(index);
            (
                set.labels.names()[image.label as usize].clone(),
                image.pixels.to_vec(),
            )
        };
        (0..set.len()).map(example).collect()
    };
    let mut expected = examples(&drawn);
    // Folders come in the order of their names, and images in theirs.
    expected.sort_by(|left, right| left.0.cmp(&right.0));
    assert_eq!(examples(&read), expected);
    let first = set.labels.names()[set.label_ids[0] as usize].clone();
    let file = dir.path().join("valid").join(&first).join("00000.png");
    assert_eq!(
        read_image(&file, files.images()).unwrap(),
        set.example(0).pixels
    );

    let (_, labels, source) = images(&drawn, 10 * 3072, false);
    let mut seen = 0;
    for Positioned {
        batch, examples, ..
    } in epoch(&source, 0)
    {
        let ImageBatch {
            pixels,
            labels: batch_labels,
        } = batch;
        assert!(pixels.len() <= 10 * 3072 && pixels.len() == examples.len() * 3072);
        assert_eq!(
            source.size(0, &examples),
            ([examples.len(), 3072, 1], examples.len() * 3073)
        );
        for (row, &example) in examples.iter().enumerate() {
            assert_eq!(
                pixels[row * 3072..][..3072],
                *set.example(example as usize).pixels
            );
            assert_eq!(batch_labels[row], labels[example as usize]);
            seen += 1;
        }
    }
    assert_eq!(seen, set.len());
}

#[test]
fn images_are_no_text_and_their_labels_are_the_only_tokens() {
    let corpus = Corpus::open(
        &DataConfig::embedded("shapes"),
        Content::IMAGES,
        Split::Valid,
    )
    .unwrap();
    assert_eq!(corpus.content(), Content::IMAGES);
    let set = Shapes::Kind.split("valid").unwrap();
    let pairs: Vec<Pair> = corpus.pairs().map(Result::unwrap).collect();
    let names = set
        .label_ids
        .iter()
        .map(|&label| set.labels.names()[label as usize].clone());
    let expected: Vec<Pair> = names
        .map(|tgt| Pair {
            src: String::new(),
            tgt,
        })
        .collect();
    assert_eq!(pairs, expected);
    let tokenizers =
        Tokenizers::train(&TokenizerConfig::default(), &corpus, &mut |_, _| {}).unwrap();
    assert_eq!(
        (tokenizers.src.vocab_size(), tokenizers.tgt.vocab_size()),
        (4 + 4, 4 + 4)
    );
    let (_, labels, _) = images(&corpus, 3072, false);
    for (label, pair) in labels.iter().zip(&pairs) {
        assert_eq!(tokenizers.tgt.decode(&[*label as u32]).unwrap(), pair.tgt);
    }
    // Other pixels with the same labels are another corpus.
    let small = ImageConfig {
        size: [8, 8],
        ..ImageConfig::default()
    };
    let small = DataConfig {
        images: Some(small),
        ..DataConfig::embedded("shapes")
    };
    let small = Corpus::open(&small, Content::IMAGES, Split::Valid).unwrap();
    assert_ne!(
        corpus.content_hash().unwrap(),
        small.content_hash().unwrap()
    );
    assert_eq!(
        small.images().unwrap()[0].pixels.len(),
        set.len() * 8 * 8 * 3
    );
    // Text has no images.
    let text = Corpus::open(
        &DataConfig::embedded("digits"),
        Content::PAIRS,
        Split::Valid,
    )
    .unwrap();
    assert!(text.images().is_none() && text.training_images().is_none());
}

#[test]
fn images_are_turned_anew_in_each_epoch_and_alike_when_it_is_read_again() {
    let corpus = Corpus::open(
        &DataConfig::embedded("shapes"),
        Content::IMAGES,
        Split::Valid,
    )
    .unwrap();
    let (set, labels, source) = images(&corpus, 16 * 3072, true);
    let read = |number| {
        let mut rows = vec![Vec::new(); set.len()];
        for Positioned {
            batch, examples, ..
        } in epoch(&source, number)
        {
            for (row, &example) in examples.iter().enumerate() {
                assert_eq!(batch.labels[row], labels[example as usize]);
                rows[example as usize] = batch.pixels[row * 3072..][..3072].to_vec();
            }
        }
        rows
    };
    let (first, second) = (read(0), read(1));
    assert_eq!(first, read(0));
    let changed = |left: &[Vec<u8>]| {
        left.iter()
            .zip(&second)
            .filter(|(left, right)| left != right)
            .count()
    };
    assert!(
        changed(&first) * 2 > set.len(),
        "seven of eight ways are another"
    );
    let mut kept = 0;
    for (index, turned) in first.iter().enumerate() {
        // Whatever way it is turned, an image has the same pixels.
        let sorted = |pixels: &[u8]| {
            let mut pixels: Vec<_> = pixels.chunks(3).map(<[u8]>::to_vec).collect();
            pixels.sort();
            pixels
        };
        assert_eq!(sorted(turned), sorted(set.example(index).pixels));
        kept += usize::from(turned == set.example(index).pixels);
    }
    assert!(
        kept * 2 < set.len(),
        "{kept} of {} are as they were",
        set.len()
    );
}

#[test]
fn several_sets_of_images_become_one_with_the_weights_of_each() {
    let dir = tempfile::tempdir().unwrap();
    let set = |labels: [&str; 2], label_ids: Vec<u32>, first: u8| {
        let labels = LabelSet::new(labels.map(str::to_owned));
        let pixels = (0..label_ids.len() as u8 * 6)
            .map(|byte| first + byte)
            .collect();
        ImageSet {
            height: 1,
            width: 2,
            channels: 3,
            labels,
            pixels,
            label_ids,
        }
    };
    let (one, two) = (
        set(["cat", "dog"], vec![0, 1], 0),
        set(["ant", "dog"], vec![1, 0, 1], 100),
    );
    let list = [("one", &one, 1.0), ("two", &two, 2.0)].map(|(name, set, weight)| {
        let path = dir.path().join(name);
        set.write(&path).unwrap();
        WeightedPath {
            weight,
            ..WeightedPath::new(path)
        }
    });
    let config = DataConfig {
        train: Some(TrainFiles::Weighted(list.to_vec())),
        images: Some(ImageConfig {
            size: [1, 2],
            ..ImageConfig::default()
        }),
        ..DataConfig::default()
    };
    config.validate(Content::IMAGES).unwrap();
    let corpus = Corpus::open(&config, Content::IMAGES, Split::Train).unwrap();
    let (joined, parts) = corpus.training_images().unwrap();
    assert_eq!(joined.labels.names(), ["ant", "cat", "dog"]);
    assert_eq!(parts, [(0..2, 1.0), (2..5, 2.0)]);
    // Folders come in the order of their names: of the second set the ant first.
    assert_eq!(joined.label_ids, [1, 2, 0, 2, 2]);
    let expected = [
        one.example(0),
        one.example(1),
        two.example(1),
        two.example(0),
        two.example(2),
    ];
    assert_eq!(joined.pixels, expected.map(|image| image.pixels).concat());

    let (_, labels, source) = images(&corpus, 12, false);
    assert_eq!(*labels, [5, 6, 4, 6, 6]);
    let mut seen = [0; 5];
    for Positioned {
        batch, examples, ..
    } in epoch(&source, 0)
    {
        assert_eq!(
            (batch.labels.len(), batch.pixels.len()),
            (examples.len(), 6 * examples.len())
        );
        for example in examples {
            seen[example as usize] += 1;
        }
    }
    assert_eq!(seen, [1, 1, 2, 2, 2]);

    let few = DataConfig {
        max_examples: Some(3),
        ..config
    };
    let (few, parts) = Corpus::open(&few, Content::IMAGES, Split::Train)
        .unwrap()
        .training_images()
        .unwrap();
    assert_eq!((few.len(), few.pixels.len()), (3, 18));
    assert_eq!(parts, [(0..2, 1.0), (2..3, 2.0)]);
    assert_eq!(
        few.labels.names(),
        ["ant", "cat", "dog"],
        "labels are those of all"
    );
}

#[test]
fn a_part_of_the_images_is_drawn_from_all_classes_by_the_seed() {
    // 20 images of each class, class by class, as in a folder of folders; and in MNIST's files.
    let dir = tempfile::tempdir().unwrap();
    let names = ["ant", "bee", "cat"].map(str::to_owned);
    let label_ids: Vec<u32> = (0..60).map(|index| index / 20).collect();
    let pixels: Vec<u8> = (0..60).flat_map(|index| [index, 100, index]).collect();
    let set = ImageSet {
        height: 1,
        width: 3,
        channels: 1,
        labels: LabelSet::new(names),
        pixels,
        label_ids,
    };
    set.write(&dir.path().join("folder")).unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    write(
        "images-idx3",
        &[
            &[0, 0, 8, 3, 0, 0, 0, 60, 0, 0, 0, 1, 0, 0, 0, 3][..],
            &set.pixels,
        ]
        .concat(),
    );
    let labels: Vec<u8> = set.label_ids.iter().map(|&id| id as u8).collect();
    write(
        "labels-idx1",
        &[&[0, 0, 8, 1, 0, 0, 0, 60][..], &labels].concat(),
    );
    let gray = ImageConfig {
        size: [1, 3],
        grayscale: true,
        ..ImageConfig::default()
    };
    for name in ["folder", "images-idx3"] {
        let config = DataConfig {
            train: Some(TrainFiles::One(dir.path().join(name))),
            images: Some(gray),
            max_examples: Some(24),
            ..DataConfig::default()
        };
        let open = |seed| {
            Corpus::open(&config, Content::IMAGES, Split::Train)
                .unwrap()
                .with_seed(seed)
        };
        let (images, parts) = open(1).training_images().unwrap();
        assert_eq!((images.len(), &parts[..]), (24, &[(0..24, 1.0)][..]));
        assert_eq!(images.labels.names().len(), 3);
        for class in 0..3 {
            let drawn = images.label_ids.iter().filter(|&&id| id == class).count();
            // 8 are expected, with a standard deviation of 1.8.
            assert!(
                (3..=13).contains(&drawn),
                "{name}: {drawn} of class {class}"
            );
        }
        // An image keeps its label.
        assert!((0..24).all(|index| {
            let example = images.example(index);
            u32::from(example.pixels[0]) / 20 == example.label
        }));
        assert_eq!(images, open(1).training_images().unwrap().0);
        assert_ne!(images, open(2).training_images().unwrap().0);
        assert_ne!(
            open(1).content_hash().unwrap(),
            open(2).content_hash().unwrap()
        );
    }
}

#[test]
fn mnists_labels_are_read_from_the_folder_of_its_images() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    write(
        "train-images-idx3-ubyte",
        &[
            0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 10, 20, 30, 40,
        ],
    );
    let gray = ImageConfig {
        size: [1, 2],
        grayscale: true,
        ..ImageConfig::default()
    };
    let config = DataConfig {
        train: Some(TrainFiles::One(dir.path().join("train-images-idx3-ubyte"))),
        images: Some(gray),
        ..DataConfig::default()
    };
    let open = |config: &DataConfig| Corpus::open(config, Content::IMAGES, Split::Train);
    let error = open(&config).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("no file of labels"), "{error}");
    write("train-labels-idx1-ubyte", &[0, 0, 8, 1, 0, 0, 0, 2, 7, 3]);
    let corpus = open(&config).unwrap();
    let pairs: Vec<_> = corpus.pairs().map(Result::unwrap).collect();
    assert_eq!((&*pairs[0].tgt, &*pairs[1].tgt), ("7", "3"));
    assert_eq!(corpus.images().unwrap()[0].example(1).pixels, [30, 40]);
    let colored = DataConfig {
        images: Some(ImageConfig {
            grayscale: false,
            ..gray
        }),
        ..config
    };
    let error = open(&colored).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("`data.images.grayscale = false`"), "{error}");
}

#[test]
fn the_first_examples_are_kept_with_the_labels_of_all() {
    let content = Content::LABELED_TEXT;
    let config = DataConfig {
        max_examples: Some(3),
        ..DataConfig::embedded("mini-en-de-types")
    };
    let (_dir, cache) = build(&config, content, Split::Train);
    assert_eq!((cache.len(), cache.report().pairs), (3, 3));
    assert_eq!(cache.tokenizers().tgt.vocab_size(), 4 + 5);
    let whole = Corpus::open(
        &DataConfig::embedded("mini-en-de-types"),
        content,
        Split::Train,
    )
    .unwrap();
    let limited = Corpus::open(&config, content, Split::Train).unwrap();
    assert_ne!(
        whole.content_hash().unwrap(),
        limited.content_hash().unwrap()
    );
    let few = limited.pairs().take(3).map(Result::unwrap);
    for (index, pair) in few.enumerate() {
        assert_eq!(
            cache
                .tokenizers()
                .src
                .decode(&cache.example(index as u32).unwrap().src)
                .unwrap(),
            pair.src
        );
    }
}

#[test]
fn labels_are_encoded_as_a_whole() {
    let labels =
        Tokenizer::of_labels(&LabelSet::new(["2 red circle", "b"].map(str::to_owned))).unwrap();
    assert_eq!(labels.encode("2 red circle").unwrap(), [4]);
    assert_eq!(labels.encode("red").unwrap(), [labels.special().unk]);
    assert_eq!(labels.decode(&[4]).unwrap(), "2 red circle");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    labels.save(&path).unwrap();
    let read = Tokenizer::load(&path).unwrap();
    assert_eq!((read.encode("b").unwrap(), read.vocab_size()), (vec![5], 6));
}

#[test]
fn what_does_not_fit_is_named() {
    let error = |config: DataConfig, content| config.validate(content).unwrap_err().to_string();
    let embedded = DataConfig::embedded;
    let sized = |size, corpus| {
        let images = Some(ImageConfig {
            size,
            ..ImageConfig::default()
        });
        DataConfig {
            images,
            ..embedded(corpus)
        }
    };
    let message = error(embedded("mini-en-de"), Content::LABELED_TEXT);
    assert!(
        message.contains("pairs of sentences") && message.contains("\"mini-en-de-types\""),
        "{message}"
    );
    let message = error(embedded("mini-en-de-types"), Content::IMAGES);
    assert!(
        message.contains("texts with labels") && message.contains("\"shapes\""),
        "{message}"
    );
    assert!(error(embedded("shapes"), Content::PAIRS).contains("images with labels"));
    for content in [Content::PAIRS, Content::TEXT] {
        let message = error(sized([8, 8], "digits"), content);
        assert!(message.contains("`[data.images]`"), "{message}");
    }
    let message = error(sized([512, 512], "shapes"), Content::IMAGES);
    assert!(
        message.contains("65535") && message.contains("`data.images.size`"),
        "{message}"
    );
    let gray = Some(ImageConfig {
        grayscale: true,
        ..ImageConfig::default()
    });
    let message = error(
        DataConfig {
            images: gray,
            ..embedded("shapes")
        },
        Content::IMAGES,
    );
    assert!(message.contains("`data.images.grayscale`"), "{message}");
    let message = error(
        DataConfig {
            max_examples: Some(0),
            ..embedded("digits")
        },
        Content::PAIRS,
    );
    assert!(message.contains("`data.max_examples`"), "{message}");
    let missing = DataConfig {
        train: Some(TrainFiles::One(Path::new("no/such.tsv").to_owned())),
        ..DataConfig::default()
    };
    missing.validate(Content::LABELED_TEXT).unwrap();
    let message = Corpus::open(&missing, Content::LABELED_TEXT, Split::Train)
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(message.contains("no/such.tsv"), "{message}");
}
