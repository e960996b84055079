//! Scores of translations under tokenizers that give text back in another form, and of what is
//! longer than a model.

use std::fs;
use std::path::Path;

use polyglow_data::pair::Pair;
use polyglow_data::tokenizer::{Kind, Tokenizer, TokenizerConfig};
use polyglow_metrics::{BleuOptions, Tokenizer as BleuTokenizer, corpus_score};
use polyglow_predict::evaluation::Evaluation;
use polyglow_predict::tasks::translation::teacher_forced;
use polyglow_train::tasks::{HeldOut, evaluate};
use polyglow_train::{Config, Runner, Silent, Stop, Training, load_runner};

/// A model that learns by heart what it is shown.
const MODEL: &str = "
[model]
d_model = 32
d_ff = 32
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
dropout = 0.0
norm = 'pre'
[train]
max_tokens = 128
max_steps = 120
lr = 1e-2
warmup_steps = 5
label_smoothing = 0.0
validate_every = 120
[search]
beam_size = 1
";

/// Trains on these pairs, and scores them.
fn learn(dir: &Path, pairs: &[(&str, &str)], tables: &str) -> (Runner, Evaluation) {
    let text: String = pairs
        .iter()
        .flat_map(|(src, tgt)| [*src, "\t", *tgt, "\n"])
        .collect();
    let path = dir.join("text.tsv");
    fs::write(&path, text).expect("it can be written");
    let path = path.display();
    let config = format!(
        "[data]\ntrain = '{path}'\nvalid = '{path}'\nsrc = 'en'\ntgt = 'de'\n{tables}{MODEL}"
    );
    let config = Config::from_text(&config, &[]).expect("it is a config");
    let mut training =
        Training::prepare(config, dir.join("run"), &mut Silent).expect("nothing is wrong");
    training
        .run(&Stop::default(), &mut Silent)
        .expect("nothing is wrong");
    let runner = load_runner(training.run.root(), &training.plan.device).expect("it is a run");
    let pairs = pairs
        .iter()
        .map(|(src, tgt)| Pair {
            src: (*src).to_owned(),
            tgt: (*tgt).to_owned(),
        })
        .collect();
    let evaluation = evaluate(&runner, &HeldOut::Text(pairs), &BleuTokenizer::None.into())
        .expect("it can be scored");
    (runner, evaluation)
}

#[test]
fn text_in_subwords_is_scored_in_words() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let vocabulary = dir.path().join("vocab");
    fs::write(
        &vocabulary,
        "one\ntwo\nthree\nun@@\nge@@\nwöhn@@\nlich\nja\nnein\ndoch\n",
    )
    .expect("it can be written");
    let pairs = [
        ("one", "un@@ ge@@ wöhn@@ lich ja nein doch"),
        ("two", "ja ja doch un@@ ge@@ lich"),
    ];
    let tokenizer = format!(
        "[tokenizer]\nkind = 'whitespace'\nvocab = '{}'",
        vocabulary.display()
    );
    let (
        runner,
        Evaluation {
            scores, hypotheses, ..
        },
    ) = learn(dir.path(), &pairs, &tokenizer);
    let translations = scores.translations.expect("they are translations");
    assert_eq!(
        hypotheses,
        pairs.map(|(_, tgt)| tgt),
        "what is printed can be segmented, scored and constrained again"
    );
    assert!(
        (translations.bleu - 100.0).abs() < 1e-9 && (translations.exact_match - 1.0).abs() < 1e-9,
        "{translations:?}"
    );

    // One piece too few is one word that is wrong, of four, and not one of seven.
    let wrong = [Pair {
        src: "one".to_owned(),
        tgt: "un@@ ge@@ lich ja nein doch".to_owned(),
    }];
    let wrong = evaluate(
        &runner,
        &HeldOut::Text(wrong.to_vec()),
        &BleuTokenizer::None.into(),
    )
    .expect("it can be scored");
    let options = BleuOptions {
        tokenizer: BleuTokenizer::None,
        ..BleuOptions::default()
    };
    let references = [vec!["ungelich ja nein doch"]];
    let expected = corpus_score(&options, &["ungewöhnlich ja nein doch"], &references)
        .expect("it can be scored")
        .score;
    let bleu = wrong
        .scores
        .translations
        .expect("they are translations")
        .bleu;
    assert!((bleu - expected).abs() < 1e-9, "{bleu} is not {expected}");
}

#[test]
fn a_tokenizer_that_lower_cases_is_scored_without_case_and_says_so() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let pairs = [
        ("one", "Die Katze SCHLÄFT im Haus"),
        ("two", "Der Hund schläft NICHT im Haus"),
    ];
    let (
        _,
        Evaluation {
            scores, hypotheses, ..
        },
    ) = learn(
        dir.path(),
        &pairs,
        "[tokenizer]\nkind = 'word'\nlowercase = true",
    );
    assert_eq!(hypotheses[0], "die katze schläft im haus");
    let translations = scores.translations.expect("they are translations");
    assert!(
        (translations.bleu - 100.0).abs() < 1e-9 && (translations.chrf - 100.0).abs() < 1e-9,
        "{translations:?}"
    );
    assert!(
        (translations.exact_match - 1.0).abs() < 1e-9,
        "{translations:?}"
    );
    assert!(
        translations.signatures.bleu.contains("|case:lc|")
            && translations.signatures.chrf.contains("|case:lc|"),
        "{translations:?}"
    );
}

