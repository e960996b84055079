//! Any bytes as tagged text, in CoNLL's columns or in CoNLL-U, plain or gzip: an error, or
//! sentences with as many tags as words.

#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use polyglow_data::tagged::TaggedSentences;
use polyglow_fuzz::parts;
use tempfile::TempDir;

static DIR: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary directory"));

/// The most sentences that are read: compressed text may be a thousand times as long as the input.
const SENTENCES: usize = 10_000;

fuzz_target!(|input: &[u8]| {
    let [layout, text] = parts(input);
    let name = match layout {
        b"conllu" => "text.conllu",
        _ => "text.conll",
    };
    let path = DIR.path().join(name);
    fs::write(&path, text).expect("it can be written");
    let Ok(sentences) = TaggedSentences::open(&path) else {
        return;
    };
    for sentence in sentences.take(SENTENCES) {
        // As all callers do, the first error ends the file.
        let Ok(sentence) = sentence else { return };
        let words: Vec<&str> = sentence.src.split_whitespace().collect();
        let tags: Vec<&str> = sentence.tgt.split_whitespace().collect();
        assert!(!words.is_empty());
        assert_eq!(words.len(), tags.len());
        // Single spaces are between words, and no line end.
        assert_eq!(words.join(" "), sentence.src);
        assert_eq!(tags.join(" "), sentence.tgt);
    }
});
