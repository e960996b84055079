//! Puts one run or several on one HTML page: scores, curves, sample translations over time, the
//! data with the findings of `check`, and the configuration.
//!
//! [`RunSummary::read`] gathers a run from its directory, [`compare`] tests whether runs differ by
//! more than chance, and [`render`] makes the page.

mod chart;
mod comparison;
mod data;
mod page;
mod samples;
mod summary;

pub use comparison::{Comparison, compare};
pub use page::render;
pub use summary::RunSummary;
