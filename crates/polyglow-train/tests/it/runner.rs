//! Trained models in use.

use std::fs;
use std::path::Path;

use polyglow_data::tokenizer::Tokenizers;
use polyglow_model::search::{SearchConfig, SearchMethod, SearchRequest};
use polyglow_predict::translate::Request;
use polyglow_predict::weights;
use polyglow_train::run::{Content, RunDirectory};
use polyglow_train::{Config, Runner, Silent, Stop, Training, load_runner, load_runner_with};

const CONFIG: &str = r#"
[data]
corpus = "digits"
max_examples = 300
[tokenizer]
kind = "char"
[model]
d_model = 8
d_ff = 12
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
[train]
max_tokens = 256
max_steps = 3
"#;

fn trained(run: &Path) -> Training {
    let config = Config::from_text(CONFIG, &[]).expect("it is a config");
    let mut training = Training::prepare(config, run, &mut Silent).expect("nothing is wrong");
    training
        .run(&Stop::default(), &mut Silent)
        .expect("nothing is wrong");
    training
}

#[test]
fn translations_are_the_same_without_scores() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = trained(&dir.path().join("run"));
    let runner = load_runner(dir.path().join("run"), &training.plan.device).expect("it is a run");
    let lines = ["1 2 3", "9 8 7 6 5 4 3 2 1", "4"];
    let requests = lines.map(|line| Request {
        text: line.to_owned(),
        ..Request::default()
    });
    for (beam_size, repetition_penalty) in [(1, 1.0), (1, 1.5), (2, 1.0)] {
        let config = SearchConfig {
            repetition_penalty,
            ..runner.search().clone()
        };
        let runner = runner.clone().with_search(config);
        let without = SearchRequest {
            beam_size: Some(beam_size),
            ..SearchRequest::default()
        };
        let with = SearchRequest {
            scores: true,
            ..without
        };
        let scored = runner.translate(&requests, &with).expect("it translates");
        let bare = runner
            .translate(&requests, &without)
            .expect("it translates");
        for (scored, bare) in scored.iter().flatten().zip(bare.iter().flatten()) {
            assert_eq!(scored.text, bare.text);
            let both = scored.scores.expect("they were requested");
            assert!(both.log_prob < 0.0 && both.score < 0.0, "{scored:?}");
            assert_eq!(bare.scores, None);
        }
        assert_eq!(scored.concat().len(), bare.concat().len());
    }
}

#[test]
fn a_model_from_bytes_translates_as_the_one_in_the_run() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = dir.path().join("run");
    let device = trained(&run).plan.device;

    let read = |file: &str| fs::read(run.join(file)).expect(file);
    let tokenizers = Tokenizers::parse(&read("tokenizer.json"), None).expect("it is a tokenizer");
    let config = String::from_utf8(read("config.toml")).expect("it is text");
    let weights = read("checkpoints/step-3/model.safetensors");
    let from_bytes =
        Runner::from_bytes(&config, &tokenizers, &weights, device.clone()).expect("it is a model");
    let from_run = load_runner(&run, &device).expect("it is a run");
    let lines = ["1 2 3", "", "9 8 7 6 5 4 3 2 1", "4"];
    let translations = from_run.best(&lines).expect("it translates");
    assert_eq!(
        from_bytes.best(&lines).expect("it translates"),
        translations
    );
    assert!(
        translations[1].is_empty() && translations.iter().any(|line| !line.is_empty()),
        "{translations:?}"
    );

    let error =
        Runner::from_bytes(&config, &tokenizers, &weights[..weights.len() - 4], device).map(drop);
    assert!(error.is_err_and(|error| error.to_string().contains("`model.safetensors` is damaged")));
}

