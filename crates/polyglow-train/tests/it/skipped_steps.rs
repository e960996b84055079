//! Trainings with steps whose gradients are not finite.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use polyglow_data::prefetch::{BatchStream, Position};
use polyglow_train::config::Config;
use polyglow_train::run::TrainState;
use polyglow_train::run::records::Records;
use polyglow_train::tasks::Task;
use polyglow_train::tasks::translation::Translation;
use polyglow_train::train::{Session, Training, WindowSums};
use polyglow_train::{ErrorKind, Silent};
use serde_json::Value;
use tempfile::TempDir;

/// Without dropout, whose random numbers are drawn from one generator of the whole process, which
/// other tests use, too.
const CONFIG: &str = r#"
[data]
corpus = "digits"
max_examples = 300
[tokenizer]
kind = "word"
[model]
d_model = 8
d_ff = 8
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
dropout = 0.0
[train]
max_tokens = 64
max_steps = 12
warmup_steps = 2
ema_decay = 0.9
log_every = 4
"#;

/// Trains up to a step, from the newest checkpoint of the run below `dir`, with NaN in a gradient
/// of the `poisoned` steps, and writes a checkpoint there.
fn train(
    dir: &Path,
    max_skipped: u64,
    poisoned: &[u64],
    until: u64,
) -> polyglow_train::Result<TrainState> {
    let mut config = Config::parse(CONFIG)?;
    config.train.max_skipped_steps = max_skipped;
    let log_every = config.train.log_every;
    let training = Training::prepare(config, dir.join("run"), &mut Silent)?;
    let task: Translation =
        Translation::new(training.setting()?, Arc::clone(training.data.text()?))?;
    let plan = &training.plan;
    let model = plan
        .model_shape(&training.tokenizers)?
        .init(plan.config.seed, &plan.training_device()?);
    let mut session = Session::start(&training, &task, model)?;
    let (mut number, poisoned) = (session.state.step, poisoned.to_vec());
    session.set_all_reduce(Box::new(move |mut sums: WindowSums| {
        number += 1;
        if poisoned.contains(&number)
            && let Some(gradient) = sums.gradients.parts_mut().last_mut()
        {
            *gradient = gradient.clone() * f64::NAN;
        }
        Ok(sums)
    }));
    let start = Position {
        epoch: session.state.epoch,
        position: session.state.position as usize,
    };
    let mut batches = BatchStream::start(plan.sharded(task.source()), start)?;
    let mut records = Records::open(&training.run, session.state.step, false)?;
    while session.state.step < until {
        session.step(&mut batches, &mut Silent)?;
        if session.state.step.is_multiple_of(log_every) {
            session.report(&mut records, &mut Silent)?;
        }
    }
    records.flush()?;
    let content = session.content()?;
    session.save(&content)?;
    Ok(session.state.clone())
}

fn dir() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn records(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("run/metrics.jsonl")).expect("there are records");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect()
}

#[test]
fn training_continues_after_skipped_steps_and_counts_them() {
    let dir = dir();
    let state =
        train(dir.path(), 20, &[2, 5, 6, 7, 8, 11], 12).expect("there are fewer than 20 in a row");
    assert_eq!((state.step, state.skipped_in_a_row), (12, 0));
    let records = records(dir.path());
    let skipped: Vec<u64> = records
        .iter()
        .map(|record| record["skipped"].as_u64().unwrap_or(0))
        .collect();
    assert_eq!(skipped, [1, 4, 1]);
    assert!(
        records[0]["loss"].is_f64() && records[0]["grad_norm"].is_f64(),
        "{}",
        records[0]
    );
    assert!(
        records[1]["loss"].is_null(),
        "none of its steps was made: {}",
        records[1]
    );
    assert!(
        records[2]["loss"].is_f64() && records[2]["padding"].is_f64(),
        "{}",
        records[2]
    );
}

#[test]
fn without_skipped_steps_the_records_do_not_have_their_count() {
    let dir = dir();
    train(dir.path(), 20, &[], 4).expect("every step is finite");
    assert!(records(dir.path())[0].get("skipped").is_none());
}

#[test]
fn one_skipped_step_more_in_a_row_than_allowed_ends_training() {
    let error = train(dir().path(), 2, &[3, 5, 6, 7], 12).expect_err("three are one too many");
    let message = error.to_string();
    assert_eq!(error.kind(), ErrorKind::NotFinite);
    assert!(
        message.starts_with("step 7 is not finite: loss "),
        "{message}"
    );
    assert!(
        message.contains("gradient norm NaN") && message.contains("digits"),
        "{message}"
    );
    assert!(message.contains("3 such steps in a row"), "{message}");
    assert!(train(dir().path(), 2, &[3, 5, 6, 8, 9], 12).is_ok());
    let error = train(dir().path(), 0, &[3], 12)
        .expect_err("none is allowed")
        .to_string();
    assert!(
        error.starts_with("step 3 is not finite") && !error.contains("in a row"),
        "{error}"
    );
}

#[test]
fn a_training_that_is_resumed_between_skipped_steps_equals_the_straight_one() {
    let poisoned = [2, 5, 6, 9];
    let (straight, parts) = (dir(), dir());
    let state = train(straight.path(), 2, &poisoned, 10).expect("two in a row are allowed");
    for until in [1, 5, 6, 10] {
        train(parts.path(), 2, &poisoned, until).expect("two in a row are allowed");
    }
    for file in [
        "model.safetensors",
        "optimizer.safetensors",
        "ema.safetensors",
        "state.json",
    ] {
        let read = |dir: &TempDir| {
            fs::read(dir.path().join("run/checkpoints/step-10").join(file)).expect(file)
        };
        assert!(read(&straight) == read(&parts), "{file}");
    }
    assert_eq!(
        state.interval.skipped, 1,
        "step 9, as step 10 is not reported"
    );
    // The count is resumed, too.
    let parts = dir();
    let state = train(parts.path(), 2, &[5, 6, 7], 6).expect("two in a row are allowed");
    assert_eq!(state.skipped_in_a_row, 2);
    let message = train(parts.path(), 2, &[5, 6, 7], 10)
        .expect_err("the third is one too many")
        .to_string();
    assert!(message.starts_with("step 7 is not finite"), "{message}");
    // The weights are good, so the run can be resumed where more are allowed.
    assert!(train(parts.path(), 3, &[5, 6, 7], 10).is_ok());
}
