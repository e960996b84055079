//! Burn's own trainer on our tasks, and its renderers on our loop.

mod loaders;
mod recorder;
mod renderers;
mod scores;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use burn::data::dataloader::DataLoader;
use burn::lr_scheduler::{LrScheduler, LrSchedulerRecord};
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor};
use burn::train::metric::LossMetric;
use burn::train::{
    ExecutionStrategy, Learner, LearningResult, MultiDeviceOptim, SupervisedTraining, TrainStep,
    TrainingStrategy,
};
use polyglow_data::sources::BatchSource;
use polyglow_model::{Model, parameter};
use polyglow_predict::measures::LOSS;
use polyglow_train::burn_train::{Batch, Batches, Learnable, Scheduled, ScoreMetric, WholeSet};
use polyglow_train::run::records;
use polyglow_train::tasks::translation::Translation;
use polyglow_train::tasks::{BatchOf, BatchSize, Loss, Validation};
use polyglow_train::train::Schedule;
use polyglow_train::{
    Config, ErrorKind, Result, Silent, Stop, Task, TrainError, Training, load_runner,
};

use crate::parts::Half;
use recorder::Recorder;

const CONFIG: &str = r#"
data = { corpus = "digits", max_examples = 200 }
tokenizer.kind = "char"

[model]
d_model = 16
d_ff = 24
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
dropout = 0.0

[train]
max_tokens = 256
max_steps = 50
log_every = 1
validate_every = 25
lr = 3e-3
warmup_steps = 10
clip_norm = 0.0
"#;

fn prepare(run: &Path) -> Training {
    prepare_with(run, &[])
}

fn prepare_with(run: &Path, overrides: &[String]) -> Training {
    let config = Config::from_text(CONFIG, overrides).expect("it is a config");
    Training::prepare(config, run, &mut Silent).expect("it can be prepared")
}

fn translation(training: &Training) -> Translation {
    let ids = Arc::clone(training.data.text().expect("it is text"));
    let setting = training.setting().expect("the model fits");
    Translation::new(setting, ids).expect("there is no dropout of tokens")
}

/// The model that our loop begins with.
fn new_model(training: &Training) -> Model {
    let device = training.plan.training_device().expect("it computes in f32");
    let shape = training.plan.model_shape(&training.tokenizers);
    let shape = shape.expect("the sizes fit");
    shape.init(training.plan.config.seed, &device)
}

fn schedule(training: &Training) -> Schedule {
    Schedule::new(&training.plan.config.train, 50, training.plan.d_model)
}

fn learner<T: Task>(training: &Training, learnable: Learnable<T>) -> Learner<Learnable<T>> {
    let [beta_1, beta_2] = training.plan.config.train.betas;
    let adam = AdamConfig::new()
        .with_beta_1(beta_1 as f32)
        .with_beta_2(beta_2 as f32)
        .with_epsilon(training.plan.config.train.eps as f32);
    Learner::new(learnable, adam.init(), Scheduled::from(schedule(training)))
}

/// Burn's trainer of a task, before its launch, with its logs in `dir`.
fn supervised<T: Task>(
    dir: &Path,
    training: &Training,
    learnable: &Learnable<T>,
) -> SupervisedTraining<Learnable<T>> {
    let source = Arc::clone(learnable.task().source());
    let batches = Batches::new(source, training.plan.config.seed);
    supervised_on(dir, batches, learnable)
}

fn supervised_on<T: Task>(
    dir: &Path,
    batches: Batches<T::Source>,
    learnable: &Learnable<T>,
) -> SupervisedTraining<Learnable<T>> {
    SupervisedTraining::new(dir, Arc::new(batches), Arc::new(WholeSet))
        .metrics((LossMetric::new(), ScoreMetric::new(LOSS)))
        .with_interrupter(learnable.interrupter())
        .renderer(Box::new(Recorder::default()))
        .with_application_logger(None)
}

/// The values of a metric in the logs of Burn's trainer, without that of the epoch as a whole.
fn logged(dir: &Path, split: &str, epoch: usize, metric: &str) -> Vec<f64> {
    let path = dir.join(format!("{split}/epoch-{epoch}/{metric}.log"));
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut values = Vec::new();
    for line in text.lines() {
        let (value, kind) = line.split_once(',').expect("a value has a count");
        if kind != "final" {
            values.push(value.parse().expect("it is a number"));
        }
    }
    values
}

fn epoch_len(training: &Training) -> usize {
    let task = translation(training);
    let plan = task.source().plan(0).expect("it can be planned");
    plan.len()
}