#[test]
fn a_checkpoint_in_8_bits_is_read_by_a_model_of_ones_own() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("run");
    let plan = trained(&path).plan;
    let run = RunDirectory::existing(&path).expect("it is a run");
    let (checkpoint, floats) = run.weights("best").expect("it has a checkpoint");
    let int8 = weights::quantize(&floats).expect("its matrices are small");
    let content = Content {
        model: int8,
        optimizer: Vec::new(),
        ema: Vec::new(),
    };
    run.checkpoints(1)
        .write("int8", &content, &checkpoint.state)
        .expect("there is room");

    let int8 = path.join("checkpoints/int8");
    let own = |tokenizers: &Tokenizers, device: &burn::tensor::Device| {
        plan.model_shape(tokenizers)
            .expect("the sizes fit")
            .init(7, device)
    };
    let own = load_runner_with(&int8, &plan.device, own).expect("it is a checkpoint");
    let loaded = load_runner(&int8, &plan.device).expect("it is a checkpoint");
    let requests = ["1 2 3", "9 8 7 6 5 4 3 2 1"].map(|line| Request {
        text: line.to_owned(),
        ..Request::default()
    });
    let search = SearchRequest {
        scores: true,
        ..SearchRequest::default()
    };
    let own = own.translate(&requests, &search).expect("it translates");
    let loaded = loaded.translate(&requests, &search).expect("it translates");
    for (own, loaded) in own.iter().zip(&loaded) {
        // Kernels round what the matrices are multiplied by, too.
        let [own_log_prob, loaded_log_prob] =
            [own, loaded].map(|best| best[0].scores.expect("they were requested").log_prob);
        let difference = (own_log_prob - loaded_log_prob).abs();
        assert!(
            difference < 0.02 * loaded_log_prob.abs(),
            "{own:?} {loaded:?}"
        );
    }
}

#[test]
fn a_draw_depends_on_the_number_of_its_line_and_not_on_its_batch() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = trained(&dir.path().join("run"));
    let mut runner =
        load_runner(dir.path().join("run"), &training.plan.device).expect("it is a run");
    let search = SearchRequest {
        method: Some(SearchMethod::Sample),
        ..SearchRequest::default()
    };
    let texts = |runner: &Runner, requests: &[Request], first_line| -> Vec<String> {
        let translations = runner
            .translate_observed(requests, first_line, &search, &mut |_| {})
            .expect("it translates");
        translations
            .into_iter()
            .map(|mut best| best.swap_remove(0).text)
            .collect()
    };
    let requests = ["1 2 3", "9 8 7 6 5 4 3 2 1"].repeat(8).into_iter();
    let requests: Vec<Request> = requests
        .map(|line| Request {
            text: line.to_owned(),
            ..Request::default()
        })
        .collect();
    let all = texts(&runner, &requests, 1);
    assert!(all.iter().step_by(2).any(|text| *text != all[0]), "{all:?}");
    // A line after the other, in smaller batches, and in another order with their numbers.
    let each: Vec<String> = (1..)
        .zip(&requests)
        .flat_map(|(line, request)| texts(&runner, std::slice::from_ref(request), line))
        .collect();
    assert_eq!(each, all);
    runner.max_tokens = 20;
    assert_eq!(texts(&runner, &requests, 1), all);
    let numbered = |(number, request): (u64, &Request)| Request {
        number: Some(number),
        ..request.clone()
    };
    let mut backwards: Vec<Request> = (1..).zip(&requests).map(numbered).collect();
    backwards.reverse();
    let mut reversed = texts(&runner, &backwards, 100);
    reversed.reverse();
    assert_eq!(reversed, all);
}

#[test]
fn spaces_around_a_prefix_change_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = trained(&dir.path().join("run"));
    let runner = load_runner(dir.path().join("run"), &training.plan.device).expect("it is a run");
    let translated = |prefix: &str| {
        let request = Request {
            text: "1 2 3".to_owned(),
            prefix: prefix.to_owned(),
            ..Request::default()
        };
        runner
            .translate(&[request], &SearchRequest::default())
            .expect("it translates")
            .remove(0)
            .remove(0)
            .text
    };
    let expected = translated("4 5");
    assert!(expected.starts_with("4 5"), "{expected}");
    for prefix in [
        "4 5 ",
        "4 5   ",
        "4 5\t",
        "4 5\n",
        "4 5\u{a0}",
        " 4 5",
        "\u{3000}4 5 \r\n",
    ] {
        assert_eq!(translated(prefix), expected, "{prefix:?}");
    }
    let free = translated("");
    for blank in [" ", "\n", "\t  "] {
        assert_eq!(translated(blank), free, "{blank:?}");
    }
}
