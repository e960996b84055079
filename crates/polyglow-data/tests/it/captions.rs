//! Images with captions: generated ones, and the layouts of files.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use polyglow_data::batching::{BatchingConfig, Selection};
use polyglow_data::config::{Content, DataConfig, ImageConfig, Split, TrainFiles};
use polyglow_data::corpus::{Corpus, read_image};
use polyglow_data::example::{Reason, configured_filter};
use polyglow_data::id_cache::IdCache;
use polyglow_data::pair::{Pair, by_source};
use polyglow_data::sources::{BatchSource, CaptionImages, CaptionSource};
use polyglow_data::tokenizer::{Kind, Segmentation, TokenizerConfig, Tokenizers};
use polyglow_data::toy::shapes::captioned::CaptionedShapes;
use polyglow_data::toy::shapes::{ShapeColor, ShapeKind};
use tempfile::TempDir;

/// Writes gray images of 2 by 2 pixels.
fn write_image(path: &Path, value: u8) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    image::save_buffer(path, &[value; 12], 2, 2, image::ExtendedColorType::Rgb8).unwrap();
}

fn config(file: &Path) -> DataConfig {
    DataConfig {
        train: Some(TrainFiles::One(file.to_owned())),
        images: Some(ImageConfig {
            size: [2, 2],
            ..ImageConfig::default()
        }),
        ..DataConfig::default()
    }
}

fn open(config: &DataConfig) -> Result<Corpus, String> {
    config
        .validate(Content::CAPTIONS)
        .map_err(|error| error.to_string())?;
    Corpus::open(config, Content::CAPTIONS, Split::Train).map_err(|error| error.to_string())
}

fn pairs(corpus: &Corpus) -> Vec<(String, String)> {
    let name = |src: &str| {
        Path::new(src)
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned()
    };
    corpus
        .pairs()
        .map(|pair| pair.map(|Pair { src, tgt }| (name(&src), tgt)).unwrap())
        .collect()
}

fn expected(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(image, caption)| ((*image).to_owned(), (*caption).to_owned()))
        .collect()
}

#[test]
fn every_layout_gives_images_with_their_captions() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (folder, name) in [
        (".", "a.png"),
        (".", "b.png"),
        ("Images", "a.png"),
        ("Images", "b.png"),
        ("val2017", "a.png"),
    ] {
        write_image(&path(folder).join(name), 1);
    }
    let both = expected(&[
        ("a.png", "a dog"),
        ("a.png", "a dog , a cat"),
        ("b.png", "a cat"),
    ]);
    fs::write(
        path("train.tsv"),
        "a.png\ta dog\na.png\ta dog , a cat\nb.png\ta cat\n",
    )
    .unwrap();
    assert_eq!(pairs(&open(&config(&path("train.tsv"))).unwrap()), both);

    fs::write(
        path("Flickr8k.token.txt"),
        "a.png#0\ta dog\na.png#1\ta dog , a cat\nb.png#0\ta cat\n",
    )
    .unwrap();
    assert_eq!(
        pairs(&open(&config(&path("Flickr8k.token.txt"))).unwrap()),
        both
    );
    fs::write(
        path("captions.txt"),
        "image,caption\na.png,a dog\na.png,\"a dog , a cat\"\nb.png,a cat\n",
    )
    .unwrap();
    assert_eq!(pairs(&open(&config(&path("captions.txt"))).unwrap()), both);
    fs::write(path("Flickr_8k.testImages.txt"), "b.png\n").unwrap();
    let test = open(&config(&path("Flickr_8k.testImages.txt"))).unwrap();
    assert_eq!(pairs(&test), expected(&[("b.png", "a cat")]));
    let first = test.pairs().next().unwrap().unwrap();
    assert!(first.src.contains("Images"), "{}", first.src);

    let coco = r#"{"info": {}, "images": [{"id": 7, "file_name": "a.png", "width": 2}],
        "annotations": [{"id": 1, "image_id": 7, "caption": "a\ndog "}, {"id": 2, "image_id": 7, "caption": "two"}]}"#;
    fs::create_dir(path("annotations")).unwrap();
    fs::write(path("annotations/captions_val2017.json"), coco).unwrap();
    let corpus = open(&config(&path("annotations/captions_val2017.json"))).unwrap();
    assert_eq!(
        pairs(&corpus),
        expected(&[("a.png", "a dog"), ("a.png", "two")])
    );
}

