//! Files become pairs, or an error that says where.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use polyglow_data::config::{Content, DataConfig, Split, TestFiles, TrainFiles, WeightedPath};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::pair::Pair;
use polyglow_data::skip_gram::SkipGrams;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tempfile::TempDir;

fn files(contents: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in contents {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

fn config(train: PathBuf) -> DataConfig {
    DataConfig {
        train: Some(TrainFiles::One(train)),
        src: Some("en".to_owned()),
        tgt: Some("de".to_owned()),
        ..DataConfig::default()
    }
}

fn read(dir: &Path, name: &str) -> Result<Vec<Pair>, DataError> {
    Corpus::open(&config(dir.join(name)), Content::PAIRS, Split::Train)?
        .pairs()
        .collect()
}

fn pair(src: &str, tgt: &str) -> Pair {
    Pair {
        src: src.to_owned(),
        tgt: tgt.to_owned(),
    }
}

#[test]
fn all_forms_of_a_corpus_give_the_same_pairs() {
    let (src, tgt) = ("a b\n\u{a0}c\td\n", "\u{feff}A B\r\n\u{2028}C D\r\n");
    let tsv = "a b\tA B\r\nc d\tC D";
    let dir = files(&[
        ("plain.en", src.as_bytes()),
        ("plain.de", tgt.as_bytes()),
        ("packed.en.gz", &gzip(src.as_bytes())),
        (
            "packed.de.gz",
            &[
                gzip("\u{feff}A B\r\n".as_bytes()),
                gzip("\u{2028}C D\r\n".as_bytes()),
            ]
            .concat(),
        ),
        ("mixed.en", src.as_bytes()),
        ("mixed.de.gz", &gzip(tgt.as_bytes())),
        ("table.tsv", tsv.as_bytes()),
        ("packed.tsv.gz", &gzip(tsv.as_bytes())),
        ("zstd.en.zst", &zstd(src.as_bytes())),
        ("zstd.de.zst", &zstd(tgt.as_bytes())),
        ("zstd.tsv.zst", &zstd(tsv.as_bytes())),
    ]);
    let expected = [pair("a b", "A B"), pair("\u{a0}c\td", "\u{2028}C D")];
    for name in ["plain", "packed", "mixed", "zstd"] {
        assert_eq!(read(dir.path(), name).unwrap(), expected, "{name}");
    }
    for name in [
        "table.tsv",
        "packed.tsv.gz",
        "packed.tsv",
        "zstd.tsv.zst",
        "zstd.tsv",
    ] {
        assert_eq!(
            read(dir.path(), name).unwrap(),
            [pair("a b", "A B"), pair("c d", "C D")],
            "{name}"
        );
    }
}

#[test]
fn a_list_is_read_part_by_part_with_its_weights() {
    let dir = files(&[
        ("one.tsv", b"a\tA\n"),
        ("two.en", b"b\nc\n"),
        ("two.de", b"B\nC\n"),
    ]);
    let list = vec![
        WeightedPath {
            weight: 2.0,
            ..WeightedPath::new(dir.path().join("one.tsv"))
        },
        WeightedPath {
            weight: 0.5,
            ..WeightedPath::new(dir.path().join("two"))
        },
    ];
    let config = DataConfig {
        train: Some(TrainFiles::Weighted(list)),
        ..config(PathBuf::new())
    };
    config.validate(Content::PAIRS).unwrap();
    let corpus = Corpus::open(&config, Content::PAIRS, Split::Train).unwrap();
    let pairs: Vec<Pair> = corpus.pairs().collect::<Result<_, _>>().unwrap();
    assert_eq!(pairs, [pair("a", "A"), pair("b", "B"), pair("c", "C")]);
    let weights: Vec<f64> = corpus
        .parts()
        .iter()
        .map(polyglow_data::corpus::Part::weight)
        .collect();
    assert_eq!(weights, [2.0, 0.5]);
}

#[test]
fn errors_name_file_and_line() {
    let dir = files(&[
        ("short.en", b"1\n2\n3\n"),
        ("short.de", b"1\n2\n"),
        ("bytes.en", b"1\n\xe4\n"),
        ("bytes.de", b"1\n2\n"),
        ("void.en", b""),
        ("void.de", b""),
        ("half.en", b"1\n"),
        ("columns.tsv", b"a\tb\nc\n"),
        ("columns3.tsv", b"a\tb\tc\n"),
        ("void.tsv", b""),
    ]);
    let message = |name: &str| {
        let error = read(dir.path(), name).unwrap_err();
        let message = error.to_string().replace(
            &format!("{}{}", dir.path().display(), std::path::MAIN_SEPARATOR),
            "",
        );
        (message, error.hint().is_some())
    };
    assert_eq!(
        message("short"),
        (
            "`short.en` has 3 lines but `short.de` has 2: line 3 has no partner".to_owned(),
            true
        )
    );
    assert_eq!(
        message("bytes"),
        (
            "`bytes.en` line 2: invalid UTF-8 at byte 1 of the line".to_owned(),
            true
        )
    );
    assert_eq!(message("void").0, "`void.en` is empty: it has no line 1");
    assert_eq!(
        message("void.tsv").0,
        "`void.tsv` is empty: it has no line 1"
    );
    assert_eq!(
        message("half"),
        (
            "`data.train`: there is no file `half.de`, nor `half.de.gz` or `half.de.zst`"
                .to_owned(),
            true
        )
    );
    assert_eq!(
        message("columns.tsv"),
        (
            "`columns.tsv` line 2: 1 tab-separated columns instead of 2".to_owned(),
            true
        )
    );
    assert_eq!(
        message("columns3.tsv").0,
        "`columns3.tsv` line 1: 3 tab-separated columns instead of 2"
    );
}

#[test]
fn errors_say_how_the_text_is_brought_into_lines_of_utf_8() {
    let utf16 = |text: &str| {
        text.encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect::<Vec<u8>>()
    };
    let dir = files(&[
        ("wide.en", &utf16("\u{feff}The dog.\nThe cat.\n")),
        ("wide.de", &utf16("\u{feff}Der Hund.\nDie Katze.\n")),
        ("latin.en", b"The girls are cheerful.\n"),
        ("latin.de", b"Die M\xe4dchen sind fr\xf6hlich.\n"),
        ("bad.en", "déjà vu\nab\u{e9}\n".as_bytes()),
        ("bad.de", &["schön\n".as_bytes(), b"gr\xfc\xdf\n"].concat()),
        ("mac.en", b"one\rtwo\r"),
        ("mac.de", b"eins\rzwei\r"),
        (
            "ids.tsv",
            "7\tThe dog sleeps.\t9\tDer Hund schläft.\n".as_bytes(),
        ),
        ("all.txt", b"The dog.\tDer Hund.\n"),
    ]);
    let hint = |name: &str| read(dir.path(), name).unwrap_err().hint().unwrap();
    assert!(
        hint("wide").contains("`iconv -f UTF-16 -t UTF-8 OLD > NEW`"),
        "{}",
        hint("wide")
    );
    assert!(
        hint("latin").contains("`iconv -f windows-1252 -t UTF-8 OLD > NEW`"),
        "{}",
        hint("latin")
    );
    assert!(
        hint("bad").contains("do not convert the file"),
        "{}",
        hint("bad")
    );
    assert!(hint("mac").contains("tr '\\r' '\\n'"), "{}", hint("mac"));
    assert!(
        hint("ids.tsv").contains("`cut -f2,4 OLD > NEW`"),
        "{}",
        hint("ids.tsv")
    );
    assert!(
        hint("all.txt").contains("if its name ends in `.tsv`"),
        "{}",
        hint("all.txt")
    );
    std::fs::create_dir(dir.path().join("folder.en")).unwrap();
    let error = read(dir.path(), "folder").unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("folder.en` is a folder, not a file"),
        "{error}"
    );
}

#[cfg(unix)]
#[test]
fn a_pipe_is_named_and_not_waited_for() {
    let dir = files(&[("pipe.de", b"eins\n")]);
    let pipe = dir.path().join("pipe.en");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let error = read(dir.path(), "pipe").unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("pipe.en` is a pipe, not a file"),
        "{error}"
    );
    assert!(
        error
            .hint()
            .unwrap()
            .contains("write its content to a file first"),
        "{error}"
    );
}

