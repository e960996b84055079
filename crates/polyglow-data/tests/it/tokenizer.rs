//! Tokenizers: what they give back, that they are reproducible, and that Python agrees.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use polyglow_data::config::{Content, DataConfig, Split, TrainFiles};
use polyglow_data::corpus::Corpus;
use polyglow_data::error::DataError;
use polyglow_data::random::{below, mix};
use polyglow_data::special::SpecialIds;
use polyglow_data::tokenizer::{
    Kind, Normalization, Stage, Tokenizer, TokenizerConfig, Tokenizers, VocabFiles,
};
use serde::Deserialize;

const TRAINED: [Kind; 5] = [
    Kind::Bpe,
    Kind::WordBpe,
    Kind::Unigram,
    Kind::Word,
    Kind::Char,
];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn text() -> Vec<String> {
    std::fs::read_to_string(golden("text.txt"))
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn probes() -> Vec<String> {
    serde_json::from_slice(&std::fs::read(golden("probes.json")).unwrap()).unwrap()
}

fn config(kind: Kind) -> TokenizerConfig {
    TokenizerConfig {
        kind,
        vocab_size: 400,
        ..TokenizerConfig::default()
    }
}

fn train(config: &TokenizerConfig) -> Tokenizer {
    Tokenizer::train(config, text().into_iter().map(Ok), &mut |_, _| {}).unwrap()
}

fn golden_tokenizer(kind: Kind) -> PathBuf {
    golden(&format!("tokenizer.{}.json", kind.name()))
}

/// Strings that tear most tokenizers apart, made of fragments in random order.
fn nasty() -> Vec<String> {
    let fragments = [
        " ",
        "  ",
        "▁",
        "a",
        "Ä",
        "a\u{308}",
        "\u{308}",
        "🙂",
        "👩‍👩‍👧",
        "\u{0}",
        "\u{7f}",
        "\t",
        "\n",
        "\r\n",
        "<s>",
        "</s>",
        "<pad>",
        "<unk>",
        "</w>",
        "@@ ",
        "Ġ",
        "'s",
        "ß",
        "İ",
        "漢字",
        "\u{a0}",
        "\u{2028}",
        "\u{85}",
        "\u{feff}",
        "ﬁ",
        "1234",
        "?!",
        "\u{200d}",
        "\u{10ffff}",
        "\u{e000}",
        "हि",
        "ไทย",
        "\u{fffd}",
        "\u{ad}",
        "\u{1f1e9}\u{1f1ea}",
    ];
    let random = |seed: u64, index: u64| {
        fragments[below(mix(&[seed, index]), fragments.len() as u64) as usize]
    };
    (0..2_000)
        .map(|seed| (0..seed % 9).map(|index| random(seed, index)).collect())
        .chain(probes())
        .collect()
}

#[test]
fn byte_level_bpe_gives_every_string_back() {
    let unchanged = TokenizerConfig {
        clean_text: false,
        normalization: Normalization::None,
        ..config(Kind::Bpe)
    };
    let tokenizer = train(&unchanged);
    for text in nasty() {
        let ids = tokenizer.encode(&text).unwrap();
        assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        assert!(
            !ids.contains(&tokenizer.special().unk),
            "{text:?} has an unknown token"
        );
    }
}

#[test]
fn byte_level_bpe_gives_the_normalized_string_back() {
    let normalized = |config: &TokenizerConfig| {
        let tokenizer = train(config);
        move |text: &str| tokenizer.decode(&tokenizer.encode(text).unwrap()).unwrap()
    };
    let nfc = normalized(&config(Kind::Bpe));
    assert_eq!(nfc("Leuchtturmwa\u{308}rter ﬁg"), "Leuchtturmwärter ﬁg");
    let compatible = normalized(&TokenizerConfig {
        normalization: Normalization::Nfkc,
        ..config(Kind::Bpe)
    });
    assert_eq!(
        compatible("Leuchtturmwa\u{308}rter ﬁg ①"),
        "Leuchtturmwärter fig 1"
    );
    let lower = normalized(&TokenizerConfig {
        lowercase: true,
        ..config(Kind::Bpe)
    });
    assert_eq!(lower("  ÄPFEL und <S> "), "äpfel und <s>");
    let uncleaned = normalized(&TokenizerConfig {
        clean_text: false,
        ..config(Kind::Bpe)
    });
    assert_eq!(
        uncleaned("  A\u{308}pfel\u{a0}und <S> "),
        "  Äpfel\u{a0}und <S> "
    );
    for text in nasty() {
        assert_eq!(
            nfc(&nfc(&text)),
            nfc(&text),
            "normalizing twice must change nothing"
        );
    }
}

/// Texts that are encoded differently and read the same have the same ids. The values follow from
/// the lists of SentencePiece's rule `nmt_nfkc` (spaces and control characters) and from Unicode's
/// data on joiners and variation selectors.
#[test]
fn text_is_cleaned_before_every_kind_of_tokenizer() {
    let same = [
        ("no-break spaces", "12\u{a0}000\u{202f}km", "12 000 km"),
        (
            "other spaces",
            "a\u{3000}b\u{2009}c\u{2028}d\u{2029}e\u{85}f\u{b}g\u{c}h\u{1e}i",
            "a b c d e f g h i",
        ),
        (
            "runs of spaces and edges",
            "  a \t b\u{a0}\u{200b} c ",
            "a b c",
        ),
        ("a lost space", "the\0train", "the train"),
        ("soft hyphens", "Leucht\u{ad}turm", "Leuchtturm"),
        (
            "no width",
            "Leucht\u{200b}tu\u{2060}rm\u{feff}",
            "Leuchtturm",
        ),
        (
            "a byte-order mark and marks of direction",
            "\u{feff}\u{200f}a\u{200e} \u{202b}b\u{202c} \u{2067}c\u{2069}",
            "a b c",
        ),
        ("control characters", "\u{1}a\u{7}b\u{1b}\u{7f}\u{9f}", "ab"),
        (
            "a joiner that no letter needs",
            "Auf\u{200c}lage\u{200d}",
            "Auflage",
        ),
        (
            "a variation selector that no character has",
            "a.\u{fe0f}",
            "a.",
        ),
        ("tags without a flag", "a\u{e0041}\u{e0042}", "a"),
        (
            "accents across a soft hyphen",
            "Wa\u{ad}\u{308}rter",
            "Wärter",
        ),
    ];
    let kept = [
        ("Persian", "می\u{200c}خواهم"),
        ("Hindi", "क\u{94d}\u{200d}ष"),
        ("Sinhala", "ශ\u{dca}\u{200d}රී"),
        ("Bengali", "র\u{200d}\u{9cd}য"),
        ("Mongolian", "ᠮᠣᠩᠭᠣᠯ\u{180b}"),
        ("a family", "👨\u{200d}👩\u{200d}👧"),
        ("a heart on fire", "❤\u{fe0f}\u{200d}🔥"),
        ("a key", "1\u{fe0f}\u{20e3}"),
        ("a variant of an ideograph", "葛\u{e0100}"),
        (
            "the flag of Scotland",
            "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
        ),
        ("quotes and dashes", "« a » – “b” …"),
    ];
    for kind in TRAINED {
        let tokenizer = train(&TokenizerConfig {
            vocab_size: 4000,
            ..config(kind)
        });
        for (name, odd, plain) in same {
            assert_eq!(
                tokenizer.encode(odd).unwrap(),
                tokenizer.encode(plain).unwrap(),
                "{}: {name}",
                kind.name()
            );
            assert_eq!(
                tokenizer.normalized(odd).unwrap(),
                plain,
                "{}: {name}",
                kind.name()
            );
        }
        for (name, text) in kept {
            assert_eq!(
                tokenizer.normalized(text).unwrap(),
                text,
                "{}: {name}",
                kind.name()
            );
        }
        assert_eq!(tokenizer.normalization(), Some("clean+nfc"));
        let as_it_stands = TokenizerConfig {
            clean_text: false,
            normalization: Normalization::None,
            ..config(kind)
        };
        let tokenizer = train(&as_it_stands);
        assert_eq!(tokenizer.normalization(), None);
        for (name, odd, _) in same {
            assert_eq!(
                tokenizer.normalized(odd).unwrap(),
                odd,
                "{}: {name}",
                kind.name()
            );
        }
    }
    let bytes = train(&TokenizerConfig {
        normalization: Normalization::None,
        ..config(Kind::Bpe)
    });
    for (name, text) in kept {
        assert_eq!(
            bytes.decode(&bytes.encode(text).unwrap()).unwrap(),
            text,
            "{name}"
        );
    }
}

#[test]
fn words_keep_their_numbers_when_text_is_cleaned() {
    for kind in [Kind::Bpe, Kind::WordBpe, Kind::Unigram, Kind::Word] {
        let tokenizer = train(&TokenizerConfig {
            vocab_size: 4000,
            ..config(kind)
        });
        let (ids, words) = tokenizer
            .encode_words(" the\u{200b} \u{ad}train ta\u{ad}kes ")
            .unwrap();
        assert_eq!(
            ids,
            tokenizer.encode("the train takes").unwrap(),
            "{}",
            kind.name()
        );
        let (_, expected) = tokenizer.encode_words("the train takes").unwrap();
        assert_eq!(words, expected, "{}", kind.name());
    }
}

#[test]
fn the_other_kinds_give_known_text_back() {
    for kind in TRAINED {
        let tokenizer = train(&TokenizerConfig {
            vocab_size: 4000,
            ..config(kind)
        });
        for line in text() {
            assert_eq!(
                tokenizer.decode(&tokenizer.encode(&line).unwrap()).unwrap(),
                line,
                "{}",
                kind.name()
            );
        }
    }
}

#[test]
fn no_text_gives_padding_begin_or_end() {
    for kind in TRAINED {
        let tokenizer = train(&config(kind));
        for text in nasty() {
            let ids = tokenizer.encode(&text).unwrap();
            assert!(
                ids.iter().all(|&id| !tokenizer.special().is_silent(id)),
                "{}: {text:?}",
                kind.name()
            );
        }
    }
}

#[test]
fn decoding_skips_special_tokens_and_shows_unknown_ones() {
    for kind in TRAINED {
        let tokenizer = train(&config(kind));
        let SpecialIds { pad, bos, eos, unk } = tokenizer.special();
        assert_eq!([pad, bos, eos, unk], [0, 1, 2, 3], "{}", kind.name());
        let ids = tokenizer.encode("The ships").unwrap();
        let framed = [vec![bos], ids.clone(), vec![eos, pad, pad]].concat();
        assert_eq!(
            tokenizer.decode(&framed).unwrap(),
            tokenizer.decode(&ids).unwrap(),
            "{}",
            kind.name()
        );
        assert!(
            tokenizer.decode(&[unk]).unwrap().contains("<unk>"),
            "{}",
            kind.name()
        );
        assert_eq!(tokenizer.decode(&[eos]).unwrap(), "");
        assert_eq!(tokenizer.decode(&[]).unwrap(), "");
    }
    let words = train(&config(Kind::Word));
    assert_eq!(
        words
            .decode(&words.encode("The zyx ships").unwrap())
            .unwrap(),
        "The <unk> ships"
    );
}

#[test]
fn a_vocabulary_has_the_requested_size_and_every_id_has_a_token() {
    for kind in [Kind::Bpe, Kind::WordBpe] {
        assert_eq!(train(&config(kind)).vocab_size(), 400, "{}", kind.name());
    }
    let words = train(&TokenizerConfig {
        vocab_size: 50,
        ..config(Kind::Word)
    });
    assert_eq!(words.vocab_size(), 50);
    assert!((0..50).all(|id| words.token(id).is_some()));
    assert_eq!(words.token(50), None);
    assert_eq!(
        words.token(4).as_deref(),
        Some("the"),
        "the most frequent word comes first"
    );
}

/// Set `POLYGLOW_UPDATE_GOLDEN` to write the files anew, then run `python_ids.py` next to them.
#[test]
fn the_same_text_gives_the_same_tokenizer_everywhere() {
    for kind in TRAINED {
        let json = train(&config(kind)).to_json().unwrap();
        if std::env::var_os("POLYGLOW_UPDATE_GOLDEN").is_some() {
            std::fs::write(golden_tokenizer(kind), &json).unwrap();
        }
        let one_thread = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap();
        assert_eq!(
            one_thread.install(|| train(&config(kind)).to_json().unwrap()),
            json,
            "{}",
            kind.name()
        );
        assert_eq!(
            train(&config(kind)).to_json().unwrap(),
            json,
            "{}",
            kind.name()
        );
        if kind != Kind::Unigram {
            // The scores of a unigram model follow from the machine's logarithm, whose last digit
            // may differ.
            assert_eq!(
                std::fs::read_to_string(golden_tokenizer(kind)).unwrap(),
                json,
                "{}",
                kind.name()
            );
        }
    }
}

#[derive(Deserialize)]
struct PythonIds {
    ids: BTreeMap<String, Vec<Vec<u32>>>,
}

#[test]
fn python_gives_the_same_ids() {
    let python: PythonIds =
        serde_json::from_slice(&std::fs::read(golden("python_ids.json")).unwrap()).unwrap();
    for kind in TRAINED {
        let tokenizer = Tokenizer::load(&golden_tokenizer(kind)).unwrap();
        let probes = probes();
        let expected = &python.ids[kind.name()];
        assert_eq!(expected.len(), probes.len());
        for (probe, ids) in probes.iter().zip(expected) {
            // Python's library gives the id of a special token where a word or piece is spelled
            // like it.
            let silent = |&id: &u32| {
                if tokenizer.special().is_silent(id) {
                    tokenizer.special().unk
                } else {
                    id
                }
            };
            let ids: Vec<u32> = ids.iter().map(silent).collect();
            assert_eq!(
                tokenizer.encode(probe).unwrap(),
                ids,
                "{}: {probe:?}",
                kind.name()
            );
        }
        assert_eq!(tokenizer.encode_batch(&probes).unwrap().concat(), {
            probes
                .iter()
                .flat_map(|probe| tokenizer.encode(probe).unwrap())
                .collect::<Vec<_>>()
        });
    }
}

#[test]
fn saving_and_loading_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let corpus = digits();
    for shared in [true, false] {
        let config = TokenizerConfig {
            shared,
            ..config(Kind::Bpe)
        };
        let trained = Tokenizers::train(&config, &corpus, &mut |_, _| {}).unwrap();
        let saved = dir.path().join(shared.to_string());
        std::fs::create_dir(&saved).unwrap();
        trained.save(&saved).unwrap();
        let loaded = Tokenizers::load(&saved).unwrap();
        assert_eq!((trained.is_shared(), loaded.is_shared()), (shared, shared));
        assert_eq!(saved.join("tokenizer.json").is_file(), shared);
        assert_eq!(
            loaded.src.to_json().unwrap(),
            trained.src.to_json().unwrap()
        );
        assert_eq!(
            loaded.tgt.to_json().unwrap(),
            trained.tgt.to_json().unwrap()
        );
        let again = TokenizerConfig {
            path: Some(saved),
            ..config
        };
        let mut stages = Vec::new();
        Tokenizers::train(&again, &corpus, &mut |stage, _| stages.push(stage)).unwrap();
        assert_eq!(stages, [], "an existing tokenizer is not trained");
    }
}