#[test]
fn what_is_wrong_with_captions_is_an_error_with_file_and_line() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    write_image(&path("a.png"), 1);
    let cases = [
        ("one.tsv", "a.png\ta dog\na.png a dog\n", "line 2"),
        ("two.tsv", "a.png\ta\na.png\tb\nnone.png\tc\n", "line 3"),
        ("empty.tsv", "", "empty"),
        ("alone.txt", "a.png\n", "line 1: has no caption"),
        ("bad.json", "{\n\"images\": 3}", "line 2"),
        (
            "other.json",
            r#"{"images": [], "annotations": [{"image_id": 7, "caption": "x"}]}"#,
            "image 7",
        ),
        (
            "Flickr8k.token.txt",
            "a.png#0 a dog\n",
            "line 1: has no caption of `a.png#0 a dog`",
        ),
        (
            "mixed.txt",
            "a.png#0\ta dog\na.png#1 a cat\n",
            "line 2: has no caption",
        ),
        ("what.csv", "a.png,a dog\n", "no layout"),
    ];
    for (name, text, problem) in cases {
        fs::write(path(name), text).unwrap();
        let error = open(&config(&path(name))).unwrap_err();
        assert!(error.contains(name) && error.contains(problem), "{error}");
    }
    let error = open(&config(&path("absent.tsv"))).unwrap_err();
    assert!(error.contains("absent.tsv"), "{error}");
    let augment = ImageConfig {
        augment: true,
        ..ImageConfig::default()
    };
    let error = open(&DataConfig {
        images: Some(augment),
        ..config(&path("one.tsv"))
    })
    .unwrap_err();
    assert!(error.contains("data.images.augment"), "{error}");
    let embedded = DataConfig {
        image_folder: Some(path("x")),
        ..DataConfig::embedded("captioned-shapes")
    };
    assert!(open(&embedded).unwrap_err().contains("data.image_folder"));
    let text = DataConfig {
        image_folder: Some(path("x")),
        ..DataConfig::embedded("mini-en-de")
    };
    assert!(
        text.validate(Content::PAIRS)
            .unwrap_err()
            .to_string()
            .contains("data.image_folder")
    );
}

#[test]
fn a_part_of_the_captions_is_drawn_from_all_images_and_keeps_them() {
    let dir = TempDir::new().unwrap();
    let mut captions = String::new();
    for image in 0..30 {
        write_image(&dir.path().join(format!("{image}.png")), image);
        writeln!(
            captions,
            "{image}.png\tw{image}\n{image}.png\tw{image} w{image}"
        )
        .unwrap();
    }
    fs::write(dir.path().join("all.tsv"), captions).unwrap();
    let data = DataConfig {
        max_examples: Some(20),
        ..config(&dir.path().join("all.tsv"))
    };
    let corpus = open(&data).unwrap().with_seed(3);
    let words = TokenizerConfig {
        kind: Kind::Word,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&words, &corpus, &mut |_, _| {}).unwrap();
    let (text, path) = (corpus.clone().target_side(), dir.path().join("ids"));
    let (cache, report) =
        IdCache::open_or_build(&path, &text, &tokenizers, None, &mut |_, _| {}).unwrap();
    assert_eq!((report.pairs, report.kept), (20, 20));
    let images = CaptionImages::read(&corpus, &cache, data.images()).unwrap();
    let batching = BatchingConfig {
        max_tokens: 1000,
        pad_multiple: 1,
        seed: 1,
        segmentation: Segmentation::Fixed,
        selection: Selection::V2,
    };
    let source = CaptionSource::new(Arc::new(cache), Arc::new(images), batching, 4).unwrap();
    let batch = source.batch(0, &(0..20).collect::<Vec<_>>()).unwrap();
    let images = batch.pixels.chunks(batch.pixels.len() / 20);
    let mut drawn = Vec::new();
    for (image, tgt) in images.zip(batch.tgt_out.ids.chunks(batch.tgt_out.len)) {
        let word = tokenizers.tgt.decode(&[tgt[0] as u32]).unwrap();
        assert_eq!(word, format!("w{}", image[0]), "a caption keeps its image");
        drawn.push(image[0]);
    }
    let late = drawn.iter().filter(|&&image| image >= 10).count();
    assert!(
        (7..20).contains(&late),
        "two thirds are expected: {drawn:?}"
    );
}

