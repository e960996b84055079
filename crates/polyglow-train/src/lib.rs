//! Trains Transformers and their family: CONFIG -> RUN -> MODEL, as a library.
//!
//! In the order in which a run goes: [`config`] is what the user wrote, and [`plan`] is what runs.
//! [`tasks`] are what can be learned: each has its batches, its loss and its scores. [`mod@train`]
//! prepares the data and makes step after step, whatever the task is; [`run`] is the directory in
//! which everything is kept; [polyglow-predict](polyglow_predict) uses trained models. An
//! [`Observer`] gets every step, score and checkpoint, and may request the end.
//!
//! The library prints nothing, installs no panic hook, signal handler or allocator, and keeps no
//! state of its own in the process, but for the names of parts that a program registers
//! ([`polyglow_model::registry`]). Messages go through `tracing`, which is silent unless the
//! program subscribes.
//!
//! # Features
//!
//! - `native-tokenizers`, on by default: see polyglow-data.
//! - `flex` (default), `ndarray`, `wgpu`, `vulkan`, `metal`, `cuda`, `rocm`: the backends that are
//!   built in.
//! - `burn-train`: training with Burn's own trainer in place of the loop of this crate, in the
//!   module `burn_train`.

mod augmentations;
#[cfg(feature = "burn-train")]
pub mod burn_train;
pub mod config;
mod filters;
mod observer;
pub mod plan;
pub mod run;
pub mod tasks;
pub mod train;
pub mod workload;

pub use augmentations::{Augment, AugmentationRow, register_augmentation};
pub use config::Config;
pub use filters::register_filter;
pub use observer::{Observer, Silent, StopRequest};
pub use plan::Plan;
pub use polyglow_predict::{
    ErrorKind, Group, Result, Runner, TaskFacts, TaskUse, TrainError, alone, device,
};
pub use run::{RunDirectory, load_runner, load_runner_with};
pub use tasks::Task;
pub use train::{Ending, Stop, Training};
