//! Any bytes as an id cache, with the key and the checksum that they would need to be believed:
//! never more than the file holds is read, and what is damaged is built again.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use flate2::Crc;
use libfuzzer_sys::fuzz_target;
use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::id_cache::IdCache;
use polyglow_data::tokenizer::{Kind, TokenizerConfig, Tokenizers};
use tempfile::TempDir;

const TEXT: &str = "a b c\tA B C\nb\tA B C D\nc b a\tC B\n";
const HEADER_BYTES: usize = 80;

struct Setup {
    dir: TempDir,
    corpus: Corpus,
    tokenizers: Tokenizers,
    /// Magic number and key.
    start: Vec<u8>,
}

static SETUP: LazyLock<Setup> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("text.tsv");
    fs::write(&path, TEXT).expect("it can be written");
    let data = DataConfig {
        train: Some(TrainFiles::One(path)),
        src: Some("en".to_owned()),
        tgt: Some("de".to_owned()),
        ..DataConfig::default()
    };
    let corpus = Corpus::open(&data, Content::PAIRS, Split::Train).expect("it is there");
    let config = TokenizerConfig {
        kind: Kind::Word,
        vocab_size: 12,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&config, &corpus, &mut |_, _| {}).expect("there are words");
    let cache = dir.path().join("whole.ids");
    IdCache::open_or_build(&cache, &corpus, &tokenizers, None, &mut |_, _| {})
        .expect("it can be built");
    let start = fs::read(&cache).expect("it was built")[..40].to_vec();
    Setup {
        dir,
        corpus,
        tokenizers,
        start,
    }
});

fuzz_target!(|bytes: &[u8]| {
    let Setup {
        dir,
        corpus,
        tokenizers,
        start,
    } = &*SETUP;
    let path: PathBuf = dir.path().join("input.ids");
    let mut bytes = bytes.to_vec();
    if bytes.len() >= HEADER_BYTES {
        bytes[..40].copy_from_slice(start);
        let mut crc = Crc::new();
        crc.update(&bytes[HEADER_BYTES..]);
        bytes[68..72].copy_from_slice(&crc.sum().to_le_bytes());
    }
    fs::write(&path, &bytes).expect("it can be written");
    let (cache, _) = IdCache::open_or_build(&path, corpus, tokenizers, None, &mut |_, _| {})
        .expect("it can be built again");
    for example in 0..cache.len() as u32 {
        let _ = cache.example(example);
        let _ = cache.links(example);
        let _ = cache.origin(example);
    }
});
