//! Training with Burn's own trainer, burn-train: [`Learnable`] makes a module of any [`Task`] that
//! `SupervisedTraining` trains, with its dashboard, checkpointers and strategies.
//!
//! [`Batches`] is the data loader, [`ScoreMetric`] a metric of each of our scores, [`Scheduled`] a
//! scheduler with one of our schedules. The other way round, [`RendererObserver`] shows the loop of
//! this crate in a renderer of Burn's.
//!
//! ```
//! use std::sync::Arc;
//!
//! use burn::optim::AdamConfig;
//! use burn::train::metric::LossMetric;
//! use burn::train::renderer::CliMetricsRenderer;
//! use burn::train::{Learner, SupervisedTraining};
//! use polyglow_train::burn_train::{Batches, Learnable, WholeSet};
//! use polyglow_train::tasks::configured;
//! use polyglow_train::{Config, Silent, Task, Training};
//!
//! let text = "data = { corpus = 'digits', max_examples = 40 }
//!     tokenizer.kind = 'word'
//!     model = { d_model = 16, d_ff = 16, num_heads = 2, num_encoder_layers = 1, num_decoder_layers = 1 }
//!     train = { max_steps = 2, max_tokens = 200 }";
//! let dir = tempfile::tempdir()?;
//! let training = Training::prepare(Config::from_text(text, &[])?, dir.path(), &mut Silent)?;
//! let shape = training.plan.model_shape(&training.tokenizers)?;
//! let model = shape.init(1, &training.plan.training_device()?);
//!
//! let learnable = Learnable::new(configured(training.setting()?, &training.data)?, model);
//! let batches = Batches::new(Arc::clone(learnable.task().source()), 1);
//! let logs = dir.path().join("burn");
//! let result = SupervisedTraining::new(logs, Arc::new(batches), Arc::new(WholeSet))
//!     .metrics((LossMetric::new(),))
//!     .renderer(Box::new(CliMetricsRenderer::new()))
//!     .with_interrupter(learnable.interrupter())
//!     .launch(Learner::new(learnable, AdamConfig::new().init(), 1e-3));
//! assert!(result.error.is_none());
//! // The weights are in the run now, for everything that loads one.
//! result.model.save(&training, 2)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batches;
mod learnable;
mod metric;
mod renderer;
mod scheduled;

pub use batches::{Batch, Batches, PairBatcher, ValidationInput, WholeSet};
pub use learnable::Learnable;
pub use metric::{ScoreInput, ScoreMetric, StepOutput};
pub use renderer::RendererObserver;
pub use scheduled::Scheduled;

#[cfg(doc)]
use crate::tasks::Task;
