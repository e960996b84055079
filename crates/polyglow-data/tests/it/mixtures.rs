//! Corpora with tags, noise, steps of their own, and exchanged sides.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use polyglow_data::augmentation::Augmentation;
use polyglow_data::batching::{BatchingConfig, Selection};
use polyglow_data::config::{Content, DataConfig, Direction, Split, TrainFiles, WeightedPath};
use polyglow_data::corpus::Corpus;
use polyglow_data::example::Example;
use polyglow_data::id_cache::IdCache;
use polyglow_data::noise::Noise;
use polyglow_data::pair::Pair;
use polyglow_data::pair_tags::PairTags;
use polyglow_data::sources::{BatchSource, PairSource};
use polyglow_data::tokenizer::{Kind, Segmentation, Tokenizer, TokenizerConfig, Tokenizers};
use tempfile::TempDir;

const BATCHING: BatchingConfig = BatchingConfig {
    max_tokens: 60,
    pad_multiple: 1,
    seed: 5,
    segmentation: Segmentation::Fixed,
    selection: Selection::V2,
};
const ENGLISH: &str = "the old dog sleeps\tder alte Hund schläft\nthe cat eats\tdie Katze frisst\n";
const FRENCH: &str = "the old dog sleeps\tle vieux chien dort\n";

/// A corpus of two files: English to German, and to French with a tag of its own.
fn two_languages(dir: &Path) -> DataConfig {
    std::fs::write(dir.join("de.tsv"), ENGLISH).unwrap();
    std::fs::write(dir.join("fr.tsv"), FRENCH).unwrap();
    let french = WeightedPath {
        tgt: Some("fr".to_owned()),
        tgt_tag: Some("fra_Latn".to_owned()),
        tag: Some("<bt>".to_owned()),
        ..WeightedPath::new(dir.join("fr.tsv"))
    };
    DataConfig {
        train: Some(TrainFiles::Weighted(vec![
            WeightedPath::new(dir.join("de.tsv")),
            french,
        ])),
        src: Some("en".to_owned()),
        tgt: Some("de".to_owned()),
        src_tag: Some("eng_Latn".to_owned()),
        tgt_tag: Some("deu_Latn".to_owned()),
        ..DataConfig::default()
    }
}

fn words(vocab_size: usize) -> TokenizerConfig {
    TokenizerConfig {
        kind: Kind::Word,
        vocab_size,
        ..TokenizerConfig::default()
    }
}

/// The id cache of the training text.
fn cache(data: &DataConfig, config: &TokenizerConfig) -> (TempDir, Arc<IdCache>) {
    data.validate(Content::PAIRS).unwrap();
    let corpus = Corpus::open(data, Content::PAIRS, Split::Train).unwrap();
    let tokenizers = Tokenizers::train(config, &corpus, &mut |_, _| {}).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("train.ids");
    let (cache, _) =
        IdCache::open_or_build(&path, &corpus, &tokenizers, None, &mut |_, _| {}).unwrap();
    (dir, Arc::new(cache))
}

fn shown(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    ids.iter()
        .map(|&id| tokenizer.token(id).expect("it has a spelling"))
        .collect()
}

#[test]
fn tags_stand_before_the_ids_of_their_corpora_and_are_no_text() {
    let dir = tempfile::tempdir().unwrap();
    let data = two_languages(dir.path());
    for shared in [true, false] {
        let config = TokenizerConfig {
            shared,
            ..words(100)
        };
        let (_cache_dir, cache) = cache(&data, &config);
        let Tokenizers { src, tgt } = cache.tokenizers();
        let tokens = |example| {
            let Example {
                src: left,
                tgt: right,
            } = cache.example(example).unwrap();
            (shown(src, &left).join(" "), shown(tgt, &right).join(" "))
        };
        let expected = |src: &str, tgt: &str| (src.to_owned(), tgt.to_owned());
        assert_eq!(
            tokens(1),
            expected("eng_Latn the cat eats", "deu_Latn die Katze frisst")
        );
        assert_eq!(
            tokens(2),
            expected(
                "eng_Latn <bt> the old dog sleeps",
                "fra_Latn le vieux chien dort"
            )
        );
        assert_eq!(cache.lengths(2), (6, 5));
        assert_eq!(
            [0, 2].map(|example| cache.num_tags(example)),
            [[1, 1], [2, 1]]
        );

        // Decoded, they are gone; spelled in a text, they are not the tag.
        let ids = cache.example(2).unwrap();
        assert_eq!(src.decode(&ids.src).unwrap(), "the old dog sleeps");
        let spelled = src.encode("eng_Latn <bt> the").unwrap();
        assert!(!spelled.contains(&src.tag_id("eng_Latn").unwrap()));
        assert!(!spelled.contains(&src.tag_id("<bt>").unwrap()));
        // They survive a file, and have ids behind all others.
        let again = Tokenizer::parse(tgt.to_json().unwrap().as_bytes(), "again").unwrap();
        assert_eq!(
            again.tag_id("fra_Latn").unwrap() as usize,
            tgt.vocab_size() - 1
        );
        let error = again.tag_id("ita_Latn").unwrap_err().to_string();
        assert!(
            error.contains("there is no tag `ita_Latn`; it has ") && error.contains("`fra_Latn`"),
            "{error}"
        );
    }
}