fn assert_close(left: &[f64], right: &[f64], tolerance: f64) {
    assert_eq!(left.len(), right.len());
    for (step, (left, right)) in (1..).zip(left.iter().zip(right)) {
        let apart = (left - right).abs() / right.abs();
        assert!(apart < tolerance, "step {step}: {left} and {right}");
    }
}

#[test]
fn fifty_steps_have_the_losses_of_our_loop() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut ours = prepare(&dir.path().join("ours"));
    ours.run(&Stop::default(), &mut Silent).expect("it trains");
    let records = records::read(&ours.run.metrics_path()).expect("there are records");
    let is_report = |record: &&serde_json::Value| record["kind"] == "train";
    let reports = records.iter().filter(is_report);
    let expected: Vec<f64> = reports
        .map(|record| record["loss"].as_f64().expect("it has a loss"))
        .collect();
    assert_eq!(expected.len(), 50);

    let training = prepare(&dir.path().join("theirs"));
    let learnable = Learnable::new(translation(&training), new_model(&training));
    let num_epochs = 50_usize.div_ceil(epoch_len(&training));
    let logs = dir.path().join("burn");
    let result = supervised(&logs, &training, &learnable)
        .num_epochs(num_epochs)
        .launch(learner(&training, learnable));
    assert!(result.error.is_none(), "{:?}", result.error);
    let mut losses: Vec<f64> = Vec::new();
    for epoch in 1..=num_epochs {
        losses.extend(logged(&logs, "train", epoch, "Loss"));
    }
    assert!(num_epochs > 1 && losses.len() >= 50);
    losses.truncate(50);
    assert_close(&losses, &expected, 1e-5);
    // The comparison is of a training, and not of a model that stays as it is.
    assert!(expected[49] < 0.9 * expected[0], "{expected:?}");
}

#[test]
fn a_resumed_training_has_the_losses_of_a_straight_one() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = prepare_with(&dir.path().join("run"), &["model.dropout=0.1".to_owned()]);
    let launch = |logs: &Path, first: usize, last: usize| {
        let learnable = Learnable::new(translation(&training), new_model(&training));
        let source = Arc::clone(learnable.task().source());
        let batches = Batches::new(source, 1).from_epoch(first as u64);
        let mut supervised = supervised_on(logs, batches, &learnable)
            .with_default_checkpointers()
            .num_epochs(last);
        if first > 0 {
            supervised = supervised.checkpoint(first);
        }
        let result = supervised.launch(learner(&training, learnable));
        assert!(result.error.is_none(), "{:?}", result.error);
    };
    let [straight, resumed] = ["straight", "resumed"].map(|name| dir.path().join(name));
    launch(&straight, 0, 2);
    launch(&resumed, 0, 1);
    launch(&resumed, 1, 2);
    let losses = logged(&resumed, "train", 2, "Loss");
    assert_eq!(losses, logged(&straight, "train", 2, "Loss"));
    assert!(!losses.is_empty());
}

#[test]
fn names_of_parameters_and_checkpoints_are_those_of_the_model_alone() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let training = prepare(&dir.path().join("run"));
    let learnable = Learnable::new(translation(&training), new_model(&training));
    let names = |weights: Vec<(String, _)>| -> Vec<String> {
        weights.into_iter().map(|(name, _)| name).collect()
    };
    let model = parameter::read(&learnable.model);
    assert_eq!(names(parameter::read(&learnable)), names(model));

    let result = supervised(&dir.path().join("burn"), &training, &learnable)
        .launch(learner(&training, learnable));
    let learned = result.model;
    learned.save(&training, 7)?;
    let (checkpoint, _) = training.run.weights("last")?;
    assert_eq!(checkpoint.state.step, 7);
    let runner = load_runner(training.run.root(), &Device::flex())?;
    assert_eq!(runner.best(&["1 2 3"])?.len(), 1);
    // A later one replaces nothing that is not of the same trainer.
    learned.save(&training, 8)?;
    let run = training.run.root().to_owned();
    drop(training);
    let error = prepare(&run).run(&Stop::default(), &mut Silent);
    let error = error.expect_err("it has the state of another optimizer");
    assert_eq!(error.kind(), ErrorKind::Usage);
    let expected =
        "the run was trained with the optimizer `burn`, now with the optimizer of its config";
    assert!(error.to_string().contains(expected), "{error}");

    let run = dir.path().join("ours");
    let overrides = ["train.max_steps=1".to_owned()];
    let mut ours = prepare_with(&run, &overrides);
    ours.run(&Stop::default(), &mut Silent)?;
    let error = learned
        .save(&ours, 2)
        .expect_err("our loop has trained there");
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(
        error
            .to_string()
            .contains("that Burn's trainer did not make"),
        "{error}"
    );
    Ok(())
}

