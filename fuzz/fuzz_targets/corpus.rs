//! Any bytes as parallel text, a TSV file, two files, or two files with alignments; or as captions
//! in each layout.

#![no_main]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use polyglow_data::clean::cleaning::Cleaning;
use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::raw_bytes::without_raw_bytes;
use polyglow_fuzz::parts;
use tempfile::TempDir;

static DIR: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary directory"));

fuzz_target!(|input: &[u8]| {
    let [kind, src, tgt, links] = parts(input);
    let path = |name: &str| DIR.path().join(name);
    let write = |name: &str, bytes: &[u8]| fs::write(path(name), bytes).expect("it can be written");
    write("text.tsv", src);
    write("text.en", src);
    write("text.de", tgt);
    write("text.align", links);
    let named = |train: PathBuf, alignments: Option<PathBuf>| DataConfig {
        train: Some(TrainFiles::One(train)),
        alignments,
        src: Some("en".to_owned()),
        tgt: Some("de".to_owned()),
        ..DataConfig::default()
    };
    let captions = [
        ("tsv", "captions.tsv"),
        ("txt", "captions.txt"),
        ("json", "captions.json"),
    ];
    if let Some((_, name)) = captions
        .iter()
        .find(|(name, _)| format!("{name} captions").as_bytes() == kind)
    {
        write(name, src);
        write("Flickr8k.token.txt", tgt);
        // The file itself stands for an image: whether it is one is not asked yet.
        let config = DataConfig {
            image_folder: Some(DIR.path().to_owned()),
            ..named(path(name), None)
        };
        if let Ok(corpus) = Corpus::open(&config, Content::CAPTIONS, Split::Train) {
            assert!(corpus.pairs().all(|pair| pair.is_ok()));
        }
        return;
    }
    let config = match kind {
        b"tsv" => named(path("text.tsv"), None),
        b"files" => named(path("text"), None),
        _ => named(path("text"), Some(path("text.align"))),
    };
    let corpus = Corpus::open(&config, Content::PAIRS, Split::Train).expect("the files are there");
    let pairs = corpus.pairs().inspect(|pair| {
        if let Ok(pair) = pair {
            assert!(!pair.src.contains('\n') && !pair.tgt.contains('\n'));
        }
    });
    let _ = pairs.count();
    for part in corpus.parts() {
        if let Ok(Some(links)) = part.alignments() {
            let _ = links.count();
        }
    }
    corpus.content_hash().expect("the files can be read");
    clean(corpus);
});

/// Cleans a text with any bytes, as far as it goes: all readings are alike, and what comes out is text.
fn clean(corpus: Corpus) {
    let corpus = corpus.for_cleaning().ending_at_cuts();
    let Ok(cleaning) = Cleaning::of(&corpus, &[], &BTreeSet::new(), &mut |_, _| ()) else {
        return;
    };
    let filtered = cleaning.by_all_filters();
    for (index, pair) in (0..).zip(corpus.pairs()) {
        let pair = pair.expect("it was read before");
        let cleaned = filtered.cleaned(index, &pair).pair;
        for side in [&cleaned.src, &cleaned.tgt] {
            assert_eq!(&without_raw_bytes(side), side);
        }
    }
}
