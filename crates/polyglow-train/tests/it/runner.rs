//! Trained models in use.

use std::fs;

use polyglow_data::tokenizer::Tokenizers;
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

#[test]
fn a_model_from_bytes_translates_as_the_one_in_the_run() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let run = place.path().join("run");
    let config = Config::from_text(CONFIG, &[]).expect("it is a config");
    let mut training = Training::prepare(config, &run, &mut Silent).expect("nothing is wrong");
    training.run(&Stop::default(), &mut Silent).expect("nothing is wrong");
    let device = training.plan.device.clone();

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