#[test]
fn an_error_ends_the_stream() {
    let dir = files(&[("bad.tsv", b"a\tb\nc\nd\te\n")]);
    let corpus = Corpus::open(
        &config(dir.path().join("bad.tsv")),
        Content::PAIRS,
        Split::Train,
    )
    .unwrap();
    let items: Vec<bool> = corpus.pairs().map(|item| item.is_ok()).collect();
    assert_eq!(items, [true, false]);
}

#[test]
fn embedded_corpora_have_their_splits() {
    let config = DataConfig::embedded("digits");
    config.validate(Content::PAIRS).unwrap();
    assert_eq!(config.test_names(), ["test", "test_long"]);
    let valid: Vec<Pair> = Corpus::open(&config, Content::PAIRS, Split::Valid)
        .unwrap()
        .pairs()
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(!valid.is_empty());
    let error = Corpus::open(&config, Content::PAIRS, Split::Test("test_deep"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("test_deep") && error.contains("test_long"),
        "{error}"
    );
}

#[test]
fn test_sets_go_by_name() {
    let dir = files(&[("a.tsv", b"a\tA\n"), ("b.tsv", b"b\tB\n")]);
    let sets = [("first", "a.tsv"), ("second", "b.tsv")];
    let named = sets
        .iter()
        .map(|(name, file)| ((*name).to_owned(), dir.path().join(file)))
        .collect();
    let named = DataConfig {
        test: Some(TestFiles::Named(named)),
        ..config(dir.path().join("a.tsv"))
    };
    assert_eq!(named.test_names(), ["first", "second"]);
    let second: Vec<Pair> = Corpus::open(&named, Content::PAIRS, Split::Test("second"))
        .unwrap()
        .pairs()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(second, [pair("b", "B")]);
    let error = Corpus::open(&named, Content::PAIRS, Split::Test("third"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`data.test`") && error.contains("first, second"),
        "{error}"
    );
}

#[test]
fn a_configuration_is_read_strictly() {
    let parse =
        |json: &str| serde_json::from_str::<DataConfig>(json).map_err(|error| error.to_string());
    let config = parse(
        r#"{"train": [{"path": "a", "weight": 2}, {"path": "b"}], "src": "en", "tgt": "de"}"#,
    )
    .unwrap();
    config.validate(Content::PAIRS).unwrap();
    assert_eq!((config.max_len, config.max_length_ratio), (256, 9.0));
    assert!(parse(r#"{"trian": "a"}"#).unwrap_err().contains("trian"));
    assert!(
        parse(r#"{"train": [{"path": "a", "wieght": 2}]}"#)
            .unwrap_err()
            .contains("unknown field `wieght`")
    );
    let written = serde_json::to_string(&config).unwrap();
    assert_eq!(parse(&written).unwrap(), config);
}

#[test]
fn impossible_configurations_are_refused_by_key() {
    let good = config("a".into());
    good.validate(Content::PAIRS).unwrap();
    let with_words = |words| DataConfig {
        words: Some(words),
        ..good.clone()
    };
    let bad = [
        (
            DataConfig {
                train: None,
                ..good.clone()
            },
            "`data.train`",
        ),
        (
            DataConfig {
                src: None,
                ..good.clone()
            },
            "`data.src`",
        ),
        (
            DataConfig {
                tgt: None,
                ..good.clone()
            },
            "`data.tgt`",
        ),
        (
            DataConfig {
                max_len: 0,
                ..good.clone()
            },
            "`data.max_len`",
        ),
        (
            DataConfig {
                max_len: 70_000,
                ..good.clone()
            },
            "`data.max_len`",
        ),
        (
            DataConfig {
                max_length_ratio: f64::NAN,
                ..good.clone()
            },
            "`data.max_length_ratio`",
        ),
        (
            DataConfig {
                max_length_ratio: 0.5,
                ..good.clone()
            },
            "`data.max_length_ratio`",
        ),
        (
            DataConfig {
                train: Some(TrainFiles::Weighted(vec![])),
                ..good.clone()
            },
            "`data.train`",
        ),
        (
            with_words(SkipGrams {
                window: 0,
                ..SkipGrams::default()
            }),
            "`data.words.window`",
        ),
        (
            with_words(SkipGrams {
                negatives: 1001,
                ..SkipGrams::default()
            }),
            "`data.words.negatives`",
        ),
        (
            with_words(SkipGrams {
                subsample: 1.5,
                ..SkipGrams::default()
            }),
            "`data.words.subsample`",
        ),
        (
            DataConfig {
                corpus: Some("digits".to_owned()),
                ..good.clone()
            },
            "`data.src`",
        ),
        (DataConfig::embedded("dogits"), "`data.corpus`"),
    ];
    for (config, key) in bad {
        let message = config.validate(Content::PAIRS).unwrap_err().to_string();
        assert!(
            message.starts_with(key),
            "{message} does not begin with {key}"
        );
    }
    let weight = WeightedPath {
        weight: -1.0,
        ..WeightedPath::new("a")
    };
    let negative = DataConfig {
        train: Some(TrainFiles::Weighted(vec![weight])),
        ..config("a".into())
    };
    assert!(
        negative
            .validate(Content::PAIRS)
            .unwrap_err()
            .to_string()
            .contains("weight -1")
    );
}
