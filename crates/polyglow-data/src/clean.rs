//! The rules by which pairs of text are checked.
//!
//! [`findings`] has a table of detectors, one row each, and a collector that counts for all of
//! them; [`language`] guesses the language of a text by scripts and small words. Reports are made
//! of them where they are printed.

pub mod findings;
pub mod language;
