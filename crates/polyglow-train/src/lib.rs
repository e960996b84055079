//! Trains Transformers and their family: CONFIG -> RUN -> MODEL, as a library.
//!
//! In the order in which a run goes: [`config`] is what the user wrote, and [`plan`] is what runs.
//! [`tasks`] are what can be learned: each has its batches, its loss and its scores. [`mod@train`]
//! prepares the data and makes step after step, whatever the task is; [`run`] is the directory in
//! which everything is kept; [`predict`] runs trained models; and [`formats`] exchange them with
//! other programs. An [`Observer`] is told how it goes and may ask for the end.
//!
//! The library prints nothing, installs no panic hook, signal handler or allocator, and keeps no
//! state of its own in the process. Messages go through `tracing`, which is silent unless the
//! program subscribes.
//!
//! # Features
//!
//! - `training`, on by default: everything that trains, and run directories. Without it what is
//!   left translates from bytes ([`Runner::from_bytes`](predict::runner::Runner::from_bytes)),
//!   without files or clocks, and without threads where there are none.
//! - `native-tokenizers`, on by default: see polyglow-data.
//! - `flex` (default), `ndarray`, `wgpu`, `vulkan`, `metal`, `cuda`, `rocm`: the backends that are
//!   built in.

mod beside;
pub mod config;
pub mod device;
pub mod error;
#[cfg(feature = "training")]
pub mod formats;
pub mod group;
#[cfg(feature = "training")]
mod observer;
pub mod plan;
pub mod predict;
#[cfg(feature = "training")]
pub mod run;
pub mod suggestion;
#[cfg(feature = "training")]
pub mod tasks;
#[cfg(feature = "training")]
pub mod train;
pub mod wording;
#[cfg(feature = "training")]
pub mod workload;

pub use config::Config;
pub use error::{ErrorKind, Result, TrainError};
pub use group::{Group, alone};
#[cfg(feature = "training")]
pub use observer::{Observer, Silent, Wish};
pub use plan::{Plan, TaskPlan};
pub use predict::runner::Runner;
#[cfg(feature = "training")]
pub use run::RunDirectory;
#[cfg(feature = "training")]
pub use tasks::Task;
#[cfg(feature = "training")]
pub use train::{Ending, Stop, Training};