#[test]
fn training_tells_how_far_it_is() {
    let mut stages = Vec::new();
    Tokenizers::train(&config(Kind::Bpe), &digits(), &mut |stage, number| {
        stages.push((stage, number));
    })
    .unwrap();
    assert!(
        stages
            .iter()
            .any(|&(stage, lines)| stage == Stage::CountingWords && lines > 0)
    );
    assert_eq!(stages.last(), Some(&(Stage::LearningVocabulary, 400)));
}

#[test]
fn whitespace_takes_its_tokens_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (src, tgt) = (dir.path().join("src.txt"), dir.path().join("tgt.txt"));
    std::fs::write(&src, "<s>\n<unk>\nun@@ 17\nder 12\nder 3\n").unwrap();
    std::fs::write(&tgt, "</w>\t5\n").unwrap();
    let one = TokenizerConfig {
        vocab: Some(VocabFiles::One(src.clone())),
        ..config(Kind::Whitespace)
    };
    let tokenizers = Tokenizers::train(&one, &digits(), &mut |_, _| {}).unwrap();
    assert_eq!(tokenizers.src.vocab_size(), 6);
    assert_eq!(
        tokenizers.src.encode("un@@  der\tdas <s>").unwrap(),
        [4, 5, 3, 3]
    );
    assert_eq!(tokenizers.src.decode(&[4, 5, 3]).unwrap(), "un@@ der <unk>");
    let sides = Some(VocabFiles::Sides {
        src,
        tgt: tgt.clone(),
    });
    let two = TokenizerConfig {
        vocab: sides,
        shared: false,
        ..config(Kind::Whitespace)
    };
    let tokenizers = Tokenizers::train(&two, &digits(), &mut |_, _| {}).unwrap();
    assert_eq!(
        (tokenizers.src.vocab_size(), tokenizers.tgt.vocab_size()),
        (6, 5)
    );
    std::fs::write(&tgt, "").unwrap();
    assert!(matches!(
        Tokenizers::train(&two, &digits(), &mut |_, _| {}),
        Err(DataError::Empty { .. })
    ));
}