fn train_for_an_epoch<T: Task>(
    dir: &Path,
    training: &Training,
    learnable: Learnable<T>,
) -> LearningResult<Learnable<T>> {
    supervised(dir, training, &learnable).launch(learner(training, learnable))
}

/// The norm of the gradient that a step gives Burn's optimizer.
fn norm<T: Task>(learnable: &Learnable<T>, batch: Batch<BatchOf<T>>) -> f64 {
    let grads = TrainStep::step(learnable, batch).grads;
    let mut squares = Squares { grads, sum: 0.0 };
    learnable.visit(&mut squares);
    squares.sum.sqrt()
}

struct Squares {
    grads: GradientsParams,
    sum: f64,
}

impl ModuleVisitor for Squares {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let grad = self.grads.remove::<D>(param.id).expect("it has a gradient");
        self.sum += grad.square().sum().into_scalar::<f64>();
    }
}

#[test]
fn a_task_of_ones_own_trains_by_its_own_loss() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = prepare(&dir.path().join("run"));
    let task = Half(translation(&training));
    let whole = Learnable::new(translation(&training), new_model(&training));
    let half = Learnable::new(task, new_model(&training));
    let batches = Batches::new(Arc::clone(half.task().source()), 1);
    let batch = batches.iter().next().expect("it has batches");
    let batch = batch.expect("it can be read");
    let [whole, of_half] = [norm(&whole, batch.clone()), norm(&half, batch)];
    assert!(whole > 0.0);
    assert!((of_half / whole - 0.5).abs() < 1e-5, "{of_half} of {whole}");
    let result = train_for_an_epoch(&dir.path().join("burn"), &training, half);
    assert!(result.error.is_none(), "{:?}", result.error);
}

#[test]
fn several_devices_share_the_batches_of_an_epoch() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = prepare(&dir.path().join("run"));
    let learnable = Learnable::new(translation(&training), new_model(&training));
    let logs = dir.path().join("burn");
    let devices = vec![Device::flex(); 2];
    let strategy = ExecutionStrategy::MultiDevice(devices, MultiDeviceOptim::OptimMainDevice);
    let result = supervised(&logs, &training, &learnable)
        .with_training_strategy(TrainingStrategy::Default(strategy))
        .num_epochs(8)
        .launch(learner(&training, learnable));
    assert!(result.error.is_none(), "{:?}", result.error);
    let losses = logged(&logs, "train", 1, "Loss");
    assert_eq!(losses.len(), epoch_len(&training));
    let last = logged(&logs, "valid", 8, "loss_per_target");
    assert!(last < logged(&logs, "valid", 1, "loss_per_target"));
}

/// Translation whose validation fails.
struct Unscored(Translation);

impl Task for Unscored {
    type Model = Model;
    type Source = <Translation as Task>::Source;
    type Inputs = <Translation as Task>::Inputs;

    fn source(&self) -> &Arc<Self::Source> {
        self.0.source()
    }

    fn size(&self, batch: &BatchOf<Self>) -> BatchSize {
        self.0.size(batch)
    }

    fn upload(&self, batch: &BatchOf<Self>, device: &Device) -> Self::Inputs {
        self.0.upload(batch, device)
    }

    fn loss(&self, model: &Model, inputs: Self::Inputs) -> Loss {
        self.0.loss(model, inputs)
    }

    fn validate(&self, _model: Model) -> Result<Option<Validation>> {
        Err(TrainError::new("the references are gone"))
    }
}

#[test]
fn a_validation_that_fails_ends_the_training_with_its_error() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let training = prepare(&dir.path().join("run"));
    let learnable = Learnable::new(Unscored(translation(&training)), new_model(&training));
    let result = train_for_an_epoch(&dir.path().join("burn"), &training, learnable);
    let error = result.error.expect("the validation failed");
    assert!(
        error.to_string().contains("the references are gone"),
        "{error}"
    );
}

#[test]
fn a_schedule_has_the_rates_of_our_loop_and_resumes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let schedule = schedule(&prepare(dir.path()));
    let mut scheduler = Scheduled::from(schedule.clone());
    for step in 1..=20 {
        let expected = schedule.learning_rate(step);
        assert_eq!(scheduler.step().to_bits(), expected.to_bits());
    }
    let record = scheduler.to_record();
    let bytes = record.into_bytes().expect("it is in memory");
    let mut resumed = Scheduled::from(schedule.clone());
    let record = LrSchedulerRecord::from_bytes(bytes);
    resumed.load_record(record.expect("it was written"));
    let expected = schedule.learning_rate(21);
    assert_eq!(resumed.step().to_bits(), expected.to_bits());
}