#[test]
fn output_and_references_are_compared_in_the_tokenizers_normal_form_and_the_signature_names_it() {
    // The same text twice: in NFD with other spaces and a soft hyphen, in Bengali typed with
    // U+09DF, in full width.
    let pairs = [
        (
            "one",
            "der scho\u{308}ne\u{a0}Ba\u{308}r schla\u{308}ft im Wa\u{ad}ld",
        ),
        ("two", "মেয়ে\u{9df}ে গান গা\u{9df} আজ ভোরে"),
        ("three", "Ａ b c d e"),
    ];
    for (normalization, name, last) in [
        ("nfc", "clean+nfc", "Ａ b c d e"),
        ("nfkc", "clean+nfkc", "A b c d e"),
    ] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let table = format!("[tokenizer]\nkind = 'word'\nnormalization = '{normalization}'");
        let (
            _,
            Evaluation {
                scores, hypotheses, ..
            },
        ) = learn(dir.path(), &pairs, &table);
        assert_eq!(
            (&*hypotheses[0], &*hypotheses[2]),
            ("der schöne Bär schläft im Wald", last)
        );
        let translations = scores.translations.expect("they are translations");
        assert!(
            (translations.bleu - 100.0).abs() < 1e-9 && (translations.chrf - 100.0).abs() < 1e-9,
            "{translations:?}"
        );
        assert!(
            (translations.exact_match - 1.0).abs() < 1e-9,
            "{translations:?}"
        );
        let expected =
            format!("nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|norm:{name}|version:");
        assert!(
            translations.signatures.bleu.starts_with(&expected),
            "{translations:?}"
        );
        assert!(
            translations
                .signatures
                .chrf
                .contains(&format!("|norm:{name}|version:")),
            "{translations:?}"
        );
    }
}

#[test]
fn without_normalization_what_differs_in_characters_counts() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let pairs = [
        ("one", "der Ba\u{308}r schla\u{308}ft im Wald"),
        ("two", "f g h i j"),
    ];
    let table = "[tokenizer]\nkind = 'word'\nnormalization = 'none'\nclean_text = false";
    let (
        runner,
        Evaluation {
            scores, hypotheses, ..
        },
    ) = learn(dir.path(), &pairs, table);
    assert_eq!(hypotheses[0], pairs[0].1);
    let signature = scores
        .translations
        .expect("they are translations")
        .signatures
        .bleu;
    assert!(!signature.contains("norm:"), "{signature}");
    let composed = [Pair {
        src: "one".to_owned(),
        tgt: "der Bär schläft im Wald".to_owned(),
    }];
    let evaluation = evaluate(
        &runner,
        &HeldOut::Text(composed.to_vec()),
        &BleuTokenizer::None.into(),
    )
    .expect("it can be scored");
    let options = BleuOptions {
        tokenizer: BleuTokenizer::None,
        ..BleuOptions::default()
    };
    let references = [vec![&*composed[0].tgt]];
    let expected = corpus_score(&options, &[pairs[0].1], &references)
        .expect("it can be scored")
        .score;
    let bleu = evaluation
        .scores
        .translations
        .expect("they are translations")
        .bleu;
    assert!(
        (bleu - expected).abs() < 1e-9 && bleu < 60.0,
        "{bleu} is not {expected}"
    );
}

#[test]
fn tokenizers_say_whether_they_lower_case() {
    let train = |config: &TokenizerConfig| {
        let lines = ["A dog", "a Cat"].map(|line| Ok(line.to_owned()));
        Tokenizer::train(config, lines.into_iter(), &mut |_, _| {}).expect("it can be trained")
    };
    for kind in [Kind::Bpe, Kind::WordBpe, Kind::Word, Kind::Char] {
        for lowercase in [false, true] {
            let config = TokenizerConfig {
                kind,
                vocab_size: 280,
                lowercase,
                ..TokenizerConfig::default()
            };
            assert_eq!(
                train(&config).lower_cases().expect("it can be read"),
                lowercase,
                "{kind:?}"
            );
        }
    }
}

#[test]
fn a_target_that_is_cut_has_no_eos_and_says_that_it_was_cut() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let pairs = [
        ("one two", "ja nein"),
        ("two", "nein ja ja"),
        ("one", "doch"),
    ];
    let (runner, _) = learn(
        dir.path(),
        &pairs,
        "max_len = 3\n[tokenizer]\nkind = 'word'",
    );
    let pair = |src: &str, tgt: &str| Pair {
        src: src.to_owned(),
        tgt: tgt.to_owned(),
    };
    let long = [
        pair("one", "ja nein doch"),
        pair("one", "ja nein doch ja nein"),
        pair("one two one two", "ja nein"),
    ];
    let forced = teacher_forced(&runner, &long).expect("it can be scored");
    assert_eq!(
        forced
            .iter()
            .map(|pair| pair.log_probs.len())
            .collect::<Vec<_>>(),
        [4, 3, 3]
    );
    assert_eq!(
        forced.iter().map(|pair| pair.truncated).collect::<Vec<_>>(),
        [false, true, true]
    );
    // As far as it goes, the longer one is the shorter one.
    let near = |(left, right): (&f32, &f32)| (left - right).abs() < 1e-5;
    assert!(
        forced[0]
            .log_probs
            .iter()
            .zip(&forced[1].log_probs)
            .all(near)
    );
    assert_eq!(
        (forced[1].first.len(), forced[1].num_correct <= 3),
        (3, true)
    );
    let evaluation = evaluate(
        &runner,
        &HeldOut::Text(long.to_vec()),
        &BleuTokenizer::None.into(),
    )
    .expect("it can be scored");
    assert_eq!(evaluation.scores.truncated, Some(2));
    assert!(
        evaluation
            .scores
            .to_string()
            .contains("2 too long, read in part"),
        "{}",
        evaluation.scores
    );
}
