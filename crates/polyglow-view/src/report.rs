//! Puts one run or several on one HTML page: scores, curves, data, sample translations over time, configuration.
//!
//! [`RunSummary::read`] gathers a run from its directory, [`compare`] tests whether runs differ by more than chance,
//! and [`render`] makes the page.

mod chart;
mod comparison;
mod page;
mod summary;

pub use comparison::{Comparison, compare};
pub use page::render;
pub use summary::RunSummary;
