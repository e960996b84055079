//! The tokenizers that need a file, against MeCab, MeCab-ko and SentencePiece: what
//! `scripts/golden-segmentation.py` wrote.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use polyglow_metrics::{
    BleuOptions, MecabDictionary, Metric, MetricError, SentencePieceModel, Tokenizer,
    TokenizerName, corpus_score,
};
use serde::Deserialize;

/// The lines, and the tokens of each.
#[derive(Deserialize)]
struct Golden {
    lines: Vec<String>,
    mecab: Vec<Vec<String>>,
    #[serde(rename = "mecab-ko")]
    mecab_ko: Vec<Vec<String>>,
    models: HashMap<String, Vec<Vec<String>>>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/segmentation")
}

fn golden() -> Golden {
    let json = fs::read(folder().join("lines.json")).expect("it is committed");
    serde_json::from_slice(&json).expect("the script writes JSON")
}

/// A copy of the dictionary, with these settings in place of its own.
fn dictionary_with(settings: &str) -> (tempfile::TempDir, MecabDictionary) {
    let copy = tempfile::tempdir().expect("a temporary directory");
    for name in ["sys.dic", "unk.dic", "char.bin", "matrix.bin"] {
        fs::copy(
            folder().join("dictionary").join(name),
            copy.path().join(name),
        )
        .expect("it can be copied");
    }
    fs::write(copy.path().join("dicrc"), settings).expect("it can be written");
    let dictionary = MecabDictionary::open(copy.path()).expect("it is whole");
    (copy, dictionary)
}

fn check(tokenizer: &Tokenizer, lines: &[String], expected: &[Vec<String>]) {
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.iter().zip(expected) {
        let tokens = tokenizer.tokenize(line);
        assert_eq!(
            &tokens.split_whitespace().collect::<Vec<_>>(),
            expected,
            "{line:?}"
        );
    }
}

#[test]
fn words_are_those_of_mecab() {
    let Golden { lines, mecab, .. } = golden();
    let (_copy, dictionary) = dictionary_with("cost-factor = 800");
    check(&Tokenizer::Japanese(Arc::new(dictionary)), &lines, &mecab);
}

#[test]
fn a_space_costs_what_mecab_ko_takes_for_it() {
    let Golden {
        lines,
        mecab,
        mecab_ko,
        ..
    } = golden();
    assert!(
        mecab
            .iter()
            .zip(&mecab_ko)
            .filter(|(one, other)| one != other)
            .count()
            > 10
    );
    let dictionary = MecabDictionary::open(&folder().join("dictionary")).unwrap();
    check(&Tokenizer::Korean(Arc::new(dictionary)), &lines, &mecab_ko);
}

#[test]
fn pieces_are_those_of_sentencepiece() {
    let Golden { lines, models, .. } = golden();
    assert_eq!(models.len(), 3);
    for (name, expected) in models {
        let model = SentencePieceModel::open(&folder().join(format!("{name}.model"))).unwrap();
        check(&Tokenizer::Flores200(Arc::new(model)), &lines, &expected);
    }
}

#[test]
fn signatures_name_dictionaries_as_sacrebleu_does() {
    let (_copy, dictionary) = dictionary_with("");
    let dictionary = Arc::new(dictionary);
    let model = Arc::new(SentencePieceModel::open(&folder().join("rules.model")).unwrap());
    for (tokenizer, name) in [
        (
            Tokenizer::Japanese(Arc::clone(&dictionary)),
            "tok:ja-mecab-0.996-IPA",
        ),
        (
            Tokenizer::Korean(dictionary),
            "tok:ko-mecab-0.996/ko-0.9.2-KO",
        ),
        (Tokenizer::Flores101(Arc::clone(&model)), "tok:flores101"),
        (Tokenizer::Flores200(model), "tok:flores200"),
    ] {
        let bleu = BleuOptions {
            tokenizer,
            max_order: 1,
            ..BleuOptions::default()
        };
        assert!(bleu.signature(1).to_string().contains(&format!("|{name}|")));
        let same = corpus_score(&bleu, &["彼は東京都に"], &[vec!["彼は東京都に"]]).unwrap();
        assert!(same.hypothesis_len > 1 && same.score > 0.0, "{same}");
    }
}

#[test]
fn another_dictionary_than_sacrebleus_is_refused_by_name() {
    let path = folder().join("dictionary");
    for name in [TokenizerName::Japanese, TokenizerName::Korean] {
        let error = name.open(Some(&path), None).unwrap_err();
        assert!(
            matches!(&error, MetricError::WrongDictionary { words: 39, .. }),
            "{error}"
        );
    }
}

#[test]
fn damaged_files_are_named_with_what_is_wrong() {
    let files = ["sys.dic", "unk.dic", "char.bin", "matrix.bin"];
    for name in files {
        let (copy, _) = dictionary_with("");
        let path = copy.path().join(name);
        let whole = fs::read(&path).unwrap();
        for damaged in [
            &[][..],
            &whole[..3],
            &whole[..whole.len() / 2],
            &whole[..whole.len() - 1],
            b"nothing of the kind",
        ] {
            fs::write(&path, damaged).unwrap();
            let error = MecabDictionary::open(copy.path()).unwrap_err().to_string();
            assert!(
                error.contains(name) && error.contains("is no MeCab dictionary that can be used"),
                "{error}"
            );
        }
        fs::remove_file(&path).unwrap();
        let error = MecabDictionary::open(copy.path()).unwrap_err().to_string();
        assert!(
            error.contains("cannot read") && error.contains(name),
            "{error}"
        );
    }
    let model = fs::read(folder().join("rules.model")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.model");
    for damaged in [
        &[][..],
        &model[..model.len() / 2],
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"no model",
    ] {
        fs::write(&path, damaged).unwrap();
        let error = SentencePieceModel::open(&path).unwrap_err().to_string();
        assert!(
            error.contains("a.model` is no SentencePiece model that can be used"),
            "{error}"
        );
    }
}

/// Whatever the bytes are, there is a dictionary or an error, and a dictionary cuts any line
/// without a panic.
#[test]
fn changed_bytes_do_no_harm() {
    let Golden { lines, .. } = golden();
    let (copy, _) = dictionary_with("left-space-penalty-factor = 2,x,3");
    let mut opened = 0;
    for name in ["sys.dic", "unk.dic", "matrix.bin"] {
        let path = copy.path().join(name);
        let whole = fs::read(&path).unwrap();
        for index in (0..whole.len()).step_by(whole.len() / 300 + 1) {
            let mut changed = whole.clone();
            changed[index] ^= 0x55;
            fs::write(&path, &changed).unwrap();
            if let Ok(dictionary) = MecabDictionary::open(copy.path()) {
                opened += 1;
                let tokenizer = Tokenizer::Japanese(Arc::new(dictionary));
                lines
                    .iter()
                    .take(20)
                    .for_each(|line| drop(tokenizer.tokenize(line)));
            }
        }
        fs::write(&path, whole).unwrap();
    }
    let whole = fs::read(folder().join("rules.model")).unwrap();
    let path = copy.path().join("changed.model");
    for index in (0..whole.len()).step_by(17) {
        let mut changed = whole.clone();
        changed[index] ^= 0x55;
        fs::write(&path, &changed).unwrap();
        if let Ok(model) = SentencePieceModel::open(&path) {
            opened += 1;
            let tokenizer = Tokenizer::Flores101(Arc::new(model));
            lines
                .iter()
                .take(20)
                .for_each(|line| drop(tokenizer.tokenize(line)));
        }
    }
    assert!(opened > 300, "{opened} of the changed files could be used");
}
