//! SentencePiece's models: read, written, and cut as SentencePiece itself cuts
//! (`scripts/golden-formats.py`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use polyglow_data::tokenizer::{Kind, Normalization, Tokenizer, TokenizerConfig};
use serde::Deserialize;

/// A line, and the pieces that SentencePiece cuts it into.
#[derive(Deserialize)]
struct Cut {
    line: String,
    pieces: Vec<String>,
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/sentencepiece")
        .join(name)
}

fn cuts() -> BTreeMap<String, Vec<Cut>> {
    serde_json::from_slice(&fs::read(golden("cuts.json")).unwrap()).unwrap()
}

fn check(tokenizer: &Tokenizer, cuts: &[Cut], name: &str) {
    // With runs of spaces kept, SentencePiece puts a space before a text that begins with one; here
    // that one is enough.
    for Cut { line, pieces } in cuts
        .iter()
        .filter(|cut| name != "spaces" || !cut.line.starts_with(' '))
    {
        let ids = tokenizer.encode(line).unwrap();
        let unk = tokenizer.special().unk;
        // Runs of unknown characters are one piece with their own spelling there, and one unknown
        // word here.
        let spelled: Vec<String> = ids
            .iter()
            .zip(pieces)
            .map(|(&id, piece)| {
                if id == unk {
                    piece.clone()
                } else {
                    tokenizer.token(id).unwrap()
                }
            })
            .collect();
        assert_eq!(ids.len(), pieces.len(), "{name}: {line:?}");
        assert_eq!(spelled, *pieces, "{name}: {line:?}");
    }
}

#[test]
fn lines_are_cut_as_sentencepiece_cuts_them() {
    let cuts = cuts();
    assert_eq!(cuts.len(), 2);
    for (name, cuts) in &cuts {
        let tokenizer = Tokenizer::adopt(&golden(&format!("{name}.model"))).unwrap();
        check(&tokenizer, cuts, name);
        // Written and read again, it still does.
        let again = Tokenizer::parse_sentencepiece(&tokenizer.to_sentencepiece().unwrap(), "again")
            .unwrap();
        assert_eq!(again.to_json().unwrap(), tokenizer.to_json().unwrap());
    }
}

#[test]
fn lines_are_cut_by_byte_pairs_as_sentencepiece_cuts_them() {
    let cuts: Vec<Cut> =
        serde_json::from_slice(&fs::read(golden("bpe-cuts.json")).unwrap()).unwrap();
    assert!(cuts.len() > 40);
    let tokenizer = Tokenizer::adopt(&golden("bpe.model")).unwrap();
    check(&tokenizer, &cuts, "bpe");
    for Cut { line, .. } in cuts.iter().filter(|cut| cut.line.starts_with("the ")) {
        assert_eq!(
            tokenizer.decode(&tokenizer.encode(line).unwrap()).unwrap(),
            *line
        );
    }
}

#[test]
fn a_learned_unigram_tokenizer_goes_to_sentencepiece_and_back() {
    let lines = [
        "the dog sees the cat",
        "a dog, a cat",
        "übermäßig große Tür",
    ]
    .map(|line| Ok(line.to_owned()));
    let config = TokenizerConfig {
        kind: Kind::Unigram,
        vocab_size: 60,
        ..TokenizerConfig::default()
    };
    let tokenizer = Tokenizer::train(&config, lines.into_iter(), &mut |_, _| {}).unwrap();
    let again =
        Tokenizer::parse_sentencepiece(&tokenizer.to_sentencepiece().unwrap(), "again").unwrap();
    assert_eq!(again.vocab_size(), tokenizer.vocab_size());
    for line in ["the dog", "two  spaces ", "Tür und 日本", "", "a"] {
        assert_eq!(
            again.encode(line).unwrap(),
            tokenizer.encode(line).unwrap(),
            "{line:?}"
        );
    }
}

#[test]
fn what_sentencepiece_cannot_do_is_refused_with_the_reason() {
    let learn = |config: TokenizerConfig| {
        let lines = ["the dog sees the cat", "a dog, a cat"].map(|line| Ok(line.to_owned()));
        Tokenizer::train(&config, lines.into_iter(), &mut |_, _| {}).unwrap()
    };
    for (kind, reason) in [
        (Kind::Bpe, "its model is `BPE`"),
        (Kind::WordBpe, "its model is `BPE`"),
    ] {
        let error = learn(TokenizerConfig {
            kind,
            vocab_size: 300,
            ..TokenizerConfig::default()
        });
        let error = error.to_sentencepiece().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let unigram = TokenizerConfig {
        kind: Kind::Unigram,
        vocab_size: 40,
        ..TokenizerConfig::default()
    };
    let nfkc = learn(TokenizerConfig {
        normalization: Normalization::Nfkc,
        ..unigram.clone()
    });
    assert!(
        nfkc.to_sentencepiece()
            .unwrap_err()
            .to_string()
            .contains("`NFKC`")
    );
    let lowercase = learn(TokenizerConfig {
        lowercase: true,
        ..unigram
    });
    assert!(
        lowercase
            .to_sentencepiece()
            .unwrap_err()
            .to_string()
            .contains("`Lowercase`")
    );
    for kind in [Kind::Word, Kind::Char] {
        let written = learn(TokenizerConfig {
            kind,
            vocab_size: 40,
            ..TokenizerConfig::default()
        });
        let written = written.to_sentencepiece().unwrap();
        let error = Tokenizer::parse_sentencepiece(&written, "w.model")
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(error.contains("it is a SentencePiece model of"), "{error}");
    }
}

#[test]
fn a_model_that_is_cut_off_or_is_none_is_an_error_with_its_name() {
    let bytes = fs::read(golden("identity.model")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.spm");
    for end in 0..bytes.len() {
        fs::write(&path, &bytes[..end]).unwrap();
        let error = Tokenizer::adopt(&path).map(drop).unwrap_err().to_string();
        assert!(error.contains("cut.spm"), "{end}: {error}");
    }
    fs::write(&path, b"{}").unwrap();
    assert!(Tokenizer::adopt(&path).is_err());
}

#[test]
fn a_tokenizer_without_marks_gets_them_behind_its_tokens() {
    let json = r#"{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {"a": 0, "b": 1, "<unk>": 2, "</s>": 3}}}"#;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    fs::write(&path, json).unwrap();
    assert!(Tokenizer::load(&path).is_err());
    let tokenizer = Tokenizer::adopt(&path).unwrap();
    assert_eq!(tokenizer.encode("b a c").unwrap(), [1, 0, 2]);
    let special = tokenizer.special();
    assert_eq!(
        (special.unk, special.eos, tokenizer.vocab_size()),
        (2, 3, 6)
    );
    assert_eq!([special.pad, special.bos], [4, 5]);
    // Saved and loaded as a run does it, it is the same.
    let again = Tokenizer::parse(tokenizer.to_json().unwrap().as_bytes(), "again").unwrap();
    assert_eq!((again.special(), again.vocab_size()), (special, 6));
}
