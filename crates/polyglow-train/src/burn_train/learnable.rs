//! The module that Burn's trainer trains: a model with its task.

use std::fmt::{self, Debug, Display, Formatter};
use std::sync::Arc;

use burn::data::dataset::DatasetError;
use burn::module::{Devices, Module, ModuleMapper, ModuleVisitor};
use burn::tensor::{Device, TensorData};
use burn::train::{InferenceStep, Interrupter, TrainOutput, TrainStep};
use polyglow_model::{computes_on_host, dropout, parameter};
use polyglow_predict::error::{Result, ensure, failed, usage, with_hint};

use super::batches::{Batch, ValidationInput};
use super::metric::StepOutput;
use crate::run::{Content, TrainState};
use crate::tasks::{BatchOf, Loss, Task};
use crate::train::{OwnParts, Training, short_type_name};

/// The name under which a run keeps the optimizer of Burn's trainer.
const BURN: &str = "burn";

/// A model that Burn's trainer trains on a task: a built-in one, made by
/// [`configured`](crate::tasks::configured), or one of your own.
///
/// A training step minimizes the mean of the loss over the targets of its batch, as a step of our
/// loop over a single micro-batch does. A validation step computes the loss of a batch, or the
/// scores of all held-out data.
///
/// The parameters have the names that they have in the model alone, in Burn's records and in
/// safetensors files: either loads what the other has saved.
pub struct Learnable<T: Task> {
    /// The model.
    pub model: T::Model,
    task: Arc<T>,
    interrupter: Interrupter,
}

impl<T: Task> Learnable<T> {
    /// Joins a model and its task. To be trained, the model is on
    /// [`Plan::training_device`](crate::Plan::training_device).
    pub fn new(task: T, model: T::Model) -> Self {
        Self {
            model,
            task: Arc::new(task),
            interrupter: Interrupter::new(),
        }
    }

    /// Returns the task.
    pub fn task(&self) -> &T {
        &self.task
    }

    /// Returns the handle by which a validation that fails ends the training, with its error. It is
    /// to be passed to `SupervisedTraining::with_interrupter`; without that, the error is only
    /// logged.
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Writes the weights into the run of a training as the checkpoint `step-N`, so that everything
    /// that loads a run (`translate`, `evaluate`, `serve`, `export`, a fork) has the model.
    ///
    /// Our loop does not resume from it, and says so: the state of Burn's optimizer is in the
    /// checkpoints of Burn's trainer.
    ///
    /// # Errors
    /// A weight is not finite; our loop has trained in this run; the checkpoint cannot be written.
    pub fn save(&self, training: &Training, step: u64) -> Result<()> {
        let content = Content {
            model: parameter::read(&self.model),
            optimizer: Vec::new(),
            ema: Vec::new(),
        };
        for (name, values) in &content.model {
            ensure!(
                is_finite(values),
                "a value of `{name}` is not finite: nothing is saved"
            );
        }
        let checkpoints = training
            .run
            .checkpoints(training.plan.config.train.keep_last);
        if let Some(newest) = checkpoints.newest()?
            && newest
                .state
                .parts
                .and_then(|parts| parts.optimizer)
                .as_deref()
                != Some(BURN)
        {
            let run = training.run.root().display();
            let error = failed!("`{run}` has checkpoints that Burn's trainer did not make");
            return Err(with_hint(
                usage(error),
                "prepare the training in another directory",
            ));
        }
        let parts = OwnParts {
            optimizer: Some(BURN.to_owned()),
            ..OwnParts::for_task(&*self.task)
        };
        let state = TrainState {
            step,
            parts: Some(parts),
            text: Some(training.hashes.clone()),
            selection: training.plan.selection,
            ..TrainState::default()
        };
        checkpoints.save(&content, &state).map(drop)
    }

    /// Returns the device of the model.
    fn device(&self) -> Device {
        let devices = self.model.devices();
        devices.into_iter().next().expect("a model has parameters")
    }