#[test]
fn a_vocabulary_has_its_tags_and_symbols_within_its_size() {
    let dir = tempfile::tempdir().unwrap();
    let data = two_languages(dir.path());
    let mut config = TokenizerConfig {
        kind: Kind::Bpe,
        vocab_size: 275,
        symbols: vec!["<url>".to_owned()],
        ..TokenizerConfig::default()
    };
    let (_cache_dir, cache) = cache(&data, &config);
    let tokenizer = &cache.tokenizers().src;
    assert_eq!(tokenizer.vocab_size(), 275);
    // A symbol is one token, stays in the text, and is not cut.
    for (text, expected) in [
        ("see <url> now", "see <url> now"),
        ("<url><url> see", "<url> <url> see"),
        ("see<url>", "see <url>"),
    ] {
        let ids = tokenizer.encode(text).unwrap();
        assert_eq!(tokenizer.decode(&ids).unwrap(), expected);
        let shown = shown(tokenizer, &ids);
        let num_symbols = shown.iter().filter(|token| *token == "<url>").count();
        assert_eq!(num_symbols, text.matches("<url>").count());
    }

    config.vocab_size = 264;
    let corpus = Corpus::open(&data, Content::PAIRS, Split::Train).unwrap();
    let error = Tokenizers::train(&config, &corpus, &mut |_, _| {})
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .contains("must be at least 265 with 4 tags and 1 symbols, not 264"),
        "{error}"
    );
}

#[test]
fn an_ordinary_token_is_no_tag() {
    let corpus = Corpus::from_pairs(
        "memory",
        [Pair {
            src: "a b".to_owned(),
            tgt: "c d".to_owned(),
        }],
    );
    let tags = PairTags {
        src: vec!["a".to_owned()],
        tgt: None,
    };
    let corpus = corpus.with_tags(&tags);
    let error = Tokenizers::train(&words(20), &corpus, &mut |_, _| {})
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .contains("`a` is an ordinary token, and cannot be a tag"),
        "{error}"
    );
}

#[test]
fn links_are_between_the_same_words_behind_tags() {
    let dir = tempfile::tempdir().unwrap();
    let mut data = two_languages(dir.path());
    std::fs::write(dir.path().join("de.align"), "0-0 2-2\n1-1\n").unwrap();
    std::fs::write(dir.path().join("fr.align"), "3-3\n").unwrap();
    if let Some(TrainFiles::Weighted(list)) = &mut data.train {
        list[0].alignments = Some(dir.path().join("de.align"));
        list[1].alignments = Some(dir.path().join("fr.align"));
    }
    let (_cache_dir, cache) = cache(&data, &words(100));
    let links = |example| cache.links(example).unwrap();
    assert_eq!(links(0), [(1, 1), (3, 3)]);
    assert_eq!(links(1), [(2, 2)]);
    assert_eq!(links(2), [(5, 4)]);
}

