//! Parallel text in zip archives: members become pairs, or an error that names them.

use std::io::{Cursor, Write};
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::pair::Pair;
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const ENGLISH: &str = "The dog sleeps.\r\nThe cat\u{2028}eats.\n";
const PORTUGUESE: &str = "\u{feff}O cão dorme.\nO gato come.\n";

fn deflated() -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::DEFLATE)
}

fn archive(members: &[(&str, &str)], options: SimpleFileOptions) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in members {
        writer.start_file(*name, options).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn folder(archive: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("text.zip"), archive).unwrap();
    dir
}

fn config(path: PathBuf, [src, tgt]: [&str; 2]) -> DataConfig {
    DataConfig {
        train: Some(TrainFiles::One(path)),
        src: Some(src.to_owned()),
        tgt: Some(tgt.to_owned()),
        ..DataConfig::default()
    }
}

fn open(dir: &Path, languages: [&str; 2]) -> Result<Corpus, DataError> {
    let config = config(dir.join("text.zip"), languages);
    Corpus::open(&config, Content::PAIRS, Split::Train)
}

fn read(archive: &[u8], languages: [&str; 2]) -> Result<Vec<[String; 2]>, DataError> {
    let dir = folder(archive);
    let pairs = open(dir.path(), languages)?.pairs();
    pairs
        .map(|pair| pair.map(|Pair { src, tgt }| [src, tgt]))
        .collect()
}

/// The message of the error, without the folder.
fn problem(archive: &[u8], languages: [&str; 2]) -> String {
    let dir = folder(archive);
    let pairs = open(dir.path(), languages).and_then(|corpus| corpus.pairs().collect());
    let error: Result<Vec<Pair>, DataError> = pairs;
    let error = error.unwrap_err();
    let path = format!("{}{MAIN_SEPARATOR}", dir.path().display());
    format!("{error:?}").replace(&path, "")
}

#[test]
fn members_are_chosen_by_their_last_suffix_in_both_directions_of_a_pair() {
    let members = [
        ("README", "Tatoeba.\n"),
        ("LICENSE", "CC BY\n"),
        ("Tatoeba.en-pt_BR.en", ENGLISH),
        ("Tatoeba.en-pt_BR.pt_BR", PORTUGUESE),
        ("Tatoeba.en-pt_BR.ids", "1\t1\n2\t2\n"),
        ("Tatoeba.en-pt_BR.xml", "<x/>"),
        ("__MACOSX/._Tatoeba.en-pt_BR.en", "\0"),
    ];
    let english = ["The dog sleeps.", "The cat\u{2028}eats."];
    let portuguese = ["O cão dorme.", "O gato come."];
    let large = deflated().large_file(true);
    for options in [SimpleFileOptions::default(), deflated(), large] {
        let bytes = archive(&members, options);
        for code in ["pt_br", "pt_BR", "pt-BR"] {
            let pairs = read(&bytes, ["en", code]).unwrap();
            assert_eq!(pairs, [0, 1].map(|line| [english[line], portuguese[line]]));
        }
        let pairs = read(&bytes, ["pt_br", "en"]).unwrap();
        assert_eq!(pairs, [0, 1].map(|line| [portuguese[line], english[line]]));
    }
}

#[test]
fn the_members_of_one_pair_are_chosen_among_those_of_several_pairs() {
    let bytes = archive(
        &[
            ("x.de-en.de", "Der Hund.\n"),
            ("x.de-en.en", "The dog.\n"),
            ("x.en-fr.en", "The cat.\n"),
            ("x.en-fr.fr", "Le chat.\n"),
        ],
        deflated(),
    );
    assert_eq!(
        read(&bytes, ["fr", "en"]).unwrap(),
        [["Le chat.", "The cat."]]
    );
    assert_eq!(
        read(&bytes, ["en", "de"]).unwrap(),
        [["The dog.", "Der Hund."]]
    );
    let folders = archive(&[("en/a.en", "a\n"), ("fr/a.fr", "b\n")], deflated());
    assert_eq!(read(&folders, ["en", "fr"]).unwrap(), [["a", "b"]]);
}

#[test]
fn an_archive_of_more_members_than_zip_can_count_without_zip64_is_read() {
    let names: Vec<String> = (0..70_000).map(|number| format!("m{number}")).collect();
    let mut members: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "")).collect();
    members.extend([("a.en", "one\n"), ("a.fr", "un\n")]);
    let bytes = archive(&members, SimpleFileOptions::default());
    assert_eq!(read(&bytes, ["en", "fr"]).unwrap(), [["one", "un"]]);
}

#[test]
fn unequal_counts_of_lines_name_the_members() {
    let members = [("a.en-fr.en", "1\n2\n3\n"), ("a.en-fr.fr", "1\n2\n")];
    let problem = problem(&archive(&members, deflated()), ["en", "fr"]);
    let expected = "`text.zip:a.en-fr.en` has 3 lines but `text.zip:a.en-fr.fr` has 2: line 3 has no partner\nhint: ";
    assert!(problem.starts_with(expected), "{problem}");
}