    /// Computes the loss of a batch, and what metrics need of it.
    fn forward(&self, batch: &Batch<BatchOf<T>>, device: &Device) -> (Loss, StepOutput) {
        let inputs = self.task.upload(&batch.content, device);
        let loss = || self.task.loss(&self.model, inputs);
        let loss = match batch.dropout_key {
            Some(key) => dropout::keyed(key, loss),
            None => loss(),
        };
        let targets = self.task.size(&batch.content).targets;
        let output = StepOutput::from_loss(&loss, targets);
        (loss, output)
    }

    fn differentiate(&self, batch: &Batch<BatchOf<T>>, device: &Device) -> TrainOutput<StepOutput> {
        let (loss, output) = self.forward(batch, device);
        let mean = loss.minimized / output.targets.max(1) as f64;
        TrainOutput::new(self, mean.backward(), output)
    }

    /// Scores all held-out data. Where that fails, the training ends.
    fn validate(&self, device: &Device) -> StepOutput {
        let scores = match self.task.validate(self.model.clone()) {
            Ok(validation) => validation.map(|validation| validation.scores),
            Err(error) => {
                tracing::error!("the validation failed: {error}");
                self.interrupter.fail(DatasetError::new(error));
                None
            }
        };
        StepOutput::from_scores(scores, device)
    }
}

/// Runs a pass. On the CPU it runs on a thread of the pool: from another thread, each small
/// operation would wake one of them and wait for it.
fn on_pool<R: Send>(device: &Device, pass: impl FnOnce() -> R + Send) -> R {
    if computes_on_host(device) {
        rayon::scope(|_| pass())
    } else {
        pass()
    }
}

fn is_finite(values: &TensorData) -> bool {
    values.iter::<f32>().all(f32::is_finite)
}

impl<T: Task> TrainStep for Learnable<T> {
    type Input = Batch<BatchOf<T>>;
    type Output = StepOutput;

    fn step(&self, batch: Self::Input) -> TrainOutput<StepOutput> {
        let device = self.device();
        on_pool(&device, || self.differentiate(&batch, &device))
    }
}

impl<T: Task> InferenceStep for Learnable<T> {
    type Input = ValidationInput<BatchOf<T>>;
    type Output = StepOutput;

    fn step(&self, input: Self::Input) -> StepOutput {
        let device = self.device();
        match input {
            ValidationInput::Batch(batch) => on_pool(&device, || self.forward(&batch, &device).1),
            ValidationInput::All => self.validate(&device),
        }
    }
}

impl<T: Task> Clone for Learnable<T> {
    fn clone(&self) -> Self {
        self.with_model(self.model.clone())
    }
}

impl<T: Task> Debug for Learnable<T> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.model.fmt(formatter)
    }
}

/// Displays the type of the model and its size, as in a summary of Burn's.
impl<T: Task> Display for Learnable<T> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let name = short_type_name::<T::Model>();
        write!(formatter, "{name} of {} parameters", self.num_params())
    }
}

impl<T: Task> Learnable<T> {
    /// Returns another model with the same task.
    fn with_model(&self, model: T::Model) -> Self {
        Self {
            model,
            task: Arc::clone(&self.task),
            interrupter: self.interrupter.clone(),
        }
    }

    /// Replaces the model by what `change` makes of it.
    fn map_model(self, change: impl FnOnce(T::Model) -> T::Model) -> Self {
        Self {
            model: change(self.model),
            task: self.task,
            interrupter: self.interrupter,
        }
    }
}

/// The module is its model: nothing is derived, so that no field stands before the names of the
/// parameters.
impl<T: Task> Module for Learnable<T> {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.model.collect_devices(devices)
    }

    fn fork(self, device: &Device) -> Self {
        self.map_model(|model| model.fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        self.map_model(|model| model.to_device(device))
    }

    fn train(self) -> Self {
        self.map_model(Module::train)
    }

    fn valid(&self) -> Self {
        self.with_model(self.model.valid())
    }

    fn materialize(self) -> Self {
        self.map_model(Module::materialize)
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        self.model.visit(visitor);
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        self.map_model(|model| model.map(mapper))
    }
}