#[test]
fn batches_bring_each_caption_its_own_image() {
    let dir = TempDir::new().unwrap();
    for (name, value) in [("a.png", 10), ("b.png", 20), ("c.png", 30)] {
        write_image(&dir.path().join(name), value);
    }
    // Two parts, a caption that is left out, and an image with two captions.
    fs::write(
        dir.path().join("one.tsv"),
        "a.png\tx\na.png\t \nb.png\ty x\n",
    )
    .unwrap();
    fs::write(dir.path().join("two.tsv"), "c.png\tz\na.png\tz z\n").unwrap();
    let paths = ["one.tsv", "two.tsv"].map(|name| dir.path().join(name));
    let list = paths.map(polyglow_data::config::WeightedPath::new);
    let data = DataConfig {
        train: Some(TrainFiles::Weighted(list.into())),
        ..config(Path::new(""))
    };
    let corpus = open(&data).unwrap();
    let words = TokenizerConfig {
        kind: Kind::Word,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&words, &corpus, &mut |_, _| {}).unwrap();
    assert!(tokenizers.is_shared());
    // Four special tokens and three words: names of images are no text.
    assert_eq!(tokenizers.tgt.vocab_size(), 7);
    let filter = configured_filter(&data, Content::CAPTIONS);
    let (cache, report) = IdCache::open_or_build(
        &dir.path().join("ids"),
        &corpus.clone().target_side(),
        &tokenizers,
        filter.as_deref(),
        &mut |_, _| {},
    )
    .unwrap();
    assert_eq!((report.kept, report.count(Reason::EMPTY)), (4, 1));
    let images = CaptionImages::read(&corpus, &cache, data.images()).unwrap();
    assert_eq!(images.len(), 3);
    let batching = BatchingConfig {
        max_tokens: 100,
        pad_multiple: 1,
        seed: 1,
        segmentation: Segmentation::Fixed,
        selection: Selection::V2,
    };
    let source = CaptionSource::new(Arc::new(cache), Arc::new(images), batching, 4).unwrap();
    let batch = source.batch(0, &[0, 1, 2, 3]).unwrap();
    let captions = ["x", "y x", "z", "z z"];
    // Nothing stands between the images.
    assert_eq!(
        batch.pixels,
        [10, 20, 30, 10].map(|value| [value; 12]).concat()
    );
    let tgt = batch.tgt_out.ids.chunks(batch.tgt_out.len);
    for (tgt, caption) in tgt.zip(captions) {
        let ids: Vec<u32> = tgt.iter().map(|&id| id as u32).collect();
        assert_eq!(tokenizers.tgt.decode(&ids).unwrap(), caption);
    }
    // An image counts as its patches, whatever its bytes.
    let ([rows, src, tgt], real) = source.size(0, &[0, 1]);
    assert_eq!(([rows, src, tgt], real), ([2, 4, 3], 2 * 4 + 2 + 3));
}

#[test]
fn captions_of_one_image_belong_together_wherever_they_stand() {
    let pair = |src: &str, tgt: &str| Pair {
        src: src.to_owned(),
        tgt: tgt.to_owned(),
    };
    let pairs = [pair("a", "1"), pair("b", "2"), pair("a", "3")];
    assert_eq!(by_source(&pairs), [("a", vec![0, 2]), ("b", vec![1])]);
}

