//! A schedule of one's own.

use std::fs;
use std::path::Path;

use polyglow_train::run::RunDirectory;
use polyglow_train::run::records;
use polyglow_train::{Config, ErrorKind, Result, Silent, Stop, Training};

const CONFIG: &str = r#"
data = { corpus = "digits", max_examples = 300 }
tokenizer.kind = "char"
model = { d_model = 8, d_ff = 12, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
train = { max_tokens = 256, save_every = 3, log_every = 1, max_steps = 6 }
"#;

/// Up for three steps, then down to a third, in steps that no built-in schedule makes.
fn zigzag(step: u64) -> f64 {
    0.01 * if step < 4 { step as f64 } else { 1.0 / 3.0 }
}

fn prepare(run: &Path) -> Training {
    let config = Config::from_text(CONFIG, &[]).expect("it is a config");
    Training::prepare(config, run, &mut Silent).expect("it can be prepared")
}

fn train(training: Training) -> Result<()> {
    let mut training = training.with_schedule("zigzag", zigzag);
    training.run(&Stop::default(), &mut Silent).map(drop)
}

fn weights(run: &Path, step: u64) -> Vec<u8> {
    let path = run.join(format!("checkpoints/step-{step}/model.safetensors"));
    fs::read(path).expect("there is a checkpoint")
}

#[test]
fn steps_and_records_have_its_learning_rates_and_a_resumed_run_the_same_bytes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let straight = dir.path().join("straight");
    train(prepare(&straight)).expect("it trains");
    let records =
        records::read(&RunDirectory::new(&straight).metrics_path()).expect("there are records");
    let rates = records.iter().filter(|record| record["kind"] == "train");
    let rates: Vec<f64> = rates
        .map(|record| record["lr"].as_f64().expect("a number"))
        .collect();
    assert_eq!(rates, (1..=6).map(zigzag).collect::<Vec<_>>());

    let resumed = dir.path().join("resumed");
    train(prepare(&resumed)).expect("it trains");
    fs::remove_dir_all(resumed.join("checkpoints/step-6")).expect("it is there");
    fs::remove_file(resumed.join("checkpoints/last")).expect("it is a link");
    train(prepare(&resumed)).expect("it resumes");
    assert!(
        weights(&resumed, 6) == weights(&straight, 6),
        "the weights differ"
    );
}

#[test]
fn a_run_is_resumed_with_its_own_schedule_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = dir.path().join("run");
    train(prepare(&run)).expect("it trains");
    let error = prepare(&run)
        .run(&Stop::default(), &mut Silent)
        .expect_err("it is another schedule");
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(
        error
            .to_string()
            .contains("trained with the schedule `zigzag`, now with the schedule of its config"),
        "{error}"
    );
}

#[test]
fn a_learning_rate_that_is_no_number_is_an_error_that_names_the_step() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut training =
        prepare(&dir.path().join("run")).with_schedule("broken", |step| 1.0 / (3.0 - step as f64));
    let error = training
        .run(&Stop::default(), &mut Silent)
        .expect_err("step 3 has no rate");
    assert!(
        error
            .to_string()
            .contains("the schedule `broken` gives step 3"),
        "{error}"
    );
}
