//! Any bytes as word vectors of word2vec or GloVe, plain or gzip: an error, or finite vectors of
//! different words, which are the same when they are written and read again.

#![no_main]

use std::collections::HashSet;
use std::fmt::Write;
use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use polyglow_data::error::DataError;
use polyglow_data::lines::Lines;
use polyglow_data::word_vectors::{VectorLimits, WordVectors};

/// Small, because compressed text may be a thousand times as long as the input.
const LIMITS: VectorLimits = VectorLimits {
    max_words: 1000,
    max_dim: 300,
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(vectors) = read(bytes.to_vec()) else {
        return;
    };
    assert_eq!(vectors.values.len(), vectors.words.len() * vectors.dim);
    assert!(vectors.values.iter().all(|value| value.is_finite()));
    let words: HashSet<&String> = vectors.words.iter().collect();
    assert_eq!(words.len(), vectors.words.len());
    if !vectors.words.iter().all(|word| is_plain(word)) {
        return;
    }
    let again = read(word2vec(&vectors).into_bytes()).expect("it was read before");
    assert_eq!((again.words, again.dim), (vectors.words, vectors.dim));
    assert_eq!(again.values, vectors.values);
});

fn read(bytes: Vec<u8>) -> Result<WordVectors, DataError> {
    let lines = Lines::from_reader(Cursor::new(bytes), Path::new("vectors"))?;
    WordVectors::parse(lines, LIMITS)
}

/// Whether a word can be written in word2vec's format, which has no spaces in words, as GloVe's may
/// have. Many control characters would look like UTF-16.
fn is_plain(word: &str) -> bool {
    !word.contains(|character: char| character == ' ' || character.is_control())
}

/// Returns the vectors as word2vec writes them.
fn word2vec(vectors: &WordVectors) -> String {
    let mut text = format!("{} {}\n", vectors.words.len(), vectors.dim);
    for (index, word) in vectors.words.iter().enumerate() {
        text += word;
        for value in vectors.vector(index) {
            write!(text, " {value}").expect("a string takes any text");
        }
        text += "\n";
    }
    text
}