#[test]
fn generated_pictures_show_what_their_captions_say() {
    let held_out = [
        (ShapeColor::Green, ShapeKind::Triangle),
        (ShapeColor::Blue, ShapeKind::Cross),
    ];
    for split in CaptionedShapes::SPLITS {
        let pictures = CaptionedShapes.split(split).unwrap();
        for (name, captions) in pictures.iter().take(60) {
            let picture = CaptionedShapes::named(name).unwrap();
            assert_eq!(picture.captions, *captions);
            assert_eq!(captions.len(), picture.groups.len());
            let shows = picture
                .groups
                .iter()
                .any(|group| held_out.contains(&(group.color, group.kind)));
            assert_eq!(shows, split == "test_comp", "{name}");
            for caption in captions {
                assert_eq!(caption.text.split(' ').count(), caption.groups.len());
                for (word, group) in caption.text.split(' ').zip(&caption.groups) {
                    let Some(group) = group.map(|group| &picture.groups[group]) else {
                        assert!(
                            ["left", "right", "above", "below", "of"].contains(&word),
                            "{word}"
                        );
                        continue;
                    };
                    let count = ["a", "two", "three"][group.places.len() - 1];
                    assert!(
                        word == count
                            || word == group.color.name()
                            || word.starts_with(group.kind.name()),
                        "{word}"
                    );
                }
                check_relation(&caption.text, &picture.groups, &caption.groups);
            }
            // The middle of a shape has its color: the largest of its three bytes, or two of
            // yellow.
            for group in &picture.groups {
                for [row, column, _] in &group.places {
                    let start = (*row as usize * 32 + *column as usize) * 3;
                    let [red, green, blue] =
                        [0, 1, 2].map(|channel| i32::from(picture.pixels[start + channel]));
                    let seen = match group.color {
                        ShapeColor::Red => red > green + 60 && red > blue + 60,
                        ShapeColor::Green => green > red + 40 && green > blue + 40,
                        ShapeColor::Blue => blue > red + 60 && blue > green + 40,
                        ShapeColor::Yellow => red > blue + 60 && green > blue + 60,
                    };
                    assert!(seen, "{name}: {:?} {:?}", group.color, [red, green, blue]);
                }
            }
        }
    }
    let name = "captioned-shapes:test:3";
    let picture = CaptionedShapes::named(name).unwrap();
    assert_eq!(
        read_image(Path::new(name), ImageConfig::default()).unwrap(),
        picture.pixels
    );
    let small = ImageConfig {
        size: [16, 16],
        ..ImageConfig::default()
    };
    assert_eq!(
        read_image(Path::new(name), small).unwrap().len(),
        16 * 16 * 3
    );
    for wrong in [
        "captioned-shapes:test:1000",
        "captioned-shapes:none:1",
        "captioned-shapes",
        "shapes:test:1",
    ] {
        assert!(CaptionedShapes::named(wrong).is_none(), "{wrong}");
    }
}

/// Checks that all shapes of the first group lie where the caption says.
fn check_relation(
    text: &str,
    groups: &[polyglow_data::toy::shapes::captioned::Group],
    of_words: &[Option<usize>],
) {
    let [Some(first), Some(last)] = [of_words[0], *of_words.last().unwrap()] else {
        panic!("{text}")
    };
    let relation = ["left", "right", "above", "below"]
        .into_iter()
        .find(|word| text.contains(&format!(" {word} ")));
    assert_eq!(relation.is_some(), groups.len() == 2, "{text}");
    let Some(relation) = relation else { return };
    let axis = usize::from(["left", "right"].contains(&relation));
    let coordinates = |group: usize| groups[group].places.iter().map(move |shape| shape[axis]);
    for (here, there) in
        coordinates(first).flat_map(|here| coordinates(last).map(move |there| (here, there)))
    {
        let before = ["left", "above"].contains(&relation);
        assert!(
            if before { here < there } else { here > there },
            "{text}: {here} {there}"
        );
    }
}

#[test]
fn written_pictures_are_read_again() {
    let dir = TempDir::new().unwrap();
    CaptionedShapes.write(dir.path()).unwrap();
    let data = DataConfig {
        images: None,
        ..config(&dir.path().join("valid.tsv"))
    };
    let written = open(&data).unwrap();
    let generated = Corpus::open(
        &DataConfig::embedded("captioned-shapes"),
        Content::CAPTIONS,
        Split::Valid,
    )
    .unwrap();
    let captions = |corpus: &Corpus| {
        corpus
            .pairs()
            .map(|pair| pair.unwrap().tgt)
            .collect::<Vec<_>>()
    };
    assert_eq!(captions(&written), captions(&generated));
    let first = |corpus: &Corpus| corpus.pairs().next().unwrap().unwrap().src;
    let pixels =
        |corpus: &Corpus| read_image(Path::new(&first(corpus)), ImageConfig::default()).unwrap();
    assert_eq!(pixels(&written), pixels(&generated));
}