#[test]
fn wrong_members_are_listed() {
    let members = [
        ("dev.en", "a\n"),
        ("dev.fr", "b\n"),
        ("train.en", "c\n"),
        ("train.fr", "d\n"),
        ("other.de", "e\n"),
    ];
    let bytes = archive(&members, deflated());
    for (languages, expected) in [
        (
            ["en", "fr"],
            "`text.zip`: has several pairs of members: `dev.en` and `dev.fr`, `train.en` and `train.fr`\nhint: ",
        ),
        (
            ["en", "es"],
            "`text.zip`: has no member whose name ends in `.es`; it has `dev.en`, `dev.fr`, `train.en`, `train.fr`, `other.de`\nhint: ",
        ),
        (
            ["en", "de"],
            "`text.zip`: has several members of one language, and no two with one name: `dev.en`, `train.en`, `other.de`\nhint: ",
        ),
    ] {
        let problem = problem(&bytes, languages);
        assert!(problem.starts_with(expected), "{problem}");
    }
    let empty = archive(&[], deflated());
    assert!(problem(&empty, ["en", "fr"]).contains("it has none"));
    let leaving = archive(&[("../a.en", "a\n"), ("a.fr", "b\n")], deflated());
    let problem = problem(&leaving, ["en", "fr"]);
    assert!(
        problem.contains("the path of the member `../a.en` leads out of"),
        "{problem}"
    );
}

#[test]
fn encrypted_members_and_other_compressions_are_refused() {
    let bytes = archive(&[("a.en", "one\n"), ("a.fr", "un\n")], deflated());
    // The record of the first member in the archive's directory: its flags are at 8, its method at
    // 10.
    let record = position(&bytes, b"PK\x01\x02");
    let mut encrypted = bytes.clone();
    encrypted[record + 8] |= 1;
    let expected =
        "`text.zip`: the member `a.en` is encrypted\nhint: if you trust where it comes from";
    let message = problem(&encrypted, ["en", "fr"]);
    assert!(message.starts_with(expected), "{message}");
    let mut bzip2 = bytes;
    bzip2[record + 10] = 12;
    let message = problem(&bzip2, ["en", "fr"]);
    let expected =
        "`text.zip`: the member `a.en` is neither stored nor deflated: its compression is ";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn cut_and_damaged_archives_are_errors() {
    let long = "The dog sleeps.\n".repeat(1000);
    let members = [("a.en", &*long), ("a.fr", &*long)];
    for options in [SimpleFileOptions::default(), deflated()] {
        let bytes = archive(&members, options);
        for end in [0, 3, 100, bytes.len() / 2, bytes.len() - 1] {
            let problem = problem(&bytes[..end], ["en", "fr"]);
            assert!(
                problem.starts_with("`text.zip` is not a complete zip archive: ")
                    && problem.contains("\nhint: was it downloaded completely?"),
                "{problem}"
            );
        }
        let mut damaged = bytes;
        // In the compressed bytes of the first member, behind its header of 34 bytes.
        damaged[60] ^= 0x20;
        let problem = problem(&damaged, ["en", "fr"]);
        assert!(
            problem.starts_with("cannot access `text.zip:a.en`: "),
            "{problem}"
        );
    }
}

#[test]
fn archives_are_told_apart_by_their_hashes_and_give_target_sides() {
    let members = [("a.en", "one\n"), ("a.fr", "un\n"), ("a.de", "eins\n")];
    let dir = folder(&archive(&members, deflated()));
    let hash = |languages| open(dir.path(), languages).unwrap().hashes().unwrap();
    let there = hash(["en", "fr"]);
    assert_eq!(there, hash(["en", "fr"]));
    assert_eq!(there.files.len(), 1);
    for other in [["fr", "en"], ["en", "de"]] {
        assert_ne!(there.whole, hash(other).whole);
    }
    let config = config(dir.path().join("text.zip"), ["en", "de"]);
    let texts = Corpus::open(&config, Content::TEXT, Split::Train).unwrap();
    let texts: Vec<Pair> = texts.pairs().collect::<Result<_, _>>().unwrap();
    let expected = Pair {
        src: String::new(),
        tgt: "eins".to_owned(),
    };
    assert_eq!(texts, [expected]);
}

#[test]
fn a_missing_archive_is_not_looked_for_compressed() {
    let dir = tempfile::tempdir().unwrap();
    let error = open(dir.path(), ["en", "fr"]).unwrap_err().to_string();
    assert!(error.ends_with("text.zip`"), "{error}");
}

/// Where `needle` is in `bytes`, first.
fn position(bytes: &[u8], needle: &[u8]) -> usize {
    let mut windows = bytes.windows(needle.len());
    windows.position(|window| window == needle).unwrap()
}
