//! The rules by which pairs of text are checked and cleaned.
//!
//! [`findings`] has a table of detectors, one row each, and a collector that counts for all of
//! them; [`language`] guesses the language of a text by scripts and small words. Reports are made
//! of them where they are printed.
//!
//! [`cleaner`] repairs and removes pairs, in this order: [`repair`] what can be read, [`rules`] that
//! look at one pair, and duplicates and test sentences, which need all others. A new rule is a row
//! of the table in [`rules`].

pub mod cleaner;
pub mod findings;
pub mod language;
pub mod profile;
pub mod repair;
pub mod rules;
pub mod words;
