//! Trains Transformers and their family: CONFIG -> RUN -> MODEL, as a library.
//!
//! In the order in which a run goes: [`config`] is what the user wrote, [`mod@train`] prepares the data and makes step
//! after step, [`run`] is the directory in which everything is kept, and [`predict`] is what a trained model is used for:
//! translations, labels, scores. An [`Observer`] is told how it goes and may ask for the end.
//!
//! The library prints nothing, installs no panic hook, signal handler or allocator, and keeps no state of its own in the
//! process. Messages go through `tracing`, which is silent unless the program subscribes.

pub mod config;
pub mod device;
pub mod error;
mod observer;
pub mod predict;
pub mod run;
pub mod suggestion;
pub mod train;
pub mod workload;

pub use error::{ErrorKind, Result, TrainError};
pub use observer::{Observer, Silent, Wish};
