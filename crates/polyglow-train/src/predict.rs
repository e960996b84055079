//! What trained models are used for, whatever their task: rows through models and back, and scores.
//!
//! Models, [`runner`], [`sentences`], [`translate`], [`attention`] and [`weights`] open no file of
//! themselves and need nothing of training.

pub mod attention;
#[cfg(feature = "training")]
pub mod evaluation;
#[cfg(feature = "training")]
pub mod measures;
pub mod model;
mod replacement;
pub mod runner;
#[cfg(feature = "training")]
pub mod samples;
#[cfg(feature = "training")]
pub mod scoring;
pub mod sentences;
mod split;
#[cfg(feature = "training")]
pub mod teacher_forcing;
pub mod translate;
pub mod unknown_words;
pub mod weights;
