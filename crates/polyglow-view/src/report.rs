//! Puts one run or several on one HTML page: scores, curves, data, sample translations over time, configuration.
//!
//! [`RunSummary::read`] gathers a run from its directory, [`compare`] tests whether runs differ by more than chance,
//! and [`render`] makes the page. [`SCORES`] lists the scores that records hold.

mod chart;
mod comparison;
mod page;
mod scores;
mod summary;

pub use comparison::{Comparison, compare};
pub use page::render;
pub use scores::{SCORES, recorded};
pub use summary::RunSummary;
