//! Uses trained models: RUN -> TEXT, as a library that opens no file, trains nothing and runs in a
//! browser, too.
//!
//! [`Runner::from_bytes`] makes a [`Runner`] of the content of a run's files. It runs rows of text
//! through the models of an ensemble and back, whatever their task is: [`translate`] writes text,
//! [`sentences`] cuts a text into what is translated at once, [`attention`] shows where a model
//! looks, and [`evaluation`] has scores on held-out text. [`settings`] is what a model needs of its
//! run's config, and [`tasks`] what it was trained for.
//!
//! ```no_run
//! use polyglow_data::tokenizer::Tokenizers;
//! use polyglow_predict::{Runner, device};
//!
//! # fn read(name: &str) -> Vec<u8> { Vec::new() }
//! let config = String::from_utf8(read("config.toml"))?;
//! let tokenizers = Tokenizers::parse(&read("tokenizer.json"), None)?;
//! let weights = read("model.safetensors");
//! let runner = Runner::from_bytes(&config, &tokenizers, &weights, device::open("flex")?)?;
//! println!("{}", runner.best(&["the dog sleeps"])?[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Messages go through `tracing`, which is silent unless the program subscribes.
//!
//! # Features
//!
//! - `native-tokenizers`, on by default: see polyglow-data.
//! - `flex` (default), `ndarray`, `wgpu`, `vulkan`, `metal`, `cuda`, `rocm`: the backends that are
//!   built in.

pub mod attention;
pub mod device;
pub mod error;
pub mod evaluation;
mod generate;
pub mod group;
pub mod long_lines;
pub mod measures;
pub mod model;
pub mod parallel;
mod replacement;
pub mod runner;
pub mod samples;
pub mod scoring;
pub mod sentences;
pub mod settings;
pub mod source;
mod split;
pub mod states;
pub mod suggestion;
pub mod tasks;
pub mod teacher_forcing;
pub mod translate;
pub mod unknown_words;
pub mod weights;
pub mod wording;

pub use error::{ErrorKind, Result, TrainError};
pub use group::{Group, alone};
pub use runner::Runner;
pub use settings::Settings;
pub use tasks::{TaskFacts, TaskUse};
