//! The requests of a page, compared with the library's results.

use std::collections::HashSet;
use std::fs;
use std::sync::OnceLock;

use polyglow_model::search::SearchRequest;
use polyglow_predict::runner::Runner;
use polyglow_train::{Config, Silent, Stop, Training, device, load_runner};
use polyglow_web::{TranslationRequest, Translator};

const CONFIG: &str = "data.corpus = 'digits'
    tokenizer.kind = 'word'
    model = { d_model = 32, d_ff = 32, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
    train = { max_steps = 60, max_tokens = 400, lr = 1e-2, warmup_steps = 10 }";

/// A model in both ways.
fn models() -> (Runner, Translator) {
    static MODELS: OnceLock<(Runner, Translator)> = OnceLock::new();
    let train = || {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let config = Config::from_text(CONFIG, &[]).expect("it is a config");
        let mut training =
            Training::prepare(config, dir.path(), &mut Silent).expect("it can start");
        training
            .run(&Stop::default(), &mut Silent)
            .expect("it trains");
        let runner =
            load_runner(dir.path(), &device::open("flex").expect("the CPU")).expect("it is there");
        let read = |name: &str| fs::read(dir.path().join(name)).expect(name);
        let config = String::from_utf8(read("config.toml")).expect("it is text");
        let (tokenizer, weights) = (
            read("tokenizer.json"),
            read("checkpoints/best/model.safetensors"),
        );
        (
            runner,
            Translator::new(&config, &tokenizer, None, &weights)
                .expect("the files belong together"),
        )
    };
    MODELS.get_or_init(train).clone()
}

fn request(json: &str) -> TranslationRequest {
    TranslationRequest::parse(json).expect("it is a request")
}

#[test]
fn a_sample_is_one_draw_that_depends_on_the_index_of_its_line() {
    let (_, translator) = models();
    let draw = |json: &str| -> Vec<Vec<(String, Option<f32>)>> {
        let translations = translator
            .translate(&request(json), &mut |_| {})
            .expect("it translates");
        translations
            .into_iter()
            .map(|best| {
                best.into_iter()
                    .map(|hypothesis| (hypothesis.text, hypothesis.log_prob))
                    .collect()
            })
            .collect()
    };
    let lines = serde_json::to_string(&vec!["1 2 3 4 5"; 64]).expect("it is JSON");
    let all = draw(&format!(r#"{{ "lines": {lines}, "method": "sample" }}"#));
    assert_eq!(
        all,
        draw(&format!(
            r#"{{ "lines": {lines}, "method": "sample", "beamSize": 1 }}"#
        )),
        "one draw"
    );
    assert_eq!(
        all,
        draw(&format!(r#"{{ "lines": {lines}, "method": "sample" }}"#)),
        "the same seed"
    );
    let texts: Vec<&str> = all.iter().map(|best| &*best[0].0).collect();
    let different: HashSet<&str> = texts.iter().copied().collect();
    assert!(different.len() > 16, "{different:?}");
    assert!(
        (0..32).any(|index| texts[index] != texts[index + 32]),
        "{texts:?}"
    );
    // The samples of the first lines do not depend on the number or the text of later lines.
    let fewer = draw(r#"{ "lines": ["1 2 3 4 5", "1 2 3 4 5", "6"], "method": "sample" }"#);
    assert_eq!([&fewer[0][0].0, &fewer[1][0].0], [texts[0], texts[1]]);
    let several = draw(r#"{ "lines": ["1 2 3 4 5"], "method": "sample", "nBest": 3 }"#);
    assert_eq!(several[0].len(), 3);
}

#[test]
fn translations_replace_sentences() {
    let (_, translator) = models();
    let joined = |text: &str, translations: &[&str]| {
        let translations: Vec<String> =
            translations.iter().map(|text| (*text).to_owned()).collect();
        translator.join(text, &translations)
    };
    assert_eq!(
        joined(" One. Two!\r\n", &["Eins.", "Zwei!"]),
        " Eins. Zwei!\r\n"
    );
    assert_eq!(joined("你好。再见。", &["Hello.", "Bye."]), "Hello. Bye.");
    assert_eq!(
        joined("你好。再见。", &["こんにちは。", "さようなら。"]),
        "こんにちは。さようなら。"
    );
    assert_eq!(joined("One. Two.", &["Eins."]), "Eins. ");
}

#[test]
fn unknown_words_are_words_of_the_line() {
    // Of the words only the most frequent are in the vocabulary.
    let overrides = ["tokenizer.vocab_size=10".to_owned()];
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = Config::from_text(CONFIG, &overrides).expect("it is a config");
    let mut training = Training::prepare(config, dir.path(), &mut Silent).expect("it can start");
    training
        .run(&Stop::default(), &mut Silent)
        .expect("it trains");
    let runner =
        load_runner(dir.path(), &device::open("flex").expect("the CPU")).expect("it is there");
    let read = |name: &str| fs::read(dir.path().join(name)).expect(name);
    let config = String::from_utf8(read("config.toml")).expect("it is text");
    let (tokenizer, weights) = (
        read("tokenizer.json"),
        read("checkpoints/best/model.safetensors"),
    );
    let translator =
        Translator::new(&config, &tokenizer, None, &weights).expect("the files belong together");
    let lines = ["0 1 2 3 4", "5 6 7 8 9"];
    assert!(
        runner
            .best(&lines)
            .expect("it translates")
            .concat()
            .contains("<unk>"),
        "the model writes some"
    );
    for options in [
        "",
        r#", "beamSize": 1"#,
        r#", "method": "sample", "nBest": 4"#,
        r#", "method": "branch", "nBest": 4"#,
    ] {
        let json = format!(r#"{{ "lines": ["0 1 2 3 4", "5 6 7 8 9"]{options} }}"#);
        let translations = translator
            .translate(&request(&json), &mut |_| {})
            .expect("it translates");
        assert!(
            translations
                .iter()
                .flatten()
                .all(|hypothesis| !hypothesis.text.contains("<unk>")),
            "{translations:?}"
        );
    }
}

#[test]
fn lines_are_translated_as_by_the_library() {
    let (runner, translator) = models();
    let lines = ["1 2 3", "", "4 5 6 7", "9"];
    let mut done = Vec::new();
    let request = request(r#"{ "lines": ["1 2 3", "", "4 5 6 7", "9"], "attention": true }"#);
    let translations = translator
        .translate(&request, &mut |lines| done.push(lines))
        .expect("it translates");
    let texts: Vec<&str> = translations.iter().map(|best| &*best[0].text).collect();
    assert_eq!(texts, runner.best(&lines).expect("it translates"));
    assert_eq!(done.last(), Some(&4));
    for (line, hypotheses) in lines.iter().zip(&translations) {
        let attention = hypotheses[0].attention.as_ref().expect("it was requested");
        assert_eq!(
            attention.len(),
            hypotheses[0].text.split_whitespace().count()
        );
        assert!(
            attention
                .iter()
                .all(|row| row.len() == line.split_whitespace().count())
        );
    }
    let request =
        self::request(r#"{ "lines": ["1 2 3"], "beamSize": 4, "nBest": 3, "prefixes": ["4"] }"#);
    let hypotheses = translator
        .translate(&request, &mut |_| {})
        .expect("it translates")
        .remove(0);
    assert!(
        hypotheses.len() == 3
            && hypotheses
                .iter()
                .all(|hypothesis| hypothesis.text.starts_with('4')),
        "{hypotheses:?}"
    );
    assert!(
        hypotheses.is_sorted_by(|left, right| left.score >= right.score),
        "{hypotheses:?}"
    );
    let request = self::request(
        r#"{ "lines": ["1 2 3"], "nBest": 3, "method": "branch", "prefixes": ["4"] }"#,
    );
    let hypotheses = translator
        .translate(&request, &mut |_| {})
        .expect("it translates")
        .remove(0);
    let second: HashSet<Option<&str>> = hypotheses
        .iter()
        .map(|hypothesis| hypothesis.text.split(' ').nth(1))
        .collect();
    assert_eq!(second.len(), 3, "{hypotheses:?}");
}

#[test]
fn errors_say_what_is_wrong() {
    let (_, translator) = models();
    let error_of = |json: &str| {
        translator
            .translate(&request(json), &mut |_| {})
            .expect_err("it cannot be")
            .to_string()
    };
    assert_eq!(
        error_of(r#"{ "lines": ["1", "2"], "prefixes": ["1"] }"#),
        "2 lines and 1 prefixes"
    );
    assert!(error_of(r#"{ "lines": ["1"], "beamSize": 2000 }"#).contains("beam_size"));
    assert_eq!(
        error_of(r#"{ "lines": ["1"], "nBest": 2000 }"#),
        "`n_best = 2000`: must be from 1 to 1024"
    );
    assert_eq!(
        error_of(r#"{ "lines": ["1"], "beamSize": 2, "nBest": 3 }"#),
        "`n_best = 3`: must be at most `search.beam_size = 2`"
    );
    assert!(translator.beam("1", 0).is_err_and(|error| {
        error
            .to_string()
            .contains("`search.beam_size = 0`: must be from 1 to 1024")
    }));
    for (json, expected) in [
        (r#"{ "lines": [], "beam": 3 }"#, "unknown field `beam`"),
        (
            r#"{ "lines": ["1"], "beamSize": 0 }"#,
            "beamSize: 0 is not a whole number from 1 on",
        ),
        (
            r#"{ "lines": ["1"], "nBest": 0 }"#,
            "nBest: 0 is not a whole number from 1 on",
        ),
        (
            r#"{ "lines": ["1"], "nBest": -1 }"#,
            "nBest: -1 is not a whole number from 1 on",
        ),
        (
            r#"{ "lines": ["1"], "nBest": 1.5 }"#,
            "nBest: 1.5 is not a whole number from 1 on",
        ),
        (r#"{ "lines": ["1"], "nBest": "2" }"#, "nBest: "),
        (r#"{ "lines": ["1", 2] }"#, "lines[1]: "),
        (r#"{ "lines": ["1"], "method": "greedy" }"#, "method: "),
    ] {
        let error = TranslationRequest::parse(json)
            .expect_err("it is wrong")
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(Translator::new("data.corpus = 'digits'", b"{}", None, b"").is_err());
}

#[test]
fn a_beam_is_what_the_search_has_kept() {
    let (runner, translator) = models();
    let beam = translator.beam("1 2 3", 3).expect("it searches");
    let search = SearchRequest {
        beam_size: Some(3),
        ..SearchRequest::default()
    };
    let best = runner.best_for(&["1 2 3"], &search).expect("it translates");
    assert_eq!(beam.hypotheses[0].text, best[0]);
    assert_eq!(beam.source.len(), 4);
    assert!(beam.steps[0].len() == 1 && beam.steps[0][0].tokens.is_empty());
    for (position, step) in beam.steps.iter().enumerate() {
        assert!((1..=3).contains(&step.len()));
        for row in step {
            assert_eq!(row.tokens.len(), position);
            // It is one of the step before, and one of what could follow there.
            let Some((last, rest)) = row.tokens.split_last() else {
                continue;
            };
            let before = beam.steps[position - 1]
                .iter()
                .find(|before| before.tokens == rest)
                .expect("it was kept");
            let next = before
                .next
                .iter()
                .find(|next| next.token == *last && !next.ends)
                .expect("it was likely");
            assert!((before.log_prob + next.log_prob - row.log_prob).abs() < 1e-4);
        }
    }
}

#[test]
fn attention_is_that_of_every_head() {
    let (_, translator) = models();
    let maps = translator
        .attention("1 2 3", "4 5")
        .expect("it can be read");
    for (map, [queries, keys]) in [
        (&maps.encoder, [4, 4]),
        (&maps.decoder, [3, 3]),
        (&maps.cross, [3, 4]),
    ] {
        assert_eq!((map.queries.len(), map.keys.len()), (queries, keys));
        assert!(map.weights.len() == 1 && map.weights[0].len() == 2);
        for row in map.weights[0].iter().flat_map(|head| head.chunks(keys)) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-4, "{row:?}");
        }
    }
}
