//! Labeled text, from files and from the embedded corpora.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::PathBuf;

use flate2::{Compression, write::GzEncoder};
use polyglow_data::error::DataError;
use polyglow_data::labeled::{LabelSet, LabeledLines, LabeledText};
use polyglow_data::toy::Toy;
use polyglow_data::toy::labels::LabeledToy;
use tempfile::TempDir;

fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text.tsv");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn read(bytes: &[u8]) -> Result<Vec<LabeledText>, DataError> {
    let (_dir, path) = file(bytes);
    LabeledLines::open(&path)?.collect()
}

#[test]
fn a_line_is_a_label_and_a_text_which_may_be_empty() {
    let labeled = |label: &str, text: &str| LabeledText {
        label: label.to_owned(),
        text: text.to_owned(),
    };
    let texts = read(b"pos\ta b\nneg\tc\npos\t\n").unwrap();
    assert_eq!(
        texts,
        [
            labeled("pos", "a b"),
            labeled("neg", "c"),
            labeled("pos", "")
        ]
    );
    assert!(read(b"").unwrap().is_empty());
}

#[test]
fn labels_are_numbered_in_alphabetical_order() {
    let labels = LabelSet::new(["pos", "neg", "pos"].map(str::to_owned));
    assert_eq!(labels.names(), ["neg", "pos"]);
    assert_eq!(
        ["neg", "pos", "neutral"].map(|name| labels.id(name)),
        [Some(0), Some(1), None]
    );
}

#[test]
fn gzip_marks_and_windows_line_ends_are_read() {
    let plain = "\u{feff}a\tx\r\nb\ty z\r\n";
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain.as_bytes()).unwrap();
    let expected = read(b"a\tx\nb\ty z\n").unwrap();
    assert_eq!(read(plain.as_bytes()).unwrap(), expected);
    assert_eq!(read(&encoder.finish().unwrap()).unwrap(), expected);
}

#[test]
fn a_wrong_line_is_named_with_what_is_wrong() {
    let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(
        error(b"a\tx\ny\n")
            .ends_with("text.tsv` line 2: 1 tab-separated columns instead of a label and a text")
    );
    assert!(error(b"a\tx\ty\n").contains("line 1: 3 tab-separated columns"));
    assert!(error(b"a\tx\n \ty\n").contains("line 2: there is no label before the tab"));
    assert!(error(b"a\tx\nb\t\xff\n").contains("line 2: invalid UTF-8 at byte 3"));
}

#[test]
fn the_embedded_sentences_are_those_of_the_translation_corpus() {
    let pairs = Toy::MiniEnDe.generate();
    for toy in LabeledToy::ALL {
        assert_eq!(LabeledToy::from_name(toy.name()), Some(toy));
        for ((split, pairs), (same, texts)) in pairs.iter().zip(toy.generate()) {
            assert_eq!(*split, same);
            assert!(
                pairs
                    .iter()
                    .map(|pair| &pair.src)
                    .eq(texts.iter().map(|text| &text.text))
            );
        }
    }
}

#[test]
fn labels_say_what_words_and_marks_say_where_those_decide() {
    let splits = LabeledToy::TypesAndTenses.generate();
    for LabeledText { label, text } in splits.iter().flat_map(|(_, texts)| texts) {
        let words: HashSet<&str> = text.split(' ').collect();
        let (kind, tense) = label.split_once('-').unwrap();
        assert_eq!(kind == "question", words.contains("?"), "{label}: {text}");
        assert_eq!(
            kind == "condition",
            text.starts_with("if ") || text.starts_with("when "),
            "{label}: {text}"
        );
        // In a question the auxiliary comes first, and none of these words opens anything else.
        let first = text.split(' ').next().unwrap();
        if kind == "question" {
            let expected = match first {
                "has" | "have" => "perfect",
                "will" => "future",
                "can" | "must" => "modal",
                _ if tense == "modal" && words.contains("want") => "modal",
                _ => "present",
            };
            assert_eq!(tense, expected, "{text}");
        }
        // Every clause with another tense than the present has one of these words.
        let markers: &[&str] = match tense {
            "perfect" => &["has", "have"],
            "future" => &["will"],
            "modal" => &["can", "must", "want", "wants"],
            _ => continue,
        };
        assert!(
            markers.iter().any(|marker| words.contains(marker)),
            "{label}: {text}"
        );
    }
}

#[test]
fn every_label_occurs_in_training_and_no_other_does_anywhere() {
    for toy in LabeledToy::ALL {
        let labels = toy.labels();
        for (split, texts) in toy.generate() {
            let mut counts = HashMap::new();
            for text in &texts {
                *counts.entry(&text.label).or_insert(0) += 1;
            }
            assert!(
                counts.keys().all(|label| labels.id(label).is_some()),
                "{split}: {counts:?}"
            );
            assert!(split != "train" || counts.len() == labels.names().len());
            assert!(
                split != "train" || counts.values().all(|&count| count > 100),
                "{counts:?}"
            );
        }
    }
    assert_eq!(
        LabeledToy::ALL.map(|toy| toy.labels().names().len()),
        [5, 4, 17]
    );
}

#[test]
fn written_files_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    LabeledToy::Tenses.write(dir.path()).unwrap();
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        LabeledToy::Tenses.splits().len()
    );
    let path = dir.path().join("test_deep.tsv");
    let read: Vec<LabeledText> = LabeledLines::open(&path)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let splits = LabeledToy::Tenses.generate();
    let (_, generated) = splits
        .iter()
        .find(|(name, _)| *name == "test_deep")
        .unwrap();
    assert_eq!(&read, generated);
}