#[test]
fn augmentations_and_segmentations_leave_tags_and_symbols_where_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let data = two_languages(dir.path());
    let (_cache_dir, cache) = cache(&data, &words(100));
    let reversed = Augmentation::new("reversed", |example, _, _| {
        example.src.reverse();
        example.tgt.truncate(1);
    });
    let source = PairSource::new(Arc::clone(&cache), BATCHING, false)
        .unwrap()
        .augmented(reversed);
    let batch = source.batch(0, &[2]).unwrap();
    let Tokenizers { src, tgt } = cache.tokenizers();
    let ids = |ids: &[i32]| ids.iter().map(|&id| id as u32).collect::<Vec<_>>();
    assert_eq!(
        shown(src, &ids(&batch.src.ids)).join(" "),
        "eng_Latn <bt> sleeps dog old the </s>"
    );
    assert_eq!(
        shown(tgt, &ids(&batch.tgt_out.ids)).join(" "),
        "fra_Latn le </s>"
    );

    for (kind, vocab_size, segmentation) in [
        (Kind::Bpe, 300, Segmentation::Dropout(0.5)),
        (Kind::Unigram, 60, Segmentation::Sampling(0.1)),
    ] {
        let config = TokenizerConfig {
            kind,
            vocab_size,
            symbols: vec!["sleeps".to_owned()],
            ..TokenizerConfig::default()
        };
        let (_cache_dir, cache) = self::cache(&data, &config);
        let batching = BatchingConfig {
            segmentation,
            ..BATCHING
        };
        let source = PairSource::new(Arc::clone(&cache), batching, false).unwrap();
        let tokenizer = &cache.tokenizers().src;
        let mut texts = HashSet::new();
        for epoch in 0..20 {
            let ids = ids(&source.batch(epoch, &[2]).unwrap().src.ids);
            assert_eq!(ids[1], tokenizer.tag_id("<bt>").unwrap(), "{}", kind.name());
            let shown = shown(tokenizer, &ids);
            assert_eq!(shown[shown.len() - 2], "sleeps", "{shown:?}");
            texts.insert(shown);
        }
        assert!(texts.len() >= 3, "{texts:?}");
    }
}

#[test]
fn noise_is_drawn_anew_in_every_epoch_within_the_planned_length() {
    let dir = tempfile::tempdir().unwrap();
    let noise = Noise {
        case: 0.5,
        punctuation: 0.0,
        typos: 0.5,
        dropped_words: 0.1,
    };
    let mut data = two_languages(dir.path());
    data.noise = Some(noise);
    if let Some(TrainFiles::Weighted(list)) = &mut data.train {
        list[1].noise = Some(Noise::default());
    }
    let config = TokenizerConfig {
        kind: Kind::Char,
        vocab_size: 100,
        ..TokenizerConfig::default()
    };
    let (_cache_dir, cache) = cache(&data, &config);
    let source = PairSource::new(Arc::clone(&cache), BATCHING, false).unwrap();
    let tokenizer = &cache.tokenizers().src;
    let text = |epoch, example| {
        let ids = source.batch(epoch, &[example]).unwrap().src.ids;
        // With its end, and no longer than the longest source of the text.
        assert!(ids.len() <= cache.report().src.longest + 1);
        let ids: Vec<u32> = ids.iter().map(|&id| id as u32).collect();
        assert_eq!(ids[0], tokenizer.tag_id("eng_Latn").unwrap());
        tokenizer.decode(&ids).unwrap()
    };
    let mut different: Vec<String> = (0..40).map(|epoch| text(epoch, 0)).collect();
    assert_eq!(text(7, 0), different[7]);
    different.sort();
    different.dedup();
    assert!(different.len() > 15, "{different:?}");
    assert!((0..40).all(|epoch| text(epoch, 2) == "the old dog sleeps"));
    // Targets have none, and neither has validation text.
    assert_eq!(
        source.batch(3, &[0]).unwrap().tgt_out.ids,
        source.batch(0, &[0]).unwrap().tgt_out.ids
    );
}

#[test]
fn an_epoch_has_the_corpora_of_its_step() {
    let dir = tempfile::tempdir().unwrap();
    let mut data = two_languages(dir.path());
    if let Some(TrainFiles::Weighted(list)) = &mut data.train {
        list[0].until = Some(20);
        list[1].from = 10;
    }
    let (_cache_dir, cache) = cache(&data, &words(100));
    let source = PairSource::new(cache, BATCHING, false).unwrap();
    assert_eq!(source.changes(), [10, 20]);
    let examples = |step| {
        let plan = source.plan_in(0, step).unwrap();
        let mut examples: Vec<u32> = (0..plan.len())
            .flat_map(|batch| plan.batch(batch).to_vec())
            .collect();
        examples.sort_unstable();
        examples
    };
    assert_eq!(examples(9), [0, 1]);
    assert_eq!(examples(10), [0, 1, 2]);
    assert_eq!(examples(20), [2]);
}

