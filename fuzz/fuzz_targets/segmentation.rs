//! Any bytes as a MeCab dictionary or a SentencePiece model: they are refused, or cut any line into
//! words of that line.

#![no_main]

use std::fs;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use polyglow_fuzz::parts;
use polyglow_metrics::{MecabDictionary, SentencePieceModel, Tokenizer};

/// Lines of every kind of characters, and one that is long.
const LINES: [&str; 4] = [
    "",
    "彼は東京都に住んで　いますÐ a１２3",
    "나는 학교에 갔다 🙂 \u{ffff}",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

fuzz_target!(|input: &[u8]| {
    let [words, unknown, matrix, model] = parts(input);
    let folder = tempfile::tempdir().expect("a temporary directory");
    // One kind for all characters: most inputs would fail for the size of this file alone.
    let kind = 1_u32 | 3 << 26 | 1 << 30;
    let characters = [&1_u32.to_le_bytes()[..], b"DEFAULT", &[0; 25]].concat();
    let characters = [characters, kind.to_le_bytes().repeat(0xffff)].concat();
    for (name, bytes) in [
        ("sys.dic", words),
        ("unk.dic", unknown),
        ("matrix.bin", matrix),
        ("char.bin", &characters),
        ("model", model),
    ] {
        fs::write(folder.path().join(name), bytes).expect("it can be written");
    }
    if let Ok(dictionary) = MecabDictionary::open(folder.path()) {
        let tokenizer = Tokenizer::Japanese(Arc::new(dictionary));
        for line in LINES {
            let tokens = tokenizer.tokenize(line);
            assert!(
                tokens.split_whitespace().all(|token| line.contains(token)),
                "{tokens}"
            );
        }
    }
    if let Ok(model) = SentencePieceModel::open(&folder.path().join("model")) {
        let tokenizer = Tokenizer::Flores200(Arc::new(model));
        LINES.iter().for_each(|line| drop(tokenizer.tokenize(line)));
    }
});