#[test]
fn a_foreign_tokenizer_loses_what_training_must_not_have() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    let json = r#"{"version": "1.0", "padding": null, "added_tokens": [],
        "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
        "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "BPE", "dropout": 0.9, "unk_token": "[UNK]", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "b": 5, "ab": 6},
            "merges": [["a", "b"]]}}"#;
    std::fs::write(&path, json).unwrap();
    let tokenizer = Tokenizer::load(&path).unwrap();
    assert_eq!(
        tokenizer.special(),
        SpecialIds {
            pad: 0,
            bos: 2,
            eos: 3,
            unk: 1
        }
    );
    assert_eq!(tokenizer.encode("ab ab ab x").unwrap(), [6, 6, 6, 1]);
    std::fs::write(&path, json.replace("[SEP]", "[END]")).unwrap();
    let error = Tokenizer::load(&path).map(|_| ()).unwrap_err();
    assert!(
        matches!(
            error,
            DataError::MissingSpecial {
                role: "end-of-sentence",
                ..
            }
        ),
        "{error}"
    );
    std::fs::write(&path, "{}").unwrap();
    assert!(matches!(
        Tokenizer::load(&path),
        Err(DataError::Tokenizer { .. })
    ));
}

#[test]
fn tiny_texts_train_or_say_why_not() {
    for kind in TRAINED {
        let train = |line: &str| {
            Tokenizer::train(
                &config(kind),
                [Ok(line.to_owned())].into_iter(),
                &mut |_, _| {},
            )
        };
        assert!(train("a").is_ok(), "{}", kind.name());
        for blank in ["", "\u{0}", " \u{200b}"] {
            assert!(
                matches!(train(blank), Err(DataError::Tokenizer { .. })),
                "{}: {blank:?}",
                kind.name()
            );
        }
    }
    let small = TokenizerConfig {
        vocab_size: 20,
        ..config(Kind::Unigram)
    };
    let error = Tokenizer::train(&small, text().into_iter().map(Ok), &mut |_, _| {})
        .map(|_| ())
        .unwrap_err();
    assert!(
        matches!(
            error,
            DataError::VocabularyTooSmall {
                vocab_size: 20,
                characters: 17..,
                ..
            }
        ),
        "{error}"
    );
    // A character has two tokens, one of them for the end of a word.
    let lines = || {
        ["ab ba cd", "dc bd"]
            .map(|line| Ok(line.to_owned()))
            .into_iter()
    };
    let word_bpe = |vocab_size| TokenizerConfig {
        vocab_size,
        ..config(Kind::WordBpe)
    };
    let error = Tokenizer::train(&word_bpe(11), lines(), &mut |_, _| {})
        .map(|_| ())
        .unwrap_err();
    assert!(
        matches!(
            error,
            DataError::VocabularyTooSmall {
                characters: 4,
                needed: 12,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        Tokenizer::train(&word_bpe(12), lines(), &mut |_, _| {})
            .unwrap()
            .vocab_size(),
        12
    );
}

#[test]
fn words_of_any_length_are_learned_from() {
    // A text whose script has no spaces, or whose words are sequences: all of it is one word for
    // most kinds.
    let sequence: String = (0..4_000u64)
        .map(|index| ['A', 'C', 'G', 'T'][below(mix(&[index]), 4) as usize])
        .collect();
    for kind in [Kind::Bpe, Kind::WordBpe, Kind::Unigram] {
        let lines = (0..20).map(|_| Ok(sequence.clone()));
        let tokenizer = Tokenizer::train(&config(kind), lines, &mut |_, _| {}).unwrap();
        assert_eq!(tokenizer.vocab_size(), 400, "{}", kind.name());
        let ids = tokenizer.encode(&sequence).unwrap();
        assert!(
            ids.len() < sequence.len() / 2,
            "{}: {} tokens",
            kind.name(),
            ids.len()
        );
        assert!(!ids.contains(&tokenizer.special().unk), "{}", kind.name());
    }
}

#[test]
fn impossible_configurations_are_refused_by_key() {
    let bad = [
        (
            TokenizerConfig {
                vocab_size: 259,
                ..config(Kind::Bpe)
            },
            "`tokenizer.vocab_size`",
        ),
        (
            TokenizerConfig {
                dropout: 1.0,
                ..config(Kind::Bpe)
            },
            "`tokenizer.dropout`",
        ),
        (
            TokenizerConfig {
                dropout: 0.1,
                ..config(Kind::Word)
            },
            "`tokenizer.dropout`",
        ),
        (
            TokenizerConfig {
                sampling_alpha: Some(0.0),
                ..config(Kind::Unigram)
            },
            "`tokenizer.sampling_alpha` must be a number above 0",
        ),
        (
            TokenizerConfig {
                sampling_alpha: Some(0.1),
                ..config(Kind::Bpe)
            },
            "`tokenizer.sampling_alpha` needs kind \"unigram\"",
        ),
        (
            TokenizerConfig {
                sampling_alpha: Some(0.1),
                dropout: 0.1,
                ..config(Kind::Unigram)
            },
            "`tokenizer.sampling_alpha` goes with",
        ),
        (config(Kind::Whitespace), "`tokenizer.vocab`"),
        (
            TokenizerConfig {
                vocab: Some(VocabFiles::One("v".into())),
                ..config(Kind::Bpe)
            },
            "`tokenizer.vocab`",
        ),
    ];
    for (config, key) in bad {
        let message = config.validate().unwrap_err().to_string();
        assert!(
            message.starts_with(key),
            "{message} does not begin with {key}"
        );
    }
    let parse = |json: &str| {
        serde_json::from_str::<TokenizerConfig>(json).map_err(|error| error.to_string())
    };
    assert_eq!(parse("{}").unwrap(), TokenizerConfig::default());
    assert_eq!(
        parse(r#"{"kind": "word-bpe", "normalization": "none"}"#)
            .unwrap()
            .kind,
        Kind::WordBpe
    );
    assert!(
        parse(r#"{"vocabsize": 3}"#)
            .unwrap_err()
            .contains("vocabsize")
    );
}

fn digits() -> Corpus {
    let config = DataConfig::embedded("digits");
    assert_eq!(config.train, None::<TrainFiles>);
    Corpus::open(&config, Content::PAIRS, Split::Valid).unwrap()
}

#[test]
fn tokens_know_their_words() {
    for kind in TRAINED {
        let tokenizer = train(&config(kind));
        let mut compared = 0;
        for line in text().iter().chain(&["  Größe  🙂 war\tda ".to_owned()]) {
            let (ids, words) = tokenizer.encode_words(line).unwrap();
            assert_eq!(ids, tokenizer.encode(line).unwrap());
            if ids.contains(&tokenizer.special().unk) {
                continue;
            }
            for (number, word) in line.split_whitespace().enumerate() {
                let own: Vec<u32> = ids
                    .iter()
                    .zip(&words)
                    .filter(|(_, index)| **index == number)
                    .map(|(id, _)| *id)
                    .collect();
                assert_eq!(
                    tokenizer.decode(&own).unwrap().trim(),
                    word,
                    "{kind:?}: {line}"
                );
                compared += 1;
            }
        }
        assert!(compared > 10, "{kind:?}");
    }
}

#[test]
fn units_are_words_or_characters_and_more_where_a_script_has_no_spaces() {
    // Room for no merge: every byte is a token.
    let bytes = TokenizerConfig {
        vocab_size: 260,
        ..config(Kind::Bpe)
    };
    let text = " 彼は très  学生 שלום ";
    let tokenizer =
        Tokenizer::train(&bytes, std::iter::once(Ok(text.to_owned())), &mut |_, _| {}).unwrap();
    let encoded = tokenizer.encode_units(text).unwrap();
    assert_eq!(encoded.ids, tokenizer.encode(text).unwrap());
    assert_eq!(encoded.unit_of.len(), encoded.ids.len());
    let units: Vec<&str> = encoded
        .units
        .iter()
        .map(|unit| text[unit.clone()].trim())
        .collect();
    assert_eq!(units, ["彼", "は", "très", "学", "生", "שלום"]);
    assert!(
        encoded.unit_of.is_sorted() && encoded.unit_of.last() == Some(&5),
        "{:?}",
        encoded.unit_of
    );
}

#[test]
fn tokens_are_shown_as_text_and_parts_of_a_character_together() {
    // Room for no merge: every byte is a token.
    let bytes = TokenizerConfig {
        vocab_size: 260,
        ..config(Kind::Bpe)
    };
    let text = "彼は très 学生 שלום";
    let tokenizer =
        Tokenizer::train(&bytes, std::iter::once(Ok(text.to_owned())), &mut |_, _| {}).unwrap();
    let ids = tokenizer.encode(text).unwrap();
    assert_eq!(ids.len(), text.len() + 1);
    let shown = tokenizer.shown_together(&ids);
    let rows: Vec<&str> = shown.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(rows[..9], ["▁", "彼", "は", "▁", "t", "r", "è", "s", "▁"]);
    assert_eq!(rows.concat(), "▁彼は▁très▁学生▁שלום");
    assert_eq!(shown[..2], [("▁".to_owned(), 1), ("彼".to_owned(), 3)]);
    assert_eq!(
        ids[1..4]
            .iter()
            .map(|id| tokenizer.shown(*id))
            .collect::<Vec<_>>(),
        ["⟨E5⟩", "⟨BD⟩", "⟨BC⟩"]
    );
    // A character that is cut off stays what it is.
    assert_eq!(
        tokenizer.shown_together(&ids[2..5]),
        [
            ("⟨BD⟩".to_owned(), 1),
            ("⟨BC⟩".to_owned(), 1),
            ("⟨E3⟩".to_owned(), 1)
        ]
    );
    assert_eq!(
        tokenizer.shown_together(&[2, 900]),
        [("</s>".to_owned(), 1), ("#900".to_owned(), 1)]
    );
}

#[test]
fn every_kind_shows_spaces_alike() {
    let shown = |kind: Kind| {
        let tokenizer = train(&config(kind));
        let ids = tokenizer.encode("the dog").unwrap();
        tokenizer
            .shown_together(&ids)
            .into_iter()
            .map(|(text, _)| text)
            .collect::<Vec<_>>()
            .join("|")
    };
    // The space is that before a word, that behind it, or a token of its own, as the kind has it.
    for (kind, with_spaces) in [
        (Kind::Bpe, "▁the▁dog"),
        (Kind::WordBpe, "the▁dog▁"),
        (Kind::Unigram, "▁the▁dog"),
        (Kind::Char, "the▁dog"),
    ] {
        assert_eq!(shown(kind).replace('|', ""), with_spaces, "{}", kind.name());
    }
    assert_eq!(shown(Kind::Word), "the|dog");
    for kind in TRAINED {
        let tokenizer = train(&config(kind));
        for text in nasty() {
            let ids = tokenizer.encode(&text).unwrap();
            let rows = tokenizer.shown_together(&ids);
            assert_eq!(
                rows.iter().map(|(_, count)| count).sum::<usize>(),
                ids.len(),
                "{text:?}"
            );
            assert!(
                rows.iter()
                    .all(|(text, _)| !text.contains(char::is_whitespace)),
                "{rows:?}"
            );
        }
    }
}