#[test]
fn a_reversed_corpus_has_its_sides_languages_and_tags_exchanged() {
    let dir = tempfile::tempdir().unwrap();
    let data = DataConfig {
        reverse: true,
        ..two_languages(dir.path())
    };
    data.validate(Content::PAIRS).unwrap();
    assert_eq!(data.languages().unwrap(), ("de", "en"));
    let corpus = Corpus::open(&data, Content::PAIRS, Split::Train).unwrap();
    let first = corpus.pairs().next().unwrap().unwrap();
    assert_eq!(
        (&*first.src, &*first.tgt),
        ("der alte Hund schläft", "the old dog sleeps")
    );
    let tags = |src: &[&str], tgt: &str| PairTags {
        src: src.iter().map(|tag| (*tag).to_owned()).collect(),
        tgt: Some(tgt.to_owned()),
    };
    assert_eq!(*corpus.parts()[0].tags(), tags(&["deu_Latn"], "eng_Latn"));
    assert_eq!(
        *corpus.parts()[1].tags(),
        tags(&["fra_Latn", "<bt>"], "eng_Latn")
    );
    let forth = Corpus::open(&two_languages(dir.path()), Content::PAIRS, Split::Train).unwrap();
    assert_ne!(
        corpus.content_hash().unwrap(),
        forth.content_hash().unwrap()
    );

    let direction = |src: &str, tgt: &str, tags| Direction {
        src: src.to_owned(),
        tgt: tgt.to_owned(),
        tags,
    };
    assert_eq!(
        data.directions(),
        [
            direction("de", "en", tags(&["deu_Latn"], "eng_Latn")),
            direction("fr", "en", tags(&["fra_Latn"], "eng_Latn")),
        ]
    );
    let french = corpus.in_direction(&data.directions()[1]);
    assert_eq!(french.parts().len(), 1);
    assert_eq!(
        french.pairs().next().unwrap().unwrap().src,
        "le vieux chien dort"
    );
    let mut chosen = data.clone();
    chosen.set_direction(data.directions()[1].clone());
    assert_eq!(chosen.languages().unwrap(), ("fr", "en"));
    assert_eq!(chosen.tags(), data.directions()[1].tags);
}

/// The corpora of a config.
fn list(data: &mut DataConfig) -> &mut Vec<WeightedPath> {
    match &mut data.train {
        Some(TrainFiles::Weighted(list)) => list,
        _ => unreachable!("it is a list"),
    }
}

#[test]
fn what_does_not_go_together_is_refused_by_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let data = two_languages(dir.path());
    let error = |change: &dyn Fn(&mut DataConfig)| {
        let mut data = data.clone();
        change(&mut data);
        data.validate(Content::PAIRS).unwrap_err().to_string()
    };
    for (change, expected) in [
        (
            (&|data: &mut DataConfig| data.tgt_tag = None) as &dyn Fn(&mut DataConfig),
            "`data.tgt_tag` is missing, and corpora of `data.train` have tags",
        ),
        (
            &|data| {
                list(data)[0].tgt_tag = Some("nld_Latn".to_owned());
            },
            "`data.tgt_tag` is \"deu_Latn\", which no corpus of `data.train` has",
        ),
        (
            &|data| data.src_tag = Some("two words".to_owned()),
            "`data.src_tag` has `two words`, which is not a single word",
        ),
        (
            &|data| list(data)[1].tag = Some(String::new()),
            "`data.train` has an empty tag or symbol",
        ),
        (
            &|data| list(data)[1].tag = Some("</s>".to_owned()),
            "`data.train` has `</s>`, which is a special token of every vocabulary",
        ),
        (
            &|data| {
                data.noise = Some(Noise {
                    typos: 1.5,
                    ..Noise::default()
                });
            },
            "`[data.noise]` `typos` must lie in [0, 1], not 1.5",
        ),
        (
            &|data| {
                list(data)[0].from = 5;
                list(data)[1].from = 5;
            },
            "`data.train` has no corpus to train on after 0 steps",
        ),
        (
            &|data| {
                for entry in list(data) {
                    entry.until = Some(100);
                }
            },
            "`data.train` has no corpus to train on after 100 steps",
        ),
        (
            &|data| {
                data.reverse = true;
                list(data)[0].alignments = Some("a".into());
            },
            "`data.reverse` exchanges the sides of the text",
        ),
    ] {
        let error = error(change);
        assert!(error.contains(expected), "{error}");
    }
    let steps = |data: &mut DataConfig| {
        list(data)[0].from = 7;
        list(data)[0].until = Some(7);
    };
    assert!(error(&steps).contains("in no step: `from` must be less than `until`"));
    let labeled = |data: &DataConfig| {
        let error = data.validate(Content::LABELED_TEXT).unwrap_err();
        error.to_string()
    };
    let error = labeled(&data);
    assert!(
        error.contains("gives languages or steps to a corpus, and only parallel text has them")
    );
    let error = labeled(&DataConfig {
        train: Some(TrainFiles::One("a".into())),
        ..data
    });
    assert!(error.contains("only parallel text has tags"), "{error}");
}
