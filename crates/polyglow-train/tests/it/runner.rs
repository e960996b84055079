//! Trained models in use.

use std::fs;
use std::path::Path;

use polyglow_data::tokenizer::Tokenizers;
use polyglow_train::predict::translate::Request;
use polyglow_train::{Config, Runner, Silent, Stop, Training};

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
    training.run(&Stop::default(), &mut Silent).expect("nothing is wrong");
    training
}

#[test]
fn translations_are_the_same_without_scores() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let training = trained(&place.path().join("run"));
    let mut runner = Runner::load(place.path().join("run"), &training.plan.device).expect("it is a run");
    let lines = ["1 2 3", "9 8 7 6 5 4 3 2 1", "4"];
    let requests = lines.map(|line| Request { text: line.to_owned(), ..Request::default() });
    for (beam_size, penalty, has_scores) in [(1, 1.0, false), (1, 1.5, true), (2, 1.0, true)] {
        (runner.search.beam_size, runner.search.repetition_penalty) = (beam_size, penalty);
        let scored = runner.translate(&requests, 1).expect("it translates");
        let unscored = runner.translate_observed(&requests, 1, false, &mut |_| {}).expect("it translates");
        for (scored, unscored) in scored.iter().flatten().zip(unscored.iter().flatten()) {
            assert_eq!(scored.text, unscored.text);
            assert!(scored.log_prob < 0.0 && scored.score < 0.0, "{scored:?}");
            let expected = if has_scores { [scored.log_prob, scored.score] } else { [f32::NAN; 2] };
            assert_eq!([unscored.log_prob, unscored.score].map(f32::to_bits), expected.map(f32::to_bits));
        }
        assert_eq!(scored.concat().len(), unscored.concat().len());
    }
}

#[test]
fn a_model_from_bytes_translates_as_the_one_in_the_run() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let run = place.path().join("run");
    let device = trained(&run).plan.device;

    let read = |file: &str| fs::read(run.join(file)).expect(file);
    let tokenizers = Tokenizers::parse(&read("tokenizer.json"), None).expect("it is a tokenizer");
    let config = String::from_utf8(read("config.toml")).expect("it is text");
    let weights = read("checkpoints/step-3/model.safetensors");
    let from_bytes = Runner::from_bytes(&config, &tokenizers, &weights, device.clone()).expect("it is a model");
    let from_run = Runner::load(&run, &device).expect("it is a run");
    let lines = ["1 2 3", "", "9 8 7 6 5 4 3 2 1", "4"];
    let translations = from_run.best(&lines).expect("it translates");
    assert_eq!(from_bytes.best(&lines).expect("it translates"), translations);
    assert!(translations[1].is_empty() && translations.iter().any(|line| !line.is_empty()), "{translations:?}");

    let error = Runner::from_bytes(&config, &tokenizers, &weights[..weights.len() - 4], device).map(drop);
    assert!(error.is_err_and(|error| error.to_string().contains("`model.safetensors` is damaged")));
}
